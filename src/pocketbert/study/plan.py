"""What a study will do: rows (a method and a model on a task), and the runs they are made of, with nothing left open.

Runs are the nodes of a graph. An edge says that one needs another's result: its trained encoder to start from, or the
learning rate that dev chose there. A run is known by a key made of everything that decides its numbers: the texts and
labels, the method, the weights it starts from, every setting that differs from what its absence means, the seed, and
the keys of the runs it needs. The same key is the same run, wherever it is computed; a changed setting is another run.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from pocketbert.errors import UserError
from pocketbert.methods import SHAPE, WEIGHTS, DataSize, Method, Workload, get_method
from pocketbert.runs import load_start
from pocketbert.start import Start, weights_fingerprint
from pocketbert.study.rows import Row, short_name, usual_methods
from pocketbert.tasks import Check, Task
from pocketbert.tasks.folds import FOLDS, Folds, Part, cut_folds, with_share
from pocketbert.train import check_for_run
from pocketbert.training.settings import Settings, TrainingSettings
from pocketbert.values import Between

FORMAT = 2  # of what a key is made of
THREADS = 1  # a run, on a CPU: runs side by side use the cores better than threads do
SEEDS = 5  # of a row, on a test split that was given; under folds, where every fold has its own, 1
# How far apart seeds are under folds: more seeds, or more repeats, leave all others as they are.
NEXT_SEED, NEXT_REPEAT = 100, 10_000
SHARES = (0.125, 0.25, 0.5)  # of the training rows: the points of a learning curve below its last
CURVE_SEEDS = 3  # of each point, on a test split that was given
FoldCount = Annotated[int, Between(0, 50)]
T = TypeVar("T")


@dataclass(frozen=True)
class PlannedRun:
    """One run, fully resolved."""

    key: str
    folder: str  # its name in the store
    row: int  # which of the plan's rows
    task: str
    method: str
    model: str | None
    settings: Settings
    estimated_seconds: float  # about how long
    start: str | None = None  # the folder of the run whose encoder it starts from
    rate_from: str | None = None  # the folder of the run that chooses its rate
    adapters: tuple[tuple[str, str], ...] = ()  # names, and the folders of the runs whose adapters it fuses
    others: tuple[str, ...] = ()  # tasks that it learns as well
    part: Part | None = None  # of a task that is cut into folds
    number: int = 0  # which of the row's seeds
    share: float = 1.0  # of its training rows: a point of the learning curve
    architecture: tuple[int, ...] = ()  # layers, width, inner, vocabulary of its model
    without_dev: bool = False  # what dev would choose is known

    @property
    def needs_dev(self) -> bool:
        """Is there anything to choose? If not, the rows of a fold's dev are better trained on."""
        return self.settings.choices > 1

    @property
    def needs(self) -> tuple[str, ...]:
        """The folders of the runs that must be finished before it."""
        fused = (folder for _, folder in self.adapters)
        return tuple(dict.fromkeys(folder for folder in (self.start, self.rate_from, *fused) if folder is not None))


@dataclass(frozen=True, eq=False)
class Plan:
    """Rows, runs, and the tasks they are about."""

    rows: tuple[Row, ...]
    runs: tuple[PlannedRun, ...]
    tasks: dict[str, Task]
    folds: dict[str, Folds]  # of those tasks that are cut into folds
    operations: tuple[float, ...]  # per row: what a prediction costs, to say which is cheaper
    words: dict[str, float]  # of a text, on average, by task
    checks: tuple[Check, ...]  # one a row
    notes: tuple[str, ...] = ()

    def of_row(self, row: int, share: float = 1.0) -> list[PlannedRun]:
        """A row's runs; those with a share of the training rows are points of its learning curve."""
        return [run for run in self.runs if run.row == row and run.share == share]

    def task_of(self, run: PlannedRun) -> Task:
        """What this run trains and is tested on."""
        task = self.tasks[run.task]
        if run.part is not None:
            task = self.folds[run.task].task_of(run.part, dev=run.needs_dev)
        return with_others(with_share(task, run.share), run.others, self.tasks)

    def jobs(self) -> list[list[PlannedRun]]:
        """What is handed to a worker in one piece, longest first. Runs that share something stay together."""
        together: dict[Any, list[PlannedRun]] = {}
        for run in {run.key: run for run in self.runs}.values():  # two rows may share a run
            shares = get_method(run.method).shares(run.settings)
            place = (run.task, run.method, run.model, run.needs) if shares else run.key
            together.setdefault(place, []).append(run)
        return sorted(together.values(), key=lambda runs: -sum(run.estimated_seconds for run in runs))

    def ancestors(self, run: PlannedRun) -> list[str]:
        """The folders of all runs that it starts from, directly or not: to load the last of them may take all."""
        starts = {one.folder: one.start for one in self.runs}
        found, folder = [folder for _, folder in run.adapters], run.start
        while folder is not None:
            found.append(folder)
            folder = starts[folder]
        return found


def with_others(task: Task, names: Sequence[str], known: Mapping[str, Task]) -> Task:
    """The task with others to be learnt as well."""
    return replace(task, others=tuple(known[name] for name in names)) if names else task


def banks(job: Sequence[PlannedRun]) -> list[list[PlannedRun]]:
    """A job's runs in groups that differ in their seeds alone."""
    groups: dict[Any, list[PlannedRun]] = {}
    for run in job:
        groups.setdefault((replace(run.settings, seed=0), run.needs, run.part, run.share), []).append(run)
    return list(groups.values())


# -- from rows to runs -----------------------------------------------------------------------------------------------


def make_plan(rows: Sequence[Row], tasks: Mapping[str, Task], notes: Sequence[str] = (), *, folds: int = FOLDS) -> Plan:
    """Resolve every row, look at its data, and name its runs. Every mistake that can be seen now is said now.

    A task whose test split nobody gave is cut into so many folds; 0: the split that was cut for it is used.
    """
    if not rows:
        raise UserError("a study without rows: name a method")
    repeats = {name: max(row.repeats for row in rows if row.task == name) for name in {row.task for row in rows}}
    cut = {name: cut_folds(task, folds, repeats[name]) for name, task in tasks.items() if folds and task.whole}
    tasks = {name: cut[name].task if name in cut else task for name, task in tasks.items()}
    planner = _Planner(rows, tasks, cut)
    for number in range(len(rows)):
        planner.plan(number)
    runs = [run for number in range(len(rows)) for run in (*planner.runs[number], *planner.curves[number])]
    checks = tuple(planner.checks[number] for number in range(len(rows)))
    operations = tuple(planner.operations[number] for number in range(len(rows)))
    words = {name: planner.workload(name).words for name in tasks}
    return Plan(tuple(rows), tuple(runs), tasks, cut, operations, words, checks, tuple(notes))


class _Planner:
    """Rows in the order in which they need each other."""

    def __init__(self, rows: Sequence[Row], tasks: dict[str, Task], folds: dict[str, Folds]) -> None:
        self.rows, self.tasks, self.folds = rows, tasks, folds
        self.runs: dict[int, list[PlannedRun]] = {}
        self.curves: dict[int, list[PlannedRun]] = {}
        self.checks: dict[int, Check] = {}
        self.operations: dict[int, float] = {}
        self._known: dict[Any, Any] = {}
        self._begun: list[int] = []
        self._starts: dict[int, Start | None] = {}

    def plan(self, number: int) -> None:
        """This row's runs, after those of the rows it needs."""
        if number in self.runs:
            return
        row = self.rows[number]
        if number in self._begun:
            raise UserError(f"row '{row.name}' needs itself: {' needs '.join(self.rows[n].name for n in self._begun)}")
        self._begun.append(number)
        before = {what: self._find(name) for what in ("start", "rate_from") if (name := getattr(row, what)) is not None}
        fused = {name: self._find(other) for name, other in row.adapters.items()}
        for other in (*before.values(), *fused.values()):
            self.plan(other)
        self._begun.pop()
        self._make(number, row, before, fused)

    def _find(self, name: str) -> int:
        """The row that is called so."""
        found = [n for n, row in enumerate(self.rows) if name in (row.name, f"{row.task}: {row.name}")]
        if len(found) != 1:
            known = ", ".join(f"'{row.task}: {row.name}'" for row in self.rows)
            many = "several rows are" if found else "no row is"
            raise UserError(f"{many} called '{name}'; there are {known}")
        return found[0]

    def _make(self, number: int, row: Row, before: dict[str, int], fused: dict[str, int]) -> None:
        method, task, folds = get_method(row.method), self.tasks[row.task], self.folds.get(row.task)
        if method.fuses is not None and not fused:
            raise UserError(f"row '{row.name}' fuses adapters, and names none: adapters = {{name = \"a row\"}}")
        told = {**row.settings, "threads": row.settings.get("threads") or THREADS}
        start = self._start(row, method, before)
        self._starts[number] = start
        first = task if folds is None else self._fold(row.task, Part(0, 0))
        size = DataSize(len(first.split("train")), len(task.labels))
        settings = method.resolve(method.read(told), start, size)
        self.checks[number] = self._check(row, task, method, start, settings)
        refuse(first, self.checks[number], settings)
        if "rate_from" in before:
            _refuse_without_rate(row, settings, self.runs[before["rate_from"]][0].settings)
        identity = self._identity(row, task, method, start, settings, before)
        work = self.workload(row.task)
        if method.learns_several:
            identity["others"] = self._others(row)
            work = replace(work, rows=work.rows + sum(self.workload(other).rows for other in row.others))
        seconds = method.estimated_seconds(start, settings, work)
        self.operations[number] = method.operations(start, settings, work)
        seeds = 1 if not method.seeded else row.seeds or (SEEDS if folds is None else 1)
        if folds is not None and seeds >= NEXT_SEED:
            raise UserError(f"row '{row.name}': {seeds} trainings per fold; at most {NEXT_SEED - 1}: use --repeats")
        several = row.keep_rate and isinstance(settings, TrainingSettings) and len(settings.rates) > 1
        architecture = () if start is None else architecture_of(start)
        own = self.runs[number] = []
        for part in [None] if folds is None else folds.parts(row.repeats):
            texts = self._texts(task, part, dev=settings.choices > 1)
            for seed in range(seeds):
                needs: dict[str, Any] = {
                    what: self._counterpart(other, part, seed).folder for what, other in before.items()
                }
                if fused:
                    needs["adapters"] = tuple(
                        (name, self._counterpart(other, part, seed).folder) for name, other in fused.items()
                    )
                if several and seed:
                    needs["rate_from"] = own[-seed].folder
                cost = seconds
                if "rate_from" in needs and isinstance(settings, TrainingSettings):
                    cost /= len(settings.rates)
                seeded = replace(settings, seed=settings.seed + _offset(part, seed))
                key = {**identity, "texts": texts}
                own.append(_run(number, row, key, seeded, cost, needs, part, seed, architecture))
        self.curves[number] = []
        if row.curve and (before or fused):
            raise UserError(f"row '{row.name}' starts from another row: it can have no learning curve")
        for share in SHARES if row.curve else ():
            # What a method derives from the size of the data, it derives from the share.
            few = method.resolve(method.read(told), start, replace(size, rows=max(1, round(share * size.rows))))
            for run in own:
                if (run.part is None and run.number < CURVE_SEEDS) or (run.part and not run.part.repeat + run.number):
                    key = {**identity, "texts": self._texts(task, run.part, dev=few.choices > 1), "share": share}
                    seeded = replace(few, seed=run.settings.seed)
                    point = _run(number, row, key, seeded, share * seconds, {}, run.part, run.number, architecture)
                    self.curves[number].append(replace(point, share=share))

    def _others(self, row: Row) -> list[Any]:
        """What a row learns beside its own task, as part of its runs' keys."""
        if not row.others:
            raise UserError(f"row '{row.name}' learns several tasks, and the study has one; name others")
        for name in row.others:
            if name not in self.tasks or name in self.folds:
                why = "is cut into folds: give it a test split" if name in self.folds else "is no task of this study"
                raise UserError(f"row '{row.name}' learns {name} as well, which {why}")
        return [[name, self._texts(self.tasks[name])] for name in row.others]

    def _counterpart(self, row: int, part: Part | None, seed: int) -> PlannedRun:
        """The run of a row that a later row's run needs: of the same fold, where both have folds; a row with fewer
        seeds serves again."""
        runs = [run for run in self.runs[row] if part is None or run.part in (None, part)]
        return runs[seed % len(runs)]

    def _fold(self, task: str, part: Part, *, dev: bool = True) -> Task:
        return self._once("fold", (task, part, dev), lambda _: self.folds[task].task_of(part, dev=dev))

    def _texts(self, task: Task, part: Part | None = None, *, dev: bool = True) -> Any:
        """What a run's texts are, as part of its key."""
        whole = self._once("texts", task.name, lambda _: {name: task.fingerprint(name) for name in task.splits})
        if part is None:
            return whole
        splits = self._fold(task.name, part, dev=dev).splits
        rows = [split.part_of[1].tolist() for split in splits.values() if split.part_of is not None]
        return {**whole, "rows": hashlib.blake2b(json.dumps(rows).encode(), digest_size=16).hexdigest()}

    def _once(self, what: str, key: Any, make: Callable[[Any], T]) -> T:
        """What several rows need, made for the first of them."""
        place = (what, key)
        if place not in self._known:
            self._known[place] = make(key)
        found: T = self._known[place]
        return found

    def _start(self, row: Row, method: Method, before: dict[str, int]) -> Start | None:
        """What the row's runs start from; of a run that is still to come, all but its weights is known."""
        if not method.needs_model:
            return None
        if "start" not in before:
            return self._once("start", row.model or method.usual_model() or "", load_start)
        earlier = self._starts[before["start"]]
        if earlier is None:
            raise UserError(f"row '{row.name}' starts from '{row.start}', which trains no encoder")
        settings = self.runs[before["start"]][0].settings
        assert isinstance(settings, TrainingSettings)
        return replace(earlier, name=row.start or "", pretrained=True, pooling=settings.pooling or "pooler")

    def _check(self, row: Row, task: Task, method: Method, start: Start | None, settings: Settings) -> Check:
        tokenizer, max_length = method.reading(start, settings)
        reads = start.name if tokenizer is not None and start is not None else None
        return self._once(
            "check", (row.task, reads, max_length), lambda _: check_for_run(task, row.method, start, settings)
        )

    def _identity(
        self,
        row: Row,
        task: Task,
        method: Method,
        start: Start | None,
        settings: Settings,
        before: dict[str, int],
    ) -> dict[str, Any]:
        """Everything but settings and needed runs that decides a run's numbers."""
        fingerprint = None
        if start is not None and method.starts_from == WEIGHTS and "start" not in before:
            if not start.pretrained:
                raise UserError(
                    f"'{start.name}' is a shape with fresh weights: nothing to {row.method}; use method "
                    f"{', '.join(usual_methods(SHAPE))}, or a pretrained model (pocketbert models)"
                )
            made = start.encoder
            fingerprint = self._once("weights", start.name, lambda _: weights_fingerprint(made()))
        starts = method.identity(start, settings, fingerprint)
        return {"format": FORMAT, "task": task.name, "method": row.method, "start": starts}

    def workload(self, name: str) -> Workload:
        task = self.tasks[name] if name not in self.folds else self._fold(name, Part(0, 0))
        return self._once("workload", name, lambda _: workload(task))


def _offset(part: Part | None, seed: int) -> int:
    """Every training has a seed of its own."""
    return seed if part is None else part.fold + NEXT_SEED * seed + NEXT_REPEAT * part.repeat


def _run(
    number: int,
    row: Row,
    identity: dict[str, Any],
    settings: Settings,
    seconds: float,
    needs: dict[str, Any],
    part: Part | None,
    seed: int,
    architecture: tuple[int, ...],
) -> PlannedRun:
    content = json.dumps({**identity, "settings": settings.key(), "needs": needs}, sort_keys=True)
    key = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    where = [] if part is None else [*([f"repeat{part.repeat}"] if part.repeat else []), f"fold{part.fold}"]
    seeds = [f"seed{seed}"] if part is None or seed else []
    shares = [f"{share:g} of rows"] if (share := identity.get("share")) else []
    parts = [row.task, row.method, *([short_name(row.model)] if row.model else []), *where, *seeds, *shares]
    name = re.sub(r"[^A-Za-z0-9]+", "-", " ".join(parts)).strip("-")[:80]
    folder = f"{name}-{key}"
    return PlannedRun(
        key,
        folder,
        number,
        row.task,
        row.method,
        row.model,
        settings,
        seconds,
        **needs,
        part=part,
        number=seed,
        architecture=architecture,
        others=row.others,
    )


def architecture_of(start: Start) -> tuple[int, ...]:
    """What a model's speed depends on."""
    config = start.config
    return config.layers, config.width, config.inner, config.vocabulary


def _refuse_without_rate(row: Row, *of_both: Settings) -> None:
    if not all(isinstance(settings, TrainingSettings) for settings in of_both):
        raise UserError(f"row '{row.name}' takes the rate of '{row.rate_from}', and one of them has no learning rate")


def refuse(task: Task, check: Check, settings: Settings) -> None:
    """What would stop a run at its start stops the study before it."""
    train, dev = task.split("train"), task.splits.get("dev")
    if train.labels is None:
        raise UserError(f"{task.name}:train has no real labels: {train.reason}")
    if check.errors:
        raise UserError(f"{task.name}: {check.errors[0]}")
    scored = task.splits.get(task.scored_name)
    if scored is None or not scored.labelled or not len(scored):
        raise UserError(f"{task.name} has no labelled dev or test split: there is nothing to score a study on")
    if settings.choices > 1 and (dev is None or not dev.labelled or not len(dev)):
        raise UserError(f"{task.name} has no labelled dev split to choose an epoch or a rate on; use one of each")


# -- how much there is to do -------------------------------------------------------------------------------------------


def workload(task: Task) -> Workload:
    """How much there is to read."""
    rows = len(task.train)
    sample = task.train.texts[:: max(1, rows // 500)]
    second_texts = task.train.second_texts[:: max(1, rows // 500)] if task.train.second_texts else []
    words = sum(len(text.split()) for text in (*sample, *second_texts)) / max(1, len(sample))
    evaluated = sum(len(split) for name, split in task.splits.items() if name != "train")
    return Workload(rows, evaluated, words)
