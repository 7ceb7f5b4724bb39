"""Score a finished run on a split it did not learn from: a built-in task's, or a labelled file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.errors import UserError, listed, quote
from pocketbert.metrics import measure
from pocketbert.runs import SERIOUS, Run
from pocketbert.tasks import Split, load_task, read_rows, sources
from pocketbert.tasks.columns import choose_columns, choose_texts
from pocketbert.tasks.labels import label_text, placeholder
from pocketbert.tasks.texts import Room, Texts
from pocketbert.training.machine import computing


def evaluate_run(
    run: Run,
    source: str | os.PathLike[str],
    *,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    allow_overlap: bool = False,
    labels_are_real: bool = False,
    hub: bool = False,
    encoding: str = "utf-8",
    threads: int | None = None,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Accuracy with its interval, macro-F1, MCC, calibration, each class, on `task:split` or a labelled file."""
    tell = say or (lambda message: None)
    name, split = _split(run, os.fspath(source), text, text2, label, labels_are_real, hub, encoding, tell)
    if (split.second_texts is not None) != run.metadata["pair"]:
        wants = "pairs" if run.metadata["pair"] else "single texts"
        raise UserError(f"{name}: this run classifies {wants}; the data are not")
    seen = int(run.seen(split).sum())
    if seen:
        learnt_from = f"are among those this run learnt from ({run.metadata['task']})"
        message = f"{seen:,} of {len(split):,} texts of {name} {learnt_from}"
        if seen >= SERIOUS * len(split) and not allow_overlap:
            raise UserError(f"{message}: the score would be too good to be true. To see it: --allow-overlap")
        tell(f"warning: {message}: they make the score look better than new text would")
    assert split.labels is not None
    with computing(threads):
        fitted = run.fitted()
        probabilities = fitted.probabilities(split.texts, split.second_texts)
    if fitted.cut:
        tell(f"warning: {fitted.cut:,} of {len(split):,} texts were longer than the model reads, and cut")
    return {"data": name, "seen": seen, "truncated": fitted.cut, **measure(probabilities, split.labels, run.labels)}


def _split(
    run: Run,
    source: str,
    text: str | None,
    text2: str | None,
    label: str | None,
    labels_are_real: bool,
    hub: bool,
    encoding: str,
    tell: Callable[[str], None],
) -> tuple[str, Split]:
    name, _, part = source.partition(":")
    if name in sources():
        part = part or "test"
        task = load_task(name, labels_are_real=labels_are_real, hub=hub)
        split = task.scored(part)
        unknown = sorted(set(task.labels) - set(run.labels))
        if unknown:
            raise UserError(
                f"{name} has label '{unknown[0]}', which this run does not know; it knows: {', '.join(run.labels)}"
            )
        assert split.labels is not None
        into = np.array([run.labels.index(it) for it in task.labels])
        return f"{name}:{part}", Split(split.texts, split.second_texts, into[split.labels])
    split = _labelled_file(run, Path(source), text, text2, label, encoding, tell)
    if not len(split):
        raise UserError(f"{source}: no rows to score")
    assert split.labels is not None
    reason = placeholder([run.labels[i] for i in split.labels], len(run.labels))
    if reason and not labels_are_real:
        raise UserError(f"{source} cannot be scored: {reason}")
    return source, split


def _labelled_file(
    run: Run,
    path: Path,
    text: str | None,
    text2: str | None,
    label: str | None,
    encoding: str,
    tell: Callable[[str], None],
) -> Split:
    """A whole file with labels; every one of them must be a label that the run knows."""
    rows = read_rows(path, encoding=encoding)
    columns, notes = choose_texts(rows, text, text2, pair=run.metadata["pair"])
    label = label or choose_columns(rows, columns[0], columns[1] if len(columns) > 1 else None, None).label
    if label is None or label not in rows.columns:
        raise UserError(f"{path}: which column holds the label? It has: {listed(rows.columns)}; say --label")
    tell(f"{notes[0]}; label is column '{label}'")
    texts: list[str] = []
    second_texts: list[str] | None = [] if run.metadata["pair"] else None
    labels: list[int] = []
    rows = rows.narrow(*columns, label)
    taken = Texts(rows, columns, Room())
    for place, row in rows.places():
        found = label_text(row.get(label))
        if found not in run.labels:
            known = listed(run.labels)
            raise UserError(f"{path}: {place}: label {quote(found)} is not one this run knows; it knows: {known}")
        text_of_row, *second = taken.take(place, row)
        texts.append(text_of_row)
        if second_texts is not None:
            second_texts += second
        labels.append(run.labels.index(found))
    for message in taken.notes():
        tell(f"warning: {message}")
    return Split(texts, second_texts, np.array(labels, dtype=np.int64))
