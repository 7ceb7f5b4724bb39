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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from pocketbert.errors import UserError
from pocketbert.files import recover
from pocketbert.loading import load_model
from pocketbert.manifest import SETTINGS, Written, read_finished, sha256
from pocketbert.methods import Method, get_method
from pocketbert.run_files import PREDICTIONS, SEEN, read_metadata, read_metrics, rounded_predictions, saved_settings
from pocketbert.start import Start
from pocketbert.tasks import Split
from pocketbert.tasks.task import Source
from pocketbert.training.job import Fitted, Saved
from pocketbert.training.settings import Settings, check_device

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

    def fitted(self, base: Start | None = None) -> Fitted:
        """What classifies, loaded from the folder; the model's files must be those that were written.

        `base`: the pretrained model it all began with, where that is not to be looked up by its name.
        """
        for name, entry in self.files.items():
            if name.startswith("model/") and sha256(self.folder / name) != entry["sha256"]:
                raise UserError(f"{self.folder / name}: changed since the run was finished")
        check_device(getattr(self.settings, "device", "cpu"))
        start = None
        if self.method.needs_model and not any((self.folder / "model" / own).exists() for own in OWN_ENCODER):
            start = self._start_of(base)
        metadata, folder = self.metadata, self.folder / "model"
        return self.method.load(
            Saved(folder, metadata["task"], self.labels, self.settings, start, metadata.get("weights"))
        )

    def _start_of(self, base: Start | None) -> Start:
        """What it started from, where it was then."""
        before = self.metadata.get("from")
        if before is not None:
            return load_run(self.folder / before).start(base)
        if self.metadata["model"] is None:
            raise UserError(f"{self.folder / SETTINGS}: damaged: it names no model")
        return base or load_model(self.metadata["model"])

    def start(self, base: Start | None = None) -> Start:
        """This run as what another training starts from; `base` as for `fitted`."""
        fitted = self.fitted(base)
        network = getattr(fitted, "network", None)
        if network is None:
            raise UserError(
                f"{self.folder}: method '{self.metadata['method']}' trained no encoder; nothing to start from"
            )
        parts = network.parts().values()
        if any(part.of == "added" for part in parts):
            raise UserError(
                f"{self.folder}: method '{self.metadata['method']}' added to its encoder; no start for others"
            )
        encoder = network.encoder
        own = {name: self.metadata[name] for name in ("task", "method", "model", "fingerprints")}
        return Start(
            str(self.folder),
            encoder.config,
            lambda seed: copy.deepcopy(encoder),
            fitted.tokenizer,  # type: ignore[attr-defined]
            pooling=network.pooling,
            has_pooler=any(part.of == "pooler" and part.read for part in parts),
            model=self.metadata["model"],
            run=self.folder,
            ancestry=(*self.metadata.get("ancestry", ()), {**own, "seed": self.settings.seed}),
            seen=self.learnt(),
        )

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
