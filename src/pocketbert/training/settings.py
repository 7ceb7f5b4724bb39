"""What methods are told: small classes of settings, each field declared once with its bounds, default and help.

A method has the class whose fields it reads, and no others. Flags of the command line, the checks of a study.toml and
of settings.json, and the documentation are all made from these declarations. None means: the method derives it, from
the size of model and data. The resolved settings are saved with every run, so that two machines do the same thing.
"""

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

from pocketbert.config import HEADS
from pocketbert.counterfactuals.variants import parse_augmentations
from pocketbert.errors import UserError
from pocketbert.values import Between, Entries, OneOf, field_names, hold_fields, known_keys, shown

POOLINGS = ("pooler", "cls", "mean")
SCHEDULES = ("linear", "constant")
KEEP = ("best", "last")
PRECISIONS = ("float32", "bfloat16", "float64")
HEAD_DROPOUT = 0.1  # BERT's own
MOST_THREADS = 1_024  # more than any machine has use for; a hundred thousand end in a segmentation fault

Rate = Annotated[float, Between(0.0, 10.0, above=True, below=True)]
Share = Annotated[float, Between(0.0, 1.0, below=True)]
Seed = Annotated[int, Between(0, 2**32 - 1)]
Threads = Annotated[int, Between(1, MOST_THREADS)]
Count = Annotated[int, Between(1, 100_000)]
S = TypeVar("S", bound="Settings")


def option(default: Any, help: str, *, flag: str | None = None, absent: Any = dataclasses.MISSING) -> Any:
    """A field of a settings class.

    Args:
        default: what it is where nobody says otherwise.
        help: one line for --help and the documentation.
        flag: the command line's name, where it is not the field's.
        absent: what a run means that was made before the field was. Its default, unless that was changed since: then
            what it was, so that old runs keep their keys and their meaning.
    """
    metadata = {"help": help, "flag": flag, "absent": default if absent is dataclasses.MISSING else absent}
    return dataclasses.field(default=default, metadata=metadata)


AUGMENT = "Also train on the other side of each swap: pronouns, names, comma-separated."


@dataclass(frozen=True)
class Settings:
    """What every method is told."""

    seed: Seed = option(0, "The same seed gives the same numbers.")
    threads: Threads | None = option(None, "Threads; default: every core.")

    def __post_init__(self) -> None:
        hold_fields(self)

    @property
    def choices(self) -> int:
        """How many results dev chooses from; with one, dev is not needed."""
        return 1

    @property
    def passes(self) -> int:
        """How often the training texts are read: learning rates x epochs."""
        return 1

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def key(self) -> dict[str, Any]:
        """What decides a run's numbers. A field at the value that absence means is left out, so that a field which is
        added to the class later, with a default, leaves the keys of finished runs as they are."""
        told = {field.name: (getattr(self, field.name), field.metadata["absent"]) for field in fields(self)}
        return {name: value for name, (value, absent) in told.items() if value != absent}

    @classmethod
    def from_dict(cls: type[S], values: Mapping[str, Any]) -> S:
        """As a person or a settings.json says it; what is not there is at its default."""
        known_keys(values, field_names(cls), "setting ")
        return cls(**values)

    @classmethod
    def from_saved(cls: type[S], values: Mapping[str, Any]) -> S:
        """As a run's settings.json says it; what is not there was not known when it was made."""
        absent = {field.name: field.metadata["absent"] for field in fields(cls)}
        return cls.from_dict({**absent, **values})


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """What methods that train a BERT, or a part of one, are told."""

    learning_rate: Rate | Annotated[tuple[Rate, ...], Entries(1, 100, distinct=True)] | None = option(
        None, "One, or several, comma-separated: dev chooses. Default: by the model's size."
    )
    epochs: Count | None = option(None, "Passes over the training texts. Default: by their number.")
    batch_size: Count | None = option(None, "Texts per step. Default: by the number of texts.", absent=32)
    max_length: Count = option(128, "Tokens per text; longer ones are cut, and counted.")
    pooling: Annotated[str, OneOf(POOLINGS)] | None = option(
        None, "pooler (dense and tanh over [CLS]), cls or mean (over the tokens); default: the model's own."
    )
    head: Annotated[str, OneOf(HEADS)] = option(HEADS[0], f"{', '.join(HEADS)}.")
    dropout: Annotated[float, Between(0.0, 0.99, below=True)] | None = option(
        None, "In encoder and head; default: the model's own."
    )
    weight_decay: Share = option(0.01, "On matrices; biases and norms have none.")
    warmup: Share = option(0.1, "Share of the steps over which the rate rises.")
    schedule: Annotated[str, OneOf(SCHEDULES)] = option(SCHEDULES[0], "linear (falls to zero) or constant.")
    clip: Annotated[float, Between(0.0, 1e9)] = option(1.0, "Largest gradient norm; 0: no limit.")
    class_weights: bool = option(False, "Weigh each class by the inverse of its share.")
    patience: Annotated[int, Between(0, 100_000)] = option(
        0, "Stop after so many epochs without a better dev score; 0: never."
    )
    keep: Annotated[str, OneOf(KEEP)] | None = option(
        None,
        "Which epoch's weights: best (the highest dev score) or last. Default: the method's own.",
        absent="best",
    )
    augment: str | None = option(None, AUGMENT)
    device: str = option("cpu", "cpu, or cuda (untested).")
    precision: Annotated[str, OneOf(PRECISIONS)] | None = option(
        None, "Of the products in training: float32 or bfloat16; default: what pays here."
    )
    group_by_length: bool = option(True, "Batches of texts of like length.")
    only_cls: bool = option(True, "The last layer for [CLS] alone, where the pooling allows.")

    def __post_init__(self) -> None:
        super().__post_init__()
        known_device(self.device)
        if self.augment is not None:
            parse_augmentations(self.augment)

    @property
    def choices(self) -> int:
        return len(self.rates) if self.keep == "last" else self.passes

    @property
    def passes(self) -> int:
        return len(self.rates) * (self.epochs or 1)

    @property
    def texts_per_step(self) -> int:
        """The batch size, once it is resolved."""
        assert self.batch_size is not None
        return self.batch_size

    @property
    def head_dropout(self) -> float:
        return HEAD_DROPOUT if self.dropout is None else self.dropout

    @property
    def rates(self) -> tuple[float, ...]:
        if self.learning_rate is None:
            return ()
        return self.learning_rate if isinstance(self.learning_rate, tuple) else (self.learning_rate,)


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
