"""A run: model x method x task x settings x seed, and everything that came out of it, as a folder.

settings.json      what was asked, resolved: enough to do it again
checkpoint…        while it trains: the way to go on
model/             what the method trained
dev.csv, test.csv  predictions with probabilities
seen.safetensors   hashes of the texts it learnt from, to recognise them when something else is scored
metrics.json       history, the choice, scores with intervals, cost
manifest.json      written last: a folder without one is not finished
"""

import hashlib
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypedDict

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pocketbert import __version__
from pocketbert.errors import UserError
from pocketbert.files import RowWriter, lock, new_file, new_folder, recover, remove_leftovers, write_json
from pocketbert.folders import (
    CHECKPOINT,
    MANIFEST,
    METRICS,
    SETTINGS,
    Written,
    begin,
    forget,
    read_manifest,
    refuse_strangers,
    same_settings,
    sha256,
    write_manifest,
)
from pocketbert.methods import Fitted, Job, Trained, get_method
from pocketbert.metrics import measure
from pocketbert.models import Model, load_model, usual_model, weights_fingerprint
from pocketbert.tasks import Check, Split, Task, check_task
from pocketbert.tasks.split import text_hashes
from pocketbert.training.loop import Report
from pocketbert.training.machine import computing, forget_peak_memory, peak_memory
from pocketbert.training.settings import Settings, check_device, resolve
from pocketbert.values import FORMAT, Count, Entries, Format, held, read_object, within

SEEN = "seen.safetensors"


class About(TypedDict):
    """What is read of settings.json."""

    format: Format
    task: str
    labels: Annotated[tuple[str, ...], Entries(2, 100_000, distinct=True)]
    pair: bool
    method: str
    model: str | None
    weights: str | None
    settings: dict[str, Any]


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


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run, read back from its folder."""

    folder: Path
    about: dict[str, Any]  # settings.json
    metrics: dict[str, Any]
    files: dict[str, Written]  # of the manifest

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.about["labels"])

    @property
    def settings(self) -> Settings:
        return Settings.from_dict(self.about["settings"])

    def fitted(self) -> Fitted:
        """What classifies, loaded from the folder; the model's files must be those that were written."""
        for name, entry in self.files.items():
            if name.startswith("model/") and sha256(self.folder / name) != entry["sha256"]:
                raise UserError(f"{self.folder / name}: changed since the run was finished")
        method = get_method(self.about["method"])
        check_device(self.settings.device)
        return method.load(self.folder / "model", self.labels, self.settings, self.about)

    def seen(self, split: Split) -> np.ndarray:
        """For each row: was this text (spelling aside) learnt from?"""
        path = self.folder / SEEN
        try:
            learnt = load_file(path)["hashes"]
        except (OSError, SafetensorError, KeyError, TypeError) as error:
            raise UserError(f"{path}: damaged: {error}") from error
        if learnt.dtype != np.int64:
            raise UserError(f"{path}: damaged: its hashes are {learnt.dtype}, not int64")
        return np.isin(text_hashes(split), learnt)


def train_run(
    task: Task,
    method: str,
    folder: str | os.PathLike[str],
    *,
    model: str | None = None,
    settings: Settings | None = None,
    report: Report | None = None,
    say: Callable[[str], None] | None = None,
    check: Check | None = None,
    wait: float = 0.0,
) -> Run:
    """Train one run into a folder. The same call again goes on where it stopped; a finished run is given back.

    `check`: what `check_task` found, where it was asked before. `wait`: seconds to let another writer end.
    """
    plan = plan_run(task, method, model=model, settings=settings, check=check)
    for warning in plan.check.warnings if say else ():
        say(f"warning: {warning}")  # type: ignore[misc]
    folder = Path(folder)
    refuse_strangers(folder, "run")
    with lock(folder, wait=wait):
        if (folder / MANIFEST).is_file():
            return _finished(folder, plan.about)
        there = read_object(folder / SETTINGS, About) if (folder / SETTINGS).is_file() else None
        begin(folder, there, plan.about, f"{folder}: holds an unfinished run with other settings")
        started = time.perf_counter()
        checkpoint = folder / CHECKPOINT
        forget_peak_memory()
        with computing(plan.job.settings.threads):
            try:
                trained = get_method(method).fit(replace(plan.job, checkpoint=checkpoint, report=report))
            except UserError:
                if not checkpoint.exists():
                    forget(folder)
                raise
            _write_results(folder, plan, task, trained, started)
        write_manifest(folder)
        checkpoint.unlink(missing_ok=True)
    return load_run(folder)


@dataclass(frozen=True, eq=False)
class Plan:
    """A run before its first step: what will be written as settings.json, the job, what to say about the data."""

    about: dict[str, Any]
    job: Job
    check: Check


def settle(method: str, model: str | None, settings: Settings) -> tuple[Model | None, Settings]:
    """The model a method will start from, if it needs one, and the settings with nothing left open."""
    found = load_model(model or usual_model(method)) if get_method(method).needs_model else None
    config = None if found is None else found.config
    pooling = "pooler" if found is None or method == "scratch" else found.pooling
    return found, resolve(settings, method, config, pooling=pooling)


def plan_run(
    task: Task,
    method: str,
    *,
    model: str | None = None,
    settings: Settings | None = None,
    check: Check | None = None,
) -> Plan:
    """Check everything that can be checked before the first step, and resolve the settings."""
    kind = get_method(method)
    found, settings = settle(method, model, settings or Settings())
    if check is None:
        check = look_at(task, method, found, settings)
    train = task.split("train")
    if train.labels is None:
        raise UserError(f"{task.name}:train has no real labels: {train.reason}")
    if check.errors:
        raise UserError(f"{task.name}: {check.errors[0]}")
    dev = task.splits.get("dev")
    if dev is not None and (not dev.labelled or not len(dev)):
        dev = None
    choices = len(settings.rates) * (settings.epochs or 1)
    if dev is None and kind.needs_model and choices > 1:
        raise UserError(f"{task.name} has no labelled dev split to choose an epoch or a rate on; use one of each")
    job = Job(task.labels, train, dev, settings, model=found)
    start = kind.prepare(job)
    about = {
        "format": FORMAT,
        "pocketbert": __version__,
        "task": task.name,
        "labels": list(task.labels),
        "pair": task.pair,
        "fingerprints": {name: task.fingerprint(name) for name in task.splits},
        "method": method,
        "model": None if found is None else found.name,
        "weights": None if start is None else weights_fingerprint(start[0]),
        "tokenizer": None if start is None else hashlib.sha256(start[1].to_json().encode()).hexdigest()[:32],
        "settings": settings.to_dict(),
    }
    return Plan(about, replace(job, start=start), check)


def look_at(task: Task, method: str, model: Model | None, settings: Settings) -> Check:
    """The checks, with the lengths that this run will see: a baseline reads whole texts, and cuts nothing."""
    tokenizer = None if model is None or method == "scratch" else model.tokenizer
    return check_task(task, tokenizer, sys.maxsize if model is None else settings.max_length)


def _finished(folder: Path, about: dict[str, Any]) -> Run:
    run = load_run(folder)
    same_settings(run.about, about, f"{folder}: holds a finished run with other settings")
    remove_leftovers(folder)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return run


def _write_results(folder: Path, plan: Plan, task: Task, trained: Trained, started: float) -> None:
    fitted = trained.fitted
    with new_folder(folder / "model", overwrite=True) as part:
        fitted.save(part)
    learnt = [text_hashes(task.splits[name]) for name in ("train", "dev") if name in task.splits]
    with new_file(folder / SEEN) as path:
        save_file({"hashes": np.unique(np.concatenate(learnt))}, path)
    scores: dict[str, Any] = {}
    for name in ("dev", "test"):
        split = task.splits.get(name)
        if split is None:
            continue
        probabilities = fitted.probabilities(split.texts, split.seconds)
        write_predictions(folder / f"{name}.csv", probabilities, split.labels, task.labels)
        if split.labels is None:
            scores[name] = {"rows": len(split), "refused": split.reason}
        else:
            scores[name] = {**measure(probabilities, split.labels, task.labels), "truncated": fitted.cut}
    seconds = time.perf_counter() - started
    epochs = len(trained.history)
    metrics = {
        "best": trained.best,
        "trials": trained.trials,
        "scores": scores,
        "warnings": plan.check.warnings,
        "history": [vars(record) for record in trained.history],
        "cost": {
            "seconds": seconds,
            "training_seconds": trained.seconds,
            "examples_per_second": epochs * len(task.train) / trained.seconds if trained.seconds else None,
            "peak_memory_bytes": peak_memory(),
            "trained_parameters": fitted.trained_parameters,
        },
        "machine": {"python": platform.python_version(), "system": platform.system(), "processor": platform.machine()},
    }
    write_json(folder / METRICS, metrics)


def write_predictions(path: Path, probabilities: np.ndarray, labels: np.ndarray | None, names: tuple[str, ...]) -> None:
    """A row a text: its number, the true label where there is one, the prediction, a probability a label."""
    with new_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = RowWriter(file)
        writer.writerow(["row", "label", "prediction", *(f"probab_{i}" for i in range(len(names)))])
        for row, values in enumerate(probabilities):
            true = "" if labels is None else names[labels[row]]
            writer.writerow([row, true, names[int(values.argmax())], *(f"{value:.6f}" for value in values)])


def load_run(folder: str | os.PathLike[str]) -> Run:
    """A finished run. Files that are missing or were changed since are named; the model's are looked at when loaded."""
    folder = Path(folder)
    recover(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such run")
    if not (folder / MANIFEST).is_file():
        if (folder / SETTINGS).is_file():
            raise UserError(f"{folder}: the run is not finished; the same train command again goes on with it")
        raise UserError(f"{folder}: no run of pocketbert (it has no {MANIFEST})")
    files = read_manifest(folder, SETTINGS, METRICS)
    for name, entry in files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != entry["bytes"]:
            raise UserError(f"{path}: missing or changed since the run was finished")
        if not name.startswith("model/") and sha256(path) != entry["sha256"]:
            raise UserError(f"{path}: changed since the run was finished")
    about, metrics = read_object(folder / SETTINGS, About), read_object(folder / METRICS, Metrics)
    with within(f"{folder / SETTINGS}: damaged"):
        Settings.from_dict(about["settings"])
        get_method(about["method"])
    with within(f"{folder / METRICS}: damaged"):
        _hold_scores(metrics, len(about["labels"]))
    return Run(folder, about, metrics, files)


def _hold_scores(metrics: dict[str, Any], labels: int) -> None:
    if metrics["best"]:
        held(metrics["best"], Chosen, "best")
    for name, score in metrics["scores"].items():
        held(score, Refused if "refused" in score else Scored, f"scores, {name}")
        if "refused" not in score and [len(row) for row in score["confusion"]] != [labels] * labels:
            raise UserError(f"scores, {name}: the confusion of {labels} labels is no table of {labels} x {labels}")
