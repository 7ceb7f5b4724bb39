"""A fitted classifier as a run's folder, and back: the files that a run has, but for predictions of splits of its own.

What `fit` leaves beside the model is a `FitRecord`. It holds no texts, only their hashes, by which `evaluate` knows
what was learnt from.
"""

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from safetensors.numpy import save_file

from pocketbert.errors import UserError
from pocketbert.files import new_file, new_folder, write_json
from pocketbert.manifest import METRICS, SETTINGS, write_manifest
from pocketbert.metrics import measure
from pocketbert.run_files import SEEN, saved_settings
from pocketbert.runs import load_run
from pocketbert.train import RunPlan
from pocketbert.training.job import Fitted, Trained
from pocketbert.training.machine import peak_memory
from pocketbert.training.settings import Settings
from pocketbert.values import Count, held, within


class OfClassifier(TypedDict):
    """What settings.json says of a classifier, beside what it says of every run."""

    label_type: str  # numpy's name of the type that labels had
    rows: dict[str, Count]


@dataclass(frozen=True, eq=False)
class FitRecord:
    """Everything of a fitted classifier but what classifies."""

    metadata: dict[str, Any]  # settings.json, but for where its start is
    metrics: dict[str, Any]
    classes: np.ndarray
    rows: dict[str, int]
    learnt: np.ndarray  # hashes of texts
    start: str | None  # the folder of the run that it started from

    @property
    def settings(self) -> Settings:
        return saved_settings(self.metadata)

    @classmethod
    def of(cls, plan: RunPlan, trained: Trained, classes: np.ndarray, elapsed: float) -> "FitRecord":
        """After `fit`."""
        task, start = plan.task, plan.job.start
        learnt = [split.hashes for split in task.splits.values()] + ([] if start is None else [start.seen])
        dev = task.splits.get("dev")
        return cls(
            plan.metadata,
            _metrics(trained, task.labels, None if dev is None else dev.labels, len(task.train), elapsed),
            classes,
            {"train": len(task.train), "dev": 0 if dev is None else len(dev)},
            np.unique(np.concatenate(learnt)),
            None if start is None or start.run is None else str(start.run.resolve()),
        )


def _metrics(
    trained: Trained, labels: tuple[str, ...], dev_labels: np.ndarray | None, rows: int, elapsed: float
) -> dict[str, Any]:
    """As a run's metrics.json."""
    scores, seconds = {}, trained.elapsed
    if trained.dev is not None and dev_labels is not None:
        measured = measure(trained.dev.probabilities, dev_labels, labels)
        scores["dev"] = {**measured, "truncated": trained.dev.truncated}
    return {
        "best": trained.best,
        "trials": trained.trials,
        "scores": scores,
        "warnings": [],
        "history": [record.to_dict() for record in trained.history],
        "cost": {
            "seconds": elapsed,
            "training_seconds": seconds,
            "examples_per_second": len(trained.history) * rows / seconds if seconds else None,
            "peak_memory_bytes": peak_memory(),
            "trained_parameters": trained.fitted.trained_parameters,
            "model_bytes": trained.fitted.model_bytes,
            "seconds_per_1000_texts": None,  # nothing was timed
        },
        "machine": {"python": platform.python_version(), "system": platform.system(), "processor": platform.machine()},
    }


def save_fit(fitted: Fitted, record: FitRecord, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a run's folder, whole or not at all."""
    start = None
    if record.start is not None:
        start = Path(os.path.relpath(record.start, Path(folder).resolve())).as_posix()
    own = {"label_type": record.classes.dtype.str, "rows": record.rows}
    with new_folder(folder, overwrite=overwrite) as part:
        write_json(part / SETTINGS, {**record.metadata, "from": start, "classifier": own})
        (part / "model").mkdir()
        fitted.save(part / "model")
        with new_file(part / SEEN) as path:
            save_file({"hashes": record.learnt}, path)
        write_json(part / METRICS, record.metrics)
        write_manifest(part)


def load_fit(folder: str | os.PathLike[str]) -> tuple[Fitted, FitRecord]:
    """What `save_fit` wrote; or any other run, with texts for labels."""
    if (Path(folder) / "study.json").is_file():
        raise UserError(f"{folder}: is a study; name the folder of the model that it says it leaves: {folder}/final")
    run = load_run(folder)
    with within(f"{run.folder / SETTINGS}: damaged"):
        own = held(run.metadata.get("classifier"), OfClassifier | None, "classifier")
        classes = _typed(run.labels, "" if own is None else own["label_type"])
    start = run.metadata.get("from")
    record = FitRecord(
        run.metadata,
        run.metrics,
        classes,
        {} if own is None else own["rows"],
        run.learnt(),
        None if start is None else str((run.folder / start).resolve()),
    )
    return run.fitted(), record


def _typed(labels: tuple[str, ...], kind: str) -> np.ndarray:
    """Labels as they were before they were written: numbers, booleans, or texts in an array of either kind."""
    try:
        if not kind:
            return np.array(labels)
        dtype = np.dtype(kind)
        if dtype.kind in "OU":
            return np.array(labels, dtype=dtype)
        if dtype.kind == "b":
            return np.array([label == "True" for label in labels])
        return np.array([float(label) if dtype.kind == "f" else int(label) for label in labels], dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"labels {', '.join(labels[:3])}, … are not of the type {kind!r}") from error
