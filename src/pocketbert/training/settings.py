"""Everything a run can be told, checked when made; what is not told is derived from the model's size.

One dial, the rest derived: `resolve` turns the None's into numbers. The resolved settings are saved with every run, so
that two machines do the same thing.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pocketbert.config import Config
from pocketbert.errors import UserError
from pocketbert.heads import HEADS
from pocketbert.training.machine import MOST_THREADS, has_bfloat16
from pocketbert.values import Between, Entries, OneOf, field_names, hold_fields, known_keys, shown

POOLINGS = ("pooler", "cls", "mean")
HEAD_DROPOUT = 0.1  # BERT's own
SCRATCH_DROPOUT = 0.3  # without pretraining it is all that holds a model back from learning by heart
SCHEDULES = ("linear", "constant")
PRECISIONS = ("float32", "bfloat16", "float64")
BFLOAT16_PAYS = 256  # width from which products are so large that casting to bfloat16 is worth it


Rate = Annotated[float, Between(0.0, 10.0, above=True, below=True)]
Share = Annotated[float, Between(0.0, 1.0, below=True)]
Seed = Annotated[int, Between(0, 2**32 - 1)]
Threads = Annotated[int, Between(1, MOST_THREADS)]


@dataclass(frozen=True)
class Settings:
    """How a model learns a task. None means: derive it."""

    learning_rate: Rate | Annotated[tuple[Rate, ...], Entries(1, 100)] | None = None  # several: dev keeps the best
    epochs: Annotated[int, Between(1, 100_000)] | None = None
    batch_size: Annotated[int, Between(1, 100_000)] = 32
    max_length: Annotated[int, Between(1, 100_000)] = 128  # tokens a text; what is longer is cut, and counted
    pooling: Annotated[str, OneOf(POOLINGS)] | None = None  # pooler: dense+tanh over [CLS]; cls: [CLS]; mean: of tokens
    head: Annotated[str, OneOf(tuple(HEADS))] = "linear"
    # everywhere; None: as the model's own config says, 0.1 on the head; scratch: 0.3
    dropout: Annotated[float, Between(0.0, 0.99, below=True)] | None = None
    weight_decay: Share = 0.01  # on matrices; biases and norms have none
    warmup: Share = 0.1  # share of the steps over which the rate rises from zero
    schedule: Annotated[str, OneOf(SCHEDULES)] = "linear"  # linear: falls to zero; constant: stays
    clip: Annotated[float, Between(0.0, 1e9)] = 1.0  # largest gradient norm; 0: no limit
    class_weights: bool = False  # weigh each class by the inverse of its share
    patience: Annotated[int, Between(0, 100_000)] = 0  # stop after so many epochs without a better dev score; 0: never
    vocabulary: str | None = None  # scratch: a model's name or a vocab.txt; None: learn one
    vocabulary_size: Annotated[int, Between(1, 1_000_000)] = 8_000  # scratch: how many tokens to learn
    seed: Seed = 0
    device: str = "cpu"
    precision: Annotated[str, OneOf(PRECISIONS)] | None = None  # of the products in training; None: what pays here
    threads: Threads | None = None  # None: every core this process may use
    # The five ideas, each with its switch (docs/performance.md).
    like_length: bool = True  # batches of like length
    only_cls: bool = True  # the last layer for [CLS] alone, where the pooling allows
    slice: bool = True  # train only the word rows that the texts use
    features: bool = True  # frozen: compute the encoder's features once

    def __post_init__(self) -> None:
        hold_fields(self)
        if len(set(self.rates)) != len(self.rates):
            raise UserError(f"learning_rate: {', '.join(map(str, self.rates))} names one rate twice")
        known_device(self.device)

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
        known_keys(values, field_names(cls), "setting ")
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


def known_device(device: str) -> None:
    if not re.fullmatch(r"cpu|cuda(:\d{1,2})?", device):
        raise UserError(f"device: {shown(device)} is not known; known are cpu, cuda, cuda:1")


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
