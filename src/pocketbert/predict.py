"""Predictions for a file of texts: its columns and rows, with `prediction`, `p_LABEL`, … added; or for a few texts.

Rows are read, predicted and written in chunks, bounded in rows and in bytes: memory does not grow with the file. A row
without a text has no prediction: whatever a model would say there, it says of nothing.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.errors import UserError, quote
from pocketbert.files import RowWriter, new_output
from pocketbert.paths import is_standard_output, target_file
from pocketbert.run_files import probability_columns
from pocketbert.runs import Run
from pocketbert.tasks import Split, read_rows
from pocketbert.tasks.columns import choose_texts
from pocketbert.tasks.texts import Texts, is_blank
from pocketbert.training.job import Fitted
from pocketbert.training.machine import computing

MOST_GIVEN_BACK = 10_000  # predictions that are held in memory
MOST_NAMED = 10  # rows without a text that are named


def predict_file(
    run: Run,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None,
    *,
    text: str | None = None,
    text2: str | None = None,
    numbers: bool = False,
    safe_for_spreadsheets: bool = False,
    encoding: str = "utf-8",
    format: str | None = None,
    threads: int | None = None,
    fitted: Fitted | None = None,
    tick: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Predict every row of a file into a CSV; with - as `out`, to standard output; with None, into the result.

    Args:
        text, text2: the columns of the texts; those that the run learnt from, or guessed, and said, when not named.
        numbers: write the label's number instead of its name, and probab_0, probab_1, … instead of p_LABEL.
        safe_for_spreadsheets: no cell is taken for a formula (`RowWriter`).
        format: of the file, one of `tasks.read.FORMATS`; default: found out.
        fitted: the run's, where it is loaded already.
        tick: hears how many rows are done.
    """
    rows = read_rows(Path(path), encoding=encoding, format=format)
    columns, notes = choose_texts(rows, text, text2, pair=run.metadata["pair"], learnt=run.columns)
    shares = [f"probab_{i}" for i in range(len(run.labels))] if numbers else probability_columns(run.labels)
    added = ["prediction", *shares]
    for name in added if out is not None else ():
        if name in rows.columns:
            raise UserError(f"{path}: already has a column '{name}'; rename or remove it first")
    if out is not None:
        refuse_target(path, out)
    reader = _Reader(fitted or run.fitted())
    taken = Texts(rows, columns)
    given_back: list[dict[str, Any]] = []
    with computing(threads), _writer(out, safe_for_spreadsheets) as write:
        write([*rows.columns, *added])
        for chunk in rows.chunks():
            texts = [taken.take(place, row) for place, row in chunk]
            for (_, row), of_row, values in zip(chunk, texts, reader.read(texts), strict=True):
                best = None if values is None else int(values.argmax())
                label = None if best is None else best if numbers else run.labels[best]
                cells = [""] * len(shares) if values is None else [f"{value:.6f}" for value in values]
                write([*(row.get(name, "") for name in rows.columns), "" if label is None else label, *cells])
                if out is None:
                    given_back.append(_as_object(run, of_row, label, values))
            if len(given_back) > MOST_GIVEN_BACK:
                raise UserError(f"{path}: more than {MOST_GIVEN_BACK:,} rows; write the predictions to a file: --out")
            if tick is not None:
                tick(reader.done)
    return {
        "rows": reader.done,
        "out": None if out is None else str(out),
        "labels": list(run.labels),
        "predicted": {name: reader.counts[number] for number, name in enumerate(run.labels)},
        "empty": len(reader.empty),
        "empty_rows": reader.empty[:MOST_GIVEN_BACK],
        "truncated": reader.truncated,
        **({"predictions": given_back} if out is None else {}),
        "said": [*notes, *taken.notes()],
        "warnings": reader.warnings(rows.path.name),
    }


def predict_texts(
    run: Run, texts: Sequence[str], second_texts: Sequence[str] | None = None, **options: Any
) -> dict[str, Any]:
    """Predict some texts, or pairs of texts; what `predict_file` gives, `predictions` among it. Options are its own."""
    pair = run.metadata["pair"]
    if pair and len(second_texts or ()) != len(texts):
        count = len(second_texts or ())
        raise UserError(f"this run classifies pairs; {len(texts)} first texts were given, and {count} second ones")
    if not pair and second_texts:
        raise UserError("this run classifies single texts; leave second texts out")
    both = [texts, second_texts or ()] if pair else [texts]
    rows = [dict(zip(("text", "text2"), row, strict=False)) for row in zip(*both, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return predict_file(
            run, path, options.pop("out", None), text="text", text2="text2" if pair else None, **options
        )


class _Reader:
    """A run that reads texts, and counts what it says."""

    def __init__(self, fitted: Fitted) -> None:
        self.fitted = fitted
        self.counts: Counter[int] = Counter()
        self.done = self.truncated = 0
        self.empty: list[int] = []  # numbers of the rows without a text, from 1

    def read(self, texts: Sequence[Sequence[str]]) -> list[np.ndarray | None]:
        """The probabilities for each row's text, or both texts; None where one is missing."""
        full = [row for row, of_row in enumerate(texts) if not any(map(is_blank, of_row))]
        found: list[np.ndarray | None] = [None] * len(texts)
        if full:
            first, *second = zip(*(texts[row] for row in full), strict=True)
            predicted = self.fitted.predict(Split(list(first), list(second[0]) if second else None, None))
            self.truncated += predicted.truncated
            for row, values in zip(full, predicted.probabilities, strict=True):
                found[row] = values
                self.counts[int(values.argmax())] += 1
        self.empty += [self.done + row + 1 for row, values in enumerate(found) if values is None]
        self.done += len(texts)
        return found

    def warnings(self, name: str) -> list[str]:
        """What to say about the texts."""
        said = []
        if self.empty:
            named = ", ".join(map(str, self.empty[:MOST_NAMED])) + (", …" if len(self.empty) > MOST_NAMED else "")
            rows = f"row {named} has" if len(self.empty) == 1 else f"{len(self.empty):,} rows have"
            which = "" if len(self.empty) == 1 else f" ({named})"
            said.append(f"{name}: {rows} no text{which}: nothing is predicted there")
        if self.truncated:
            said.append(f"{self.truncated:,} of {self.done:,} texts were longer than the model reads, and cut")
        return said


def _as_object(run: Run, texts: Sequence[str], label: str | int | None, values: np.ndarray | None) -> dict[str, Any]:
    shares = None if values is None else {name: float(value) for name, value in zip(run.labels, values, strict=True)}
    return {**dict(zip(("text", "text2"), texts, strict=False)), "prediction": label, "probabilities": shares}


@contextmanager
def _writer(out: str | os.PathLike[str] | None, safe_for_spreadsheets: bool) -> Iterator[Callable[[list[Any]], None]]:
    """Takes the rows of the CSV; without one, it takes them nowhere."""
    if out is None:
        yield lambda row: None
        return
    with new_output(out) as file:
        yield RowWriter(file, safe_for_spreadsheets=safe_for_spreadsheets).writerow


def format_of_lines(head: str, run: Run) -> str:
    """How standard input is read, which has no name to tell: JSON lines, a table with the run's column, or lines."""
    first = head.lstrip("\ufeff").split("\n", 1)[0].strip()
    if first.startswith("{"):
        return "jsonl"
    wanted = {"text", run.columns.get("text") or "text"}
    for format, delimiter in (("csv", ","), ("csv", ";"), ("tsv", "\t")):
        if wanted & {name.strip(' "') for name in first.split(delimiter)}:
            return format
    if run.metadata["pair"]:
        raise UserError(
            f"standard input: this run classifies pairs; the first line is {quote(first)}. Give JSON lines with text "
            "and text2, or a CSV with a header"
        )
    return "lines"


def refuse_target(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Nothing is computed for a result that could not be written, or that would replace what it was made from."""
    if is_standard_output(out):
        return
    target_file(out)
    if Path(out).exists() and Path(path).exists() and os.path.samefile(path, out):
        raise UserError(f"{out}: is the input itself; name another file")
