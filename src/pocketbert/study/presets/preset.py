"""What a preset is: the rows of a published table, the published figures, and what else its authors showed."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from pocketbert.catalog import find, is_available
from pocketbert.errors import UserError
from pocketbert.study.plan import Plan, Row
from pocketbert.study.store import Store


class Preset(ABC):
    """A published table."""

    name: ClassVar[str]
    description: ClassVar[str]

    @abstractmethod
    def rows(self, seeds: int, hub: bool) -> tuple[list[Row], list[str]]:
        """The rows, and what is to be said about them (such as which model stands in for which)."""

    @abstractmethod
    def published(self, results: dict[str, Any]) -> list[dict[str, Any]]:
        """Tables of theirs beside ours: title, columns, rows of text, and one line on what differs."""

    def more(self, plan: Plan, store: Store, folder: Path) -> dict[str, Any]:
        """What else the authors showed: files predicted, probe sentences."""
        return {}


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


def cell(results: dict[str, Any], task: str, name: str, what: str = "accuracy") -> str:
    """One of our figures: mean, interval, seeds. `what` may also be "dev", which chose the epoch."""
    for row in results["rows"]:
        if row["task"] == task and row["name"] == name:
            found, seeds = row[what], len(row["seeds"])
            if found is None:
                return "–"
            return (
                f"{100 * found['mean']:.1f} ({100 * found['low']:.1f} to {100 * found['high']:.1f}; "
                f"{seeds} seed{'s' if seeds > 1 else ''})"
            )
    return "not finished"
