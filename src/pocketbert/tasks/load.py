"""From what a person has to a Task: a built-in name, a file, a folder, several files; a DataFrame or lists."""

import difflib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.errors import UserError
from pocketbert.tasks.frames import is_in_memory, is_table, load_frames
from pocketbert.tasks.own import load_own
from pocketbert.tasks.registry import builtin_tasks, load_builtin, require_data
from pocketbert.tasks.task import Source, Task


def load_task(
    source: "str | Path | Sequence[str | Path] | Any",
    *,
    name: str | None = None,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    seed: int = 0,
    labels_are_real: bool = False,
    hub: bool = False,
    encoding: str = "utf-8",
) -> Task:
    """A task from a built-in name, or from a file, a folder, or two or three files (train, dev, test); or from memory.

    Args:
        source: a name that `pocketbert tasks` lists (`mnli@10000`: with at most so many training rows), one's own file
            or folder, or a list of three files. From memory: a DataFrame (of pandas, polars, or anything with `columns`
            and `[]`), a list of three of them, or a tuple of lists, (texts, labels) or (texts, labels, second_texts).
        name: what a task from memory is called; default: "table".
        text, text2, label: columns of one's own data; guessed, and said in `notes`, where not named.
        seed: cuts one's own data; built-in tasks are cut once and for all.
        labels_are_real: keep labels that look like placeholders.
        hub: allow a download.
        encoding: of one's own text files.
    """
    if is_in_memory(source) or (isinstance(source, list) and source and is_table(source[0])):
        return load_frames(
            source, name=name, text=text, text2=text2, label=label, seed=seed, labels_are_real=labels_are_real
        )
    if name is not None:
        raise UserError(f"name {name!r}: a task of files is called as they are; leave it out")
    given = [source] if isinstance(source, str | Path) else list(source)
    if len(given) == 1 and isinstance(given[0], str):
        called, most = _capped(given[0])
        if called in builtin_tasks():
            if text or text2 or label:
                raise UserError(
                    f"{called} is a built-in task: its columns are known; leave --text, --text2 and --label out"
                )
            return with_most(load_builtin(called, hub=hub, labels_are_real=labels_are_real), most)
        if "," in given[0] and not Path(given[0]).exists():
            given = list(given[0].split(","))
    paths = [Path(name).expanduser() for name in given]
    for path in paths:
        if not path.exists():
            raise UserError(_unknown(str(path)))
    return load_own(
        paths, text=text, text2=text2, label=label, seed=seed, labels_are_real=labels_are_real, encoding=encoding
    )


def load_tasks(sources: Sequence[str | Path], *, hub: bool = False, **options: Any) -> list[Task]:
    """Several tasks, as `load_task` loads each; data that are not here are all named at once."""
    if not hub:
        require_data(str(source) for source in sources)
    return [load_task(source, hub=hub, **options) for source in sources]


def load_again(source: Source) -> Task:
    """The task that was loaded from there; its files may have been changed since."""
    called, most = _capped(source.paths[0])
    if called in builtin_tasks():
        return with_most(load_builtin(called, labels_are_real=source.labels_are_real), most)
    missing = [path for path in source.paths if not Path(path).exists()]
    if missing:
        raise UserError(f"{missing[0]}: is not there any more")
    return load_own(
        [Path(path) for path in source.paths],
        text=source.text,
        text2=source.text2,
        label=source.label,
        seed=source.seed,
        labels_are_real=source.labels_are_real,
        encoding=source.encoding,
    )


def _capped(name: str) -> tuple[str, int | None]:
    """`mnli@10000` → a built-in task, and how many of its training rows to take at most."""
    called, _, most = name.rpartition("@")
    if called in builtin_tasks() and most.isascii() and most.isdigit() and 0 < int(most) <= sys.maxsize:
        return called, int(most)
    return name, None


def with_most(task: Task, most: int | None) -> Task:
    """The task with at most so many of its training rows, drawn once and for all; dev and test are as they were."""
    if most is None:
        return task
    train, name = task.split("train"), f"{task.name}@{most}"
    source = None if task.source is None else replace(task.source, paths=(name,))
    if len(train) <= most:
        return replace(task, name=name, source=source)
    rows = np.sort(np.random.default_rng(most).permutation(len(train))[:most])
    note = f"{name}: {most:,} of the {len(train):,} training rows of {task.name}, drawn at random"
    splits = {**task.splits, "train": train.take(rows)}
    return replace(task, name=name, splits=splits, source=source, notes=(*task.notes, note))


def _unknown(name: str) -> str:
    names = list(builtin_tasks())
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{name}: no such file, folder or built-in task{hint or '.'} Built-in tasks are: {', '.join(names)}"


def list_tasks() -> list[dict[str, Any]]:
    """Every built-in task, with the rows of each split where its data are available."""
    listed = []
    for name, source in builtin_tasks().items():
        entry: dict[str, Any] = {
            "name": name,
            "description": source.description,
            "labels": list(source.labels),
            "pair": source.pair,
            "licence": source.licence,
            "hub": source.hub.dataset if source.hub is not None else None,
            "splits": {},
        }
        try:
            task = load_builtin(name)
            entry["splits"] = {
                it: {"rows": len(split), "labelled": split.labelled} for it, split in task.splits.items()
            }
        except UserError as error:
            entry["error"] = str(error)
        listed.append(entry)
    return listed
