"""From what a file says a label is to a number and a name; and whether a column of labels is real at all."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.errors import UserError, listed, quote
from pocketbert.tasks.read import Rows
from pocketbert.tasks.task import Split

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
INSIST = "if they are real, say so with --labels-are-real"


def label_text(value: Any) -> str | None:
    """A label as a string; None for what means "no label": nothing, or NaN."""
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value).strip() or None


def label_reader(rows: Rows, column: str | None) -> Callable[[Any], str | None]:
    """How a value of this column becomes a label; a Parquet file may name the classes that it numbers."""
    if column is None or rows.format != "parquet":
        return label_text
    from pocketbert.tasks.parquet import class_names

    names = class_names(rows.path, column) or ()
    return lambda value: label_text(names[value] if isinstance(value, int) and 0 <= value < len(names) else value)


def sort_labels(names: set[str]) -> tuple[str, ...]:
    """Numbers by size, words by alphabet."""
    if all(_NUMBER.fullmatch(name) for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def hide_minus_one(labels: Sequence[str | None]) -> list[str | None]:
    """−1 is how data sets say that a label is withheld: it is no class."""
    return [None if label in ("-1", "-1.0") else label for label in labels]


def to_indexes(labels: Sequence[str], names: Sequence[str], where: str) -> np.ndarray:
    """Label strings as indexes into the names; an unknown one is an error that names its row."""
    index = {name: number for number, name in enumerate(names)}
    try:
        return np.array([index[label] for label in labels], dtype=np.int64)
    except KeyError:
        row = next(row for row, label in enumerate(labels) if label not in index)
        raise UserError(
            f"{where}: row {row + 1} has the label {quote(labels[row])}, which train does not have; "
            f"train has: {listed(names)}"
        ) from None


def placeholder(labels: Sequence[str], classes: int) -> str:
    """Why these labels cannot be real, or nothing: one value throughout, while train has several classes."""
    if len(labels) < 2 or classes < 2 or len(set(labels)) > 1:
        return ""
    what = f"all {len(labels):,} labels are {labels[0]} while train has {classes} classes"
    return f"{what}: placeholders ({INSIST})"


def labelled_split(
    texts: list[str],
    second_texts: list[str] | None,
    labels: Sequence[str | None] | None,
    names: tuple[str, ...],
    path: Path,
    notes: list[str],
    *,
    real: bool,
    name_of: Callable[[str], str] = str,
) -> Split:
    """The rows that have a label, with its number; without labels where none is real, unless the person insists.

    `name_of`: from what the file writes to one of the names.
    """
    if labels is None:
        return Split(texts, second_texts, None, f"{path.name} has no label column")
    have = [row for row, label in enumerate(labels) if label is not None]
    if not have:
        return Split(texts, second_texts, None, f"all {len(texts):,} labels are empty or −1: no label")
    # Indexes are made before rows are left out, so that a message names the row of the file.
    known = to_indexes([names[0] if label is None else name_of(label) for label in labels], names, str(path))
    if len(have) < len(labels):
        first = next(row for row, label in enumerate(labels) if label is None)
        notes.append(
            f"{path.name}: {len(labels) - len(have):,} of {len(labels):,} rows have no label (empty or −1; the first "
            f"is row {first + 1}) and are left out"
        )
    split = Split(texts, second_texts, known, numbers=np.arange(1, len(known) + 1)).take(have)
    reason = "" if real else placeholder([label for label in labels if label is not None], len(names))
    return Split(split.texts, split.second_texts, None, reason) if reason else split
