"""How long runs take on this machine: measured on a few rows, kept, and not measured again.

A run is taken to cost a beginning, a share per row whatever the number of passes, a share per row and pass, and a share
per text it reads (what a frozen encoder does once for all). Short trainings tell them apart. They are done in as many
processes at once as the study will have, because two cores of one machine slow each other down.
"""

import contextlib
import hashlib
import json
import os
import platform
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from pocketbert import __version__
from pocketbert.errors import CannotWrite, UserError
from pocketbert.files import write_json
from pocketbert.methods import get_method
from pocketbert.paths import home
from pocketbert.study.messages import task_of
from pocketbert.study.plan import Plan, PlannedRun
from pocketbert.tasks import Check, Split, Task
from pocketbert.tasks.folds import DEV_SHARE, Folds
from pocketbert.train import plan_run
from pocketbert.training.job import Trained
from pocketbert.training.machine import computing
from pocketbert.training.settings import Settings, TrainingSettings
from pocketbert.values import Between, Format, read_object

FEWEST, MOST = 32, 512  # rows of a measurement
SECONDS = 1.2  # that a pass of its larger training should take
PASSES = 2  # the first is slow
WRITING = 0.15  # seconds to write a run's files
STARTUP = 2.5  # seconds until a worker can begin, where that was not measured
MEASURED_DEV = 0.12  # of a measurement's rows

Seconds = Annotated[float, Between(0.0, 1e9)]


@dataclass(frozen=True)
class Timing:
    """What a kind of run costs, in seconds."""

    startup: Seconds  # of a worker
    begin: Seconds  # of a run: reading the model, writing the results
    once: Seconds  # per row, whatever the number of passes
    each: Seconds  # per training row and pass
    predict: Seconds  # per text
    words: Annotated[float, Between(0.0, 1e9)]  # of a text, where it was measured

    def of_run(self, rows: float, passes: float, predicted: float, words: float, *, shared: float | None) -> float:
        """`shared`: how many rows are still to be read for all runs that share them; None: nothing is shared."""
        longer = words / self.words if self.words else 1.0
        reading = rows * self.once + predicted * self.predict if shared is None else shared * self.predict
        return self.begin + longer * (reading + rows * passes * self.each)


@dataclass(frozen=True)
class Known:
    """timings.json: what was measured on this machine, by kind of run."""

    format: Format
    timings: dict[str, Timing]


def timings_file() -> Path:
    return home() / "cache" / "timings.json"


def read_timings() -> dict[str, Timing]:
    """What is known of this machine. A file that cannot be read is as good as none: it is measured anew."""
    try:
        return dict(read_object(timings_file(), Known).timings) if timings_file().is_file() else {}
    except UserError:
        return {}


def _keep(timings: Mapping[str, Timing]) -> None:
    content = {"format": 1, "timings": {key: asdict(one) for key, one in {**read_timings(), **timings}.items()}}
    with contextlib.suppress(CannotWrite):  # then it is measured again next time
        write_json(timings_file(), content)


def timing_key(run: PlannedRun, words: float, workers: int) -> str:
    """Runs with one key cost the same per row: machine, method, model, settings, about how long the texts are."""
    settings = {name: value for name, value in run.settings.to_dict().items() if name not in _NOT_TIMED}
    content = [
        __version__,
        torch.__version__,
        _processor(),
        workers,
        run.method,
        run.model,
        run.architecture,
        settings,
        round(2 * np.log2(max(1.0, words))),
    ]
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=12).hexdigest()


_NOT_TIMED = ("seed", "epochs", "learning_rate", "patience")


def _processor() -> str:
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, {os.cpu_count()}"


# -- a plan with seconds ---------------------------------------------------------------------------------------------


def with_timings(plan: Plan, workers: int, timings: Mapping[str, Timing] | None = None) -> Plan:
    """The plan with what is known of this machine; runs of a kind that was never measured keep their rough guess."""
    known = read_timings() if timings is None else timings
    if not known:
        return plan
    measured: dict[str, float] = {}
    for job in plan.jobs():
        for number, run in enumerate(job):
            timing = known.get(timing_key(run, plan.words[run.task], workers))
            if timing is None:
                continue
            shares = get_method(run.method).shares(run.settings)
            rows, predicted, all_rows = _sizes(plan, run)
            measured[run.folder] = timing.of_run(
                rows,
                run.settings.passes,
                predicted,
                plan.words[run.task],
                shared=(all_rows if number == 0 else 0) if shares else None,
            )
    runs = tuple(replace(run, estimated_seconds=measured.get(run.folder, run.estimated_seconds)) for run in plan.runs)
    return replace(plan, runs=runs)


def _sizes(plan: Plan, run: PlannedRun) -> tuple[float, float, float]:
    """Rows to train on, texts to predict, and all rows there are."""
    task = plan.tasks[run.task]
    everything = sum(len(split) for split in task.splits.values())
    if run.part is None:
        rows = len(task.split("train"))
        return rows * run.share, everything - rows, everything
    folds = plan.folds[run.task]
    others = everything * (1 - 1 / folds.count)
    trained = others if run.settings.choices == 1 else (1 - DEV_SHARE) * others
    return trained * run.share, everything / folds.count, everything


def elapsed(jobs: Sequence[Sequence[PlannedRun]], workers: int) -> float:
    """How long workers need for these jobs, each taking the longest that is left, as the pool does; a worker that goes
    on with another row's runs begins anew."""
    startup = max((one.startup for one in read_timings().values()), default=STARTUP)
    free, rows = [startup] * max(1, workers), [-1] * max(1, workers)
    for job in sorted((job for job in jobs if job), key=lambda job: -sum(run.estimated_seconds for run in job)):
        first = min(range(len(free)), key=free.__getitem__)
        if get_method(job[0].method).needs_model:
            free[first] += startup if rows[first] not in (-1, job[0].row) else 0.0
            rows[first] = job[0].row
        free[first] += sum(run.estimated_seconds for run in job)
    return max(free)


# -- measuring -------------------------------------------------------------------------------------------------------


def unknown(plan: Plan, workers: int) -> list[PlannedRun]:
    """One run of every kind that was never measured here."""
    known = read_timings()
    found: dict[str, PlannedRun] = {}
    for run in plan.runs:
        key = timing_key(run, plan.words[run.task], workers)
        if key not in known and run.start is None and not run.others:
            found.setdefault(key, run)
    return list(found.values())


def measure(plan: Plan, runs: Sequence[PlannedRun], workers: int) -> None:
    """Measure these kinds of runs in so many processes at once, and keep what was found."""
    from pocketbert.study.pool import Worker

    together = threading.Barrier(workers, timeout=120)
    found: list[dict[str, Timing]] = [{} for _ in range(workers)]

    def one(number: int) -> None:
        began = time.perf_counter()
        worker = Worker(plan, None, 1)
        try:
            worker.ask({"ready": True})
            startup = time.perf_counter() - began
            for run in runs:
                together.wait()
                answer = worker.time(run)
                if answer is None:
                    return
                if "timing" in answer:
                    key = timing_key(run, plan.words[run.task], workers)
                    found[number][key] = Timing(startup=startup, **answer["timing"])
        except threading.BrokenBarrierError:
            return  # another worker ended: what it could not measure stays a guess
        finally:
            together.abort() if len(found[number]) < len(runs) else None
            worker.end()

    threads = [threading.Thread(target=one, args=(number,), daemon=True) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = {key for each in found for key in each}
    _keep({key: _mean([each[key] for each in found if key in each]) for key in keys})


def _mean(timings: Sequence[Timing]) -> Timing:
    names = asdict(timings[0])
    return Timing(**{name: float(np.mean([getattr(one, name) for one in timings])) for name in names})


def time_run(message: dict[str, Any], known: Task | Folds) -> dict[str, float]:
    """In a worker: what a run of this kind costs per row. Nothing is written but the features it would keep.

    The first pass over texts of a length that was not met before is slow; later ones tell what a pass costs.
    """
    task = task_of(message, known)
    method = get_method(message["method"])
    settings = method.read(message["settings"])
    order = _spread(task.split("train"), np.random.default_rng(os.getpid()))
    place = 0

    def take(name: str, rows: int) -> Split:
        """Rows that were not taken before, as far as there are such, so that nothing is known of them; a split of its
        own, because a view would share what is known of all rows."""
        nonlocal place
        place += rows
        numbers = order if name == "train" else np.arange(len(task.splits[name]))
        return task.split(name).take(np.take(numbers, np.arange(place - rows, place), mode="wrap"))

    def fit(rows: int, passes: int) -> tuple[float, Trained]:
        few = {"train": take("train", rows)}
        if "dev" in task.splits and len(task.splits["dev"]):
            few["dev"] = take("dev", max(2, round(MEASURED_DEV * rows)))
        began = time.perf_counter()
        plan = plan_run(
            replace(task, splits=few),
            message["method"],
            model=message["model"],
            settings=_short(settings, passes),
            check=Check(task.name, {}),
            without_dev=True,
        )
        trained = method.fit(plan.job)
        return time.perf_counter() - began, trained

    with computing(settings.threads):
        least, trained = fit(FEWEST, PASSES)
        slow = trained.history[-1].seconds / FEWEST if trained.history else least / FEWEST
        rows = int(np.clip(SECONDS / max(slow, 1e-6), 2 * FEWEST, MOST))
        if not trained.history:
            fit(FEWEST, 1)
            least = fit(FEWEST, 1)[0]
        took, trained = fit(rows, PASSES)
        for _ in range(2):
            texts = take("train", rows // 2)
            began = time.perf_counter()
            trained.fitted.predict(texts)
            predict = (time.perf_counter() - began) / len(texts)
    passes = [record.seconds for record in trained.history]
    if passes:
        each, once = min(passes[1:]) / rows, 0.0
        begin = took - len(passes) * each * rows - (predict * rows if method.shares(settings) else 0.0)
    else:
        each, once = 0.0, max(0.0, took - least) / (rows - FEWEST)
        begin = least - FEWEST * once
    return {
        "begin": max(0.0, begin) + WRITING,
        "once": once,
        "each": each,
        "predict": predict,
        "words": _words(texts),
    }


def _short(settings: Settings, passes: int) -> Settings:
    if not isinstance(settings, TrainingSettings):
        return settings
    return replace(settings, epochs=passes, learning_rate=settings.rates[0], patience=0)


def _spread(split: Split, random: np.random.Generator) -> np.ndarray:
    """All rows, the classes taking turns, so that a few of them hold every class."""
    assert split.labels is not None
    shuffled = random.permutation(len(split))
    labels = split.labels[shuffled]
    turn = np.zeros(len(split), dtype=np.int64)
    for label in np.unique(labels):
        turn[labels == label] = np.arange(np.count_nonzero(labels == label))
    return shuffled[np.lexsort((labels, turn))]


def _words(split: Split) -> float:
    texts = [*split.texts, *(split.second_texts or ())]
    return sum(len(text.split()) for text in texts) / max(1, len(split))
