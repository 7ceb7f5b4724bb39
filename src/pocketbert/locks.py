"""Locks: one process at a time writes a folder.

Ours and not `filelock`'s: a writer also locks the very folder it is filling, by its handle, which only the newest
versions of `filelock` can; with it as with ours, the rest of this file would stay.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator

from pocketbert.errors import UserError
from pocketbert.paths import cannot_write, target_folder

LOCK = ".lock"


@contextlib.contextmanager
def lock(
    folder: str | os.PathLike[str], *, wait: float = 0.0, say: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Let one process at a time write a folder. The system gives the lock back when a process ends, however it does.

    `wait`: seconds to give another holder, before it is an error; `say` hears that it has to wait.
    """
    path = target_folder(folder) / LOCK
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        until = time.monotonic() + wait
        while not try_lock(handle):
            if time.monotonic() >= until:
                raise UserError(f"{folder}: another process is writing here; wait for it, or name another folder")
            if say is not None:
                say(f"waiting for another process that writes {folder}")
                say = None
            time.sleep(0.05)
        yield
    finally:
        os.close(handle)  # the file stays: removing it would let two processes hold locks on two files of one name


def try_lock(handle: int) -> bool:
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
