"""Training into run folders: one run, or several seeds of it that train as one.

Everything that can be checked is checked before the first step (`plan_run`). A run that was killed goes on from its
last whole epoch, a finished one is given back. Seeds that train together have one checkpoint, in the folder that is
finished last; each has the bytes that it has alone.
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from pocketbert import __version__
from pocketbert.errors import UserError
from pocketbert.files import RowWriter, new_file, new_folder, remove_leftovers, write_json
from pocketbert.folders import begin, forget, require_own_or_empty, same_settings
from pocketbert.locks import lock
from pocketbert.manifest import CHECKPOINT, MANIFEST, METRICS, SETTINGS, write_manifest
from pocketbert.methods import DataSize, Method, get_method
from pocketbert.metrics import measure
from pocketbert.run_files import FORMAT, PREDICTIONS, SEEN, probability_columns, read_metadata, saved_settings
from pocketbert.runs import SERIOUS, Run, load_run, load_start, with_adapters
from pocketbert.start import Start, weights_fingerprint
from pocketbert.tasks import Check, Split, Task, check_task
from pocketbert.tasks.augment import augmented
from pocketbert.training.job import Fitted, Job, JobTask, Predictions, Trained
from pocketbert.training.loop import Report, trained_seeds
from pocketbert.training.machine import computing, forget_peak_memory, peak_memory
from pocketbert.training.settings import Settings

TIMED = 64  # texts to time a prediction with
Told = Mapping[str, Any] | Settings


def train_run(
    task: Task,
    method: str,
    folder: str | os.PathLike[str],
    *,
    model: str | None = None,
    start: Start | None = None,
    adapters: Mapping[str, Run] | None = None,
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
        adapters: runs on the same model whose adapters are fused, by name, for a method that does so.
        settings: what the method is told, by name; what is left out it derives.
        check: what `check_task` found, where it was asked before.
        allow_overlap: score texts that the start has learnt from, all the same.
        wait: seconds to let another writer end.
    """
    plan = plan_run(
        task,
        method,
        model=model,
        start=start,
        adapters=adapters,
        settings=settings,
        check=check,
        allow_overlap=allow_overlap,
    )
    for warning in plan.check.warnings if say else ():
        say(f"warning: {warning}")  # type: ignore[misc]
    folder = Path(folder)
    train_runs(plan, {plan.job.settings.seed: folder}, report=report, wait=wait)
    return load_run(folder)


def train_runs(
    plan: "RunPlan", folders: Mapping[int, Path], *, report: Report | None = None, wait: float = 0.0
) -> None:
    """Train what was planned for several seeds, each into its folder; those that can train together do."""
    job, task = plan.job, plan.task
    size = get_method(plan.method).bank_size(job.settings, job.start, len(task.labels))
    with ExitStack() as locks:
        for folder in folders.values():
            require_own_or_empty(folder, "run")
            locks.enter_context(lock(folder, wait=wait))
        left = [seed for seed, folder in folders.items() if not _finished(folder, plan.of_seed(seed, folder))]
        for seed in left:
            _begin(folders[seed], plan.of_seed(seed, folders[seed]))
        for bank in _banks(left, folders, size):
            _train_bank(plan, bank, {seed: folders[seed] for seed in bank}, report)


def _banks(left: list[int], folders: Mapping[int, Path], size: int) -> list[list[int]]:
    """The seeds that are left, in groups that train together; a group that was begun goes on as it was."""
    banks: list[list[int]] = []
    for seed in left:
        seeds, done = trained_seeds(folders[seed] / CHECKPOINT)
        if seeds and (done or set(seeds) <= set(left)):
            banks.append([one for one in seeds if one in left])
        elif seeds:
            (folders[seed] / CHECKPOINT).unlink(missing_ok=True)
    rest = [seed for seed in left if not any(seed in bank for bank in banks)]
    return banks + [rest[first : first + size] for first in range(0, len(rest), size)]


def _train_bank(plan: "RunPlan", seeds: list[int], folders: Mapping[int, Path], report: Report | None) -> None:
    method, began = get_method(plan.method), time.perf_counter()
    checkpoint = folders[seeds[-1]] / CHECKPOINT
    forget_peak_memory()
    job = replace(plan.job, settings=replace(plan.job.settings, seed=seeds[0]), checkpoint=checkpoint, report=report)
    with computing(job.settings.threads):
        try:
            trained = method.fit_bank(job, seeds) if len(seeds) > 1 else [method.fit(job)]
        except UserError:
            if len(seeds) > 1:  # one of them may have failed: let the others not fail with it
                checkpoint.unlink(missing_ok=True)
                for seed in seeds:
                    _train_bank(plan, [seed], folders, report)
                return
            if not checkpoint.exists():
                forget(folders[seeds[0]])
            raise
        together = (time.perf_counter() - began) / len(seeds)
        for seed, one in zip(seeds, trained, strict=True):
            _write_results(folders[seed], plan, one, together)
            write_manifest(folders[seed])
    checkpoint.unlink(missing_ok=True)


@dataclass(frozen=True, eq=False)
class RunPlan:
    """A run before its first step: what will be written as settings.json, the job, what to say about the data."""

    task: Task
    method: str
    metadata: dict[str, Any]
    job: Job
    check: Check

    def of_seed(self, seed: int, folder: Path) -> dict[str, Any]:
        """The settings.json of one seed's run."""
        settings = {**self.metadata["settings"], "seed": seed}
        start = self.job.start
        fused = {} if start is None else start.adapters
        adapters = {name: {"run": _beside(one["run"], folder), "sha256": one["sha256"]} for name, one in fused.items()}
        before = None if start is None or start.run is None else _beside(start.run, folder)
        return {**self.metadata, "settings": settings, "from": before, **({"adapters": adapters} if adapters else {})}


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
    adapters: Mapping[str, Run] | None = None,
    settings: Told | None = None,
    check: Check | None = None,
    allow_overlap: bool = False,
    fold: dict[str, int] | None = None,
    without_dev: bool = False,
) -> RunPlan:
    """Check everything that can be checked before the first step, and resolve the settings.

    `fold` says which of a study's folds the task is, for whoever reads settings.json. `without_dev`: the last epoch is
    kept, where rate and number of epochs were chosen elsewhere.
    """
    kind = get_method(method)
    start, resolved = resolve_run(task, method, model, settings, start)
    if adapters and (kind.fuses is None or start is None):
        raise UserError(f"method '{method}' takes no adapters of other runs; leave them out")
    if adapters and start is not None:
        start = with_adapters(start, adapters)
        _refuse_clashing_labels(task, start)
    _refuse_others(task, kind, allow_overlap)
    if check is None:
        check = check_for_run(task, method, start, resolved)
    train = task.split("train")
    if train.labels is None:
        raise UserError(f"{task.name}:train has no real labels: {train.reason}")
    if check.errors:
        raise UserError(f"{task.name}: {check.errors[0]}")
    if start is not None:
        check = replace(check, warnings=[*check.warnings, *_leaks(task, start, allow_overlap)])
    dev = labelled_split(task, "dev")
    if dev is None and resolved.choices > 1 and not without_dev:
        raise UserError(f"{task.name} has no labelled dev split to choose an epoch or a rate on; use one of each")
    learnt = augmented(train, getattr(resolved, "augment", None))
    others = (
        JobTask(one.name, one.labels, one.train, labelled_split(one, "dev"), labelled_split(one, one.scored_name))
        for one in task.others
    )
    own = JobTask(task.name, task.labels, learnt, dev, labelled_split(task, task.scored_name))
    job = Job((own, *others), resolved, start)
    prepared = kind.prepare(job)
    weights = None if prepared is None else weights_fingerprint(prepared[0])
    metadata = {
        "format": FORMAT,
        "pocketbert": __version__,
        "task": task.name,
        "labels": list(task.labels),
        "pair": task.pair,
        "source": None if task.source is None else vars(task.source),
        "fingerprints": _fingerprints(task),
        "method": method,
        "model": None if start is None else start.model,
        "ancestry": [] if start is None else list(start.ancestry),
        "weights": weights,
        "tokenizer": None if prepared is None else prepared[1].fingerprint,
        "settings": resolved.to_dict(),
        **({"others": {one.name: _fingerprints(one) for one in task.others}} if task.others else {}),
        **({} if fold is None else {"fold": fold}),
    }
    return RunPlan(task, method, metadata, replace(job, prepared=prepared, fingerprint=weights), check)


def labelled_split(task: Task, name: str) -> Split | None:
    """A split, if it has rows and real labels."""
    split = task.splits.get(name)
    return split if split is not None and split.labelled and len(split) else None


def _fingerprints(task: Task) -> dict[str, str]:
    return {name: task.fingerprint(name) for name in task.splits}


def _refuse_others(task: Task, method: Method, allow_overlap: bool) -> None:
    """Other tasks to learn: only for a method that does, each once, and none from what another is scored on."""
    if task.others and not method.learns_several:
        raise UserError(f"method '{method.name}' learns one task; leave the others out")
    if method.learns_several and not task.others:
        raise UserError(
            f"{method.name} learns several tasks, and no other is named: --tasks mnli,sick (in a row: others = [...])"
        )
    every = (task, *task.others)
    for one in every:
        if [other.name for other in every].count(one.name) > 1:
            raise UserError(f"task {one.name} is named twice; name each once")
        if one is not task and one.split("train").labels is None:
            raise UserError(f"{one.name}:train has no real labels: {one.train.reason}")
        scored = one.splits.get(one.scored_name)
        if scored is None or allow_overlap:
            continue
        for other in every:
            shared = 0 if other is one else int(np.isin(other.train.hashes, scored.hashes).sum())
            if shared:
                raise UserError(
                    f"{shared:,} training texts of {other.name} are in {one.name}:{one.scored_name}: its score would "
                    f"be too good to be true. Take them out, or, to see it: --allow-overlap"
                )


def _refuse_clashing_labels(task: Task, start: Start) -> None:
    """An adapter that learnt this very task must have learnt it with its labels."""
    for name, one in start.adapters.items():
        if one["task"] == task.name and set(one["labels"]) != set(task.labels):
            raise UserError(
                f"adapter '{name}' learnt {task.name} with the labels {', '.join(one['labels'])}; here the task has "
                f"{', '.join(task.labels)}"
            )


def check_for_run(task: Task, method: str, start: Start | None, settings: Settings) -> Check:
    """The checks, with the lengths that this run will see: a baseline reads whole texts, and cuts nothing."""
    tokenizer, max_length = get_method(method).reading(start, settings)
    return check_task(task, tokenizer, sys.maxsize if max_length is None else max_length, keep=True)


def _leaks(task: Task, start: Start, allow_overlap: bool) -> list[str]:
    """Texts to be scored that the start has learnt from: a few are said, many are refused."""
    split = task.splits.get(task.scored_name)
    if split is None or not len(start.seen):
        return []
    shared = int(np.isin(split.hashes, start.seen).sum())
    if not shared:
        return []
    tasks = ", ".join(dict.fromkeys(str(one["task"]) for one in start.ancestry))
    message = (
        f"{shared:,} of {len(split):,} texts of {task.name}:{task.scored_name} are among those that {start.name} has "
        f"learnt from ({tasks})"
    )
    if shared >= SERIOUS * len(split) and not allow_overlap:
        raise UserError(f"{message}: the score would be too good to be true. To see it: --allow-overlap")
    return [f"{message}: they make the score look better than new text would"]


def _beside(run: Path, folder: Path) -> str:
    """Where a run is that this one is made of, as seen from its own folder: the two can be moved together."""
    return Path(os.path.relpath(run.resolve(), folder.resolve())).as_posix()


def _require_same_format(there: dict[str, Any], folder: Path) -> None:
    if there.get("format") != FORMAT:
        raise UserError(
            f"{folder}: was begun by another version of pocketbert (format {there.get('format')}, this one writes "
            f"{FORMAT}) and cannot be gone on with; name another folder, or remove it"
        )


def _completed(there: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """With the settings that were not known when it was written, at what their absence means.

    Where the texts came from does not count: equal texts are the same task, whatever their file is called.
    """
    return {**there, "settings": saved_settings(there).to_dict(), "source": asked["source"]}


def _begin(folder: Path, metadata: dict[str, Any]) -> None:
    there = read_metadata(folder) if (folder / SETTINGS).is_file() else None
    if there is not None:
        _require_same_format(there, folder)
        there = _completed(there, metadata)
    begin(folder, there, metadata, f"{folder}: holds an unfinished run with other settings")


def _finished(folder: Path, metadata: dict[str, Any]) -> bool:
    """Is the run that was asked for there already? Another one in its place is refused."""
    if not (folder / MANIFEST).is_file():
        return False
    there = _completed(load_run(folder).metadata, metadata)
    if there["format"] != FORMAT:  # what that version did not write down cannot be compared
        metadata = {name: value for name, value in metadata.items() if name in there}
        there["format"] = metadata["format"]
    same_settings(there, metadata, f"{folder}: holds a finished run with other settings")
    remove_leftovers(folder)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return True


def _write_results(folder: Path, plan: RunPlan, trained: Trained, elapsed: float) -> None:
    """Everything but the manifest; `elapsed`: how long the training took, or this run's share of it."""
    began, task, fitted = time.perf_counter(), plan.task, trained.fitted
    with new_folder(folder / "model", overwrite=True) as part:
        fitted.save(part)
    learnt = [
        one.splits[name].hashes for one in (task, *task.others) for name in ("train", "dev") if name in one.splits
    ]
    if plan.job.start is not None:
        learnt.append(plan.job.start.seen)
    with new_file(folder / SEEN) as path:
        save_file({"hashes": np.unique(np.concatenate(learnt))}, path)
    scores: dict[str, Any] = {}
    predictions: dict[str, np.ndarray] = {}
    for name in ("dev", "test"):
        split = task.splits.get(name)
        if split is None:
            continue
        known = trained.dev if name == "dev" else None
        predicted = known or fitted.predict(split, keep=True)
        predictions[name] = predicted.probabilities
        write_predictions(folder / f"{name}.csv", predicted, split.labels, task.labels)
        if split.labels is None:
            scores[name] = {"rows": len(split), "refused": split.reason}
        else:
            measured = measure(predicted.probabilities, split.labels, task.labels)
            scores[name] = {**measured, "truncated": predicted.truncated}
    with new_file(folder / PREDICTIONS) as path:
        save_file(predictions, path)
    epochs = len(trained.history)
    metrics = {
        "best": trained.best,
        "trials": trained.trials,
        "scores": scores,
        "warnings": plan.check.warnings,
        "history": [record.to_dict() for record in trained.history],
        **({"matrices": [asdict(matrix) for matrix in trained.matrices]} if trained.matrices else {}),
        "cost": {
            "seconds": elapsed + time.perf_counter() - began,
            "training_seconds": trained.elapsed,
            "examples_per_second": epochs * len(task.train) / trained.elapsed if trained.elapsed else None,
            "peak_memory_bytes": peak_memory(),
            "trained_parameters": fitted.trained_parameters,
            "model_bytes": fitted.model_bytes,
            "seconds_per_1000_texts": _prediction_seconds(fitted, task),
        },
        "machine": {"python": platform.python_version(), "system": platform.system(), "processor": platform.machine()},
    }
    write_json(folder / METRICS, metrics)


def _prediction_seconds(fitted: Fitted, task: Task) -> float | None:
    """How long a thousand texts take, tokenising aside, from a sample of those that are scored."""
    split = task.splits.get(task.scored_name)
    if split is None or not len(split):
        return None
    sample = split.view(np.arange(min(TIMED, len(split))))
    began = time.perf_counter()
    fitted.predict(sample)
    return 1_000 * (time.perf_counter() - began) / len(sample)


def write_predictions(path: Path, predicted: Predictions, labels: np.ndarray | None, names: tuple[str, ...]) -> None:
    """For people: a line per text, its number, the true label where there is one, the prediction, the probabilities."""
    with new_file(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = RowWriter(file)
        writer.writerow(["row", "label", "prediction", *probability_columns(names)])
        for row, values in enumerate(predicted.probabilities):
            true = "" if labels is None else names[labels[row]]
            writer.writerow([row, true, names[int(values.argmax())], *(f"{value:.6f}" for value in values)])
