"""One text at a time, without HTTP: ours, a `transformers` pipeline, and onnxruntime with and without int8; in one run.

Also: does int8 answer the same? Labels and probabilities over all sentences, beside ours.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from pocketbert.export import export_run
from pocketbert.runs import Run
from pocketbert.serve.loaded import LoadedModel

Predict = Callable[[str], np.ndarray]  # a text → its probabilities


def make_ours(run: Run) -> Predict:
    model = LoadedModel("run", run)
    return lambda text: model.probabilities(model.items([[text]]))[0]


def make_pipeline(folder: Path, labels: Sequence[str]) -> Predict:
    from transformers import pipeline

    classify = pipeline("text-classification", model=str(folder), top_k=None, truncation=True)

    def predict(text: str) -> np.ndarray:
        shares = {one["label"]: one["score"] for one in classify([text])[0]}
        return np.array([shares[label] for label in labels])

    return predict


def make_torch_int8(run: Run) -> Predict:
    """torch's own int8: the linear layers' weights, activations as they come."""
    model = LoadedModel("run", run)
    assert model.network is not None
    model.network = torch.ao.quantization.quantize_dynamic(model.network, {torch.nn.Linear}, dtype=torch.qint8)
    return lambda text: model.probabilities(model.items([[text]]))[0]


def make_onnx(folder: Path, file: str, threads: int, max_length: int) -> Predict:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(folder / file, options, providers=["CPUExecutionProvider"])
    names = {one.name for one in session.get_inputs()}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(max_length)
    columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}

    def predict(text: str) -> np.ndarray:
        encoded = tokenizer.encode(text)
        batch = {
            name: np.array([getattr(encoded, own)], dtype=np.int64) for name, own in columns.items() if name in names
        }
        return session.run(["probabilities"], batch)[0][0]

    return predict


def quantise(folder: Path) -> None:
    """model.onnx → int8.onnx: weights of int8, activations quantised as they come, as onnxruntime's guide has it."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(folder / "model.onnx")
    del model.graph.value_info[:]  # shapes that the exporter noted; the quantiser turns weights round, and they clash
    quantize_dynamic(model, folder / "int8.onnx", weight_type=QuantType.QInt8, per_channel=True)


def measure_single(
    run: Run, texts: Sequence[str], folder: Path, *, threads: int, rounds: int, timed: int
) -> dict[str, Any]:
    """Medians over rounds in which the sides take turns; then all texts through those of int8."""
    torch.set_num_threads(threads)
    export_run(run, folder / "hf", overwrite=True)
    export_run(run, folder / "onnx", format="onnx", overwrite=True)
    quantise(folder / "onnx")
    max_length = LoadedModel("run", run).max_length or 128
    sides: dict[str, Predict] = {
        "pocketbert": make_ours(run),
        "transformers pipeline": make_pipeline(folder / "hf", run.labels),
        "onnxruntime float32": make_onnx(folder / "onnx", "model.onnx", threads, max_length),
        "onnxruntime int8": make_onnx(folder / "onnx", "int8.onnx", threads, max_length),
    }
    try:
        sides["torch int8"] = make_torch_int8(run)
        sides["torch int8"](texts[0])
    except (AttributeError, RuntimeError, TypeError, NotImplementedError) as error:
        sides.pop("torch int8", None)
        print(f"torch int8: not here: {error}")
    times: dict[str, list[float]] = {name: [] for name in sides}
    for predict in sides.values():
        for text in texts[:50]:
            predict(text)
    for number in range(rounds):
        part = texts[number * timed % len(texts) :][:timed]
        for name, predict in sides.items():
            for text in part:
                began = time.perf_counter()
                predict(text)
                times[name].append(time.perf_counter() - began)
    expected = np.array([sides["pocketbert"](text) for text in texts])
    result: dict[str, Any] = {}
    for name, predict in sides.items():
        got = np.array([predict(text) for text in texts])
        result[name] = {
            "median_ms": round(1000 * float(np.median(times[name])), 3),
            "p99_ms": round(1000 * float(np.quantile(times[name], 0.99)), 3),
            "labels_equal_percent": round(100 * float((got.argmax(1) == expected.argmax(1)).mean()), 3),
            "largest_difference": round(float(np.abs(got - expected).max()), 5),
        }
    ours = result["pocketbert"]["median_ms"]
    for one in result.values():
        one["times_as_fast_as_ours"] = round(ours / one["median_ms"], 2)
    return result
