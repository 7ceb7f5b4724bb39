"""A network as one file, model.onnx, that any ONNX runtime opens: token ids in, logits and probabilities out.

torch's exporter needs `onnx` and `onnxscript`, which pocketbert itself never imports: they come with the extra `onnx`.
"""

import contextlib
import copy
import logging
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pocketbert.errors import UserError
from pocketbert.training.fit import NetworkFitted

MODEL = "model.onnx"
OPSET = 18  # of 2022: what torch's exporter writes without converting, and every runtime of the last years reads
INPUTS = ("input_ids", "attention_mask", "token_type_ids")  # each (batch, length), int64
OUTPUTS = ("logits", "probabilities")  # each (batch, labels), float32
NEEDED = ("onnx", "onnxscript")
MOST_BYTES = 2**31 - 2**20  # a protobuf message, which model.onnx is, ends at 2 GB


class Graph(nn.Module):
    """What is exported: a network with tensors for arguments."""

    def __init__(self, network: nn.Module, task: str) -> None:
        super().__init__()
        self.network, self.task = network, task

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, Tensor]:
        batch = dict(zip(INPUTS, (input_ids, attention_mask, token_type_ids), strict=True))
        logits = self.network(batch, self.task)  # (B, K)
        return logits, logits.softmax(dim=-1)


def write_onnx(fitted: NetworkFitted, folder: Path) -> None:
    """Write model.onnx; batch and length are free, up to the encoder's positions."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UserError(f"--format onnx needs {' and '.join(missing)}: pip install {' '.join(NEEDED)} onnxruntime")
    if fitted.model_bytes > MOST_BYTES:
        raise UserError(f"a model of {fitted.model_bytes:,} bytes does not fit into one ONNX file, which ends at 2 GB")
    network = copy.deepcopy(fitted.network).to("cpu").eval()
    # Two rows of three tokens, one of them padded: any shape does, but torch takes an extent of 1 for a constant.
    ids = torch.full((2, 3), network.encoder.config.padding_id or 0)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", max=network.encoder.config.positions)}
    with _quiet():
        try:
            program = torch.onnx.export(
                Graph(network, fitted.task),
                (ids, mask, torch.zeros_like(ids)),
                input_names=list(INPUTS),
                output_names=list(OUTPUTS),
                dynamic_shapes=(free, free, free),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            first = str(error.__cause__ or error).strip().splitlines()[0]
            raise UserError(f"cannot be written as ONNX: {first}") from error
        assert program is not None
        model = program.model_proto
    _forget_where(model)
    (folder / MODEL).write_bytes(model.SerializeToString(deterministic=True))


def _forget_where(model: Any) -> None:
    """Take out what the exporter notes for its authors: paths on this machine, and every line of code on the way."""
    graph = model.graph
    for owner in (model, graph):
        del owner.metadata_props[:]
    for one in (*graph.node, *graph.initializer, *graph.value_info, *graph.input, *graph.output):
        del one.metadata_props[:]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter speaks of packages that are not there and of its own deprecations: nothing a person could mend."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
