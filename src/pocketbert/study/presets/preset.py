"""What a preset is: the rows of a published table, the published figures, and what else its authors showed."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from pocketbert.catalog import find, is_available
from pocketbert.errors import UserError
from pocketbert.report.document import Document, Published
from pocketbert.report.wording import DASH, interval, percent
from pocketbert.study.plan import Plan
from pocketbert.study.rows import Row
from pocketbert.study.store import Store


class Preset(ABC):
    """A published table."""

    name: ClassVar[str]
    description: ClassVar[str]

    @abstractmethod
    def rows(self, seeds: int, hub: bool) -> tuple[list[Row], list[str]]:
        """The rows, and what is to be said about them (such as which model stands in for which)."""

    @abstractmethod
    def published(self, document: Document) -> tuple[Published, ...]:
        """Tables of theirs beside ours."""

    def complete(self, document: Document, plan: Plan, store: Store, folder: Path) -> Document:
        """The document with theirs beside ours, and what else the authors showed: files predicted, probe sentences."""
        return replace(document, published=self.published(document))


_PRESETS: dict[str, Preset] = {}


def register(kind: type[Preset]) -> type[Preset]:
    _PRESETS[kind.name] = kind()
    return kind


def list_presets() -> dict[str, Preset]:
    """Every preset by name."""
    package = importlib.import_module("pocketbert.study.presets")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"pocketbert.study.presets.{module.name}")
    return dict(sorted(_PRESETS.items()))


def get_preset(name: str) -> Preset:
    known = list_presets()
    if name not in known:
        raise UserError(f"preset '{name}' is not known; known are {', '.join(known)}")
    return known[name]


def stand_in(wanted: str, others: tuple[str, ...], *, hub: bool) -> tuple[str, str]:
    """(a model, what to say): the named one where it is at hand or may be fetched, else the first other that is."""
    if is_available(wanted):
        return wanted, ""
    why = "is not at hand (--hub would fetch it)"
    if hub:
        try:
            find(wanted)
            return wanted, ""
        except UserError as error:
            why = f"could not be had ({error})"
    for other in others:
        if is_available(other):
            return other, f"{other} stands in for {wanted}, which {why}"
    raise UserError(f"{wanted} {why}, and none of {', '.join(others)} is at hand to stand in for it")


def cell(document: Document, task: str, name: str, *, on_dev: bool = False) -> str:
    """One of our accuracies: mean, interval, seeds. On dev it is the one that chose the epoch."""
    row = document.row(task, name)
    if row is None:
        return "not finished"
    score = row.dev if on_dev else row.accuracy
    if score is None:
        return DASH
    seeds = f"{score.trainings} seed{'s' if score.trainings > 1 else ''}"
    return f"{percent(score.mean)} ({interval(score.low, score.high)}; {seeds})"
