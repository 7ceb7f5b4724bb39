"""What stands behind a name in the file system: a file, a folder, standard output, pocketbert's own home."""

import os
import stat
from pathlib import Path

from pocketbert.errors import CannotWrite, UserError

STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def require_regular_file(path: str | os.PathLike[str]) -> os.stat_result:
    """What the system knows of a file that can be opened again and again, and never waits; links are followed."""
    try:
        found = _look(path)
    except OSError as error:
        raise UserError(f"{path}: cannot read: {error.strerror}") from error
    if found is None:
        raise UserError(f"{path}: no such file")
    if stat.S_ISDIR(found.st_mode):
        raise UserError(f"{path}: this is a folder; name a file")
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{path}: is {_kind(found.st_mode)}, not a file; save what it gives to a file first")
    return found


def target_file(path: str | os.PathLike[str]) -> Path:
    """Where a file asked for at `path` is written: a link is followed, and what is no file is left as it is."""
    return _target(Path(path), stat.S_IFREG)


def target_folder(path: str | os.PathLike[str]) -> Path:
    """Where a folder asked for at `path` is written: a link is followed, and what is no folder is left as it is."""
    return _target(Path(path), stat.S_IFDIR)


def _target(path: Path, wanted: int) -> Path:
    try:
        found = _look(path)
        end = Path(os.path.realpath(path)) if path.is_symlink() else path
    except OSError as error:
        raise cannot_write(path, error) from error
    if found is not None and stat.S_IFMT(found.st_mode) != wanted:
        raise UserError(f"{path}: is {_kind(found.st_mode)}; name {_kind(wanted)}")
    return end


def _look(path: str | os.PathLike[str]) -> os.stat_result | None:
    """What is there, at the end of all links; None: nothing."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:  # a NUL, or a letter that no file name can have
        raise UserError(f"{str(path)!r}: no name of a file: {error}") from error


def _kind(mode: int) -> str:
    kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def cannot_write(path: Path, error: Exception) -> CannotWrite:
    why = getattr(error, "strerror", None) or error
    return CannotWrite(f"{path}: cannot write: {why}; check the path, permissions and free space")


def is_standard_output(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path) in STANDARD_OUTPUT


def home() -> Path:
    """Where pocketbert keeps what a person imported or downloaded: POCKETBERT_HOME, else the usual data folder."""
    given = os.environ.get("POCKETBERT_HOME")
    if given:
        return Path(given).expanduser()
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA", "~")).expanduser() / "pocketbert"
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "pocketbert"
