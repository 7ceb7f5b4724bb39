"""The texts of a file's rows, and how much of them is held: each is cut where no model reads on, and all have a limit.

A file that is predicted streams; data that is learnt from, checked or scored is held as a whole.
"""

import sys

from pocketbert.errors import UserError, listed, quote
from pocketbert.tasks.read import Record, Rows

MOST_READ = 100_000  # characters of a text: some 20,000 words, where models read a few hundred
MOST_HELD = 250_000_000  # bytes of text in memory, so that all of a command stays below a gigabyte
BESIDES = 100  # bytes that a row takes besides its text


class Room:
    """How much text is held, of all the files of a task together."""

    def __init__(self) -> None:
        self.held = 0

    def take(self, rows: Rows, place: str, text: str) -> None:
        self.held += sys.getsizeof(text) + BESIDES
        if self.held > MOST_HELD:
            raise UserError(
                f"{rows.path}: {place}: up to here there are more than {MOST_HELD // 1_000_000} MB of text, as much as "
                "is held in memory; give a part of the rows (`predict` and `encode` read files of any size)"
            )


class Texts:
    """Takes the texts out of rows; counts those that were cut, and those that have lost characters."""

    def __init__(self, rows: Rows, columns: tuple[str, ...], room: Room | None = None) -> None:
        self.rows, self.columns, self.room = rows, columns, room
        self.cut = self.damaged = 0

    def take(self, place: str, row: Record) -> list[str]:
        """The text, or both texts of a pair."""
        found = []
        for column in self.columns:
            text = _text(row, column, self.rows, place)
            if len(text) > MOST_READ:
                text = text[:MOST_READ]
                self.cut += 1
            self.damaged += "\ufffd" in text
            if self.room is not None:
                self.room.take(self.rows, place, text)
            found.append(text)
        return found

    def notes_of_cuts(self) -> list[str]:
        are = "1 text is" if self.cut == 1 else f"{self.cut:,} texts are"
        rest = f"longer than {MOST_READ:,} characters; only so much of a text is read, by any method"
        return [f"{self.rows.path.name}: {are} {rest}"] if self.cut else []

    def notes(self) -> list[str]:
        """What to say aloud about them."""
        have = "1 text has" if self.damaged == 1 else f"{self.damaged:,} texts have"
        lost = [f"{self.rows.path.name}: {have} the sign \ufffd, for characters that were lost"] if self.damaged else []
        return self.notes_of_cuts() + lost


def is_blank(text: str) -> bool:
    """Is there nothing to read? Spaces, line ends and signs without a width are nothing."""
    return not any(letter.isprintable() and not letter.isspace() for letter in text)


def _text(row: Record, column: str, rows: Rows, place: str) -> str:
    value = row.get(column)
    if isinstance(value, str):
        return value
    if value is None:
        has = listed(row) or "nothing"
        raise UserError(f"{rows.path}: {place} has no text: the field {quote(column)} is missing; it has: {has}")
    if isinstance(value, bytes | dict | list):
        kind = type(value).__name__
        raise UserError(f"{rows.path}: {place}: the field {quote(column)} is a {kind}, not a text")
    return str(value)
