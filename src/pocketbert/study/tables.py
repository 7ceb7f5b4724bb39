"""A study's numbers as tables: for the terminal, table.md, and results.csv."""

import html
import io
import re
from collections.abc import Sequence

from pocketbert.files import RowWriter
from pocketbert.report.document import Document, Suspect, TaskSummary
from pocketbert.report.wording import duration, interval, spread

COLUMNS = ("row", "trainings", "accuracy %", "95 % interval", "macro-F1 %", "time per run")
BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
MARKS = re.compile(r"[\\`*\[\]|~]|(?<!\w)_|_(?!\w)")  # a _ inside a word means nothing


def table_rows(document: Document, task: str) -> tuple[list[str], list[list[str]]]:
    """(columns, rows) of one task, in the order of the plan. A published figure has a column where there is one."""
    rows = document.rows_of(task)
    published = any(row.theirs for row in rows)
    table = []
    for row in rows:
        accuracy = row.accuracy
        cells = [
            row.name + (" (undertrained)" if row.all_undertrained else ""),
            str(len(row.seeds)),
            spread(accuracy),
            interval(accuracy.low, accuracy.high),
            spread(row.macro_f1),
            duration(row.cost.seconds),
        ]
        table.append([*cells, row.theirs or ""] if published else cells)
    return [*COLUMNS, "theirs %"] if published else [*COLUMNS], table


def title(task: TaskSummary) -> str:
    """What the numbers of a task are about."""
    texts = f"{task.rows[task.scored]:,} texts"
    if task.folds:
        return f"{task.name}, {texts}, each tested once, in {task.folds} folds"
    note = "" if task.scored == "test" else ": dev also chose the epoch; there is no labelled test split"
    return f"{task.name}, {task.scored} split, {texts}{note}"


def markdown(document: Document) -> str:
    """table.md: the verdict, a table per task, what others published."""
    parts = [f"# {plain(document.name)}", *map(plain, document.verdicts), *map(plain, document.advice)]
    for task in document.tasks:
        parts += [f"## {plain(title(task))}", _table(*table_rows(document, task.name))]
    for published in document.published:
        parts += [f"## {published.title}", _table(published.columns, published.rows), published.differs]
    parts += [plain(f"Failed: {failure.run}: {failure.reason}") for failure in document.failures]
    parts.append(
        "Accuracy is mean ± standard deviation over trainings; the interval is for the mean, and counts the choice of "
        "test texts and, where there are several trainings, of seeds; under folds, of training texts, too."
    )
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is: names come from anywhere, and may hold tags, links and line ends."""
    return MARKS.sub(r"\\\g<0>", html.escape(BREAKS.sub(" ", text), quote=False))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(plain, cells)) + " |" for cells in lines)


def suspect_labels(suspects: Sequence[Suspect]) -> str:
    """suspect_labels.csv: rows whose label is probably wrong, the most suspect of each task first."""
    out = io.StringIO()
    writer = RowWriter(out)
    writer.writerow(["task", "row", "label", "predicted", "probability_of_label", "rows_that_agree", "text", "text2"])
    for one in suspects:
        numbers = [one.task, one.number, one.label, one.predicted, f"{one.self_confidence:.4f}", one.agreeing]
        writer.writerow([*numbers, one.text, one.second_text or ""])
    return out.getvalue()


def comma_separated(document: Document) -> str:
    """results.csv: a line per run, nothing in it that would differ the next time (costs are in study.json)."""
    out = io.StringIO()
    writer = RowWriter(out)
    columns = ["task", "row", "method", "model", "seed", "split", "accuracy", "learning_rate", "epoch", "folder"]
    writer.writerow(columns)
    for row in document.rows:
        same = [row.task, row.name, row.method, row.model or ""]
        for seed, accuracy, chosen, folder in zip(row.seeds, row.accuracy.values, row.chosen, row.folders, strict=True):
            choice = ["" if one is None else one for one in (chosen.learning_rate, chosen.epoch)]
            writer.writerow([*same, seed, row.split, repr(accuracy), *choice, folder])
    return out.getvalue()
