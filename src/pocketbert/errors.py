"""The one exception a person causes and can mend.

`UserError` says what was wrong, where, and what to do. The command line prints it without a traceback and exits
with code 2; every other exception is a fault of ours, and keeps its traceback.
"""

from collections.abc import Iterable
from itertools import islice


class UserError(ValueError):
    """Something the person can mend: a file, a flag, a setting. The message names it and says what to do.

    It is a ValueError. Commands print its message as one line and end with exit code 2.
    """


class CannotWrite(UserError):
    """The disk is full, or may not be written: what comes next would fail in the same way."""


MOST_QUOTED = 80  # characters of one name or value that a message repeats
MOST_LISTED = 20  # names


def quote(value: object) -> str:
    """What was found, as it would be typed, on one line, its end left out where it is long: a message stays one."""
    if isinstance(value, str) and len(value) > MOST_QUOTED:
        return f"{value[:MOST_QUOTED]!r}… ({len(value):,} characters)"
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return f"{'' if isinstance(value, int) else 'with '}a number of thousands of digits"
    return text if len(text) <= MOST_QUOTED + 20 else f"{text[:MOST_QUOTED]}…"


def listed(names: Iterable[str], *, quoted: bool = False) -> str:
    """Names, comma-separated: the first ones, where there are many."""
    names = iter(names)
    shown = [
        quote(name) if quoted or len(name) > MOST_QUOTED or not name.isprintable() else name
        for name in islice(names, MOST_LISTED)
    ]
    more = sum(1 for _ in names)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
