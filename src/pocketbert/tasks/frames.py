"""Tasks from what a person holds in memory: DataFrames, or lists of texts and labels.

A table is anything with `columns` and `[]`, as pandas and polars have them; neither is imported here. It is written as
JSON lines to a folder of its own and read like any file, so that what is checked, guessed, refused and cut is the same
for both; the folder is gone afterwards, and messages name the table.
"""

import json
import math
import os
from collections.abc import Sequence, Sized
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pocketbert.errors import UserError, quote
from pocketbert.tasks.own import load_own
from pocketbert.tasks.task import Task

NAME = "table"  # what a task is called that nobody named
PARTS = ("train", "dev", "test")
COLUMNS = ("text", "label", "text2")  # of (texts, labels, second texts)


def is_table(source: Any) -> bool:
    """A DataFrame, or what looks like one."""
    return hasattr(source, "columns") and hasattr(source, "__getitem__")


def is_lists(source: Any) -> bool:
    """A tuple (texts, labels) or (texts, labels, second texts); a tuple of paths is none."""
    return (
        isinstance(source, tuple)
        and len(source) in (2, 3)
        and all(isinstance(part, Sized) and not isinstance(part, str | bytes | os.PathLike) for part in source)
        and not any(is_table(part) for part in source)
    )


def is_in_memory(source: Any) -> bool:
    """One task, held by a person: no path and no name."""
    return is_table(source) or is_lists(source)


def load_frames(
    source: Any,
    *,
    name: str | None = None,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    seed: int = 0,
    labels_are_real: bool = False,
) -> Task:
    """A task from a table, from three (train, dev, test), or from a tuple of lists."""
    name = name or NAME
    if is_lists(source):
        if text or text2 or label:
            raise UserError("text, text2 and label name columns of a table; lists have none: leave them out")
        tables = [_table_of_lists(source)]
        text, label = COLUMNS[:2]
        text2 = COLUMNS[2] if len(source) == 3 else None
    else:
        tables = [_table(one) for one in ([source] if is_table(source) else source)]
    if len(tables) not in (1, len(PARTS)):
        raise UserError(f"{len(tables)} tables were given; give one, or three: train, dev, test")
    with TemporaryDirectory(prefix="pocketbert-", ignore_cleanup_errors=True) as folder:
        paths = [Path(folder) / f"{part}.jsonl" for part in PARTS[: len(tables)]]
        for path, table in zip(paths, tables, strict=True):
            _write(table, path)
        names = [name] if len(paths) == 1 else [f"{name}, {part}" for part in PARTS]

        def in_memory(message: str) -> str:
            """A message about a file, about the table that it was made of."""
            for path, called in zip(paths, names, strict=True):
                message = message.replace(str(path), called).replace(path.name, called)
            return message.replace("one file was given", "one table was given")

        try:
            task = load_own(paths, text=text, text2=text2, label=label, seed=seed, labels_are_real=labels_are_real)
        except UserError as error:
            raise UserError(in_memory(str(error))) from None
    return replace(
        task,
        name=name,
        origin="held in memory",
        notes=tuple(map(in_memory, task.notes)),
        about_splits=tuple(map(in_memory, task.about_splits)),
        suspicions=tuple(map(in_memory, task.suspicions)),
    )


def _table_of_lists(lists: tuple[Sized, ...]) -> dict[str, list[Any]]:
    lengths = [len(one) for one in lists]
    if len(set(lengths)) > 1:
        raise UserError(
            f"the lists of texts and labels have {', '.join(map(str, lengths))} entries; give each text one"
        )
    return {name: _values(one) for name, one in zip(COLUMNS, lists, strict=False)}


def _table(frame: Any) -> dict[str, list[Any]]:
    names = list(frame.columns)
    if not all(isinstance(name, str | int) for name in names):
        raise UserError("the columns of the table have no names; give a DataFrame, as table.to_pandas() makes one")
    if len(set(map(str, names))) < len(names):
        twice = next(name for name in names if list(map(str, names)).count(str(name)) > 1)
        raise UserError(f"the table has two columns that are called {quote(twice)}; rename one")
    table = {str(name): _values(frame[name]) for name in names}
    lengths = sorted({len(values) for values in table.values()}, reverse=True)
    if len(lengths) > 1:
        raise UserError(f"the table has columns of {' and '.join(map(str, lengths))} rows; give each the same number")
    if not lengths or not lengths[0]:
        raise UserError("the table is empty; give at least one row of text and label")
    return table


def _values(column: Any) -> list[Any]:
    return [_plain(value) for value in column]


def _plain(value: Any) -> Any:
    """A value as JSON has them; None for what is missing, however it is written."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas' own
        return None
    if hasattr(value, "item") and not isinstance(value, Sequence):  # numpy's numbers and texts
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return value if isinstance(value, str | bool | int) else str(value)


def _write(table: dict[str, list[Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        for row in zip(*table.values(), strict=True):
            file.write(json.dumps(dict(zip(table, row, strict=True))) + "\n")
