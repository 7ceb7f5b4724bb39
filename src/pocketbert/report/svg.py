"""Writing SVG by hand: elements, scales and the round numbers along an axis.

Colours are never written here: marks carry class names, and the style sheet colours them for light, dark and paper.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


def tag(name: str, *children: str, **attributes: Any) -> Markup:
    """One element. Children that are not `Markup` are text and are escaped; `class_` becomes `class`, `_` a hyphen."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_written(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{Markup('').join(children)}</{name}>")


def across(share: float) -> str:
    """A place along a drawing that stretches with the page; text in it keeps its size, unlike with a view box."""
    return f"{100 * share:.2f}%"


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` onto places from `start` to `end`; what lies outside is put on the edge."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, self.low))
        share = 0.5 if high <= low else (value - low) / (high - low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def step(low: float, high: float, about: int) -> float:
    """The round distance (1, 2 or 5 times a power of ten) that cuts a range into about so many parts."""
    rough = max((high - low) / about, 1e-9)
    power = 10 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers inside a range."""
    each = step(low, high, about)
    first, last = math.ceil(low / each - 1e-6), math.floor(high / each + 1e-6)
    return [index * each for index in range(first, last + 1)]


def around(
    values: Iterable[float], *, least: float, inside: tuple[float, float], about: int = 5
) -> tuple[float, float]:
    """A range with round ends that holds all values, is never narrower than `least`, and stays inside its limits."""
    known = list(values) or [inside[0]]
    low, high = min(known), max(known)
    spare = max((high - low) * 0.04, (least - (high - low)) / 2)
    low, high = low - spare, high + spare
    each = step(low, high, about)
    low, high = math.floor(low / each + 1e-6) * each, math.ceil(high / each - 1e-6) * each
    return max(inside[0], low), min(inside[1], high)
