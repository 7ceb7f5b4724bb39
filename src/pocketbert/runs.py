"""A run: model x method x task x settings x seed, and everything that came out of it, as a folder.

settings.json      what was asked, resolved: enough to do it again
checkpoint…        while it trains: the way to go on
model/             what the method trained
dev.csv, test.csv  predictions with probabilities
seen.safetensors   hashes of the texts it learnt from, to recognise them when something else is scored
metrics.json       history, the choice, scores with intervals, cost
manifest.json      written last: a folder without one is not finished
"""

import csv
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from pocketbert import __version__
from pocketbert.errors import UserError
from pocketbert.files import lock, new_file, new_folder, read_json, write_json
from pocketbert.methods import Fitted, Job, Trained, get_method
from pocketbert.methods.neural import NetworkFitted
from pocketbert.metrics import measure
from pocketbert.models import Model, load_model, usual_model, weights_fingerprint
from pocketbert.tasks import Check, Split, Task, check_task
from pocketbert.tasks.split import keys
from pocketbert.training.loop import Report
from pocketbert.training.machine import computing, peak_memory
from pocketbert.training.settings import Settings, resolve


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run, read back from its folder."""

    folder: Path
    about: dict[str, Any]  # settings.json
    metrics: dict[str, Any]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.about["labels"])

    @property
    def settings(self) -> Settings:
        return Settings.from_dict(self.about["settings"])

    def fitted(self) -> Fitted:
        """What classifies, loaded from the folder."""
        method = get_method(self.about["method"])
        return method.load(self.folder / "model", self.labels, self.settings, self.about)

    def seen(self, split: Split) -> np.ndarray:
        """For each row: was this text (spelling aside) learnt from?"""
        learnt = load_file(self.folder / "seen.safetensors")["hashes"]
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
) -> Run:
    """Train one run into a folder. The same call again goes on where it stopped; a finished run is given back."""
    plan = plan_run(task, method, model=model, settings=settings)
    for warning in plan.check.warnings if say else ():
        say(f"warning: {warning}")  # type: ignore[misc]
    about, job = plan.about, plan.job
    folder = Path(folder)
    if (folder / "manifest.json").is_file():
        return _finished(folder, about)
    with lock(folder):
        _begin(folder, about)
        started = time.perf_counter()
        with computing(job.settings.threads):
            job = replace(job, checkpoint=folder / "checkpoint.safetensors", report=report)
            trained = get_method(method).fit(job)
            _write_results(folder, plan, task, trained, started)
        (folder / "checkpoint.safetensors").unlink(missing_ok=True)
        _write_manifest(folder)
    return load_run(folder)


@dataclass(frozen=True, eq=False)
class Plan:
    """A run before its first step: what will be written as settings.json, the job, what to say about the data."""

    about: dict[str, Any]
    job: Job
    check: Check


def plan_run(task: Task, method: str, *, model: str | None = None, settings: Settings | None = None) -> Plan:
    """Check everything that can be checked before the first step, and resolve the settings."""
    kind = get_method(method)
    found: Model | None = None
    if kind.needs_model:
        found = load_model(model or usual_model(method))
    settings = resolve(
        settings or Settings(),
        method,
        None if found is None else found.config,
        pooling="pooler" if found is None or method == "scratch" else found.pooling,
    )
    tokenizer = None if found is None or method == "scratch" else found.tokenizer
    check = check_task(task, tokenizer, settings.max_length)
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
    about = {
        "format": 1,
        "pocketbert": __version__,
        "task": task.name,
        "labels": list(task.labels),
        "pair": task.pair,
        "fingerprints": {name: task.fingerprint(name) for name in task.splits},
        "method": method,
        "model": None if found is None else found.name,
        "settings": settings.to_dict(),
    }
    return Plan(about, Job(task.labels, train, dev, settings, model=found), check)


def _begin(folder: Path, about: dict[str, Any]) -> None:
    """A folder with another run's settings is not written into."""
    path = folder / "settings.json"
    if path.is_file():
        if _comparable(read_json(path)) != _comparable(about):
            raise UserError(f"{folder}: holds an unfinished run with other settings; name another folder, or remove it")
        return
    strange = [p.name for p in folder.iterdir() if p.name != ".lock" and not p.name.endswith(".part")]
    if strange:
        raise UserError(f"{folder}: already exists and is no run of pocketbert (it holds {strange[0]}); name another")
    write_json(path, about)


def _comparable(about: dict[str, Any]) -> str:
    return json.dumps({k: v for k, v in about.items() if k not in ("pocketbert", "weights")}, sort_keys=True)


def _finished(folder: Path, about: dict[str, Any]) -> Run:
    run = load_run(folder)
    if _comparable(run.about) != _comparable(about):
        raise UserError(f"{folder}: holds a finished run with other settings; name another folder, or remove it")
    return run


def _write_results(folder: Path, plan: Plan, task: Task, trained: Trained, started: float) -> None:
    about, fitted = plan.about, trained.fitted
    with new_folder(folder / "model", overwrite=True) as part:
        fitted.save(part)
    if isinstance(fitted, NetworkFitted) and not fitted.whole:
        write_json(folder / "settings.json", {**about, "weights": weights_fingerprint(fitted.network.encoder)})
    learnt = [text_hashes(task.splits[name]) for name in ("train", "dev") if name in task.splits]
    with new_file(folder / "seen.safetensors") as path:
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
    write_json(folder / "metrics.json", metrics)


def write_predictions(path: Path, probabilities: np.ndarray, labels: np.ndarray | None, names: tuple[str, ...]) -> None:
    """A row a text: its number, the true label where there is one, the prediction, a probability a label."""
    with new_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["row", "label", "prediction", *(f"probab_{i}" for i in range(len(names)))])
        for row, values in enumerate(probabilities):
            true = "" if labels is None else names[labels[row]]
            writer.writerow([row, true, names[int(values.argmax())], *(f"{value:.6f}" for value in values)])


def _write_manifest(folder: Path) -> None:
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in (".lock", "manifest.json") and not path.name.endswith(".part"):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": digest}
    write_json(folder / "manifest.json", {"format": 1, "files": files})


def load_run(folder: str | os.PathLike[str]) -> Run:
    """A finished run. Files that are missing or have another size than the manifest says are named."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such run")
    if not (folder / "manifest.json").is_file():
        if (folder / "settings.json").is_file():
            raise UserError(f"{folder}: the run is not finished; the same train command again goes on with it")
        raise UserError(f"{folder}: no run of pocketbert (it has no manifest.json)")
    manifest = read_json(folder / "manifest.json")
    for name, entry in manifest["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != entry["bytes"]:
            raise UserError(f"{path}: missing or changed since the run was finished")
    return Run(folder, read_json(folder / "settings.json"), read_json(folder / "metrics.json"))


def text_hashes(split: Split) -> np.ndarray:
    """One 64-bit number a row, of the text with case, spaces and punctuation left aside."""
    digests = b"".join(
        hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest() for key in keys(split)
    )
    return np.frombuffer(digests, dtype="<i8").astype(np.int64)
