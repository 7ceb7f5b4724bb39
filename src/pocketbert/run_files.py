"""What is read of a run's JSON files, held against what they must be; and what older versions wrote there.

Format 1 kept whole encoders, and every setting there was; format 2 keeps what trained, and what the method reads.
"""

from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy as np

from pocketbert.errors import UserError
from pocketbert.manifest import METRICS, SETTINGS
from pocketbert.methods import get_method
from pocketbert.tasks.task import Source
from pocketbert.training.job import Matrix
from pocketbert.training.settings import Settings
from pocketbert.values import Count, Entries, Format, held, read_object, within

FORMAT = 2  # of settings.json, as it is written now
RENAMED = {"like_length": "group_by_length", "slice": "vocabulary_slice", "features": "cache_features"}  # in format 2
SEEN = "seen.safetensors"
PREDICTIONS = "predictions.safetensors"


class Metadata(TypedDict):
    """What is read of settings.json."""

    format: Format
    task: str
    labels: Annotated[tuple[str, ...], Entries(2, 100_000, distinct=True)]
    pair: bool
    method: str
    model: str | None
    weights: str | None
    settings: dict[str, Any]


class Since2(TypedDict):
    """What format 1 has not."""

    ancestry: tuple[dict[str, Any], ...]


class FusedAdapter(TypedDict):
    """Another run whose adapter is one of those that were fused."""

    run: str  # its folder, as seen from this run's
    sha256: str  # of what it trained


class Scored(TypedDict):
    """A split's scores."""

    rows: Count
    accuracy: float
    low: float
    high: float
    macro_f1: float
    mcc: float
    loss: float
    calibration_error: float
    confusion: tuple[tuple[Count, ...], ...]


class Refused(TypedDict):
    """A split that has no real labels."""

    rows: Count
    refused: str


class Chosen(TypedDict):
    """What dev chose."""

    learning_rate: float
    epoch: Count
    dev_accuracy: float | None


class Epoch(TypedDict):
    seed: Count
    rate: float
    epoch: Count
    loss: float | None
    dev_accuracy: float | None
    dev_loss: float | None
    seconds: float


class Cost(TypedDict):
    seconds: float
    training_seconds: float
    examples_per_second: float | None
    peak_memory_bytes: Count
    trained_parameters: Count


class Metrics(TypedDict):
    """What is read of metrics.json."""

    best: dict[str, Any]  # as `Chosen`; empty where there was nothing to choose
    trials: Count
    scores: dict[str, dict[str, Any]]  # as `Scored` or `Refused`
    warnings: tuple[str, ...]
    history: tuple[Epoch, ...]
    cost: Cost


def read_metadata(folder: Path) -> dict[str, Any]:
    """A run's settings.json."""
    path = folder / SETTINGS
    metadata = read_object(path, Metadata)
    with within(f"{path}: damaged"):
        if metadata["format"] > 1:
            held(metadata, Since2, "it")
            held(metadata.get("from"), str | None, "from")
            held(metadata.get("source"), Source | None, "source")
            held(metadata.get("adapters", {}), dict[str, FusedAdapter], "adapters")
        saved_settings(metadata)
    return metadata


def read_metrics(folder: Path, labels: int) -> dict[str, Any]:
    """A run's metrics.json."""
    path = folder / METRICS
    metrics = read_object(path, Metrics)
    with within(f"{path}: damaged"):
        _hold_scores(metrics, labels)
        held(metrics.get("matrices", ()), tuple[Matrix, ...], "matrices")
    return metrics


def saved_settings(metadata: dict[str, Any]) -> Settings:
    """A run's settings, whichever version wrote them."""
    method, values = get_method(metadata["method"]), metadata["settings"]
    if metadata.get("format") == 1:  # every method's settings in one
        renamed = {RENAMED.get(name, name): value for name, value in values.items()}
        values = {name: value for name, value in renamed.items() if method.reads(name)}
    return method.settings.from_saved(values)


def _hold_scores(metrics: dict[str, Any], labels: int) -> None:
    if metrics["best"]:
        held(metrics["best"], Chosen, "best")
    for name, score in metrics["scores"].items():
        held(score, Refused if "refused" in score else Scored, f"scores, {name}")
        if "refused" not in score and [len(row) for row in score["confusion"]] != [labels] * labels:
            raise UserError(f"scores, {name}: the confusion of {labels} labels is no table of {labels} x {labels}")


def probability_columns(labels: tuple[str, ...]) -> list[str]:
    """What the columns of probabilities are called in a CSV: p_ and the label's own name."""
    return [f"p_{label}" for label in labels]


def rounded_predictions(path: Path, labels: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(probabilities, number of the predicted label) of dev.csv or test.csv: all that older runs have kept of them."""
    from pyarrow import ArrowException, csv

    names = [f"probab_{number}" for number in range(len(labels))]
    types = {**dict.fromkeys(names, "float64"), "prediction": "string"}
    options = csv.ConvertOptions(include_columns=list(types), column_types=types, strings_can_be_null=False)
    parse = csv.ParseOptions(newlines_in_values=True)  # label names may hold anything
    place = {label: number for number, label in enumerate(labels)}
    try:
        table = csv.read_csv(path, convert_options=options, parse_options=parse)
        predicted = np.array([place[label] for label in table["prediction"].to_pylist()], dtype=np.int64)
    except (ArrowException, KeyError, OSError) as error:
        raise UserError(f"{path}: damaged: {error}; remove the run's folder, and run again") from error
    return np.stack([table[name].to_numpy() for name in names], axis=1), predicted
