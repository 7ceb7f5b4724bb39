"""What is read of a run's JSON files, held against what they must be; and what older versions wrote there.

Format 1 kept whole encoders, and every setting there was; format 2 keeps what trained, and what the method reads.
"""

from pathlib import Path
from typing import Annotated, Any, TypedDict

from pocketbert.errors import UserError
from pocketbert.folders import METRICS, SETTINGS
from pocketbert.methods import get_method
from pocketbert.training.settings import Settings
from pocketbert.values import Count, Entries, Format, held, read_object, within

FORMAT = 2  # of settings.json, as it is written now
RENAMED = {"like_length": "group_by_length", "slice": "vocabulary_slice", "features": "cache_features"}  # in format 2
SEEN = "seen.safetensors"


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
        saved_settings(metadata)
    return metadata


def read_metrics(folder: Path, labels: int) -> dict[str, Any]:
    """A run's metrics.json."""
    path = folder / METRICS
    metrics = read_object(path, Metrics)
    with within(f"{path}: damaged"):
        _hold_scores(metrics, labels)
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
