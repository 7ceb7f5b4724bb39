"""Minutes become a plan: how often every row is trained, and which rows are left out, before any score is seen.

Every row begins with one training per fold (with a test split of its own: three seeds). Rows that do not fit are left
out, the dearest first. What is left of the time goes where it tells most: learning curves of the rows that cost little,
then, level by level and the cheapest first, another repeat of the folds (another seed). Repeats tell how much folds
scatter; beyond four of them an interval hardly narrows. The plan is written into the study's folder before the first
run, so that the same command goes on with it, whatever the number of workers.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pocketbert.errors import UserError
from pocketbert.files import write_json
from pocketbert.methods import get_method
from pocketbert.study.plan import Plan, PlannedRun
from pocketbert.study.rows import Row
from pocketbert.study.timing import elapsed
from pocketbert.tasks import Task
from pocketbert.values import Between, Format, read_object

FILE = "plan.json"
MOST_REPEATS = 4  # sixteen degrees of freedom: beyond, an interval hardly narrows
FEWEST_SEEDS, MOST_SEEDS = 3, 10
CURVES = 0.1  # of the time, at the most, for one row's learning curve

Minutes = Annotated[float, Between(0.0, 1e5, above=True)]


@dataclass(frozen=True)
class Allotment:
    """What one row was given: trainings per fold are `repeats`, on a test split `seeds`; none of either: left out."""

    task: str
    row: str
    repeats: int
    seeds: int | None
    curve: bool
    seconds: float  # that one training takes

    @property
    def left_out(self) -> bool:
        return self.repeats == 0


@dataclass(frozen=True)
class Saved:
    """plan.json."""

    format: Format
    minutes: Minutes
    rows: tuple[Allotment, ...]
    asked: tuple[str, ...]  # what there was to plan (`what_is_asked`)
    seconds: float  # that all of it was estimated to take


@dataclass(frozen=True)
class Budget:
    """What the minutes were turned into."""

    minutes: float
    allotments: tuple[Allotment, ...]
    seconds: float

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that fit, each told how often it is trained."""
        given = {(one.task, one.row): one for one in self.allotments}
        kept = []
        for row in rows:
            one = given[row.task, row.name]
            if not one.left_out:
                kept.append(replace(row, repeats=one.repeats, seeds=one.seeds, curve=one.curve))
        return kept

    def notes(self) -> list[str]:
        """What was left out, and what would have it, in sentences."""
        return [
            f"{one.row} is left out: one training takes about {_duration(one.seconds)}, which does not fit into "
            f"{self.minutes:g} minutes; give more --minutes, or fewer texts (--rows)"
            for one in self.allotments
            if one.left_out
        ]

    def flags(self) -> str:
        """The plan, as a person would have told it."""
        kept = [one for one in self.allotments if not one.left_out]
        by_seeds = any(one.seeds is not None for one in kept)
        counts = {one.row: (one.seeds if by_seeds else one.repeats) or 1 for one in kept}
        flag = "--seeds" if by_seeds else "--repeats"
        usual = max(set(counts.values()), key=list(counts.values()).count, default=1)
        told = ",".join([str(usual), *(f"{name}={count}" for name, count in counts.items() if count != usual)])
        curves = ",".join(one.row for one in kept if one.curve)
        return shlex.join([flag, told, *(["--curves", curves] if curves else [])])


def make_budget(plan: Plan, minutes: float, workers: int) -> Budget:
    """Decide from what runs cost; `plan` has every row once per fold, or with its first seeds."""
    needed = [row.name for row in plan.rows if row.start or row.rate_from]
    if needed:
        raise UserError(f"--minutes does not go with rows that need others ('{needed[0]}'); use --seeds or --repeats")
    limit = 60 * minutes
    cost = {n: max(run.estimated_seconds for run in plan.of_row(n)) for n in range(len(plan.rows))}
    order = sorted(cost, key=lambda n: (cost[n], n))
    counts = {n: _fewest(plan, n) for n in order}
    curves: set[int] = set()
    while elapsed(_jobs(plan, counts, curves), workers) > limit:
        trained = [n for n in order if counts[n] and get_method(plan.rows[n].method).needs_model]
        if not trained:
            break
        counts[trained[-1]] = 0

    def fits(counts: Mapping[int, int], curves: set[int]) -> bool:
        return elapsed(_jobs(plan, counts, curves), workers) <= limit

    for n in order:
        if counts[n] and get_method(plan.rows[n].method).reads_texts:
            points = _jobs(plan, {n: 0}, {n})
            cheap = sum(run.estimated_seconds for job in points for run in job) <= CURVES * limit * workers
            if cheap and fits(counts, curves | {n}):
                curves.add(n)
    for level in range(2, max(MOST_REPEATS, MOST_SEEDS) + 1):
        for n in order:
            if counts[n] == level - 1 and level <= _most(plan, n) and fits({**counts, n: level}, curves):
                counts[n] = level
    return Budget(
        minutes,
        tuple(
            Allotment(
                row.task,
                row.name,
                repeats=counts[n] if row.task in plan.folds else min(1, counts[n]),
                seeds=None if row.task in plan.folds else max(1, counts[n]),
                curve=n in curves,
                seconds=cost[n],
            )
            for n, row in enumerate(plan.rows)
        ),
        elapsed(_jobs(plan, counts, curves), workers),
    )


def _fewest(plan: Plan, row: int) -> int:
    if plan.rows[row].task in plan.folds or not get_method(plan.rows[row].method).seeded:
        return 1
    return FEWEST_SEEDS


def _most(plan: Plan, row: int) -> int:
    if plan.rows[row].task in plan.folds:
        return MOST_REPEATS
    return MOST_SEEDS if get_method(plan.rows[row].method).seeded else 1


def _jobs(plan: Plan, counts: Mapping[int, int], curves: set[int]) -> list[list[PlannedRun]]:
    """What workers would be handed, if every row were trained so often: runs of a kind stand for each other."""
    jobs: list[list[PlannedRun]] = []
    for job in plan.jobs():
        made = []
        for run in job:
            if run.share < 1.0:
                made += [run] if run.row in curves else []
            elif run.part is not None or run.number == 0:
                made += [run] * counts.get(run.row, 0)
        if not made:
            continue
        if get_method(made[0].method).shares(made[0].settings):  # what is shared is computed once, by the first
            cheapest = min(run.estimated_seconds for run in job if run.share == 1.0)
            first = max(made, key=lambda run: run.estimated_seconds)
            rest = [replace(run, estimated_seconds=min(run.estimated_seconds, cheapest)) for run in made]
            jobs.append([first, *rest[1:]])
        else:
            jobs += [[run] for run in made]
    return jobs


# -- kept ------------------------------------------------------------------------------------------------------------


def read_budget(folder: Path, minutes: float, asked: Sequence[str]) -> Budget | None:
    """The plan of the study that is in the folder, if it was made for these minutes and for what is `asked`."""
    path = folder / FILE
    if not path.is_file():
        return None
    saved = read_object(path, Saved)
    if saved.minutes != minutes or saved.asked != tuple(asked):
        return None
    return Budget(minutes, saved.rows, saved.seconds)


def write_budget(folder: Path, budget: Budget, asked: Sequence[str]) -> None:
    content: dict[str, Any] = {
        "format": 1,
        "minutes": budget.minutes,
        "rows": [vars(one) for one in budget.allotments],
        "asked": list(asked),
        "seconds": budget.seconds,
    }
    write_json(folder / FILE, content)


def what_is_asked(rows: Sequence[Row], tasks: Mapping[str, Task], folds: int) -> list[str]:
    """All that a plan depends on beside minutes and machine: rows, texts and labels, folds. If any of it changed, as
    when a file grew, the old plan is no plan for it."""
    data = [f"{task.name}: {name} {task.fingerprint(name)}" for task in tasks.values() for name in task.splits]
    named = [f"{row.task}: {row.name}: {row.method} {row.model} {sorted(row.settings.items())}" for row in rows]
    return [f"{folds} folds", *data, *named]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
