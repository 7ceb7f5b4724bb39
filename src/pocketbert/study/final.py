"""The model that a study leaves: its recommended row, trained once more, on all rows.

Under folds every model that was scored lacks the rows it was scored on; the one to use need not. It takes the rate that
dev chose most often and the median of the chosen epochs, and no dev is held out. Where a test split was given, the
recommended row's run that is best on dev stands for it.
"""

import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from pocketbert.errors import UserError
from pocketbert.report.document import read_document
from pocketbert.runs import Run, load_run
from pocketbert.study.plan import Plan, PlannedRun
from pocketbert.study.scored import ScoredRow
from pocketbert.study.store import Store
from pocketbert.training.settings import TrainingSettings

FINAL = "final"


def final_run(plan: Plan, scored: ScoredRow, *, several: bool) -> PlannedRun | None:
    """The recommended row on all rows; None where a finished run has to do: a test split was given, or it starts from
    another row's runs, each of which lacks some rows."""
    run = scored.runs[0]
    if run.part is None or run.start is not None or run.adapters:
        return None
    settings = replace(run.settings, seed=0)
    if isinstance(settings, TrainingSettings):
        best = [one["best"] for one in scored.results]
        rate = Counter(one["learning_rate"] for one in best).most_common(1)[0][0]
        epochs = max(1, round(float(np.median([one["epoch"] for one in best]))))
        settings = replace(settings, learning_rate=rate, epochs=epochs)
    folder = f"{FINAL}/{re.sub(r'[^A-Za-z0-9]+', '-', run.task)}" if several else FINAL
    return replace(run, key="", folder=folder, settings=settings, part=None, number=0, rate_from=None, without_dev=True)


def final_plan(plan: Plan, runs: list[PlannedRun]) -> Plan:
    """The same tasks, all of their rows for training."""
    tasks = {name: replace(folds.task, splits={"train": folds.rows}) for name, folds in plan.folds.items()}
    return replace(plan, runs=tuple(runs), tasks=tasks, folds={})


def final_store(store: Store, runs: list[PlannedRun]) -> Store:
    """Where final models are: beside the runs. One of another row or with other settings makes room."""
    place = Store(store.folder)
    place.runs = store.folder
    for run in runs:
        if place.finished(run):
            try:
                place.load(run)
            except UserError:
                shutil.rmtree(place.runs / run.folder)
    return place


def best_on_dev(scored: ScoredRow) -> str:
    """The folder of the run that scored best on dev, seen from the study's; of equals the first."""
    on_dev = [one["best"].get("dev_accuracy") or 0.0 for one in scored.results]
    return f"runs/{scored.runs[int(np.argmax(on_dev))].folder}"


def audited_runs(folder: Path) -> list[Run]:
    """The trainings to audit together: of a study, those of its recommended row; else the folder's own run."""
    if not (folder / "study.json").is_file():
        return [load_run(folder)]
    document = read_document(folder / "study.json")
    if len(document.recommended) != 1:
        which = "no row yet; give its command again" if not document.recommended else "a row for each of its tasks"
        raise UserError(f"{folder}: the study recommends {which}; name the runs to audit: {folder / 'runs'}/…")
    row = document.row(document.recommended[0].task, document.recommended[0].row)
    return [load_run(folder / "runs" / name) for name in (row.folders if row is not None else ())]


def recommended_run(folder: Path) -> Run:
    """The run to use: the folder's own, or what the study in it recommends."""
    if not (folder / "study.json").is_file():
        return load_run(folder)
    recommended = read_document(folder / "study.json").recommended
    ready = [one for one in recommended if one.final is not None]
    if not ready:
        raise UserError(f"{folder}: the study recommends no model yet; give its command again")
    if len(ready) > 1:
        names = ", ".join(f"{folder / str(one.final)} ({one.task})" for one in ready)
        raise UserError(f"{folder}: the study has a model for each of its tasks; name one: {names}")
    return load_run(folder / str(ready[0].final))
