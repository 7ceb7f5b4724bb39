"""Predictions for a file of texts: its columns and rows, with `prediction`, `probab_0`, `probab_1`, … added.

Rows are read, predicted and written in chunks, bounded in rows and in bytes: memory does not grow with the file.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pocketbert.errors import UserError
from pocketbert.files import RowWriter, is_standard_output, new_output, target_file
from pocketbert.runs import Run
from pocketbert.tasks import read_rows
from pocketbert.tasks.columns import choose_texts
from pocketbert.tasks.texts import Texts
from pocketbert.training.machine import computing


def predict_file(
    run: Run,
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    text: str | None = None,
    text2: str | None = None,
    numbers: bool = False,
    safe_for_spreadsheets: bool = False,
    encoding: str = "utf-8",
    threads: int | None = None,
    tick: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Predict every row of a file into a CSV; with - as `out`, to standard output.

    Args:
        text, text2: the columns of the texts; guessed, and said, when not named.
        numbers: write the label's number instead of its name.
        safe_for_spreadsheets: no cell is taken for a formula (`RowWriter`).
        tick: hears how many rows are done.
    """
    rows = read_rows(Path(path), encoding=encoding)
    columns, notes = choose_texts(rows, text, text2, pair=run.metadata["pair"])
    added = ["prediction", *(f"probab_{i}" for i in range(len(run.labels)))]
    for name in added:
        if name in rows.columns:
            raise UserError(f"{path}: already has a column '{name}'; rename or remove it first")
    refuse_target(path, out)
    fitted = run.fitted()
    counts: Counter[str] = Counter()
    taken = Texts(rows, columns)
    done = cut = 0
    with computing(threads), new_output(out) as file:
        writer = RowWriter(file, safe_for_spreadsheets=safe_for_spreadsheets)
        writer.writerow([*rows.columns, *added])
        for chunk in rows.chunks():
            texts, *second_texts = zip(*(taken.take(place, row) for place, row in chunk), strict=True)
            probabilities = fitted.probabilities(texts, second_texts[0] if second_texts else None)
            cut += fitted.cut
            for (_, row), values in zip(chunk, probabilities, strict=True):
                best = int(values.argmax())
                counts[run.labels[best]] += 1
                said_label = best if numbers else run.labels[best]
                writer.writerow(
                    [*(row.get(name, "") for name in rows.columns), said_label, *(f"{v:.6f}" for v in values)]
                )
            done += len(chunk)
            if tick is not None:
                tick(done)
    return {
        "rows": done,
        "out": str(out),
        "labels": list(run.labels),
        "predicted": {name: counts[name] for name in run.labels},
        "truncated": cut,
        "said": [*notes, *taken.notes()],
    }


def refuse_target(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Nothing is computed for a result that could not be written, or that would replace what it was made from."""
    if is_standard_output(out):
        return
    target_file(out)
    if Path(out).exists() and Path(path).exists() and os.path.samefile(path, out):
        raise UserError(f"{out}: is the input itself; name another file")
