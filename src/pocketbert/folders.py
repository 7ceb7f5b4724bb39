"""Folders that something is trained into: settings first, manifest last, and a way to go on in between.

Runs and pretrained models are both kept so. `kind` is what the folder holds, as an error calls it.
"""

import contextlib
import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Any, TypedDict

from pocketbert.errors import UserError
from pocketbert.files import LOCK, is_temporary, remove_leftovers, target_folder, write_json
from pocketbert.values import Count, Format, read_object, shown

SETTINGS, MANIFEST, CHECKPOINT = "settings.json", "manifest.json", "checkpoint.safetensors"
METRICS = "metrics.json"


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


def write_manifest(folder: Path) -> None:
    """Size and hash of every file; written last, so that a folder with one is whole."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.name not in (MANIFEST, CHECKPOINT) and not name.name.startswith("."):
            files[name.as_posix()] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    write_json(folder / MANIFEST, {"format": 1, "files": files})


class Written(TypedDict):
    """A file of a finished folder, as it was written."""

    bytes: Count
    sha256: str


class Manifest(TypedDict):
    """manifest.json."""

    format: Format
    files: dict[str, Written]


def read_manifest(folder: Path, *needed: str) -> dict[str, Written]:
    """The files of a finished folder by name: those `needed` among them, and none that is not in the folder."""
    path = folder / MANIFEST
    files: dict[str, Written] = read_object(path, Manifest)["files"]
    for name in files:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts or "\\" in name or "\0" in name:
            raise UserError(f"{path}: damaged: {shown(name)} is no file of this folder")
    for name in needed:
        if name not in files:
            raise UserError(f"{path}: damaged: {name} is missing")
    return files


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
