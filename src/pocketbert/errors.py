"""The one exception a person causes and can mend.

`UserError` says what was wrong, where, and what to do. The command line prints it without a traceback and exits
with code 2; every other exception is a fault of ours, and keeps its traceback.
"""


class UserError(ValueError):
    """Something the person can mend: a file, a flag, a setting. The message names it and says what to do."""


class CannotWrite(UserError):
    """The disk is full, or may not be written: what comes next would fail in the same way."""


def quote(value: object) -> str:
    """What was found, on one line and at most 100 characters of it: a message stays one to read."""
    text = repr(value)
    return text if len(text) <= 100 else text[:99] + "…"
