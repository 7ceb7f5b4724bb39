"""A person's own data: one file (split for them), a folder with train, dev and test files, or two or three files."""

import os
import re
import shlex
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pocketbert.errors import UserError, listed, quote
from pocketbert.tasks.columns import ColumnChecker, Columns, choose_columns, require
from pocketbert.tasks.labels import hide_minus_one, label_reader, labelled_split, sort_labels
from pocketbert.tasks.read import Rows, read_rows
from pocketbert.tasks.split import connected, cut_split
from pocketbert.tasks.task import Source, Split, Task
from pocketbert.tasks.texts import Room, Texts, is_blank

SHARES = {"test": 0.1, "dev": 0.1}
MOST_IN_A_LABEL = 1_000  # characters
SPLIT_WORDS = {"train": "train", "training": "train", "dev": "dev", "val": "dev", "valid": "dev"}
SPLIT_WORDS |= {"validation": "dev", "development": "dev", "test": "test"}


@dataclass
class Raw:
    """A file's rows before labels have numbers."""

    where: Path
    texts: list[str]
    second_texts: list[str] | None
    labels: list[str | None] | None  # None: the file has no label column
    suspicions: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()  # what to say about texts that were too long


def load_own(
    paths: list[Path],
    *,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    seed: int = 0,
    labels_are_real: bool = False,
    encoding: str = "utf-8",
) -> Task:
    """A task from a file, a folder, two files (train, test) or three (train, dev, test)."""
    files = _files(paths)
    rows = {name: read_rows(path, encoding=encoding) for name, path in files.items()}
    columns = choose_columns(rows["train"], text, text2, label)
    notes = list(columns.notes)
    if len(paths) > 1:
        notes.append(", ".join(f"{path.name} is {name}" for name, path in files.items()))
    room = Room()
    raws = {
        name: _read(it, columns if name == "train" else _same_columns(it, columns), room) for name, it in rows.items()
    }

    train = raws["train"]
    if not labels_are_real:
        for raw in raws.values():
            raw.labels = None if raw.labels is None else hide_minus_one(raw.labels)
    names = _names(train, columns)
    splits: dict[str, Split] = {}
    for name, raw in raws.items():
        if not raw.texts:
            raise UserError(f"{raw.where}: there are no rows below the header")
        real = name == "train" or labels_are_real
        splits[name] = labelled_split(raw.texts, raw.second_texts, raw.labels, names, raw.where, notes, real=real)

    whole = None if "test" in splits else _together(splits)
    about_splits: list[str] = []
    if len(paths) == 1 and len(files) == 1:
        splits = _cut(splits["train"], SHARES, seed, about_splits)
        about_splits.append(
            "one file was given, so it was split: "
            + ", ".join(f"{name} {len(split):,}" for name, split in splits.items())
            + f" (stratified by label, seed {seed}; equal texts stay on one side)"
        )
    elif "dev" not in splits:
        splits |= _cut(splits["train"], {"dev": SHARES["dev"]}, seed, about_splits)
        about_splits.append(
            f"there is no dev split: {len(splits['dev']):,} rows were cut from train for it (seed {seed})"
        )
    if "test" not in splits:
        about_splits.append("there is no test split: nothing is held back to score the chosen model on")
    order = [name for name in ("train", "dev", "test") if name in splits]
    for name in order:
        if not len(splits[name]):
            raise UserError(f"{files['train']}: too few rows to make a {name} split; give more, or give three files")
    return Task(
        name=_stem(paths[0]),
        labels=names,
        splits={name: splits[name] for name in order},
        pair=columns.second is not None,
        origin=", ".join(_written(str(path)) for path in paths),
        notes=(*notes, *about_splits),
        about_splits=tuple(about_splits),
        whole=whole,
        source=Source(
            paths=tuple(_written(os.path.abspath(path)) for path in paths),
            text=columns.text,
            text2=columns.second,
            label=columns.label,
            seed=seed,
            labels_are_real=labels_are_real,
            encoding=encoding,
        ),
        suspicions=(*train.suspicions, *(note for raw in raws.values() for note in raw.cut)),
    )


def _together(splits: dict[str, Split]) -> Split | None:
    """All rows that have labels, in the order of their files; None where one split has none."""
    parts = list(splits.values())
    if len(parts) == 1:
        return parts[0]
    labels = [part.labels for part in parts if part.labels is not None]
    if len(labels) < len(parts):
        return None
    seconds = [text for part in parts for text in part.second_texts or ()]
    return Split([text for part in parts for text in part.texts], seconds or None, np.concatenate(labels))


def _stem(path: Path) -> str:
    """A name for the task; one that can be written, where the file's is not UTF-8."""
    name = path.resolve().name
    return _written(name.split(".")[0] or name)


def _written(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


def _files(paths: list[Path]) -> dict[str, Path]:
    if len(paths) == 1:
        return _folder(paths[0]) if paths[0].is_dir() else {"train": paths[0]}
    if len(paths) > 3:
        raise UserError(
            f"{len(paths)} files were given; give one file, a folder, two (train, test) or three (train, dev, test)"
        )
    usual = ("train", "test") if len(paths) == 2 else ("train", "dev", "test")
    named: dict[str, Path] = {}
    for path in paths:
        name = _split_of(path)
        if name in named:
            raise UserError(f"both {named[name]} and {path} look like {name}; rename one of them")
        if name is not None:
            named[name] = path
    # What the names do not say, the order does.
    rest = iter(path for path in paths if path not in named.values())
    files = {**{name: next(rest) for name in usual if name not in named and len(named) < len(paths)}, **named}
    return {name: files[name] for name in ("train", "dev", "test") if name in files}


def _split_of(path: Path) -> str | None:
    """The split that a file's name speaks of; None: of none, or of several."""
    words = re.split(r"[^a-z]+", path.name.lower())
    splits = {SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS}
    return splits.pop() if len(splits) == 1 else None


def _folder(folder: Path) -> dict[str, Path]:
    """The files whose names say train, dev (valid, validation) or test."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name = _split_of(path)
        if path.name.startswith(".") or not path.is_file() or name is None:
            continue
        if name in found:
            raise UserError(f"{folder}: both {found[name].name} and {path.name} look like {name}; name three files")
        found[name] = path
    if "train" not in found:
        has = ", ".join(sorted(path.name for path in folder.iterdir())[:20]) or "nothing"
        raise UserError(
            f"{folder}: the train split is missing: no file is named train (such as train.csv); it has: {has}"
        )
    return found


def _same_columns(rows: Rows, columns: Columns) -> Columns:
    """The columns chosen on train, in another file; a missing label column means that it has no labels."""
    require(rows, columns.text, "text")
    if columns.second is not None:
        require(rows, columns.second, "--text2")
    return replace(columns, label=columns.label if columns.label in rows.columns else None)


def _read(rows: Rows, columns: Columns, room: Room) -> Raw:
    rows = rows.narrow(columns.text, columns.second, columns.label, beside=True)
    checker = ColumnChecker(rows, columns)
    wanted = (columns.text,) if columns.second is None else (columns.text, columns.second)
    taken = Texts(rows, wanted, room)
    read_label = label_reader(rows, columns.label)
    spelt: dict[str, str] = {}  # each label once in memory
    texts: list[str] = []
    second_texts: list[str] | None = None if columns.second is None else []
    labels: list[str | None] | None = None if columns.label is None else []
    for place, row in rows.places():
        text, *second = taken.take(place, row)
        texts.append(text)
        if second_texts is not None:
            if is_blank(second[0]):
                raise UserError(
                    f"{rows.path}: {place} has no second text in column {columns.second!r}: pairs and single texts "
                    f"cannot be mixed; fill it, remove the row, or read one column: --text {shlex.quote(columns.text)}"
                )
            second_texts += second
        label = None
        if labels is not None and columns.label is not None:
            if columns.label not in row:
                raise UserError(f"{rows.path}: {place} has no field {columns.label!r}; it has: {listed(row)}")
            value = row[columns.label]
            if isinstance(value, dict | list):
                raise UserError(f"{rows.path}: {place}: the label is a {type(value).__name__}, not a single value")
            label = read_label(value)
            if label is not None:
                if len(label) > MOST_IN_A_LABEL:
                    raise UserError(
                        f"{rows.path}: {place}: the label is {quote(label)}: name the column of the labels with --label"
                    )
                label = spelt.setdefault(label, label)
            labels.append(label)
        checker.see(row, texts[-1], label)
    return Raw(rows.path, texts, second_texts, labels, checker.suspicions(), tuple(taken.notes_of_cuts()))


def _names(train: Raw, columns: Columns) -> tuple[str, ...]:
    names = sort_labels({label for label in train.labels or () if label is not None})
    if len(names) >= 2:
        return names
    column = f"{train.where}: column {columns.label!r}"
    if not names:
        raise UserError(f"{column} has no labels: every value is empty or −1 (no label); there is nothing to learn")
    raise UserError(
        f"{column} has one class only ({names[0]}); a classifier needs two or more. Empty and −1 count as no label; if "
        "−1 is a class, say --labels-are-real"
    )


def _cut(split: Split, shares: dict[str, float], seed: int, notes: list[str]) -> dict[str, Split]:
    groups = connected(split)
    largest = max(Counter(groups).values(), default=0)
    if split.second_texts is not None and largest > max(0.2 * len(split), min(10, 0.5 * len(split))):
        # Texts that occur in very many pairs tie everything together; then only equal pairs are kept together.
        groups = split.normalised()
        notes.append(
            f"{largest:,} of {len(split):,} pairs hang together by shared texts, too many to keep on one side: a text "
            "may occur in two splits, though no pair does"
        )
    return cut_split(split, shares, seed=seed, groups=groups)
