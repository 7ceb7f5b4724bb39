"""What commands print: one JSON document for machines, tables for people, messages on standard error.

Standard output may be a terminal that cannot print UTF-8, a pipe that nobody reads any more, a full disk, or closed;
names may hold bytes that are no UTF-8. None of that is a traceback, and a document is JSON that any parser reads.
"""

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pocketbert.errors import UserError

HALF = re.compile("[\ud800-\udfff]")  # half a character: a byte of a file's name that is no UTF-8
CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")  # would break the line, or drive the terminal
BEYOND_ASCII = re.compile("[^\x00-\x7f]")


def open_streams() -> None:
    """Make standard output and error fit to be written to: what they cannot print is written as an escape."""
    if sys.stderr is None:  # closed: `print` would write messages to standard output instead
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    if sys.stdout is None:
        raise UserError("standard output is closed; send it somewhere: > FILE")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(message: str) -> None:
    """A message for the person; standard output stays for the result."""
    print(message, file=sys.stderr, flush=True)


def say_error(error: object) -> None:
    """One line, whatever a file's name holds."""
    say(f"error: {CONTROL.sub(lambda found: ascii(found[0])[1:-1], str(error))}")


def print_json(value: Any) -> None:
    """The one document; of two, the last. What is no character becomes U+FFFD; without UTF-8, the rest is escaped."""
    text = HALF.sub("\ufffd", json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))
    if (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("_", "-") not in ("utf-8", "utf8"):
        text = BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
    if isinstance(sys.stdout, _Printed):
        sys.stdout.document = text
    else:
        print(text)


def print_json_now(value: Any) -> None:
    """The one document of a command that goes on: whoever started it reads here that it is ready."""
    print_json(value)
    if isinstance(sys.stdout, _Printed):
        sys.stdout.print_now()
    else:
        sys.stdout.flush()


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Is --json among the options? After -- come arguments only."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(option == "--json" or option.startswith("--json=") for option in options)


def speaks() -> bool:
    """Of several processes that `torchrun` started, the first one speaks."""
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def one_document(wanted: bool) -> Iterator[None]:
    """With --json: exactly one document, whatever is printed; of what prints none, as help does, it is {"text": …}."""
    if not wanted:
        yield
        return
    printed, out = _Printed(sys.stdout), sys.stdout
    sys.stdout = printed
    try:
        yield
    finally:
        sys.stdout = out
        if printed.document is None:
            print_json({"text": printed.getvalue()})
        elif not printed.is_out:
            print(printed.document)


class _Printed(io.StringIO):
    """What was printed, and the document. It knows the encoding that will be written."""

    document: str | None = None
    is_out = False

    def __init__(self, out: Any) -> None:
        super().__init__()
        self._out = out
        self._encoding = getattr(out, "encoding", None) or "utf-8"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def print_now(self) -> None:
        """The document, before the command ends."""
        if self.document is not None:
            print(self.document, file=self._out, flush=True)
            self.is_out = True


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str | None = None) -> None:
    """Numbers to the right with thousands separators, everything else to the left."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    rows = [list(row) for row in rows]
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for index, column in enumerate(columns):
        numeric = any(isinstance(row[index], int | float) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else 120).print(table, markup=False)
