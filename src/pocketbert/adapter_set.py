"""Many tasks over one encoder in memory: adapters are loaded, switched and removed; the encoder is there once."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from torch import nn

from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.runs import Run, load_run, require_same_encoder
from pocketbert.start import Start, weights_fingerprint
from pocketbert.tasks import Split
from pocketbert.training.fit import NetworkFitted
from pocketbert.values import within


class AdapterSet:
    """Runs that left their encoder as it was, over one copy of it: an adapter and a head per task.

    Methods that train adapters, low-rank changes, a fusion, or a head alone make such runs. Not for several threads at
    once: one task's adapter is in the encoder at a time.

    Args:
        runs: finished runs, or their folders, by name; all trained on the same encoder.
    """

    def __init__(self, runs: Mapping[str, Run | str | os.PathLike[str]]) -> None:
        self._fitted: dict[str, NetworkFitted] = {}
        self._modules: dict[str, dict[str, nn.Module]] = {}
        self._encoder: Encoder | None = None
        self._start: Start | None = None
        self._fingerprint = ""
        self.active: str | None = None  # whose adapter is in the encoder now
        for name, run in runs.items():
            self.add(name, run)

    @property
    def names(self) -> list[str]:
        """The tasks that are loaded."""
        return list(self._fitted)

    def labels(self, name: str) -> tuple[str, ...]:
        """What a task's probabilities are of."""
        self._require(name)
        return self._labels[name]

    def add(self, name: str, run: Run | str | os.PathLike[str]) -> None:
        """Load one more task. The first decides which encoder it is."""
        run = run if isinstance(run, Run) else load_run(run)
        if name in self._fitted:
            raise UserError(f"'{name}' is loaded already; remove it first, or choose another name")
        with within(f"adapter '{name}'"):
            if self._encoder is None:
                start = run.origin()
                self._encoder = start.encoder().eval()
                self._fingerprint = weights_fingerprint(self._encoder)
                self._start = replace(start, make=lambda seed: self._encoder)  # type: ignore[arg-type,return-value]
                self._labels: dict[str, tuple[str, ...]] = {}
            assert self._start is not None
            require_same_encoder(run, self._start, self._encoder, self._fingerprint)
            try:
                fitted = run.fitted(self._start)
                self._modules[name] = _only_added(fitted, run)
            finally:
                self._encoder.put_added({} if self.active is None else self._modules[self.active])
        assert isinstance(fitted, NetworkFitted)
        fitted.network.encoder = self._encoder
        self._fitted[name], self._labels[name] = fitted, run.labels

    def remove(self, name: str) -> None:
        """Forget a task; its memory is free again."""
        self._require(name)
        if self.active == name:
            assert self._encoder is not None
            self._encoder.put_added({})
            self.active = None
        del self._fitted[name], self._modules[name], self._labels[name]

    def use(self, name: str) -> None:
        """Put a task's adapter into the encoder."""
        self._require(name)
        if self.active != name:
            assert self._encoder is not None
            self._encoder.put_added(self._modules[name])
            self.active = name

    def predict_proba(self, name: str, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> np.ndarray:
        """(texts, labels) of one task, which is switched to first."""
        self.use(name)
        split = Split(list(texts), None if second_texts is None else list(second_texts), None)
        return self._fitted[name].predict(split).probabilities

    def _require(self, name: str) -> None:
        if name not in self._fitted:
            raise UserError(f"no adapter '{name}' is loaded; there are: {', '.join(self._fitted) or 'none'}")


def _only_added(fitted: object, run: Run) -> dict[str, nn.Module]:
    """What is in the encoder's slots, if the run trained nothing else of it."""
    network = getattr(fitted, "network", None)
    if not isinstance(fitted, NetworkFitted) or network is None:
        raise UserError(f"{run.folder}: method '{run.metadata['method']}' has no encoder")
    parts = network.parts()
    if any(parts[part].of not in ("added", "heads") for part in network.chosen(fitted.trains)):
        raise UserError(
            f"{run.folder}: method '{run.metadata['method']}' changed its encoder: it can share it with none"
        )
    return fitted.network.encoder.added()
