"""What a finished folder says of itself: every file with its size and hash, in manifest.json, written last.

Runs and pretrained models are both kept so.
"""

import hashlib
from pathlib import Path, PurePosixPath
from typing import TypedDict

from pocketbert.errors import UserError
from pocketbert.files import write_json
from pocketbert.values import Count, Format, read_object, shown

SETTINGS, MANIFEST, CHECKPOINT = "settings.json", "manifest.json", "checkpoint.safetensors"
METRICS = "metrics.json"


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


def read_finished(folder: Path, kind: str, command: str, *, later: str | None = None) -> dict[str, Written]:
    """The files of a finished folder, each as it was written; hashes below `later` are left for when it is loaded."""
    if not (folder / MANIFEST).is_file():
        if (folder / SETTINGS).is_file():
            raise UserError(f"{folder}: the {kind} is not finished; the same {command} command again goes on with it")
        raise UserError(f"{folder}: no {kind} of pocketbert (it has no {MANIFEST})")
    files = read_manifest(folder, SETTINGS, METRICS)
    for name, entry in files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != entry["bytes"]:
            raise UserError(f"{path}: missing or changed since the {kind} was finished")
        if (later is None or not name.startswith(later)) and sha256(path) != entry["sha256"]:
            raise UserError(f"{path}: changed since the {kind} was finished")
    return files


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
