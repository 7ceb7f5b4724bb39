"""From what a file says a label is to a number and a name; and whether a column of labels is real at all."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from pocketbert.errors import UserError, listed, quote

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
