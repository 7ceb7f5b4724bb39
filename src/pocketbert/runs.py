"""A run: model x method x task x settings x seed, and everything that came out of it, as a folder.

settings.json      what was asked, resolved: enough to do it again
checkpoint…        while it trains: the way to go on
model/             what the method trained, and nothing else (training/fit.py)
predictions.safetensors   probabilities for dev and test; dev.csv, test.csv: the same, rounded, for people
seen.safetensors   hashes of the texts it learnt from, and its ancestors, to recognise them when something is scored
metrics.json       history, the choice, scores with intervals, cost
manifest.json      written last: a folder without one is not finished
"""

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file
from torch import nn

from pocketbert.adapters import fuse
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.files import recover
from pocketbert.loading import load_model
from pocketbert.manifest import SETTINGS, Written, read_finished, sha256
from pocketbert.methods import Method, get_method
from pocketbert.run_files import PREDICTIONS, SEEN, read_metadata, read_metrics, rounded_predictions, saved_settings
from pocketbert.start import Start, weights_fingerprint
from pocketbert.tasks import Split
from pocketbert.tasks.task import Source
from pocketbert.training.fit import TRAINED
from pocketbert.training.job import Fitted, Saved
from pocketbert.training.network import module_name
from pocketbert.training.settings import Settings, check_device
from pocketbert.values import within

SERIOUS = 0.01  # share of rows that were learnt from, above which a score means nothing


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run, read back from its folder."""

    folder: Path
    metadata: dict[str, Any]  # settings.json
    metrics: dict[str, Any]
    files: dict[str, Written]  # of the manifest

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.metadata["labels"])

    @property
    def method(self) -> Method:
        return get_method(self.metadata["method"])

    @property
    def settings(self) -> Settings:
        return saved_settings(self.metadata)

    @property
    def source(self) -> Source | None:
        """What its task was loaded from; None: a program made it, or an older version trained the run."""
        found = self.metadata.get("source")
        return None if found is None else Source(**{**found, "paths": tuple(found["paths"])})

    @property
    def columns(self) -> dict[str, str | None]:
        """Where its texts and labels were in their file: text, text2, label."""
        source = self.source
        return {} if source is None else {"text": source.text, "text2": source.text2, "label": source.label}

    def fitted(self, base: Start | None = None, *, start: Start | None = None) -> Fitted:
        """What classifies, loaded from the folder; the model's files must be those that were written.

        `base`: the pretrained model it all began with, where that is not to be looked up by its name. `start`: what it
        was trained on, where that is known.
        """
        for name, entry in self.files.items():
            if name.startswith("model/") and sha256(self.folder / name) != entry["sha256"]:
                raise UserError(f"{self.folder / name}: changed since the run was finished")
        check_device(getattr(self.settings, "device", "cpu"))
        if (
            start is None
            and self.method.needs_model
            and not any((self.folder / "model" / own).exists() for own in OWN_ENCODER)
        ):
            start = self.origin(base)
        metadata, folder = self.metadata, self.folder / "model"
        return self.method.load(
            Saved(folder, metadata["task"], self.labels, self.settings, start, metadata.get("weights"))
        )

    def origin(self, base: Start | None = None) -> Start:
        """What it started from, where it was then; `base` as for `fitted`."""
        before, adapters = self.metadata.get("from"), self.metadata.get("adapters", {})
        if before is not None:
            return load_run(self.folder / before).start(base)
        if self.metadata["model"] is None:
            raise UserError(f"{self.folder / SETTINGS}: damaged: it names no model")
        start = base or load_model(self.metadata["model"])
        return with_adapters(start, {name: self._adapter(name, one) for name, one in adapters.items()})

    def _adapter(self, name: str, entry: dict[str, Any]) -> "Run":
        with within(f"{self.folder}: its adapter '{name}' is not as it was when it was fused"):
            run = load_run(self.folder / entry["run"])
            if _hash_of_trained(run) != entry["sha256"]:
                raise UserError(f"{run.folder}: trained anew since; put the old run back, or fuse again")
        return run

    def start(self, base: Start | None = None) -> Start:
        """This run as what another training starts from; `base` as for `fitted`."""
        fitted = self.fitted(base)
        network = getattr(fitted, "network", None)
        if network is None:
            raise UserError(
                f"{self.folder}: method '{self.metadata['method']}' trained no encoder; nothing to start from"
            )
        encoder = network.encoder
        encoder.merge_projections()  # what is loaded here is nobody else's
        parts = network.parts().values()
        if any(part.of == "added" for part in parts):
            raise UserError(
                f"{self.folder}: method '{self.metadata['method']}' added to its encoder what a start cannot hold; "
                f"start from its model, '{self.metadata['model']}'"
            )
        return Start(
            str(self.folder),
            encoder.config,
            lambda seed: copy.deepcopy(encoder),
            fitted.tokenizer,  # type: ignore[attr-defined]
            pooling=network.pooling,
            has_pooler=any(part.of == "pooler" and part.read for part in parts),
            model=self.metadata["model"],
            run=self.folder,
            ancestry=(*self.metadata.get("ancestry", ()), self.as_ancestor()),
            seen=self.learnt(),
        )

    def as_ancestor(self) -> dict[str, Any]:
        """What is said of it where something else was made of it."""
        own = {name: self.metadata[name] for name in ("task", "method", "model", "fingerprints")}
        return {**own, "seed": self.settings.seed}

    def predictions(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """What it predicted for its own dev or test: (probabilities, (rows, labels); the number of the likeliest)."""
        if PREDICTIONS not in self.files:
            return rounded_predictions(self.folder / f"{split}.csv", self.labels)
        probabilities = self._array(PREDICTIONS, split, np.float64)
        if probabilities.ndim != 2 or probabilities.shape[1] != len(self.labels):
            raise UserError(f"{self.folder / PREDICTIONS}: damaged: not a probability for each of its labels")
        return probabilities, probabilities.argmax(axis=1)

    def learnt(self) -> np.ndarray:
        """Hashes of the texts it learnt from, and those that it started from."""
        return self._array(SEEN, "hashes", np.int64)

    def _array(self, file: str, name: str, kind: type) -> np.ndarray:
        path = self.folder / file
        try:
            found = load_file(path)[name]
        except (OSError, SafetensorError, KeyError, TypeError) as error:
            raise UserError(f"{path}: damaged: {error}") from error
        if found.dtype != kind:
            raise UserError(f"{path}: damaged: {name} is {found.dtype}, not {np.dtype(kind)}")
        return found

    def seen(self, split: Split) -> np.ndarray:
        """For each row: was this text (spelling aside) learnt from, by this run or one that it started from?"""
        return np.isin(split.hashes, self.learnt())


def with_adapters(start: Start, runs: Mapping[str, Run]) -> Start:
    """A start whose encoder has the adapters of these runs, by name, side by side in its slots, to be fused.

    All must have been trained on this very encoder. What they have learnt from, the start has learnt from.
    """
    if not runs:
        return start
    encoder = start.encoder()
    lent = replace(start, make=lambda seed: encoder)
    fingerprint = weights_fingerprint(encoder)
    members: dict[str, dict[str, nn.Module]] = {}
    known: dict[str, tuple[str, tuple[str, ...]]] = {}
    for name, run in runs.items():
        with within(f"adapter '{name}'"):
            require_same_encoder(run, start, encoder, fingerprint)
            if module_name(name) in members:
                raise UserError("another one has nearly the same name; rename one")
            other, labels = known.setdefault(run.metadata["task"], (name, run.labels))
            if set(labels) != set(run.labels):
                raise UserError(
                    f"{run.folder} learnt {run.metadata['task']} with the labels {', '.join(run.labels)}, and "
                    f"'{other}' the same task with {', '.join(labels)}"
                )
            run.fitted(start=lent)
            members[module_name(name)] = encoder.added()
            if not encoder.added():
                raise UserError(f"{run.folder}: method '{run.metadata['method']}' trained no adapter")
    whole = start.encoder()  # what was lent may have been given another dropout
    fuse(whole, members)
    return replace(
        start,
        make=lambda seed: copy.deepcopy(whole),
        adapters={
            name: {
                "run": run.folder,
                "sha256": _hash_of_trained(run),
                "task": run.metadata["task"],
                "labels": run.labels,
            }
            for name, run in runs.items()
        },
        ancestry=(*start.ancestry, *(run.as_ancestor() for run in runs.values())),
        seen=np.unique(np.concatenate([start.seen, *(run.learnt() for run in runs.values())])),
    )


def require_same_encoder(run: Run, start: Start, encoder: Encoder, fingerprint: str) -> None:
    """Was this run trained on just this encoder? Its adapters and its head mean nothing on another."""
    metadata = run.metadata
    if metadata.get("weights") == fingerprint:
        return
    width = _width_of_trained(run)
    if width is not None and width != encoder.config.width:
        raise UserError(
            f"{run.folder}: was trained on an encoder {width} wide ('{metadata['model']}'); "
            f"'{start.name}' is {encoder.config.width} wide"
        )
    raise UserError(
        f"{run.folder}: was trained on other weights (of '{metadata['model']}', fingerprint "
        f"{str(metadata.get('weights'))[:8]}) than '{start.name}' has (fingerprint {fingerprint[:8]}); train it again "
        f"on '{start.name}'"
    )


def _width_of_trained(run: Run) -> int | None:
    """How wide the encoder was that a run was trained on, as its tensors tell."""
    try:
        with safe_open(run.folder / "model" / TRAINED, framework="np") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError):
        return None
    ends = ("up.bias", "norm.bias", "query.bias")
    return next((shape[0] for name, shape in shapes.items() if name.endswith(ends)), None)


def _hash_of_trained(run: Run) -> str:
    entry = run.files.get(f"model/{TRAINED}")
    if entry is None:
        raise UserError(f"{run.folder}: holds no trained weights of its own to fuse")
    return str(entry["sha256"])


OWN_ENCODER = ("config.json", "encoder")  # in a run's model/: it needs no start to be loaded (format 2, format 1)


def load_start(name: str | os.PathLike[str]) -> Start:
    """A model by name or folder; or a finished run by its folder."""
    if is_run(name):
        return load_run(Path(name).expanduser()).start()
    return load_model(name)


def is_run(name: str | os.PathLike[str]) -> bool:
    """Is there the folder of a run?"""
    folder = Path(name).expanduser()
    return (folder / SETTINGS).is_file() and (folder / "model").is_dir()


def load_run(folder: str | os.PathLike[str]) -> Run:
    """A finished run: its `labels`, `metadata`, `metrics` and, loaded when asked for, what classifies: `fitted()`.

    Args:
        folder: what `train_run`, `pocketbert train` or `Classifier.save` wrote. Files that are missing or were changed
            since are named; the model's are looked at when loaded.
    """
    folder = Path(folder)
    recover(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such run")
    files = read_finished(folder, "run", "train", later="model/")
    metadata = read_metadata(folder)
    return Run(folder, metadata, read_metrics(folder, len(metadata["labels"])), files)
