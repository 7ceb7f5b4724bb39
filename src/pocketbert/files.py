"""Files that appear whole or not at all: write beside, fsync, rename.

A reader never sees half a file, and a power cut leaves either the old one or the new one. Temporary names are
unique per writer and start with a dot, so that two processes never share one and a listing does not show them.
"""

import contextlib
import csv
import json
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from safetensors import SafetensorError

from pocketbert.errors import CannotWrite, UserError

LOCK = ".lock"


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}.part")


def _sync(path: Path) -> None:
    """Push a file's bytes, or a folder's names, to the disk. Windows cannot open folders; its rename is synced."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cannot_write(path: Path, error: Exception) -> CannotWrite:
    why = getattr(error, "strerror", None) or error
    return CannotWrite(f"{path}: cannot write: {why}; check the path, permissions and free space")


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path to write to; rename it to `path` when the block ends well, remove it when not."""
    path = Path(path)
    part = _beside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        _sync(part)
        os.replace(part, path)
        _sync(path.parent)
    except (OSError, SafetensorError) as error:
        raise _cannot_write(path, error) from error
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def new_folder(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary folder to fill; rename it to `path` when the block ends well, remove it when not.

    A folder with something in it is never replaced unless `overwrite` says so.
    """
    path = Path(path).absolute()
    if path.exists() and not overwrite and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path}: already exists; name another folder, or ask to overwrite this one")
    part = _beside(path)
    try:
        part.mkdir(parents=True)
        yield part
        for file in part.rglob("*"):
            _sync(file)
        _sync(part)
        _swap_in(part, path)
        _sync(path.parent)
    except (OSError, SafetensorError) as error:
        raise _cannot_write(path, error) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _swap_in(part: Path, path: Path) -> None:
    old = _beside(path)
    if path.exists():
        os.replace(path, old)
    try:
        os.replace(part, path)
    except OSError:
        if old.exists():
            os.replace(old, path)
        raise
    if old.is_dir() and not old.is_symlink():
        shutil.rmtree(old)
    else:
        old.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    with new_file(path) as part:
        part.write_text(text, encoding="utf-8")


class RowWriter:
    """Rows of a CSV with plain line ends, where Python would leave a carriage return unquoted, and readers stumble."""

    def __init__(self, file: TextIO) -> None:
        self._plain = csv.writer(file, lineterminator="\n")
        self._quoted = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)

    def writerow(self, row: Sequence[Any]) -> None:
        returns = any(isinstance(cell, str) and "\r" in cell for cell in row)
        (self._quoted if returns else self._plain).writerow(row)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Sorted keys and a final newline: the same value is the same bytes."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike[str], *, most_bytes: int = 50_000_000) -> Any:
    """A JSON file, or an error that names it. The size is looked at before anything is read."""
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise UserError(f"{path}: {size:,} bytes; a JSON file here is at most {most_bytes:,}")
        return json.loads(path.read_bytes(), parse_constant=_finite, parse_float=_finite)
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not JSON: {error}") from error
    except RecursionError:
        raise UserError(f"{path}: not a JSON we read: it is nested too deeply") from None
    except UserError:
        raise
    except ValueError as error:  # such as a number of thousands of digits
        raise UserError(f"{path}: not a JSON we read: {error}") from error


def _finite(text: str) -> float:
    """A number as JSON has them: Python would also read NaN, and make infinity of 1e999."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed writer left half-written. Only for one who holds the folder's lock."""
    for path in folder.glob(".*.part"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def home() -> Path:
    """Where pocketbert keeps what a person imported or downloaded: POCKETBERT_HOME, else the usual data folder."""
    given = os.environ.get("POCKETBERT_HOME")
    if given:
        return Path(given).expanduser()
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", "~")).expanduser() / "pocketbert"
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "pocketbert"


@contextlib.contextmanager
def lock(
    folder: str | os.PathLike[str], *, wait: float = 0.0, say: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Let one process at a time write a folder. The system gives the lock back when a process ends, however it does.

    `wait`: seconds to give another holder, before it is an error; `say` hears that it has to wait.
    """
    path = Path(folder) / LOCK
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        until = time.monotonic() + wait
        while not _locked(handle):
            if time.monotonic() >= until:
                raise UserError(f"{folder}: another process is writing here; wait for it, or name another folder")
            if say is not None:
                say(f"waiting for another process that writes {folder}")
                say = None
            time.sleep(0.05)
        yield
    finally:
        os.close(handle)  # the file stays: removing it would let two processes hold locks on two files of one name


def _locked(handle: int) -> bool:
    """Try to take the lock, without waiting."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
