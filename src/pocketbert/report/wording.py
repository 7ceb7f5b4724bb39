"""Numbers and lists as people write them. What is not known becomes a dash, never a zero."""

import unicodedata
from collections.abc import Sequence
from typing import Any, Protocol

DASH = "–"
MINUS = "−"


class MeanAndStd(Protocol):
    """A figure over seeds."""

    @property
    def mean(self) -> float | None: ...
    @property
    def std(self) -> float | None: ...


def fixed(value: float | None, digits: int = 2) -> str:
    if value is None:
        return DASH
    written = f"{value:,.{digits}f}"
    if float(written.replace(",", "")) == 0:
        written = written.lstrip("-")
    return written.replace("-", MINUS)


def percent(value: float | None, digits: int = 1) -> str:
    """A share as per cent, without the sign: the head of the column has it."""
    return DASH if value is None else fixed(100 * value, digits)


def points(value: float, digits: int = 1) -> str:
    """A difference of two shares in percentage points, with its sign."""
    written = percent(value, digits)
    return f"+{written}" if value > 0 and written.strip("0.") else written


def probability(value: float) -> str:
    """A p-value. Smaller than 0.001 is all that can be meant by more zeros."""
    return "< 0.001" if value < 0.001 else fixed(value, 3)


def spread(score: MeanAndStd, digits: int = 1, scale: float = 100) -> str:
    """`81.2 ± 0.4`, or `81.2` where one seed says nothing about the spread."""
    if score.mean is None:
        return DASH
    written = fixed(scale * score.mean, digits)
    return written if score.std is None else f"{written} ± {fixed(scale * score.std, digits)}"


def interval(low: float, high: float) -> str:
    return f"{percent(low)} to {percent(high)}"


def count(value: float | None) -> str:
    return fixed(value, 0)


def short_count(value: float) -> str:
    """4,386,178 is `4.39 M`: in a table of costs the size is what matters."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {letter}" if abs(value) < 999.5 * size else f"{value / size:,.0f} {letter}"
    return count(value)


def size(value: float) -> str:
    if value >= 1e9:
        return f"{value / 1e9:.1f} GB"
    return f"{value / 1e6:.0f} MB" if value >= 1e6 else f"{value / 1e3:.0f} kB"


def duration(seconds: float) -> str:
    """As a person says it: `0.04 s`, `41 s`, `3 min 34 s`, `2 h 05 min`."""
    if seconds < 59.5:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < 3570:
        whole = round(seconds)
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def listing(parts: Sequence[str], most: int = 4) -> str:
    """`a`, `a and b`, `a, b and c`; of very many the first, and how many more."""
    shown = [*parts[:most], *([f"{len(parts) - most} more"] if len(parts) > most else [])]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def plain(value: Any) -> str:
    """A setting or a version, whatever it is, on one line."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(plain, value)) if isinstance(value, list | tuple) else str(value)


def width(character: str) -> float:
    """How wide a letter is, in widths of an ordinary small one. A guess on the safe side: fonts differ."""
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF" or ord(character) > 0x1F000:
        return 2.3
    return 1.5 if character.isupper() or character in "mw%@&—…" or ord(character) > 0x24F else 1.0


def shorten(text: str, room: float) -> str:
    """Cut the middle out of a text that is too wide: names of rows differ at their ends as often as at their starts.

    For drawings, where text cannot wrap. Marks that take no width are few as well, so that they cannot pile up.
    """
    text = " ".join(text[:10_000].split())
    if sum(map(width, text)) <= room and len(text) <= 2 * room:
        return text
    start, end, used = 0, len(text), 1.5  # the width of the dots
    while start < end - 1 and start + len(text) - end < room:
        from_start = start <= 1.5 * (len(text) - end)
        used += width(text[start] if from_start else text[end - 1])
        if used > room:
            break
        start, end = (start + 1, end) if from_start else (start, end - 1)
    return f"{text[:start].rstrip()}…{text[end:].lstrip()}"


def clip(text: str, most: int = 600) -> str:
    """The beginning of a long text; for texts that wrap."""
    return text if len(text) <= most else f"{text[:most].rstrip()}…"
