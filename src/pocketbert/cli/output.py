"""What commands print: one JSON document for machines, tables for people, messages on standard error."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn


def say(message: str) -> None:
    """A message for the person; standard output stays for the result."""
    print(message, file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


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


def fail(error: Exception, *, as_json: bool) -> NoReturn:
    """One line that says what was wrong; with --json the same as a document, so that a machine can read it."""
    if as_json:
        print_json({"error": str(error)})
    say(f"error: {error}")
    sys.exit(2)
