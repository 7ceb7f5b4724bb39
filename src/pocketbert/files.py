"""Files that appear whole or not at all: write beside, fsync, rename.

A reader never sees half a file, and a power cut leaves either the old one or the new one. Temporary names are
unique per writer and start with a dot, so that two processes never share one and a listing does not show them:

.NAME.PID.RANDOM.part  being written, or being removed: worth nothing once its writer has ended
.NAME.PID.RANDOM.old   the whole folder NAME, set aside while a new one takes its place

A writer holds a lock on its part, which the system gives back when it ends, however it does. So whoever writes NAME
next knows what was left behind, removes the parts, and puts an old folder back where its place is empty.
"""

import contextlib
import csv
import json
import math
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from pocketbert.errors import UserError
from pocketbert.locks import try_lock
from pocketbert.paths import cannot_write, is_standard_output, require_regular_file, target_file, target_folder

TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9]+\.[0-9a-f]{8}\.(?P<kind>part|old)", re.DOTALL)
FORMULA = re.compile(r"[=@\t\r\n]|[+-](?![0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?\Z)")
NO_LETTERS = "backslashreplace"
RIGHTS, EXECUTE = 0o777, 0o111  # of a file's mode


# -- writing ---------------------------------------------------------------------------------------------------------


def _sync(path: Path) -> None:
    """Push a file's bytes, or a folder's names, to the disk. Windows cannot open folders; its rename is synced."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; rename it to `path` when the block ends well, remove it when not."""
    path = target_file(path)
    try:
        with _part_of(path, Path.touch) as part:
            mode = part.stat().st_mode
            yield part
            _share(part, mode)
            _sync(part)
            os.replace(part, path)
            _sync(path.parent)
    except (OSError, SafetensorError) as error:
        raise cannot_write(path, error) from error


@contextlib.contextmanager
def new_output(path: str | os.PathLike[str], mode: str = "w") -> Iterator[IO[Any]]:
    """A new file, open; or standard output, where that is named."""
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "", "errors": NO_LETTERS}
    if is_standard_output(path):
        if sys.stdout is None:
            raise UserError(f"{path}: standard output is closed; name a file")
        if "b" in mode and sys.stdout.isatty():
            raise UserError(f"{path}: this is no text for a terminal; name a file, or send it to a program")
        sys.stdout.flush()
        with open(1, mode, closefd=False, **text) as file:  # type: ignore[call-overload]
            yield file
    else:
        with new_file(path) as part, part.open(mode, **text) as file:  # type: ignore[call-overload]
            yield file


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder to fill; rename it to `path` when the block ends well, remove it when not.

    A folder with something in it is never replaced unless `overwrite` says so.
    """
    path = target_folder(path).absolute()
    recover(path)
    if path.exists() and not overwrite and any(path.iterdir()):
        raise UserError(f"{path}: already exists; name another folder, or ask to overwrite this one")
    try:
        with _part_of(path, Path.mkdir) as part:
            mode = part.stat().st_mode & ~EXECUTE
            yield part
            for file in part.rglob("*"):
                if not file.is_dir():
                    _share(file, mode)
                _sync(file)
            _sync(part)
            _swap_in(part, path)
    except (OSError, SafetensorError) as error:
        raise cannot_write(path, error) from error


def _share(file: Path, mode: int) -> None:
    """Give a file the rights that the umask gives new ones; safetensors writes files that only their owner can read."""
    if file.stat().st_mode & RIGHTS != mode & RIGHTS:
        os.chmod(file, mode & RIGHTS)


def _swap_in(part: Path, path: Path) -> None:
    """Put a whole folder in its place. Between the two renames the place is empty, and the old folder waits beside."""
    old = part.with_suffix(".old")
    if path.exists():
        os.replace(path, old)
    try:
        os.replace(part, path)
    except BaseException:
        if old.exists() and not path.exists():
            os.replace(old, path)
        raise
    _sync(path.parent)
    _discard(old)


# -- what is temporary -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _part_of(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A file or folder to write what shall be `path`, locked as long as its writer lives; gone afterwards."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent, path.name)
    part, handle = _begin(path, make)
    try:
        yield part
    finally:
        _remove(part)
        if handle is not None:
            os.close(handle)


def _begin(path: Path, make: Callable[[Path], None]) -> tuple[Path, int | None]:
    while True:
        part = path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.part")
        make(part)
        if os.name == "nt":
            return part, None  # it renames nothing that is open
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(part, os.O_RDONLY)
            try_lock(handle)  # where the file system has no locks, it is written without
            if part.exists():
                return part, handle
            os.close(handle)  # another took it for abandoned before it was locked


def _abandoned(part: Path) -> bool:
    """Has its writer ended?"""
    if os.name == "nt":
        return True  # it removes nothing that is open
    try:
        handle = os.open(part, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return try_lock(handle)
    finally:
        os.close(handle)


def is_temporary(name: str) -> bool:
    """Is this a name that a writer here gives to what is not finished? No other is ever cleaned up."""
    return TEMPORARY.fullmatch(name) is not None


def recover(path: Path) -> None:
    """Bring a folder back whose writer was killed between taking the old one away and putting the new one there."""
    if not os.path.lexists(path):
        _sweep(path.parent, path.name)


def remove_leftovers(folder: Path) -> None:
    """Put right what killed writers left in a folder; what is still being written stays."""
    _sweep(folder, None)


def _sweep(folder: Path, only: str | None) -> None:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        match = TEMPORARY.fullmatch(name)
        if match is None or only not in (None, match["name"]):
            continue
        found, target = folder / name, folder / match["name"]
        part = found.with_suffix(".part")
        if part.exists() and not _abandoned(part):
            continue
        if match["kind"] == "part":
            _remove(found)
        elif os.path.lexists(target):
            _discard(found)
        else:
            with contextlib.suppress(OSError):
                os.replace(found, target)


def _discard(old: Path) -> None:
    """Remove an old folder that has a successor. It is a part first: what is called old is always whole."""
    part = old.with_suffix(".part")
    with contextlib.suppress(OSError):
        os.replace(old, part)
        _remove(part)


def _remove(part: Path) -> None:
    if part.is_dir() and not part.is_symlink():
        shutil.rmtree(part, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            part.unlink()


# -- what is in them -------------------------------------------------------------------------------------------------


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """In UTF-8; what it has no bytes for, half a letter or a file name that is no text, is written as JSON does."""
    with new_file(path) as part:
        part.write_text(text, encoding="utf-8", errors=NO_LETTERS)


class RowWriter:
    """Rows of a CSV with plain line ends, where Python would leave a carriage return unquoted, and readers stumble.

    `safe_for_spreadsheets`: a text that a spreadsheet would take for a formula gets a ' in front; a number does not.
    """

    def __init__(self, file: IO[str], *, safe_for_spreadsheets: bool = False) -> None:
        self._safe = safe_for_spreadsheets
        self._plain = csv.writer(file, lineterminator="\n")
        self._quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def writerow(self, row: Sequence[Any]) -> None:
        if self._safe:
            row = [f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell for cell in row]
        returns = any(isinstance(cell, str) and "\r" in cell for cell in row)
        (self._quoted if returns else self._plain).writerow(row)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Sorted keys and a final newline: the same value is the same bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike[str], *, most_bytes: int = 50_000_000) -> Any:
    """A JSON file, or an error that names it. The size is looked at before anything is read."""
    path = Path(path)
    size = require_regular_file(path).st_size
    if size > most_bytes:
        raise UserError(f"{path}: {size:,} bytes; a JSON file here is at most {most_bytes:,}")
    try:
        return json.loads(path.read_bytes(), parse_constant=_finite, parse_float=_finite)
    except OSError as error:
        raise UserError(f"{path}: cannot read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not JSON: {error}") from error
    except RecursionError:
        raise UserError(f"{path}: not a JSON we read: it is nested too deeply") from None
    except ValueError as error:  # such as a number of thousands of digits
        raise UserError(f"{path}: not a JSON we read: {error}") from error


def _finite(text: str) -> float:
    """A number as JSON has them: Python would also read NaN, and make infinity of 1e999."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number
