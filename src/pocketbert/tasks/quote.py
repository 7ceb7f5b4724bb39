"""What a message quotes from a file is cut: a label of ten megabytes makes no error of ten megabytes."""

from collections.abc import Iterable
from itertools import islice

MOST_QUOTED = 80  # characters of one name or value
MOST_LISTED = 20  # names


def short(value: object) -> str:
    """A value as it would be typed, its end left out where it is long."""
    if isinstance(value, str) and len(value) > MOST_QUOTED:
        return f"{value[:MOST_QUOTED]!r}… ({len(value):,} characters)"
    shown = repr(value)
    return shown if len(shown) <= 2 * MOST_QUOTED else f"{shown[:MOST_QUOTED]}…"


def listed(names: Iterable[str], *, quoted: bool = False) -> str:
    """Names with commas between them: the first ones, where there are many."""
    names = iter(names)
    shown = [
        short(name) if quoted or len(name) > MOST_QUOTED or not name.isprintable() else name
        for name in islice(names, MOST_LISTED)
    ]
    more = sum(1 for _ in names)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
