"""A study: many runs, one rule that chooses, statistics over them, one report."""

import os
import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pocketbert.errors import UserError
from pocketbert.files import write_text
from pocketbert.locks import LOCK
from pocketbert.manifest import CHECKPOINT
from pocketbert.methods import get_method
from pocketbert.paths import require_regular_file
from pocketbert.report import Document, write_document, write_report
from pocketbert.statistics import METRICS
from pocketbert.study import tables
from pocketbert.study.audits import StudyAudits, audit_study
from pocketbert.study.budget import Budget, Minutes, make_budget, read_budget, what_is_asked, write_budget
from pocketbert.study.final import best_on_dev, final_plan, final_run, final_store
from pocketbert.study.plan import FoldCount, Plan, PlannedRun, make_plan
from pocketbert.study.pool import Pool, Watch
from pocketbert.study.presets import Preset, get_preset
from pocketbert.study.progress import study_progress
from pocketbert.study.results import Results
from pocketbert.study.rows import Counts, Repeats, Row, Seeds, choose_rows, refuse_unread, refuse_wrong
from pocketbert.study.store import Store
from pocketbert.study.timing import measure, unknown, with_timings
from pocketbert.tasks import Task, load_task
from pocketbert.tasks.folds import FOLDS
from pocketbert.tasks.frames import is_in_memory
from pocketbert.tasks.registry import require_data
from pocketbert.tasks.split import sample
from pocketbert.training.settings import usable_cores
from pocketbert.values import Between, OneOf, field_names, held, known_keys, shown, within

PRESET_SEEDS = 3
MARGIN = 0.01  # a point
MOST_TOML = 1_000_000  # bytes
Rows = Annotated[int, Between(2, 10**9)]
Metric = Annotated[str, OneOf(METRICS)]
Margin = Annotated[float, Between(0.0, 1.0)]
SEEDS_BY_ROW, REPEATS_BY_ROW = Seeds | dict[str, Seeds], Repeats | dict[str, Repeats]


class Study:
    """Models x methods x tasks x seeds.

    Args:
        tasks: names of built-in tasks, paths of one's own files, Task objects, or what `load_task` takes from memory
            (a DataFrame, a tuple (texts, labels)); one, or a list; default: movies.
        models: names from `pocketbert models`; default: what the package carries, or is installed beside it.
        methods: names from `pocketbert methods`; baselines are always among them.
        seeds: how many trainings; default 5. Under folds: per fold, default 1. Methods without chance train once.
        folds: where a task has no test split of its own, every row is tested once, in so many folds; 0: one split.
        repeats: so often the folds are drawn anew. Seeds and repeats may differ by row or method: {"": 1, "tfidf": 4}.
        minutes: about how long it may take until the verdict, instead of seeds and repeats: rows that cost little are
            trained more often, rows that do not fit are left out (study/budget.py).
        curves: rows or methods that also train on an eighth, a quarter and a half of the rows.
        metric: the score that decides: accuracy, macro_f1 or mcc.
        margin: by how much (a share) a cheaper row may be worse than the best, and still be recommended.
        audit: ask each recommended row what it does when only a pronoun or a name changes (seconds).
        settings: what every run is told whose method reads it, by name; what is left open the method derives.
        rows: at most so many texts of each split, drawn once: for a quick look.
        table: rows of one's own (`Row`), instead of models x methods.
        preset: a published table to do again; the arguments above are then its own.
        hub: tasks, and the models a preset names, may be fetched from the Hub.
        name, out: what it is called, and its folder; default: the tasks' names, and studies/NAME.
        again: the command that would do it again, for the report; a script is its own.
    """

    def __init__(
        self,
        tasks: str | Path | Task | Sequence[str | Path | Task] | Any = None,
        models: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
        seeds: Counts | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        rows: int | None = None,
        table: Sequence[Row] | None = None,
        preset: str | None = None,
        folds: int = FOLDS,
        repeats: Counts | None = None,
        minutes: float | None = None,
        curves: Sequence[str] = (),
        metric: str = "accuracy",
        margin: float = MARGIN,
        audit: bool = True,
        hub: bool = False,
        name: str | None = None,
        out: str | os.PathLike[str] | None = None,
        again: str | None = None,
    ) -> None:
        held(seeds, SEEDS_BY_ROW | None, "seeds")
        self.folds = held(folds, FoldCount, "folds")
        if self.folds == 1:
            raise UserError("folds 1: at least two are needed, one to train on while the other is tested; 0 for none")
        held(repeats, REPEATS_BY_ROW | None, "repeats")
        self.minutes = held(minutes, Minutes | None, "minutes")
        held(curves, tuple[str, ...], "curves")
        if minutes is not None and (seeds is not None or repeats is not None or preset is not None):
            told = "preset" if preset is not None else "seeds" if seeds is not None else "repeats"
            raise UserError(f"minutes decide how often rows are trained; leave {told} out, or minutes")
        self.metric = held(metric, Metric, "metric")
        self.margin = held(margin, Margin, "margin")
        self.audit = held(audit, bool, "audit")
        for what, names in (("models", models), ("methods", methods)):
            held(names, tuple[str, ...] | None, what)
        for what, text in (("preset", preset), ("name", name)):
            held(text, str | None, what)
        self.preset: Preset | None = None
        notes: list[str] = []
        if preset is not None:
            if tasks or models or methods or table:
                raise UserError(f"preset {preset} names its own tasks, models and methods; leave yours out")
            self.preset = get_preset(preset)
            if not isinstance(seeds, int | None):
                raise UserError(f"preset {preset} takes one number of seeds")
            chosen, notes = self.preset.rows(PRESET_SEEDS if seeds is None else seeds, hub)
            tasks = list(dict.fromkeys(row.task for row in chosen))
        self.tasks, called = _load(tasks, rows, hub)
        if preset is None and table is None:
            chosen, notes = choose_rows(
                list(self.tasks), models, methods, seeds, settings or {}, 1 if repeats is None else repeats, curves
            )
        elif table is not None:
            named = [replace(row, task=_task_of(row, self.tasks, called)) for row in table]
            chosen = [replace(row, task=name) for name in self.tasks for row in named if row.task in ("", name)]
            chosen += [row for row in named if row.task not in ("", *self.tasks)]
            for row in chosen:
                if row.task not in self.tasks:
                    raise UserError(f"row '{row.name}' is about {row.task}; the tasks here are {', '.join(self.tasks)}")
        _refuse_twins(chosen)
        bare = [name for name in self.tasks if name not in {row.task for row in chosen}]
        if bare:
            raise UserError(f"task {bare[0]} has no row; leave it out, or name it in one")
        self.rows, self.notes, self.limit = chosen, notes, rows
        self.name = name or preset or "-".join(self.tasks)
        self.folder = Path(out) if out is not None else Path("studies") / self._folder_name()
        self.again = again
        self.budget: Budget | None = None  # what the minutes were turned into, once it is planned
        self._document: Document | None = None
        self._elapsed: float | None = None

    def _folder_name(self) -> str:
        named = re.sub(r"[/\\]", "-", self.name)[:60].lstrip(".") or "study"  # never a folder above
        return named + (f"-{self.limit}-rows" if self.limit else "")

    def _asked(self) -> list[str]:
        return what_is_asked(self.rows, self.tasks, self.folds)

    def plan(self, workers: int | str | None = None, *, say: Callable[[str], None] | None = None) -> Plan:
        """What will run, fully resolved. Where minutes were given, what runs cost here is measured first, if it never
        was; a study that was begun keeps its plan."""
        count = parse_workers(workers)
        count = usable_cores() if isinstance(count, str) else count
        rows, notes = self.rows, list(self.notes)
        if self.minutes is not None:
            self.budget = read_budget(self.folder, self.minutes, self._asked())
            if self.budget is None:
                rough = make_plan(
                    [replace(row, curve=not row.guesses) for row in self.rows],
                    self.tasks,
                    self.notes,
                    folds=self.folds,
                )
                if missing := unknown(rough, count):
                    if say is not None:
                        say("measuring what a training costs on this machine; next time this is known …")
                    measure(rough, missing, count)
                self.budget = make_budget(with_timings(rough, count), self.minutes, count)
            rows = self.budget.rows(self.rows)
            notes += self.budget.notes()
        return with_timings(make_plan(rows, self.tasks, notes, folds=self.folds), count)

    def run(
        self,
        workers: int | str | None = None,
        *,
        progress: bool | None = None,
        watch: Watch | None = None,
        plan: Plan | None = None,
        decided: Callable[[Document], None] | None = None,
    ) -> "Study":
        """Do every run that is not done yet, then the statistics, the report, and the model to use.

        Args:
            workers: processes side by side; default: one a core. "ray" or "ray://address": a Ray cluster.
            progress: show it, on standard error; None: in a terminal and in a notebook; False: never.
            watch: hears of every run's progress, instead of showing it.
            plan: what `plan()` gave, where it was asked before.
            decided: hears the results as soon as they are known, before the recommended model is trained on all rows.
        """
        plan = plan or self.plan(workers)
        store = Store(self.folder)
        shown = study_progress(plan, self.folder, progress) if watch is None else nullcontext(watch)
        with shown as watch, store.writing():
            store.clean()
            if self.budget is not None:
                write_budget(self.folder, self.budget, self._asked())
            jobs = [[run for run in job if not store.finished(run)] for job in plan.jobs()]
            left = [job for job in jobs if job]
            began, anew = time.monotonic(), len(left) == len(jobs)
            failures = self._do(plan, store, left, workers, watch) if left else []
            self._elapsed = time.monotonic() - began if anew else None
            store.tidy()
            results = Results(plan, store, self.metric, self.margin)
            self._finish(results, store, failures, workers, {})
            if decided is not None:
                decided(self.results)
            final = self._final(plan, results, store, watch)
            audits = audit_study(results, store) if self.audit else None
            self._finish(results, store, failures, workers, final, audits)
        return self

    def _final(self, plan: Plan, results: Results, store: Store, watch: Watch) -> dict[str, str]:
        """By task, the folder of the recommended model: trained on all rows, where there are folds."""
        rows = {task: results.contenders(task)[found[0].row] for task, found in results.recommended.items() if found}
        made = {task: final_run(plan, row, several=len(plan.tasks) > 1) for task, row in rows.items()}
        runs = [run for run in made.values() if run is not None]
        place = final_store(store, runs)
        left = [[run] for run in runs if not place.finished(run)]
        lost = {run.task: why for run, why in Pool(final_plan(plan, runs), place, 1, watch).run(left)} if left else {}
        if lost:
            raise UserError(f"the recommended model could not be trained on all rows: {next(iter(lost.values()))}")
        for run in runs:
            for name in (LOCK, CHECKPOINT):
                (place.runs / run.folder / name).unlink(missing_ok=True)
        return {task: best_on_dev(rows[task]) if run is None else run.folder for task, run in made.items()}

    def _do(
        self, plan: Plan, store: Store, jobs: list[list[PlannedRun]], workers: int | str | None, watch: Watch
    ) -> list[tuple[PlannedRun, str]]:
        count = parse_workers(workers)
        if isinstance(count, str):
            from pocketbert.study.cluster import run_on_ray

            return run_on_ray(plan, store, jobs, count, watch)
        return Pool(plan, store, count, watch).run(jobs)

    def _finish(
        self,
        results: Results,
        store: Store,
        failures: list[tuple[PlannedRun, str]],
        workers: Any,
        final: dict[str, str],
        audits: StudyAudits | None = None,
    ) -> None:
        document = results.document(
            failures,
            name=self.name,
            preset=None if self.preset is None else self.preset.name,
            again=self.again,
            workers=parse_workers(workers),
            final=final,
            estimated_seconds=None if self.budget is None else self.budget.seconds,
            elapsed=self._elapsed,
        )
        if audits is not None:
            document = audits.into(document)
        if self.preset is not None:
            document = self.preset.complete(document, results.plan, store, self.folder)
        suspects = [one for task in results.plan.tasks for one in results.suspect_rows(task)]
        if results.plan.folds:
            write_text(self.folder / "suspect_labels.csv", tables.suspect_labels(suspects))
        store.index()
        write_document(document, self.folder / "study.json")
        write_text(self.folder / "table.md", tables.markdown(document))
        write_text(self.folder / "results.csv", tables.comma_separated(document))
        write_report(document, self.folder / "report.html")
        self._document = document

    @property
    def results(self) -> Document:
        """Every number, once the study has run: what study.json says."""
        if self._document is None:
            raise UserError("the study has not run yet: call run() first")
        return self._document

    def table(self) -> str:
        """The numbers as Markdown."""
        return tables.markdown(self.results)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the report, one HTML file, also elsewhere than in the study's folder."""
        write_report(self.results, Path(path))


def parse_workers(workers: int | str | None) -> int | str:
    """A number of processes, or the address of a Ray cluster."""
    if workers is None:
        return usable_cores()
    if isinstance(workers, str) and workers.split("://")[0] == "ray":
        return workers
    try:
        count = int(workers)
    except (TypeError, ValueError, OverflowError):
        count = 0
    if not 1 <= count <= 1_000:
        raise UserError(f"workers: {shown(workers)} is neither a number of at least 1 nor ray or ray://address")
    return count


def _load(tasks: Any, rows: int | None, hub: bool) -> tuple[dict[str, Task], dict[str, str]]:
    """Tasks by name; and the names of those that were given as paths."""
    alone = isinstance(tasks, str | Path | Task) or is_in_memory(tasks)
    given = ["movies"] if tasks is None else [tasks] if alone else list(tasks)
    held(rows, Rows | None, "rows")
    loaded: dict[str, Task] = {}
    called: dict[str, str] = {}
    if not hub:
        require_data(one for one in given if isinstance(one, str))
    for one in given:
        task = one if isinstance(one, Task) else load_task(one, hub=hub)
        if task.name in loaded:
            raise UserError(f"two tasks are called {task.name}; rename one of the files, or load_task(…, name=…)")
        loaded[task.name] = task if rows is None else sample(task, rows)
        if isinstance(one, str | Path):
            called[str(one)] = task.name
    return loaded, called


def _task_of(row: Row, tasks: dict[str, Task], called: dict[str, str]) -> str:
    """A row may call its task by name, or as it was given: by its file. No task at all: a row for each of them."""
    if row.task in tasks or not row.task:
        return row.task
    stem = Path(row.task).name.partition(".")[0]
    return called.get(row.task) or (stem if stem in tasks else row.task)


def _refuse_twins(rows: Sequence[Row]) -> None:
    seen = set()
    for row in rows:
        if (row.task, row.name) in seen:
            raise UserError(f"two rows of {row.task} are called '{row.name}'; give one another name")
        seen.add((row.task, row.name))


# What a study.toml may say. `settings` and each `row` are tables of their own, checked where they are made.
KEYS: dict[str, Any] = {
    "tasks": str | tuple[str, ...],
    "models": tuple[str, ...],
    "methods": tuple[str, ...],
    "seeds": Seeds,
    "folds": FoldCount,
    "repeats": Repeats,
    "minutes": Minutes,
    "curves": tuple[str, ...],
    "metric": Metric,
    "margin": Margin,
    "audit": bool,
    "rows": Rows,
    "preset": str,
    "hub": bool,
    "name": str,
    "out": str,
    "settings": dict[str, Any],
    "row": tuple[dict[str, Any], ...],
}


def from_config(path: str | os.PathLike[str], *, told: dict[str, Any] | None = None, **given: Any) -> Study:
    """A study described in a TOML file. What is `given` overrides it; what is `told` overrides its settings."""
    path = Path(path)
    require_regular_file(path)
    with within(path):
        content = _read_toml(path)
        known_keys(content, KEYS, "")
        content = {name: held(value, KEYS[name], name) for name, value in content.items()}
        refuse_wrong(content.get("settings", {}))
    settings = {**content.pop("settings", {}), **(told or {})}
    table = content.pop("row", None)
    given = {name: value for name, value in given.items() if value is not None}
    if "preset" in content and settings:
        raise UserError(f"{path}: preset {content['preset']} has its own settings; leave yours out")
    arguments: dict[str, Any] = {**content, **given}
    if table is not None:
        common = {name: arguments[name] for name in ("seeds", "repeats") if arguments.get(name) is not None}
        with within(path):
            arguments["table"] = [_row(entry, common, settings) for entry in table]
            refuse_unread(settings, [row.method for row in arguments["table"]])
        arguments.pop("methods", None)
    return Study(**arguments, settings=settings)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MOST_TOML:
            raise UserError(f"a study is described in less than {MOST_TOML:,} bytes; this is another kind of file")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}") from error
    except RecursionError:
        raise UserError("not TOML that we read: it is nested too deeply") from None
    except UserError:
        raise
    except ValueError as error:  # TOML's and UTF-8's own, a date that is none, a number of thousands of digits
        raise UserError(f"not TOML: {error}") from error


def _row(entry: dict[str, Any], defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> Row:
    """A row of its own settings, and of the study's those that its method reads."""
    known = field_names(Row)
    if "method" not in entry or set(entry) - known:
        raise UserError(f"a [[row]] needs a method, and may have {', '.join(sorted(known))}")
    own = held(entry.get("settings", {}), dict[str, Any], "settings of a [[row]]")
    method = get_method(held(entry["method"], str, "method"))
    common = {name: value for name, value in settings.items() if method.reads(name)}
    return Row(**{"task": "", **defaults, **entry, "settings": {**common, **own}})
