"""Score a finished run on a split it did not learn from: a built-in task's, or a labelled file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.errors import UserError, listed, quote
from pocketbert.metrics import measure
from pocketbert.runs import SERIOUS, Run
from pocketbert.tasks import Split, builtin_tasks, load_task, read_rows
from pocketbert.tasks.columns import choose_columns, choose_texts
from pocketbert.tasks.labels import label_text, placeholder
from pocketbert.tasks.load import load_again
from pocketbert.tasks.texts import Room, Texts, is_blank
from pocketbert.training.machine import computing


def evaluate_run(
    run: Run,
    source: str | os.PathLike[str] | None = None,
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
    """Accuracy with its interval, macro-F1, MCC, calibration, each class, on `task:split` or a labelled file.

    Without either, on the run's own test split, where its task is found again.
    """
    tell = say or (lambda message: None)
    if source is None:
        name, split = _own_test(run)
        allow_overlap = True  # it was scored already: what it shares with train is said, not refused
    else:
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
    empty = sum(any(map(is_blank, row)) for row in zip(split.texts, split.second_texts or split.texts, strict=True))
    if empty:
        tell(f"warning: {empty:,} of {len(split):,} rows have an empty text; a model can only guess there")
    with computing(threads):
        predicted = run.fitted().predict(split)
    if predicted.truncated:
        tell(f"warning: {predicted.truncated:,} of {len(split):,} texts were longer than the model reads, and cut")
    scores = measure(predicted.probabilities, split.labels, run.labels)
    return {"data": name, "seen": seen, "truncated": predicted.truncated, "labels": list(run.labels), **scores}


def _own_test(run: Run) -> tuple[str, Split]:
    """The test split that the run was scored on, read again from where its task came from."""
    advice = "name a file or a task to score it on"
    fingerprint = run.metadata.get("fingerprints", {}).get("test")
    if fingerprint is None:
        raise UserError(f"{run.folder}: the run has no test split of its own; {advice}")
    if run.source is None or not run.source.paths:
        raise UserError(f"{run.folder}: the run does not say where its task came from; {advice}")
    try:
        task = load_again(run.source)
    except UserError as error:
        raise UserError(f"{run.folder}: its task cannot be read again: {error}; {advice}") from error
    if "test" not in task.splits or task.fingerprint("test") != fingerprint:
        raise UserError(
            f"{run.folder}: the test split of {', '.join(run.source.paths)} is not the one that the run was scored on: "
            f"the data were changed, or it is a fold or a sample of them; {advice}"
        )
    return f"{task.name}:test", task.scored("test")


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
    if name in builtin_tasks():
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
    columns, notes = choose_texts(rows, text, text2, pair=run.metadata["pair"], learnt=run.columns)
    learnt = run.columns.get("label")
    if label is None and learnt in rows.columns and learnt not in columns:
        label = learnt
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
