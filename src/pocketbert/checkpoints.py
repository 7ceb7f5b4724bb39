"""Folders ⇄ encoders: Hugging Face's names for BERT's weights, safetensors only.

Reading goes from cheap to dear: config.json is checked, then the names and shapes in the weight file's header, then
the numbers. Nothing is allocated for a model whose header does not fit. Saving writes a folder that `transformers`
reads back exactly.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from pocketbert.config import MOST_TENSORS, Config
from pocketbert.encoder import Encoder, initialise, is_added
from pocketbert.errors import UserError, quote
from pocketbert.files import new_folder, read_json, recover, write_json, write_text
from pocketbert.heads import Pretraining
from pocketbert.paths import require_regular_file
from pocketbert.tokenizer import Tokenizer

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
FLOATS = {"F64", "F32", "F16", "BF16"}
MOST_HEADER = 5_000_000  # bytes of names and shapes before the numbers
MOST_SETTINGS = 1_000_000  # bytes of a config.json
MOST_INDEX = 5_000_000

# Ours → theirs. Several of theirs mean: stacked one above the other.
_EMBEDDINGS = {
    "embeddings.word": ("embeddings.word_embeddings",),
    "embeddings.position": ("embeddings.position_embeddings",),
    "embeddings.token_type": ("embeddings.token_type_embeddings",),
    "embeddings.norm": ("embeddings.LayerNorm",),
    "pooler": ("pooler.dense",),
}
_LAYER = {
    "attention.query_key_value": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "inner": ("intermediate.dense",),
    "outer": ("output.dense",),
    "outer_norm": ("output.LayerNorm",),
}
_PRETRAINING = {
    "words.dense": ("cls.predictions.transform.dense",),
    "words.norm": ("cls.predictions.transform.LayerNorm",),
    "words": ("cls.predictions",),
    "next_sentence.output": ("cls.seq_relationship",),
}
# What a checkpoint may hold beside the encoder, and why it is fine to leave it.
_LEFT_OUT = {
    "embeddings.position_ids": "the numbers 0, 1, 2, …: no weight",
    "cls.predictions.decoder.": "the word table again (tied)",
    "cls.": "pretraining heads: load_pretraining reads them",
    "classifier.": "another task's head",
    "qa_outputs.": "another task's head",
}


def name_map(module: nn.Module) -> dict[str, tuple[str, ...]]:
    """For every parameter of an Encoder, or of a Pretraining: what Hugging Face calls it."""
    encoder = module.encoder if isinstance(module, Pretraining) else module
    prefix = "encoder." if isinstance(module, Pretraining) else ""
    modules: dict[str, tuple[str, ...]] = {prefix + ours: theirs for ours, theirs in _EMBEDDINGS.items()}
    for i in range(len(encoder.layers)):  # type: ignore[arg-type]
        for ours, theirs in _LAYER.items():
            modules[f"{prefix}layers.{i}.{ours}"] = tuple(f"encoder.layer.{i}.{name}" for name in theirs)
    if isinstance(module, Pretraining):
        modules.update(_PRETRAINING)
    named = {}
    for parameter, _ in module.named_parameters():
        if not is_added(parameter):  # what a method put into a slot is no part of BERT
            owner, _, last = parameter.rpartition(".")
            named[parameter] = tuple(f"{theirs}.{last}" for theirs in modules[owner])
    return named


@dataclass
class LoadReport:
    """What came out of a checkpoint, what is new, what was left in it, and why that is fine."""

    source: str
    rows: list[tuple[str, str, str]] = field(default_factory=list)  # (loaded | new | left out, what, why)

    def __str__(self) -> str:
        width = max((len(what) for _, what, _ in self.rows), default=0)
        lines = [f"  {kind:<9} {what:<{width}}  {why}".rstrip() for kind, what, why in self.rows]
        return "\n".join([f"{self.source}:", *lines])


class WeightFile:
    """The safetensors of a folder, single or sharded: names and shapes from the headers, numbers when asked."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / WEIGHTS
        self._where: dict[str, tuple[Path, str]] = {}  # name as ours expects it → (file, name in the file)
        self.shapes: dict[str, tuple[int, ...]] = {}
        for path in self._files(folder):
            self._read_header(path)
        if not self.shapes:
            raise UserError(f"{self.path}: holds no weights")

    def _files(self, folder: Path) -> list[Path]:
        if os.path.lexists(self.path):
            return [self.path]
        index = folder / INDEX
        if os.path.lexists(index):
            self.path = index
            content = read_json(index, most_bytes=MOST_INDEX)
            shards = content.get("weight_map") if isinstance(content, dict) else None
            if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
                raise UserError(f"{index}: field 'weight_map' is missing or no table of names to files")
            names = sorted(set(shards.values()))
            for name in names:
                if Path(name).name != name or not name.endswith(".safetensors"):
                    raise UserError(
                        f"{index}: field 'weight_map' names {quote(name)}; expected a .safetensors beside it"
                    )
                if not os.path.lexists(folder / name):
                    raise UserError(f"{index}: field 'weight_map' names {quote(name)}, which is not in {folder}")
            return [folder / name for name in names]
        pickles = sorted(path.name for path in folder.iterdir() if path.suffix in {".bin", ".pt", ".pth", ".ckpt"})
        if pickles:
            raise UserError(
                f"{folder}: weights only as {pickles[0]}, a pickle, which can run code when read; pocketbert reads "
                f"safetensors. If you trust its origin, convert it once: "
                f"pocketbert models import {folder} --allow-pickle"
            )
        raise UserError(f"{folder}: no {WEIGHTS} in it")

    def _read_header(self, path: Path) -> None:
        _check_header(path)
        with _opened(path) as file:
            names = file.keys()
            if len(self.shapes) + len(names) > MOST_TENSORS:
                raise UserError(f"{path}: more than {MOST_TENSORS:,} tensors; no BERT has so many")
            for name in names:
                kind = file.get_slice(name).get_dtype()
                plain = plain_name(name)
                if kind not in FLOATS and not plain.endswith("position_ids"):
                    raise UserError(f"{path}: tensor {quote(name)} is of type {kind}; expected one of {sorted(FLOATS)}")
                if plain in self._where:
                    also = quote(self._where[plain][1])
                    raise UserError(f"{path}: tensor {quote(name)} is there twice (also as {also})")
                self._where[plain] = (path, name)
                self.shapes[plain] = tuple(file.get_slice(name).get_shape())

    def read(self, names: Iterable[str]) -> dict[str, Tensor]:
        """These tensors as float32, in memory of their own; not-a-numbers are refused."""
        tensors = {}
        by_file: dict[Path, list[str]] = {}
        for name in names:
            by_file.setdefault(self._where[name][0], []).append(name)
        for path, wanted in by_file.items():
            with _opened(path) as file:
                for name in wanted:
                    inside = self._where[name][1]
                    tensors[name] = file.get_tensor(inside).to(torch.float32, copy=True)
                    if not torch.isfinite(tensors[name]).all():
                        raise UserError(f"{path}: tensor '{inside}' holds NaN or infinite numbers; the file is damaged")
        return tensors


def _check_header(path: Path) -> None:
    """Look at a safetensors file's first number, the length of its header, before the library reads that much."""
    size = require_regular_file(path).st_size
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
    except OSError as error:
        raise UserError(f"{path}: cannot read: {error.strerror}") from error
    if length + 8 > size:
        raise UserError(f"{path}: not a whole safetensors file; download or copy it again")
    if length > MOST_HEADER:
        raise UserError(f"{path}: a header of {length:,} bytes; here it is at most {MOST_HEADER:,}")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A safetensors file to read from; what is wrong with it, or too large in it, is said with its name."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path}: not a whole safetensors file: {quote(str(error))}; download or copy it again"
        ) from error
    except (MemoryError, RuntimeError) as error:  # the second is torch's word for the first
        raise UserError(f"{path}: not enough memory to read it: {path.stat().st_size:,} bytes") from error


def plain_name(name: str) -> str:
    """A weight's name without the prefix some checkpoints have, and with today's words for the norms' weights."""
    name = name.removeprefix("bert.")
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return name


def read_config(folder: str | os.PathLike[str]) -> Config:
    path = Path(folder) / "config.json"
    return Config.from_hugging_face(read_json(path, most_bytes=MOST_SETTINGS), source=str(path))


def read_tokenizer(folder: str | os.PathLike[str], config: Config) -> Tokenizer | None:
    """The folder's tokenizer, checked against the word table; None where it has none."""
    folder = Path(folder)
    if not any(os.path.lexists(folder / name) for name in ("tokenizer.json", "vocab.txt")):
        return None
    tokenizer = Tokenizer.from_folder(folder)
    if len(tokenizer) > config.vocabulary:
        raise UserError(
            f"{folder}: the vocabulary has {len(tokenizer):,} tokens, but field 'vocab_size' of config.json, and so "
            f"the word table, has {config.vocabulary:,} rows; this tokenizer belongs to another model"
        )
    return tokenizer


def read_encoder(folder: str | os.PathLike[str], *, seed: int = 0) -> tuple[Encoder, LoadReport]:
    """An encoder from a folder. `seed` is for a pooler where the checkpoint has none."""
    config = _check_folder(Path(folder))
    encoder = Encoder(config, seed=None)
    report = _fill(encoder, Path(folder), may_be_new=("pooler",), seed=seed)
    return encoder, report


def read_pretraining(folder: str | os.PathLike[str], *, seed: int = 0) -> tuple[Pretraining, LoadReport]:
    """An encoder with its masked-word and next-sentence heads. The first must be there, the second may be new."""
    config = _check_folder(Path(folder))
    model = Pretraining(Encoder(config, seed=None), seed=None)
    report = _fill(model, Path(folder), may_be_new=("encoder.pooler", "next_sentence"), seed=seed)
    _check_tied(model, WeightFile(Path(folder)))
    return model, report


def _check_tied(model: Pretraining, weights: WeightFile) -> None:
    """Some checkpoints store the output table beside the word table; ours is one table, so they must agree."""
    tied = {"cls.predictions.decoder.weight": model.encoder.embeddings.word.weight}
    tied["cls.predictions.decoder.bias"] = model.words.bias
    for name, ours in tied.items():
        if name in weights.shapes and not torch.equal(weights.read([name])[name], ours):
            raise UserError(
                f"{weights.path}: tensor '{name}' is not tied to the word table; pocketbert reads tied heads only"
            )


def _check_folder(folder: Path) -> Config:
    recover(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    if not any(folder.iterdir()):
        raise UserError(f"{folder}: the folder is empty; a model has config.json, model.safetensors and vocab.txt")
    config = read_config(folder)
    read_tokenizer(folder, config)  # words in the wrong rows would be silently wrong
    return config


def _fill(module: nn.Module, folder: Path, *, may_be_new: tuple[str, ...], seed: int) -> LoadReport:
    """Give a module without numbers its weights: equal names and equal shapes, or an error that names both."""
    weights = WeightFile(folder)
    names = name_map(module)
    expected = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    report = LoadReport(str(folder))
    fresh = []
    for part in may_be_new:
        theirs = [name for ours, several in names.items() if ours.startswith(part) for name in several]
        if not any(name in weights.shapes for name in theirs):
            fresh.append(part)
            names = {ours: several for ours, several in names.items() if not ours.startswith(part)}
    wanted = [name for several in names.values() for name in several]
    missing = [name for name in wanted if name not in weights.shapes]
    if missing:
        raise UserError(
            f"{weights.path}: {_listed(missing)} missing; config.json describes a model that has {_them(missing)}"
        )
    _explain_the_rest(weights, wanted, report)
    for ours, several in names.items():
        rows = expected[ours][0] // len(several)
        for name in several:
            shape = (rows, *expected[ours][1:])
            if weights.shapes[name] != shape:
                raise UserError(
                    f"{weights.path}: tensor '{name}' has shape {quote(weights.shapes[name])}, "
                    f"but config.json makes it {shape}"
                )
    tensors = weights.read(wanted)
    state = {ours: torch.cat([tensors.pop(name) for name in several]) for ours, several in names.items()}
    module.load_state_dict(state, strict=False, assign=True)
    for part in fresh:
        initialise(module.get_submodule(part), 0.02, seed)
        report.rows.append(("new", part, f"not in the checkpoint; fresh weights from seed {seed}"))
    count = sum(tensor.numel() for tensor in state.values())
    report.rows.insert(0, ("loaded", f"{len(wanted)} tensors", f"{count:,} parameters, by name and shape"))
    return report


def _explain_the_rest(weights: WeightFile, wanted: list[str], report: LoadReport) -> None:
    left: dict[str, list[str]] = {}
    unexpected = []
    for name in sorted(set(weights.shapes) - set(wanted)):
        prefix = next((prefix for prefix in _LEFT_OUT if name.startswith(prefix)), None)
        if prefix is None:
            unexpected.append(name)
        else:
            left.setdefault(prefix, []).append(name)
    if unexpected:
        raise UserError(f"{weights.path}: {_listed(unexpected)} unexpected: config.json describes no such part")
    for prefix, names in left.items():
        report.rows.append(("left out", _listed(names), _LEFT_OUT[prefix]))


def _listed(names: list[str]) -> str:
    shown = ", ".join(quote(name) for name in names[:3])
    return (
        f"tensor {shown}"
        if len(names) == 1
        else f"tensors {shown}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    )


def _them(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"


def hugging_face_tensors(module: nn.Module, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """A module's weights under Hugging Face's names, as one would find them in its own checkpoints."""
    prefix = "bert." if isinstance(module, Pretraining) else ""
    tensors = {}
    parameters = dict(module.named_parameters())
    for ours, several in name_map(module).items():
        for name, part in zip(several, parameters[ours].detach().chunk(len(several)), strict=True):
            full = name if name.startswith("cls.") else prefix + name
            tensors[full] = part.to("cpu", dtype).contiguous().clone()
    return tensors


def save_model(
    module: Encoder | Pretraining,
    folder: str | os.PathLike[str],
    tokenizer: Tokenizer | None = None,
    *,
    dtype: torch.dtype = torch.float32,
    overwrite: bool = False,
) -> None:
    """Write a folder that `transformers` and pocketbert read: config, weights, tokenizer. Whole or not at all.

    Args:
        module: an encoder, or what `load_pretraining` gives.
        folder: where to write; a folder with something in it is refused,
        overwrite: unless this is true.
        tokenizer: written beside the weights, where one is given.
        dtype: of the weights in the file: torch.float32, or torch.float16 for half the size.
    """
    pretraining = isinstance(module, Pretraining)
    config = module.encoder.config if isinstance(module, Pretraining) else module.config
    if tokenizer is not None and len(tokenizer) > config.vocabulary:
        raise UserError(f"{folder}: a tokenizer of {len(tokenizer):,} tokens on a table of {config.vocabulary:,} words")
    with new_folder(folder, overwrite=overwrite) as part:
        architecture = "BertForPreTraining" if pretraining else "BertModel"
        write_json(part / "config.json", {"architectures": [architecture], **config.to_hugging_face()})
        save_file(hugging_face_tensors(module, dtype), part / WEIGHTS, metadata={"format": "pt"})
        if tokenizer is not None:
            write_tokenizer(tokenizer, part, config.positions)


def write_tokenizer(tokenizer: Tokenizer, folder: Path, positions: int) -> None:
    write_text(folder / "tokenizer.json", tokenizer.to_json() + "\n")
    write_text(folder / "vocab.txt", "\n".join(tokenizer.tokens) + "\n")
    write_json(folder / "tokenizer_config.json", {**tokenizer.settings(), "model_max_length": positions})
