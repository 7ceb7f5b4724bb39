"""Everything a run can be told, checked when made; what is not told is derived from the model's size.

One dial, the rest derived: `resolve` turns the None's into numbers. The resolved settings are saved with every run, so
that two machines do the same thing.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pocketbert.config import Config
from pocketbert.errors import UserError
from pocketbert.training.machine import has_bfloat16

POOLINGS = ("pooler", "cls", "mean")
DEVICES = ("cpu", "cuda")
HEAD_DROPOUT = 0.1  # BERT's own
SCRATCH_DROPOUT = 0.3  # without pretraining it is all that holds a model back from learning by heart
SCHEDULES = ("linear", "constant")
PRECISIONS = ("float32", "bfloat16", "float64")
BFLOAT16_PAYS = 256  # width from which products are so large that casting to bfloat16 is worth it


@dataclass(frozen=True)
class Settings:
    """How a model learns a task. None means: derive it."""

    learning_rate: float | tuple[float, ...] | None = None  # several: the best on dev is kept
    epochs: int | None = None
    batch_size: int = 32
    max_length: int = 128  # tokens a text; what is longer is cut, and counted
    pooling: str | None = None  # pooler: dense+tanh over [CLS]; cls: [CLS]; mean: over the tokens
    head: str = "linear"
    dropout: float | None = None  # everywhere; None: as the model's own config says, 0.1 on the head; scratch: 0.3
    weight_decay: float = 0.01  # on matrices; biases and norms have none
    warmup: float = 0.1  # share of the steps over which the rate rises from zero
    schedule: str = "linear"  # linear: falls to zero; constant: stays
    clip: float = 1.0  # largest gradient norm; 0: no limit
    class_weights: bool = False  # weigh each class by the inverse of its share
    patience: int = 0  # stop after so many epochs without a better dev score; 0: never
    vocabulary: str | None = None  # scratch: a model's name or a vocab.txt; None: learn one
    vocabulary_size: int = 8_000  # scratch: how many tokens to learn
    seed: int = 0
    device: str = "cpu"
    precision: str | None = None  # of the products in training; None: bfloat16 where the CPU has it and it pays
    threads: int | None = None  # None: every core this process may use
    # The five ideas, each with its switch (docs/performance.md).
    like_length: bool = True  # batches of like length
    only_cls: bool = True  # the last layer for [CLS] alone, where the pooling allows
    slice: bool = True  # train only the word rows that the texts use
    features: bool = True  # frozen: compute the encoder's features once

    def __post_init__(self) -> None:
        if isinstance(self.learning_rate, list):
            object.__setattr__(self, "learning_rate", tuple(self.learning_rate))
        if self.learning_rate == ():
            raise UserError("learning_rate: an empty list; name at least one rate, or leave it out")
        for rate in self.rates:
            _number("learning_rate", rate, above=0.0, below=10.0)
        if len(set(self.rates)) != len(self.rates):
            raise UserError(f"learning_rate: {', '.join(map(str, self.rates))} names one rate twice")
        for name in ("epochs", "batch_size", "max_length", "vocabulary_size", "threads"):
            value = getattr(self, name)
            if value is not None:
                _whole(name, value, least=1)
        _whole("patience", self.patience, least=0)
        _whole("seed", self.seed, least=0)
        if self.seed >= 2**32:
            raise UserError(f"seed: {self.seed} is too large; at most {2**32 - 1}")
        if self.device.split(":")[0] not in DEVICES:
            raise UserError(f"device: {self.device!r} is not known; known are {', '.join(DEVICES)}")
        for name in ("weight_decay", "warmup"):
            _number(name, getattr(self, name), least=0.0, below=1.0)
        _number("clip", self.clip, least=0.0)
        if self.dropout is not None:
            _number("dropout", self.dropout, least=0.0, below=0.99)
        _one_of("pooling", self.pooling, POOLINGS)
        _one_of("schedule", self.schedule, SCHEDULES)
        _one_of("precision", self.precision, PRECISIONS)
        _one_of("head", self.head, ("linear", "two-layer", "bilstm"))

    @property
    def head_dropout(self) -> float:
        return HEAD_DROPOUT if self.dropout is None else self.dropout

    @property
    def rates(self) -> tuple[float, ...]:
        if self.learning_rate is None:
            return ()
        return self.learning_rate if isinstance(self.learning_rate, tuple) else (self.learning_rate,)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Settings":
        known = {field.name for field in fields(cls)}
        strange = sorted(set(values) - known)
        if strange:
            raise UserError(f"setting '{strange[0]}' is not known; known are {', '.join(sorted(known))}")
        return cls(**values)


def resolve(settings: Settings, method: str, config: Config | None, *, pooling: str = "pooler") -> Settings:
    """Fill in what was left open, from the method and the model's size.

    The published rates starve small models: a tiny BERT wants ten times what a base one does. The rule below was read
    off dev accuracy on sst2 (docs/performance.md); a rate of one's own overrides it.
    """
    changes: dict[str, Any] = {}
    check_device(settings.device)
    if settings.threads is None:
        changes["threads"] = usable_cores()
    if config is not None:
        if settings.learning_rate is None:
            changes["learning_rate"] = default_rate(method, config.width)
        if settings.epochs is None:
            changes["epochs"] = {"frozen": 20}.get(method, 4)
        if settings.pooling is None:
            changes["pooling"] = pooling
        if settings.dropout is None and method == "scratch":
            changes["dropout"] = SCRATCH_DROPOUT
        if settings.precision is None:
            pays = method != "frozen" and config.width >= BFLOAT16_PAYS and has_bfloat16()
            changes["precision"] = "bfloat16" if pays else "float32"
        if settings.max_length > config.positions:
            raise UserError(f"max_length {settings.max_length} is more than the model's {config.positions} positions")
    return replace(settings, **changes)


def default_rate(method: str, width: int) -> float:
    """One significant digit of a power law in the width."""
    if method == "frozen":
        return 3e-3
    at_384, power = (2e-4, 0.8) if method == "scratch" else (5e-5, 1.6)
    rate = at_384 * (384 / width) ** power
    digit = 10.0 ** math.floor(math.log10(rate))
    return float(f"{round(rate / digit) * digit:.0e}")


def check_device(device: str) -> None:
    """A device that is not there is said before anything is read."""
    if device.startswith("cuda"):
        import torch

        if not torch.cuda.is_available():
            raise UserError(f"device: {device!r} is not there (torch sees no CUDA); use cpu")


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _whole(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{name}: {value!r} is not a whole number of at least {least}")


def _number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, below: float = math.inf
) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < least or value <= above or value >= below:
        bounds = [f"above {above:g}"] if above > -math.inf else [f"at least {least:g}"] if least > -math.inf else []
        bounds += [f"below {below:g}"] if below < math.inf else []
        raise UserError(f"{name}: {value!r} is not a number {' and '.join(bounds)}".rstrip())


def _one_of(name: str, value: str | None, allowed: tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        raise UserError(f"{name}: {value!r} is not known; known are {', '.join(allowed)}")
