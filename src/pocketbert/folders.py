"""Folders that something is trained into: settings first, manifest last, and a way to go on in between.

Runs and pretrained models are both kept so. `kind` is what the folder holds, as an error calls it.
"""

import contextlib
import json
from pathlib import Path
from typing import Any

from pocketbert.errors import UserError
from pocketbert.files import is_temporary, remove_leftovers, write_json
from pocketbert.locks import LOCK
from pocketbert.manifest import SETTINGS
from pocketbert.paths import target_folder


def require_own_or_empty(folder: Path, kind: str) -> None:
    """A folder that holds something else is left as it is, to the last file."""
    target_folder(folder)
    if folder.is_dir() and not (folder / SETTINGS).is_file():
        foreign = [path.name for path in folder.iterdir() if path.name != LOCK and not is_temporary(path.name)]
        if foreign:
            raise UserError(f"{folder}: is no {kind} of pocketbert (it holds {foreign[0]}); name another folder")


def begin(folder: Path, there: dict[str, Any] | None, metadata: dict[str, Any], message: str) -> None:
    """Write what was asked; or, where something is there already, see that it was asked the same."""
    remove_leftovers(folder)
    if there is None:
        write_json(folder / SETTINGS, metadata)
    else:
        same_settings(there, metadata, message)


def same_settings(there: dict[str, Any], asked: dict[str, Any], message: str) -> None:
    """Compare as JSON does (tuples are lists); name the first thing that differs."""
    there, asked = json.loads(json.dumps([there, asked]))
    flat = [{**metadata, **metadata.get("settings", {})} for metadata in (there, asked)]
    for name in sorted((flat[0].keys() | flat[1].keys()) - {"settings", "pocketbert"}):
        if flat[0].get(name) != flat[1].get(name):
            values = f"{name} is {flat[0].get(name)!r} there and {flat[1].get(name)!r} here"
            raise UserError(f"{message} ({values}); name another folder, or remove it")


def forget(folder: Path, *more: str) -> None:
    """Undo `begin`: nothing was trained, so nothing stands in the way of the corrected command."""
    for name in (SETTINGS, *more, LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
