"""A run as a folder that others open: `transformers` with equal probabilities, or ONNX (export_onnx.py).

What a network computes after its encoder is a pooling ([CLS] or mean), then linear layers with tanh between them; the
pooler is the first of these. Two layers over [CLS] are what BertForSequenceClassification is. Everything else is
written as the encoder and the layers, head.safetensors, beside it; the folder's README.md has the lines to use it,
and so has docs/export.md.
"""

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from pocketbert.checkpoints import WEIGHTS, hugging_face_tensors, write_tokenizer
from pocketbert.errors import UserError
from pocketbert.export_readme import AUTO_MODEL, CLASSIFIER, CLS, MEAN, ONNX, readme
from pocketbert.files import new_folder, write_json, write_text
from pocketbert.heads import HEADS
from pocketbert.runs import Run
from pocketbert.training.fit import NetworkFitted
from pocketbert.training.job import Fitted

FORMATS = ("transformers", "onnx")
HEAD = "head.safetensors"


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    format: str  # one of FORMATS
    opens_with: str  # BertForSequenceClassification, AutoModel or onnxruntime

    def to_dict(self) -> dict[str, str]:
        return {"folder": str(self.folder), "format": self.format, "opens_with": self.opens_with}


def export_run(
    run: Run, folder: str | os.PathLike[str], *, format: str = FORMATS[0], overwrite: bool = False
) -> Exported:
    """Write a run as a folder that others open, with label names and tokenizer.

    Args:
        run: what `load_run` gave.
        folder: where to write; a folder with something in it is refused,
        overwrite: unless this is true.
        format: "transformers": BertForSequenceClassification where the run is one (pooling "pooler" with a linear head,
            or "cls" with a two-layer head), else an AutoModel with its last layers in head.safetensors. "onnx": one
            model.onnx; needs `pip install "pocketbert[onnx]"`.
    """
    what = f"{run.folder}: method '{run.metadata['method']}'"
    return export_fitted(run.fitted(), run.labels, folder, what=what, format=format, overwrite=overwrite)


def export_fitted(
    fitted: Fitted,
    labels: Sequence[str],
    folder: str | os.PathLike[str],
    *,
    what: str,
    format: str = FORMATS[0],
    overwrite: bool = False,
) -> Exported:
    """The same for what classifies, without a run's folder; `what` it is, for messages."""
    if format not in FORMATS:
        raise UserError(f"format {format!r} is not known; known are {', '.join(FORMATS)}")
    if not isinstance(fitted, NetworkFitted):
        raise UserError(f"{what} is no BERT: there is nothing that transformers or an ONNX runtime could open")
    fitted = merged(fitted)
    head = fitted.network.head(fitted.task)
    if not head.linear_layers():
        raise UserError(f"{what}: {cannot_export(fitted.settings.head)}")
    if format == "onnx":
        from pocketbert.export_onnx import write_onnx

        with new_folder(folder, overwrite=overwrite) as part:
            write_onnx(fitted, part)
            _write_config(fitted, labels, part, "BertForSequenceClassification")
            write_text(part / "README.md", readme(ONNX, labels, max_length=_max_length(fitted)))
        return Exported(Path(folder), format, "onnxruntime")
    if any(part.of == "added" for part in fitted.network.parts().values()):
        raise UserError(f"{what} adds to the encoder what transformers has not; --format onnx can hold it")
    with new_folder(folder, overwrite=overwrite) as part:
        opens_with = _write_transformers(fitted, labels, part)
    return Exported(Path(folder), format, opens_with)


def merged(fitted: NetworkFitted) -> NetworkFitted:
    """The same function, with changes of the projections (LoRA's) computed into the weights that they change."""
    if not any(name.endswith(".projection") for name in fitted.network.encoder.added()):
        return fitted
    made = copy.copy(fitted)
    made.network = copy.deepcopy(fitted.network)
    made.network.encoder.merge_projections()
    return made


def cannot_export(head: str | None) -> str | None:
    """Why a head of this name cannot be exported; None where it can. To say before anything is trained."""
    kind = HEADS.get(head or "")
    if kind is None or not kind.reads_states:
        return None
    others = " or ".join(f"--head {name}" for name, other in HEADS.items() if not other.reads_states)
    return (
        f"a {head} head cannot be exported to transformers or ONNX, only used with pocketbert; train with {others} "
        f"to export"
    )


# -- transformers ----------------------------------------------------------------------------------------------------


def _write_transformers(fitted: NetworkFitted, labels: Sequence[str], folder: Path) -> str:
    network = fitted.network
    layers = list(network.head(fitted.task).linear_layers())
    if network.pooling == "pooler":
        layers.insert(0, network.encoder.pooler)
    encoder = hugging_face_tensors(network.encoder)
    if network.pooling != "mean" and len(layers) == 2:
        pooler, classifier = layers
        tensors = {f"bert.{name}": tensor for name, tensor in encoder.items()}
        _save(tensors | _layer("bert.pooler.dense", pooler) | _layer("classifier", classifier), folder / WEIGHTS)
        write_text(folder / "README.md", readme(CLASSIFIER, labels))
        return _write_config(fitted, labels, folder, "BertForSequenceClassification")
    _save(encoder, folder / WEIGHTS)
    numbered = [_layer(str(number), layer) for number, layer in enumerate(layers)]
    _save({name: tensor for layer in numbered for name, tensor in layer.items()}, folder / HEAD)
    _write_pooling(fitted, folder)
    pooled = MEAN if network.pooling == "mean" else CLS
    write_text(folder / "README.md", readme(AUTO_MODEL, labels, pooled=pooled))
    _write_config(fitted, labels, folder, "BertModel")
    return "AutoModel"


def _layer(name: str, layer: nn.Linear) -> dict[str, Tensor]:
    weights = {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    return {name: weight.detach().to("cpu", torch.float32).contiguous().clone() for name, weight in weights.items()}


def _save(tensors: dict[str, Tensor], path: Path) -> None:
    save_file(tensors, path, {"format": "pt"})


def _write_config(fitted: NetworkFitted, labels: Sequence[str], folder: Path, architecture: str) -> str:
    config = fitted.network.encoder.config
    content = {
        "architectures": [architecture],
        **config.to_hugging_face(),
        "classifier_dropout": fitted.settings.dropout,
        "id2label": {str(number): name for number, name in enumerate(labels)},
        "label2id": {name: number for number, name in enumerate(labels)},
        "problem_type": "single_label_classification",
    }
    write_json(folder / "config.json", content)
    write_tokenizer(fitted.tokenizer, folder, _max_length(fitted))
    return architecture


def _max_length(fitted: NetworkFitted) -> int:
    return min(fitted.network.encoder.config.positions, fitted.settings.max_length)


def _write_pooling(fitted: NetworkFitted, folder: Path) -> None:
    """What sentence-transformers reads: which module comes after which, and how vectors are pooled."""
    mean = fitted.network.pooling == "mean"
    kinds = {"": "Transformer", "1_Pooling": "Pooling"}
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    write_json(folder / "modules.json", modules)
    pooling = {
        "word_embedding_dimension": fitted.network.encoder.config.width,
        "pooling_mode_mean_tokens": mean,
        "pooling_mode_cls_token": not mean,
        "pooling_mode_max_tokens": False,
    }
    write_json(folder / "1_Pooling" / "config.json", pooling)
