"""A study's numbers as tables: for the terminal, table.md, and results.csv."""

import html
import io
import re
from typing import Any

from pocketbert.files import RowWriter
from pocketbert.report.wording import duration

COLUMNS = ["row", "seeds", "accuracy %", "95 % interval", "macro-F1 %", "a run"]
BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
MARKS = re.compile(r"[\\`*\[\]|~]|(?<!\w)_|_(?!\w)")  # a _ inside a word means nothing


def table_rows(results: dict[str, Any], task: str) -> tuple[list[str], list[list[str]]]:
    """(columns, rows) of one task, in the order of the plan. A published figure has a column where there is one."""
    rows = [row for row in results["rows"] if row["task"] == task]
    theirs = any(row["theirs"] for row in rows)
    columns = [*COLUMNS, "theirs %"] if theirs else COLUMNS
    table = []
    for row in rows:
        accuracy = row["accuracy"]
        cells = [
            row["name"],
            str(len(row["seeds"])),
            with_spread(accuracy),
            f"{100 * accuracy['low']:.1f} to {100 * accuracy['high']:.1f}",
            with_spread(row["macro_f1"]),
            duration(row["cost"]["seconds"]),
        ]
        table.append([*cells, row["theirs"] or ""] if theirs else cells)
    return columns, table


def with_spread(value: dict[str, Any]) -> str:
    """Mean ± standard deviation over seeds, in percent."""
    mean = f"{100 * value['mean']:.1f}"
    return mean if value["std"] is None else f"{mean} ± {100 * value['std']:.1f}"


def title(task: dict[str, Any]) -> str:
    """What the numbers of a task are about."""
    rows = task["rows"][task["scored"]]
    note = "" if task["scored"] == "test" else ": dev also chose the epoch; there is no labelled test split"
    return f"{task['name']}, {task['scored']} split, {rows:,} texts{note}"


def markdown(results: dict[str, Any]) -> str:
    """table.md: the verdict, a table a task, what others published."""
    parts = [f"# {plain(results['name'])}", *map(plain, results["verdicts"])]
    for task in results["tasks"]:
        columns, rows = table_rows(results, task["name"])
        parts += [f"## {plain(title(task))}", _table(columns, rows)]
    for published in results.get("published", []):
        parts += [f"## {published['title']}", _table(published["columns"], published["rows"]), published["differs"]]
    parts += [
        plain(f"Failed: {failure['run']}: {failure['error'].strip().splitlines()[-1]}")
        for failure in results["failures"]
    ]
    parts.append(
        "Accuracy is mean ± standard deviation over seeds; the interval is for the mean, and counts the choice of "
        "texts and, where there are several seeds, of seeds."
    )
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is: names come from anywhere, and may hold tags, links and line ends."""
    return MARKS.sub(r"\\\g<0>", html.escape(BREAKS.sub(" ", text), quote=False))


def _table(columns: list[str], rows: list[list[str]]) -> str:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(map(plain, cells)) + " |"

    return "\n".join([line(columns), line(["---"] * len(columns)), *(line(row) for row in rows)])


def comma_separated(results: dict[str, Any]) -> str:
    """results.csv: a line a run, nothing in it that would differ the next time (costs are in study.json)."""
    out = io.StringIO()
    writer = RowWriter(out)
    columns = ["task", "row", "method", "model", "seed", "split", "accuracy", "learning_rate", "epoch", "folder"]
    writer.writerow(columns)
    for row in results["rows"]:
        runs = zip(row["seeds"], row["accuracy"]["values"], row["chosen"], row["folders"], strict=True)
        for seed, accuracy, chosen, folder in runs:
            about = [row["task"], row["name"], row["method"], row["model"] or "", seed, row["split"], repr(accuracy)]
            writer.writerow([*about, chosen.get("learning_rate", ""), chosen.get("epoch", ""), folder])
    return out.getvalue()
