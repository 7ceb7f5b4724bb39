"""`models import`: a model that exists only as a pickle becomes a folder that pocketbert reads."""

import os
import re
import shutil
from pathlib import Path

from pocketbert import hub
from pocketbert.catalog import imported_folder
from pocketbert.checkpoints import WeightFile, read_config, read_encoder, read_pretraining, read_tokenizer
from pocketbert.errors import UserError
from pocketbert.files import new_folder
from pocketbert.paths import require_regular_file
from pocketbert.tokenizer_file import MOST_BYTES
from pocketbert.unpickle import convert


def import_model(
    name: str, out: str | os.PathLike[str] | None = None, *, allow_pickle: bool = False, revision: str | None = None
) -> Path:
    """Convert a model that exists only as `pytorch_model.bin` to a folder pocketbert reads, and check it.

    Without `out` it goes to pocketbert's own folder, and its name then works everywhere.
    """
    folder = Path(os.path.expanduser(name))
    from_hub = not folder.exists() and hub.looks_like_hub_name(name)
    if not allow_pickle:
        raise UserError(
            f"{name}: importing reads a pickle, a file that can hold code. pocketbert refuses the code and reads "
            f"the tensors only; if you trust the origin, say so with --allow-pickle"
        )
    if from_hub:
        folder = hub.fetch(name, revision=revision, pickle=True)
    pickle_file = folder / hub.PICKLE
    if not folder.is_dir():
        raise UserError(f"{name}: no such folder")
    if not os.path.lexists(pickle_file):
        raise UserError(f"{folder}: no {hub.PICKLE} in it; nothing to import")
    read_tokenizer(folder, read_config(folder))
    target = Path(out) if out is not None else imported_folder() / (name if from_hub else _safe_name(folder))
    with new_folder(target) as part:
        for file in ("config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json"):
            if os.path.lexists(folder / file):
                _copy(folder / file, part / file)
        convert(pickle_file, part / "model.safetensors")
        _check_imported(part, folder)
    return target


def _copy(source: Path, target: Path) -> None:
    """Copy one of the small files beside the weights; the vocabulary is the largest."""
    size = require_regular_file(source).st_size
    if size > MOST_BYTES:
        raise UserError(f"{source}: {size:,} bytes; such a file is at most {MOST_BYTES:,}")
    shutil.copyfile(source, target)


def _check_imported(part: Path, folder: Path) -> None:
    try:
        has_words = "cls.predictions.bias" in WeightFile(part).shapes
        (read_pretraining if has_words else read_encoder)(part)
    except UserError as error:
        raise UserError(str(error).replace(str(part), str(folder))) from None


def _safe_name(folder: Path) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name) or "imported"
