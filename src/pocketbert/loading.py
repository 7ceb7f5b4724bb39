"""From a model's name to the model: its encoder, its tokenizer, or all that training starts from.

A name is one of the catalog, a folder, or `owner/model` on the Hub.
"""

import os
import sys
from functools import partial
from pathlib import Path

from pocketbert.catalog import find
from pocketbert.checkpoints import (
    MOST_SETTINGS,
    LoadReport,
    WeightFile,
    read_config,
    read_encoder,
    read_pretraining,
    read_tokenizer,
)
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.files import read_json
from pocketbert.heads import Pretraining
from pocketbert.start import Start
from pocketbert.tokenizer import Tokenizer


def load_encoder(
    name: str | os.PathLike[str], *, revision: str | None = None, seed: int = 0, quiet: bool = False
) -> Encoder:
    """An encoder by name or folder, ready to use (dropout off until `.train()`).

    Args:
        name: a folder, a name that `pocketbert models` lists, or `owner/model` on the Hub.
        revision: a branch, tag or commit on the Hub.
        seed: draws the weights of a shape, or of a pooler that the checkpoint lacks.
        quiet: do not print what was loaded, new and left out.
    """
    source = find(name, revision=revision)
    if source.folder is None:
        assert source.config is not None
        encoder = Encoder(source.config, seed=seed)
        report = LoadReport(source.name, [("new", "everything", f"a published shape; fresh weights from seed {seed}")])
    else:
        encoder, report = read_encoder(source.folder, seed=seed)
    _tell(report, quiet)
    return encoder.eval()


def load_pretraining(
    name: str | os.PathLike[str], *, revision: str | None = None, seed: int = 0, quiet: bool = False
) -> Pretraining:
    """An encoder with its masked-word and next-sentence heads.

    Args:
        name, revision, seed, quiet: as `load_encoder`'s.
    """
    source = find(name, revision=revision)
    if source.folder is None:
        assert source.config is not None
        return Pretraining(Encoder(source.config, seed=seed), seed=seed + 1).eval()
    model, report = read_pretraining(source.folder, seed=seed)
    _tell(report, quiet)
    return model.eval()


def load_model(name: str | os.PathLike[str], *, revision: str | None = None) -> Start:
    """Look a model up and read everything but its weights; shapes have none."""
    source = find(name, revision=revision)
    if source.folder is not None:
        return load_folder(source.folder, source.name)
    assert source.config is not None
    return Start(source.name, source.config, partial(Encoder, source.config), pretrained=False, model=source.name)


def load_folder(folder: Path, name: str) -> Start:
    """The same of a folder that is known by this name: on another machine, it may lie elsewhere."""
    config = read_config(folder)
    has_pooler = "pooler.dense.weight" in WeightFile(folder).shapes
    return Start(
        name,
        config,
        lambda seed: read_encoder(folder, seed=seed)[0],
        read_tokenizer(folder, config),
        pooling=_own_pooling(folder) if has_pooler else "mean",
        has_pooler=has_pooler,
        folder=folder,
        model=name,
    )


def _own_pooling(folder: Path) -> str:
    """Sentence encoders say in their folder that they were trained with the mean of the tokens."""
    path = folder / "1_Pooling" / "config.json"
    content = read_json(path, most_bytes=MOST_SETTINGS) if os.path.lexists(path) else {}
    if isinstance(content, dict) and content.get("pooling_mode_mean_tokens") is True:
        return "mean"
    return "pooler"


def load_tokenizer(name: str | os.PathLike[str], *, revision: str | None = None) -> Tokenizer:
    """The tokenizer that belongs to a model, checked against its word table.

    Args:
        name: a folder, a name that `pocketbert models` lists, or `owner/model` on the Hub.
        revision: a branch, tag or commit on the Hub.
    """
    source = find(name, revision=revision)
    if source.folder is None:
        raise UserError(
            f"'{source.name}' is a shape: it has no vocabulary; learn one (Tokenizer.learn) or load another's"
        )
    tokenizer = read_tokenizer(source.folder, read_config(source.folder))
    if tokenizer is None:
        raise UserError(f"{source.folder}: no tokenizer.json and no vocab.txt in it")
    return tokenizer


def _tell(report: LoadReport, quiet: bool) -> None:
    if not quiet:
        print(report, file=sys.stderr)
