"""A run as a folder that `transformers` opens as BertForSequenceClassification, with equal probabilities."""

import os

import torch
from safetensors.torch import save_file

from pocketbert.checkpoints import WEIGHTS, hugging_face_tensors, write_tokenizer
from pocketbert.errors import UserError
from pocketbert.files import new_folder, write_json
from pocketbert.heads import HEADS
from pocketbert.runs import Run
from pocketbert.training.fit import NetworkFitted


def export_run(run: Run, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write config (with label names), weights and tokenizer.

    BertForSequenceClassification is: [CLS], dense, tanh, linear. That is the pooler with a linear head, or [CLS] with a
    two-layer head. Other poolings and heads have no place in it.
    """
    fitted = run.fitted()
    if not isinstance(fitted, NetworkFitted):
        raise UserError(f"{run.folder}: method '{run.metadata['method']}' is no BERT; there is nothing to export")
    network, head = fitted.network, fitted.network.head(fitted.task)
    if any(part.of == "added" for part in network.parts().values()):
        raise UserError(
            f"{run.folder}: method '{run.metadata['method']}' adds to the encoder what transformers has not"
        )
    if head.exports_over != network.pooling:
        fit = [f"--pooling {kind.exports_over} --head {name}" for name, kind in HEADS.items() if kind.exports_over]
        raise UserError(
            f"{run.folder}: pooling '{network.pooling}' with a {fitted.settings.head} head has no place in "
            f"BertForSequenceClassification; train with {' or '.join(fit)} to export"
        )
    tensors = {f"bert.{name}": tensor for name, tensor in hugging_face_tensors(network.encoder).items()}
    pooler = head.as_pooler()
    if pooler is not None:
        tensors["bert.pooler.dense.weight"] = pooler.weight.detach().clone()
        tensors["bert.pooler.dense.bias"] = pooler.bias.detach().clone()
    tensors["classifier.weight"] = head.output.weight.detach().clone()
    tensors["classifier.bias"] = head.output.bias.detach().clone()
    config = network.encoder.config
    with new_folder(folder, overwrite=overwrite) as part:
        content = {
            "architectures": ["BertForSequenceClassification"],
            **config.to_hugging_face(),
            "classifier_dropout": fitted.settings.dropout,
            "id2label": {str(i): name for i, name in enumerate(run.labels)},
            "label2id": {name: i for i, name in enumerate(run.labels)},
            "problem_type": "single_label_classification",
        }
        write_json(part / "config.json", content)
        save_file(
            {name: t.to(torch.float32).contiguous() for name, t in tensors.items()}, part / WEIGHTS, {"format": "pt"}
        )
        write_tokenizer(fitted.tokenizer, part, min(config.positions, fitted.settings.max_length))
