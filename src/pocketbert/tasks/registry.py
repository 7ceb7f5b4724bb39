"""The built-in tasks: each is one file in `builtin/` that says where its data are and how they become splits.

A task reads named parts ("train", "validation", …) through `Parts`, which finds them in POCKETBERT_DATA, in the user's
data folder or, if asked, on the Hub, and keeps label names rather than bare numbers: copies of one data set differ in
their numbers.
"""

import importlib
import os
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pocketbert.errors import UserError
from pocketbert.hub import fetch_data
from pocketbert.paths import home
from pocketbert.tasks.labels import hide_minus_one, label_reader, labelled_split
from pocketbert.tasks.read import read_rows
from pocketbert.tasks.task import Source, Split, Task


@dataclass(frozen=True)
class File:
    """One part of a source: where it is below the data folder (or in the Hub data set), and what is in it."""

    path: str
    text: str = "text"
    label: str | None = "label"
    second: str | None = None
    format: str = "plain-tsv"
    only: tuple[str, str] | None = None  # (column, value): the rows of a part, where one file holds all


@dataclass(frozen=True)
class Hub:
    """A data set on the Hugging Face Hub. Parquet files name their labels; others need `values`."""

    dataset: str
    files: Mapping[str, File]
    revision: str | None = None


@dataclass(frozen=True)
class BuiltinTask:
    """A built-in task: what it is, and how to make it."""

    name: str
    description: str
    labels: tuple[str, ...]
    licence: str
    arrange: Callable[["Parts"], dict[str, Split]]
    pair: bool = False
    files: Mapping[str, File] = field(default_factory=dict)
    hub: Hub | None = None
    values: Mapping[str, str] = field(default_factory=dict)  # what a file writes → label name
    how: str = ""  # how to get the data, when they are not found


_TASKS: dict[str, BuiltinTask] = {}


def builtin(
    name: str, *, description: str, labels: tuple[str, ...], licence: str, pair: bool = False, **rest: object
) -> Callable[[Callable[["Parts"], dict[str, Split]]], Callable[["Parts"], dict[str, Split]]]:
    """Register a function that arranges the parts of a source into splits."""

    def register(arrange: Callable[["Parts"], dict[str, Split]]) -> Callable[["Parts"], dict[str, Split]]:
        if name in _TASKS:
            raise ValueError(f"two built-in tasks are named {name}")
        _TASKS[name] = BuiltinTask(name, description, labels, licence, arrange, pair, **rest)  # type: ignore[arg-type]
        return arrange

    return register


def builtin_tasks() -> dict[str, BuiltinTask]:
    """Every built-in task by name, in alphabetical order."""
    from pocketbert.tasks import builtin as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(_TASKS.items()))


def data_folders() -> list[Path]:
    """Where the data of built-in tasks are looked for, in this order."""
    given = os.environ.get("POCKETBERT_DATA")
    return ([Path(given).expanduser()] if given else []) + [home() / "data"]


class Parts:
    """Reads the parts of one source, from the first place that has all of them."""

    def __init__(self, source: BuiltinTask, *, hub: bool = False, labels_are_real: bool = False) -> None:
        self.source = source
        self.labels_are_real = labels_are_real
        self.notes: list[str] = []
        self.about_splits: list[str] = []
        self.whole: Split | None = None  # every row, where there is no test split of its own
        self.origin = ""
        self.folder = next((folder for folder in data_folders() if self._complete(folder)), None)
        self.on_hub = self.folder is None and hub and source.hub is not None

    def _complete(self, folder: Path) -> bool:
        return bool(self.source.files) and all((folder / file.path).is_file() for file in self.source.files.values())

    def has(self, part: str) -> bool:
        """Does the place the data come from have this part? Copies on disk may have fewer than the Hub."""
        if self.on_hub and self.source.hub is not None:
            return part in self.source.hub.files
        return part in self.source.files

    def read(self, part: str) -> Split:
        """One part as a split; its labels are indexes into the source's names."""
        if self.on_hub and self.source.hub is not None:
            file = self.source.hub.files[part]
            path = fetch_data(self.source.hub.dataset, file.path, revision=self.source.hub.revision)
            self.origin = f"Hugging Face Hub, {self.source.hub.dataset}"
        elif self.folder is not None:
            file = self.source.files[part]
            path = self.folder / file.path
            self.origin = str(self.folder)
        else:
            raise UserError(self._not_found())
        return self._split(path, file)

    def _split(self, path: Path, file: File) -> Split:
        try:
            texts, second_texts, raw = self._rows(path, file, "utf-8")
        except UserError as error:
            if "which is not utf-8" not in str(error):
                raise
            # SST's upstream files are Latin-1; copies of them have been converted, so UTF-8 is tried first.
            texts, second_texts, raw = self._rows(path, file, "latin-1")
        labels = None if file.label is None else hide_minus_one(raw)
        given = (texts, second_texts, labels, self.source.labels, path, self.notes)
        return labelled_split(*given, real=self.labels_are_real, name_of=partial(self._name, path))

    def _name(self, path: Path, label: str) -> str:
        name = self.source.values.get(label, label).lower()
        if name.lstrip("-").isdigit():
            raise UserError(
                f"{path}: labels are numbers and nothing names them, so {label!r} could be any of "
                f"{', '.join(self.source.labels)}; use a copy that names its labels"
            )
        return name

    def _rows(self, path: Path, file: File, encoding: str) -> tuple[list[str], list[str] | None, list[str | None]]:
        rows = read_rows(path, encoding=encoding, format=file.format)
        needed = [file.text, *(name for name in (file.second, file.label) if name is not None)]
        missing = [name for name in needed if name not in rows.columns]
        if missing:
            raise UserError(
                f"{path}: column {missing[0]!r} is not there; it has: {', '.join(rows.columns)}. "
                f"This is not the file of {self.source.name} that is known here"
            )
        read_label = label_reader(rows, file.label)
        texts: list[str] = []
        second_texts: list[str] | None = None if file.second is None else []
        labels: list[str | None] = []
        for row in rows.narrow(*needed, *(file.only or ())[:1]):
            if file.only is not None and row[file.only[0]] != file.only[1]:
                continue
            texts.append(str(row[file.text]).strip())
            if second_texts is not None and file.second is not None:
                second_texts.append(str(row[file.second]).strip())
            labels.append(read_label(row[file.label]) if file.label is not None else None)
        return texts, second_texts, labels

    def _not_found(self) -> str:
        source = self.source
        looked = " and ".join(str(folder) for folder in data_folders())
        ways = [f"put {_wanted(source)} below one of these folders (or set POCKETBERT_DATA to a folder that has them)"]
        if source.hub is not None:
            ways.append(f"add --hub (in Python: hub=True) to download {source.hub.dataset} from the Hugging Face Hub")
        if source.how:
            ways.append(source.how)
        return f"the data of {source.name} are not there: looked in {looked}. To get them: {'; or '.join(ways)}"


def require_data(names: Iterable[str]) -> None:
    """One error for all built-in tasks whose data are not here, with what each of them needs."""
    missing = [Parts(builtin_tasks()[name]) for name in names if name in builtin_tasks()]
    missing = [parts for parts in missing if parts.source.files and parts.folder is None]
    if len(missing) > 1:
        files = "; ".join(f"{one.source.name} ({_wanted(one.source)})" for one in missing)
        looked = " and ".join(str(folder) for folder in data_folders())
        raise UserError(
            f"the data of {len(missing)} tasks are not there: looked in {looked} for {files}. Put them below one of "
            "these folders, set POCKETBERT_DATA to a folder that has them, or add --hub (in Python: hub=True)"
        )


def _wanted(source: BuiltinTask) -> str:
    return ", ".join(dict.fromkeys(file.path for file in source.files.values()))


def load_builtin(name: str, *, hub: bool = False, labels_are_real: bool = False) -> Task:
    """A built-in task by name."""
    source = builtin_tasks()[name]
    parts = Parts(source, hub=hub, labels_are_real=labels_are_real)
    splits = source.arrange(parts)
    return Task(
        name=name,
        labels=source.labels,
        splits=splits,
        pair=source.pair,
        licence=source.licence,
        origin=parts.origin,
        notes=(*parts.notes, *parts.about_splits),
        about_splits=tuple(parts.about_splits),
        whole=parts.whole,
        source=Source((name,), labels_are_real=labels_are_real),
    )
