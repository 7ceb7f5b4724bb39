"""Numbers as people write them. What is not known, or is no number, becomes a dash: never "nan" and never a zero."""

import math
import unicodedata
from typing import Any

DASH = "–"
MINUS = "−"


def number(value: Any) -> float | None:
    """A finite number, or None. Booleans are answers, not numbers."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        plain = float(value)
    except OverflowError:
        return None
    return plain if math.isfinite(plain) else None


def fixed(value: Any, digits: int = 2) -> str:
    known = number(value)
    if known is None:
        return DASH
    written = f"{known:,.{digits}f}"
    if float(written.replace(",", "")) == 0:
        written = written.lstrip("-")
    return written.replace("-", MINUS)


def percent(value: Any, digits: int = 1) -> str:
    """A share as per cent, without the sign: the head of the column has it."""
    known = number(value)
    return DASH if known is None else fixed(100 * known, digits)


def points(value: Any, digits: int = 1) -> str:
    """A difference of two shares in percentage points, with its sign."""
    known = number(value)
    if known is None:
        return DASH
    written = percent(known, digits)
    return f"+{written}" if known > 0 and written.strip("0.") else written


def probability(value: Any) -> str:
    """A p-value. Smaller than 0.001 is all that can be meant by more zeros."""
    known = number(value)
    if known is None:
        return DASH
    return "< 0.001" if known < 0.001 else fixed(known, 3)


def spread(score: Any, digits: int = 1, scale: float = 100) -> str:
    """`81.2 ± 0.4`, or `81.2` where one seed says nothing about the spread."""
    if not isinstance(score, dict) or (mean := number(score.get("mean"))) is None:
        return DASH
    std = number(score.get("std"))
    written = fixed(scale * mean, digits)
    return written if std is None else f"{written} ± {fixed(scale * std, digits)}"


def interval(low: Any, high: Any) -> str:
    if number(low) is None or number(high) is None:
        return DASH
    return f"{percent(low)} to {percent(high)}"


def count(value: Any) -> str:
    return fixed(value, 0)


def short_count(value: Any) -> str:
    """4,386,178 is `4.39 M`: in a table of costs the size is what matters."""
    known = number(value)
    if known is None:
        return DASH
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(known) >= size:
            return f"{known / size:.3g} {letter}" if abs(known) < 999.5 * size else f"{known / size:,.0f} {letter}"
    return count(known)


def size(value: Any) -> str:
    known = number(value)
    if known is None:
        return DASH
    if known >= 1e9:
        return f"{known / 1e9:.1f} GB"
    return f"{known / 1e6:.0f} MB" if known >= 1e6 else f"{known / 1e3:.0f} kB"


def duration(value: Any) -> str:
    """Seconds as a person says them: `0.04 s`, `41 s`, `3 min 34 s`, `2 h 05 min`."""
    known = number(value)
    if known is None:
        return DASH
    if known < 59.5:
        return f"{known:.2f} s" if known < 1 else f"{known:.1f} s" if known < 9.95 else f"{known:.0f} s"
    if known < 3570:
        whole = round(known)
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(known / 60)
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def plain(value: Any) -> str:
    """A setting or a version: whatever was in the document, on one line."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(plain(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items())
    return str(value)


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


def clip(text: Any, most: int = 600) -> str:
    """The beginning of a long text; for texts that wrap."""
    text = str(text)
    return text if len(text) <= most else f"{text[:most].rstrip()}…"
