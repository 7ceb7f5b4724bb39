"""Many tasks over one encoder in memory: adapters are loaded, switched and removed; the encoder is there once."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.runs import Run, load_run, require_same_encoder
from pocketbert.start import Start, weights_fingerprint
from pocketbert.tasks import Split
from pocketbert.training.fit import NetworkFitted
from pocketbert.values import within


@dataclass(frozen=True, eq=False)
class _Shared:
    """The one encoder, with nothing in its slots when it was loaded."""

    start: Start  # gives this very encoder, whoever asks
    encoder: Encoder
    fingerprint: str


@dataclass(frozen=True, eq=False)
class _Member:
    """One task: its head, and what it puts into the encoder's slots."""

    fitted: NetworkFitted
    modules: dict[str, nn.Module]
    labels: tuple[str, ...]


class AdapterSet:
    """Runs that left their encoder as it was, over one copy of it: an adapter and a head per task.

    Methods that train adapters, low-rank changes, a fusion, or a head alone make such runs. Not for several threads at
    once: one task's adapter is in the encoder at a time.

    Args:
        runs: finished runs, or their folders, by name; all trained on the same encoder.
    """

    def __init__(self, runs: Mapping[str, Run | str | os.PathLike[str]]) -> None:
        self._members: dict[str, _Member] = {}
        self._shared: _Shared | None = None
        self.active: str | None = None  # whose adapter is in the encoder now
        for name, run in runs.items():
            self.add(name, run)

    @property
    def names(self) -> list[str]:
        """The tasks that are loaded."""
        return list(self._members)

    def labels(self, name: str) -> tuple[str, ...]:
        """What the columns of a task's probabilities are."""
        return self._member(name).labels

    def add(self, name: str, run: Run | str | os.PathLike[str]) -> None:
        """Load one more task. The first decides which encoder it is."""
        if name in self._members:
            raise UserError(f"'{name}' is loaded already; remove it first, or choose another name")
        with within(f"adapter '{name}'"):
            run = run if isinstance(run, Run) else load_run(run)
            if not run.method.needs_model:
                raise UserError(f"{run.folder}: method '{run.method.name}' has no encoder")
            shared = self._shared or _share(run)
            require_same_encoder(run, shared.start, shared.encoder, shared.fingerprint)
            try:
                # A fusion is put together anew from its adapters' runs; all others need the encoder alone.
                fused = bool(run.metadata.get("adapters"))
                fitted = run.fitted(shared.start) if fused else run.fitted(start=shared.start)
                modules = _only_added(fitted, run)
            finally:
                shared.encoder.put_added({} if self.active is None else self._members[self.active].modules)
        assert isinstance(fitted, NetworkFitted)
        fitted.network.encoder = shared.encoder
        shared.encoder.eval()
        self._members[name] = _Member(fitted, modules, run.labels)
        self._shared = shared

    def remove(self, name: str) -> None:
        """Forget a task; its memory is free again."""
        self._member(name)
        if self.active == name:
            assert self._shared is not None
            self._shared.encoder.put_added({})
            self.active = None
        del self._members[name]

    def use(self, name: str) -> None:
        """Put a task's adapter into the encoder."""
        member = self._member(name)
        if self.active != name:
            assert self._shared is not None
            self._shared.encoder.put_added(member.modules)
            self.active = name

    def predict_proba(self, name: str, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> np.ndarray:
        """(texts, labels) of one task, which is switched to first."""
        self.use(name)
        split = Split(list(texts), None if second_texts is None else list(second_texts), None)
        return self._member(name).fitted.predict(split).probabilities

    def _member(self, name: str) -> _Member:
        if name not in self._members:
            raise UserError(f"no adapter '{name}' is loaded; there are: {', '.join(self._members) or 'none'}")
        return self._members[name]


def _share(run: Run) -> _Shared:
    start = run.origin()
    encoder = start.encoder().eval()
    encoder.put_added({})  # of a fusion, its adapters are in it
    return _Shared(replace(start, make=lambda seed: encoder, adapters={}), encoder, weights_fingerprint(encoder))


def _only_added(fitted: object, run: Run) -> dict[str, nn.Module]:
    """What is in the encoder's slots, if the run trained nothing else of it."""
    if not isinstance(fitted, NetworkFitted):
        raise UserError(f"{run.folder}: method '{run.metadata['method']}' has no encoder")
    parts = fitted.network.parts()
    if any(parts[part].of not in ("added", "heads") for part in fitted.network.chosen(fitted.trains)):
        raise UserError(
            f"{run.folder}: method '{run.metadata['method']}' changed its encoder: it can share it with none"
        )
    return fitted.network.encoder.added()
