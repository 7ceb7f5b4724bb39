"""A run as a folder that `transformers` opens as BertForSequenceClassification, with equal probabilities."""

import os

import torch
from safetensors.torch import save_file

from pocketbert.checkpoints import WEIGHTS, hugging_face_tensors, write_tokenizer
from pocketbert.errors import UserError
from pocketbert.files import new_folder, write_json
from pocketbert.heads import LinearHead, TwoLayerHead
from pocketbert.methods.neural import NetworkFitted
from pocketbert.runs import Run


def export_run(run: Run, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write config (with label names), weights and tokenizer.

    BertForSequenceClassification is: [CLS], dense, tanh, linear. That is the pooler with a linear head, or [CLS] with a
    two-layer head. Other poolings and heads have no place in it.
    """
    fitted = run.fitted()
    if not isinstance(fitted, NetworkFitted):
        raise UserError(f"{run.folder}: method '{run.about['method']}' is no BERT; there is nothing to export")
    network, head = fitted.network, fitted.network.head
    tensors = {f"bert.{name}": tensor for name, tensor in hugging_face_tensors(network.encoder).items()}
    if network.pooling == "pooler" and isinstance(head, LinearHead):
        pass
    elif network.pooling == "cls" and isinstance(head, TwoLayerHead):
        tensors["bert.pooler.dense.weight"] = head.dense.weight.detach().clone()
        tensors["bert.pooler.dense.bias"] = head.dense.bias.detach().clone()
    else:
        raise UserError(
            f"{run.folder}: pooling '{network.pooling}' with a {run.settings.head} head has no place in "
            f"BertForSequenceClassification; train with --pooling pooler --head linear (or cls and two-layer) to export"
        )
    tensors["classifier.weight"] = head.output.weight.detach().clone()
    tensors["classifier.bias"] = head.output.bias.detach().clone()
    config = network.encoder.config
    with new_folder(folder, overwrite=overwrite) as part:
        content = {
            "architectures": ["BertForSequenceClassification"],
            **config.to_hugging_face(),
            "classifier_dropout": run.settings.dropout,
            "id2label": {str(i): name for i, name in enumerate(run.labels)},
            "label2id": {name: i for i, name in enumerate(run.labels)},
            "problem_type": "single_label_classification",
        }
        write_json(part / "config.json", content)
        save_file(
            {name: t.to(torch.float32).contiguous() for name, t in tensors.items()}, part / WEIGHTS, {"format": "pt"}
        )
        write_tokenizer(fitted.tokenizer, part, min(config.positions, run.settings.max_length))
