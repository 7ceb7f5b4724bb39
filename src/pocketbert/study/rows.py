"""The rows of a study's table, and which there are where only models and methods are named."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pocketbert.catalog import BUNDLED, find
from pocketbert.errors import UserError
from pocketbert.methods import SHAPE, WEIGHTS, baselines, get_method, list_methods
from pocketbert.values import Between, hold_fields, shown

KEPT = "the rate was chosen on the first seed and kept"
Seeds = Annotated[int, Between(1, 10_000)]
Repeats = Annotated[int, Between(1, 99)]
Counts = int | Mapping[str, int]  # for all rows, or by row or method; "" is every other


AUGMENTED = " augmented"  # how the twin of a row is called that trains on both sides of each swap


@dataclass(frozen=True)
class Row:
    """One line of a study's table: a method, a model where it needs one, a task; over seeds."""

    task: str
    method: str
    model: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # what the method is told, by name
    name: str = ""  # how the table calls it
    seeds: Seeds | None = None  # trainings; under folds: per fold
    repeats: Repeats = 1  # of the folds, each time drawn anew
    theirs: str | None = None  # a published figure, to stand beside ours
    note: str | None = None
    keep_rate: bool = False  # of several rates, the first seed's choice is every seed's
    start: str | None = (
        None  # the name of a row ("task: name" where several have it): seed by seed, start from its runs
    )
    adapters: dict[str, str] = field(default_factory=dict)  # name → a row: seed by seed, fuse its runs' adapters
    others: tuple[str, ...] = ()  # tasks of the study that are learnt with this one, for a method that learns several
    rate_from: str | None = None  # the name of a row: take the rate that was chosen there, by seed
    curve: bool = False  # also train on an eighth, a quarter and a half of the rows: would more data help?

    def __post_init__(self) -> None:
        hold_fields(self)
        method = get_method(self.method)
        method.read(self.settings)
        if self.keep_rate and KEPT not in (self.note or ""):
            object.__setattr__(self, "note", "; ".join(filter(None, [self.note, KEPT])))
        if not self.name:
            parts = [self.method, *([short_name(self.model)] if self.model else [])]
            object.__setattr__(self, "name", " ".join([*parts, *([f"from {self.start}"] if self.start else [])]))
        if self.adapters and method.fuses is None:
            raise UserError(f"row '{self.name}': method '{self.method}' takes no adapters; leave them out")
        if self.others and not method.learns_several:
            raise UserError(f"row '{self.name}': method '{self.method}' learns one task; leave the others out")
        if self.model is not None and self.start is not None:
            raise UserError(f"row '{self.name}': model and start both say what to start from; give one of them")

    @property
    def guesses(self) -> bool:
        return not get_method(self.method).reads_texts

    @property
    def baseline(self) -> bool:
        return not get_method(self.method).needs_model


def short_name(model: str) -> str:
    """A model as a table calls it: of a folder its name, of a Hub name all of it."""
    return model.rstrip("/").rpartition("/")[2] if model.startswith(("/", ".")) else model


# -- which rows ------------------------------------------------------------------------------------------------------


def choose_rows(
    tasks: Sequence[str],
    models: Sequence[str] | None,
    methods: Sequence[str] | None,
    seeds: Counts | None,
    settings: Mapping[str, Any],
    repeats: Counts = 1,
    curves: Sequence[str] = (),
) -> tuple[list[Row], list[str]]:
    """Models x methods x tasks, baselines always among them; and what was left out, in sentences.

    `seeds` and `repeats` are one number, or several by row or method, "" being all others; `curves` names the rows that
    have a learning curve.
    """
    notes: list[str] = []
    for method in methods or ():
        get_method(method)
    always = list(baselines())
    neural = None if methods is None else [name for name in dict.fromkeys(methods) if name not in always]
    pairs = _pairs(list(dict.fromkeys(models)) if models else None, neural, notes)
    refuse_unread(settings, [*always, *(method for method, _ in pairs)])
    rows = [
        row
        for task in tasks
        for method, model in [*((name, None) for name in always), *pairs]
        for row in _twins(Row(task, method, model, _read_by(method, settings)))
    ]
    rows = _with_adapters(rows, tasks, settings)
    rows = [
        replace(row, others=tuple(task for task in tasks if task != row.task))
        if get_method(row.method).learns_several
        else row
        for row in rows
    ]
    _refuse_unknown(rows, [*_named(seeds), *_named(repeats), *curves])
    return [
        replace(
            row,
            seeds=None if seeds is None else _count(seeds, row),
            repeats=_count(repeats, row) or 1,
            curve=row.name in curves or row.method in curves,
        )
        for row in rows
    ], notes


def _twins(row: Row) -> list[Row]:
    """Of a row that trains on both sides of each swap, also the one that does not: before and after, in one table."""
    if "augment" not in row.settings:
        return [row]
    before = replace(row, settings={name: value for name, value in row.settings.items() if name != "augment"})
    return [before, replace(row, name=f"{row.name}{AUGMENTED}")]


def _with_adapters(rows: list[Row], tasks: Sequence[str], settings: Mapping[str, Any]) -> list[Row]:
    """A row that fuses adapters is given those of all tasks; rows that train them are added where there are none."""
    found = {(row.task, row.name): row for row in rows}
    for place, row in list(found.items()):
        method = get_method(row.method)
        if method.fuses is None:
            continue
        members = {task: Row(task, method.fuses, row.model, _read_by(method.fuses, settings)) for task in tasks}
        for member in members.values():
            found.setdefault((member.task, member.name), member)
        found[place] = replace(row, adapters={task: f"{task}: {member.name}" for task, member in members.items()})
    return list(found.values())


def _count(counts: Counts, row: Row) -> int | None:
    if isinstance(counts, int):
        return counts
    return next((counts[name] for name in (row.name, row.method, "") if name in counts), None)


def _named(counts: Counts | None) -> list[str]:
    return [] if counts is None or isinstance(counts, int) else [name for name in counts if name]


def _refuse_unknown(rows: Sequence[Row], names: Sequence[str]) -> None:
    known = list(dict.fromkeys(name for row in rows for name in (row.name, row.method)))
    for name in names:
        if name not in known:
            raise UserError(f"no row or method here is called {shown(name)}; there are {', '.join(known)}")


def _read_by(method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of settings for a whole study, those that this method reads."""
    return {name: value for name, value in settings.items() if get_method(method).reads(name)}


def refuse_wrong(settings: Mapping[str, Any]) -> None:
    """Every setting is one that a method knows, and has a value it may have."""
    for name, value in settings.items():
        readers = [method for method in list_methods().values() if method.reads(name)]
        if not readers:
            raise UserError(f"setting {shown(name)} is not known: no method reads it")
        readers[0].read({name: value})


def refuse_unread(settings: Mapping[str, Any], methods: Sequence[str]) -> None:
    """A setting that nobody here reads is a mistake."""
    refuse_wrong(settings)
    for name in settings:
        if not any(get_method(method).reads(name) for method in methods):
            readers = [one for one, method in list_methods().items() if method.reads(name)]
            here = ", ".join(dict.fromkeys(methods))
            raise UserError(f"setting '{name}' is read by {', '.join(readers)}, and by none of {here}; leave it out")


def _pairs(models: list[str] | None, methods: list[str] | None, notes: list[str]) -> list[tuple[str, str]]:
    if methods == []:
        if models:
            raise UserError("models were named, but only baselines as methods: these need no model")
        return []
    if models is None:
        named = methods or ()
        return _usual_pairs() if methods is None else [(one, get_method(one).usual_model() or "") for one in named]
    pairs = []
    for model in models:
        pretrained = find(model).folder is not None
        for method in methods or usual_methods(WEIGHTS if pretrained else SHAPE):
            if pretrained or get_method(method).starts_from == SHAPE:
                pairs.append((method, model))
            else:
                notes.append(f"{method} {model} is left out: '{model}' is a shape without weights to start from")
    if not pairs:
        able = ", ".join(usual_methods(SHAPE))
        raise UserError(f"nothing to train: {notes[0]}; use method {able}, or a pretrained model (pocketbert models)")
    return pairs


def usual_methods(starts_from: str) -> list[str]:
    return [name for name, method in list_methods().items() if method.usual and method.starts_from == starts_from]


def _usual_pairs() -> list[tuple[str, str]]:
    """What is compared when nothing is named: the bundled models."""
    bundled = [name for name in ("pocket-tiny", "pocket-mini") if (BUNDLED / name / "config.json").is_file()]
    return [(method, model) for model in bundled for method in usual_methods(WEIGHTS)]
