"""What pretraining leaves behind: a model folder that says how it came about.

settings.json      what was asked, resolved: enough to do it again
budget.json        how many steps the budget became, and the measurement behind it
curve.jsonl        losses, a line a part, while it trains and after
checkpoint…        while it trains: the way to go on
config.json, model.safetensors, tokenizer…, 1_Pooling/   the model, as `transformers` and pocketbert read it
metrics.json       losses against the baseline, the curve, the cost
README.md          the model card
report.html        the curve, drawn
manifest.json      written last: a folder without one is not finished
"""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketbert.errors import UserError
from pocketbert.files import LOCK, read_json, remove_leftovers, write_json

SETTINGS, MANIFEST, CHECKPOINT = "settings.json", "manifest.json", "checkpoint.safetensors"
BUDGET, CURVE = "budget.json", "curve.jsonl"


@dataclass(frozen=True, eq=False)
class PretrainedFolder:
    """A finished pretraining: the folder is a model by itself."""

    folder: Path
    about: dict[str, Any]  # settings.json
    metrics: dict[str, Any]


def load_pretrained(folder: str | os.PathLike[str]) -> PretrainedFolder:
    """A finished one; files that are missing or were changed since are named."""
    folder = Path(folder)
    if not (folder / MANIFEST).is_file():
        if (folder / SETTINGS).is_file():
            raise UserError(f"{folder}: pretraining is not finished; the same pretrain command again goes on with it")
        raise UserError(f"{folder}: no pretraining of pocketbert (it has no {MANIFEST})")
    for name, entry in read_json(folder / MANIFEST)["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != entry["bytes"] or _sha256(path) != entry["sha256"]:
            raise UserError(f"{path}: missing or changed since pretraining was finished")
    return PretrainedFolder(folder, read_json(folder / SETTINGS), read_json(folder / "metrics.json"))


def refuse_strangers(folder: Path) -> None:
    """A folder that holds something else is left as it is, to the last file."""
    if folder.is_file():
        raise UserError(f"{folder}: is a file; name a folder")
    if folder.is_dir() and not (folder / SETTINGS).is_file():
        strange = [path.name for path in folder.iterdir() if path.name != LOCK and not path.name.endswith(".part")]
        if strange:
            raise UserError(f"{folder}: is no pretraining of pocketbert (it holds {strange[0]}); name another folder")


def begin(folder: Path, about: dict[str, Any]) -> None:
    """Write what was asked, or see that it is what was asked before."""
    remove_leftovers(folder)
    if not (folder / SETTINGS).is_file():
        write_json(folder / SETTINGS, about)
        return
    there, asked = read_json(folder / SETTINGS), json.loads(json.dumps(about))
    flat = [{**values, **values.get("settings", {})} for values in (there, asked)]
    for name in sorted((flat[0].keys() | flat[1].keys()) - {"settings", "pocketbert"}):
        if flat[0].get(name) != flat[1].get(name):
            values = f"{name} is {flat[0].get(name)!r} there and {flat[1].get(name)!r} here"
            raise UserError(f"{folder}: holds another pretraining ({values}); name another folder, or remove it")


def forget(folder: Path) -> None:
    """Undo `begin`: nothing was trained, so nothing stands in the way of the corrected command."""
    for name in (SETTINGS, BUDGET, CURVE, LOCK):
        (folder / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def write_manifest(folder: Path) -> None:
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.name not in (MANIFEST, CHECKPOINT) and not name.name.startswith("."):
            files[name.as_posix()] = {"bytes": path.stat().st_size, "sha256": _sha256(path)}
    write_json(folder / MANIFEST, {"format": 1, "files": files})


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
