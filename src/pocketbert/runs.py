"""A run: model x method x task x settings x seed, and everything that came out of it, as a folder.

settings.json      what was asked, resolved: enough to do it again
checkpoint…        while it trains: the way to go on
model/             what the method trained, and nothing else (training/fit.py)
dev.csv, test.csv  predictions with probabilities
seen.safetensors   hashes of the texts it learnt from, and its ancestors, to recognise them when something is scored
metrics.json       history, the choice, scores with intervals, cost
manifest.json      written last: a folder without one is not finished
"""

import copy
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from pocketbert import __version__
from pocketbert.catalog import load_model
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
    require_own_or_empty,
    same_settings,
    sha256,
    write_manifest,
)
from pocketbert.methods import DataSize, Method, get_method
from pocketbert.metrics import measure
from pocketbert.run_files import FORMAT, SEEN, read_metadata, read_metrics, saved_settings
from pocketbert.start import Start, tokenizer_fingerprint, weights_fingerprint
from pocketbert.tasks import Check, Split, Task, check_task
from pocketbert.tasks.split import text_hashes
from pocketbert.training.job import Fitted, Job, JobTask, Saved, Trained
from pocketbert.training.loop import Report
from pocketbert.training.machine import computing, forget_peak_memory, peak_memory
from pocketbert.training.settings import Settings, check_device

SERIOUS = 0.01  # share of rows that were learnt from, above which a score means nothing

Told = Mapping[str, Any] | Settings


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run, read back from its folder."""

    folder: Path
    metadata: dict[str, Any]  # settings.json
    metrics: dict[str, Any]
    files: dict[str, Written]  # of the manifest

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.metadata["labels"])

    @property
    def method(self) -> Method:
        return get_method(self.metadata["method"])

    @property
    def settings(self) -> Settings:
        return saved_settings(self.metadata)

    def fitted(self) -> Fitted:
        """What classifies, loaded from the folder; the model's files must be those that were written."""
        for name, entry in self.files.items():
            if name.startswith("model/") and sha256(self.folder / name) != entry["sha256"]:
                raise UserError(f"{self.folder / name}: changed since the run was finished")
        check_device(getattr(self.settings, "device", "cpu"))
        start = None
        if self.method.needs_model and not any((self.folder / "model" / own).exists() for own in OWN_ENCODER):
            start = self._start_of()
        metadata, folder = self.metadata, self.folder / "model"
        return self.method.load(
            Saved(folder, metadata["task"], self.labels, self.settings, start, metadata.get("weights"))
        )

    def _start_of(self) -> Start:
        """What it started from, where it was then."""
        before = self.metadata.get("from")
        if before is not None:
            return load_run(self.folder / before).start()
        if self.metadata["model"] is None:
            raise UserError(f"{self.folder / SETTINGS}: damaged: it names no model")
        return load_model(self.metadata["model"])

    def start(self) -> Start:
        """This run as what another training starts from."""
        fitted = self.fitted()
        network = getattr(fitted, "network", None)
        if network is None:
            raise UserError(
                f"{self.folder}: method '{self.metadata['method']}' trained no encoder; nothing to start from"
            )
        parts = network.parts().values()
        if any(part.of == "added" for part in parts):
            raise UserError(
                f"{self.folder}: method '{self.metadata['method']}' added to its encoder; no start for others"
            )
        encoder = network.encoder
        own = {name: self.metadata[name] for name in ("task", "method", "model", "fingerprints")}
        return Start(
            str(self.folder),
            encoder.config,
            lambda seed: copy.deepcopy(encoder),
            fitted.tokenizer,  # type: ignore[attr-defined]
            pooling=network.pooling,
            has_pooler=any(part.of == "pooler" and part.read for part in parts),
            model=self.metadata["model"],
            run=self.folder,
            ancestry=(*self.metadata.get("ancestry", ()), {**own, "seed": self.settings.seed}),
            seen=self._learnt(),
        )

    def _learnt(self) -> np.ndarray:
        path = self.folder / SEEN
        try:
            learnt = load_file(path)["hashes"]
        except (OSError, SafetensorError, KeyError, TypeError) as error:
            raise UserError(f"{path}: damaged: {error}") from error
        if learnt.dtype != np.int64:
            raise UserError(f"{path}: damaged: its hashes are {learnt.dtype}, not int64")
        return learnt

    def seen(self, split: Split) -> np.ndarray:
        """For each row: was this text (spelling aside) learnt from, by this run or one that it started from?"""
        return np.isin(text_hashes(split), self._learnt())


OWN_ENCODER = ("config.json", "encoder")  # in a run's model/: it needs no start to be loaded (format 2, format 1)


def load_start(name: str | os.PathLike[str]) -> Start:
    """A model by name or folder; or a finished run by its folder."""
    folder = Path(name).expanduser()
    if (folder / SETTINGS).is_file() and (folder / "model").is_dir():
        return load_run(folder).start()
    return load_model(name)


def train_run(
    task: Task,
    method: str,
    folder: str | os.PathLike[str],
    *,
    model: str | None = None,
    start: Start | None = None,
    settings: Told | None = None,
    report: Report | None = None,
    say: Callable[[str], None] | None = None,
    check: Check | None = None,
    allow_overlap: bool = False,
    wait: float = 0.0,
) -> Run:
    """Train one run into a folder. The same call again goes on where it stopped; a finished run is given back.

    Args:
        model: a model's name or folder, or the folder of a run to start from; default: the method's usual one.
        start: the same, loaded before.
        settings: what the method is told, by name; what is left out it derives.
        check: what `check_task` found, where it was asked before.
        allow_overlap: score texts that the start has learnt from, all the same.
        wait: seconds to let another writer end.
    """
    folder = Path(folder)
    plan = plan_run(task, method, model=model, start=start, settings=settings, check=check, allow_overlap=allow_overlap)
    metadata = {**plan.metadata, "from": _beside(plan.job.start, folder)}
    for warning in plan.check.warnings if say else ():
        say(f"warning: {warning}")  # type: ignore[misc]
    require_own_or_empty(folder, "run")
    with lock(folder, wait=wait):
        if (folder / MANIFEST).is_file():
            return _finished(folder, metadata)
        there = read_metadata(folder) if (folder / SETTINGS).is_file() else None
        if there is not None:
            _require_same_format(there, folder)
            there = _completed(there)
        begin(folder, there, metadata, f"{folder}: holds an unfinished run with other settings")
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
class RunPlan:
    """A run before its first step: what will be written as settings.json, the job, what to say about the data."""

    metadata: dict[str, Any]
    job: Job
    check: Check


def resolve_run(
    task: Task, method: str, model: str | None, told: Told | None, start: Start | None = None
) -> tuple[Start | None, Settings]:
    """What a method will start from, if it needs anything, and the settings with nothing left open."""
    kind = get_method(method)
    settings = told if isinstance(told, Settings) else kind.read(told or {})
    if kind.needs_model:
        start = start or load_start(model or kind.usual_model() or "")
    else:
        start = None
    return start, kind.resolve(settings, start, DataSize(len(task.split("train")), len(task.labels)))


def plan_run(
    task: Task,
    method: str,
    *,
    model: str | None = None,
    start: Start | None = None,
    settings: Told | None = None,
    check: Check | None = None,
    allow_overlap: bool = False,
) -> RunPlan:
    """Check everything that can be checked before the first step, and resolve the settings."""
    kind = get_method(method)
    start, resolved = resolve_run(task, method, model, settings, start)
    if check is None:
        check = check_for_run(task, method, start, resolved)
    train = task.split("train")
    if train.labels is None:
        raise UserError(f"{task.name}:train has no real labels: {train.reason}")
    if check.errors:
        raise UserError(f"{task.name}: {check.errors[0]}")
    if start is not None:
        check = replace(check, warnings=[*check.warnings, *_leaks(task, start, allow_overlap)])
    dev = task.splits.get("dev")
    if dev is not None and (not dev.labelled or not len(dev)):
        dev = None
    if dev is None and resolved.choices > 1:
        raise UserError(f"{task.name} has no labelled dev split to choose an epoch or a rate on; use one of each")
    job = Job((JobTask(task.name, task.labels, train, dev),), resolved, start)
    prepared = kind.prepare(job)
    metadata = {
        "format": FORMAT,
        "pocketbert": __version__,
        "task": task.name,
        "labels": list(task.labels),
        "pair": task.pair,
        "fingerprints": {name: task.fingerprint(name) for name in task.splits},
        "method": method,
        "model": None if start is None else start.model,
        "ancestry": [] if start is None else list(start.ancestry),
        "weights": None if prepared is None else weights_fingerprint(prepared[0]),
        "tokenizer": None if prepared is None else tokenizer_fingerprint(prepared[1]),
        "settings": resolved.to_dict(),
    }
    return RunPlan(metadata, replace(job, prepared=prepared), check)


def check_for_run(task: Task, method: str, start: Start | None, settings: Settings) -> Check:
    """The checks, with the lengths that this run will see: a baseline reads whole texts, and cuts nothing."""
    tokenizer, max_length = get_method(method).reading(start, settings)
    return check_task(task, tokenizer, sys.maxsize if max_length is None else max_length)


def scored_split(task: Task) -> str:
    """Test, where it has real labels; else dev, which is said."""
    test = task.splits.get("test")
    return "test" if test is not None and test.labelled and len(test) else "dev"


def _leaks(task: Task, start: Start, allow_overlap: bool) -> list[str]:
    """Texts to be scored that the start has learnt from: a few are said, many are refused."""
    split = task.splits.get(scored_split(task))
    if split is None or not len(start.seen):
        return []
    shared = int(np.isin(text_hashes(split), start.seen).sum())
    if not shared:
        return []
    tasks = ", ".join(dict.fromkeys(str(one["task"]) for one in start.ancestry))
    message = (
        f"{shared:,} of {len(split):,} texts of {task.name}:{scored_split(task)} are among those that {start.name} has "
        f"learnt from ({tasks})"
    )
    if shared >= SERIOUS * len(split) and not allow_overlap:
        raise UserError(f"{message}: the score would be too good to be true. To see it: --allow-overlap")
    return [f"{message}: they make the score look better than new text would"]


def _beside(start: Start | None, folder: Path) -> str | None:
    """Where the run is that this one starts from, as seen from its own folder: the two can be moved together."""
    if start is None or start.run is None:
        return None
    return Path(os.path.relpath(start.run.resolve(), folder.resolve())).as_posix()


def _require_same_format(there: dict[str, Any], folder: Path) -> None:
    if there.get("format") != FORMAT:
        raise UserError(
            f"{folder}: was begun by another version of pocketbert (format {there.get('format')}, this one writes "
            f"{FORMAT}) and cannot be gone on with; name another folder, or remove it"
        )


def _completed(metadata: dict[str, Any]) -> dict[str, Any]:
    """With the settings that were not known when it was written, at what their absence means."""
    return {**metadata, "settings": saved_settings(metadata).to_dict()}


def _finished(folder: Path, metadata: dict[str, Any]) -> Run:
    run = load_run(folder)
    there = _completed(run.metadata)
    if there["format"] != FORMAT:  # what that version did not write down cannot be compared
        metadata = {name: value for name, value in metadata.items() if name in there}
        there["format"] = metadata["format"]
    same_settings(there, metadata, f"{folder}: holds a finished run with other settings")
    remove_leftovers(folder)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return run


def _write_results(folder: Path, plan: RunPlan, task: Task, trained: Trained, started: float) -> None:
    fitted = trained.fitted
    with new_folder(folder / "model", overwrite=True) as part:
        fitted.save(part)
    learnt = [text_hashes(task.splits[name]) for name in ("train", "dev") if name in task.splits]
    if plan.job.start is not None:
        learnt.append(plan.job.start.seen)
    with new_file(folder / SEEN) as path:
        save_file({"hashes": np.unique(np.concatenate(learnt))}, path)
    scores: dict[str, Any] = {}
    for name in ("dev", "test"):
        split = task.splits.get(name)
        if split is None:
            continue
        probabilities = fitted.probabilities(split.texts, split.second_texts)
        write_predictions(folder / f"{name}.csv", probabilities, split.labels, task.labels)
        if split.labels is None:
            scores[name] = {"rows": len(split), "refused": split.reason}
        else:
            scores[name] = {**measure(probabilities, split.labels, task.labels), "truncated": fitted.cut}
    elapsed = time.perf_counter() - started
    epochs = len(trained.history)
    metrics = {
        "best": trained.best,
        "trials": trained.trials,
        "scores": scores,
        "warnings": plan.check.warnings,
        "history": [record.to_dict() for record in trained.history],
        "cost": {
            "seconds": elapsed,
            "training_seconds": trained.elapsed,
            "examples_per_second": epochs * len(task.train) / trained.elapsed if trained.elapsed else None,
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
    metadata = read_metadata(folder)
    return Run(folder, metadata, read_metrics(folder, len(metadata["labels"])), files)
