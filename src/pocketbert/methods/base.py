"""What a method is: it takes a job (data, model, settings) and gives back something that classifies.

A new method is one new file here: a subclass of `Method` with the `register` decorator. It says what trains (one
predicate) and what is saved; the tests find it by walking the registry.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.models import Model
from pocketbert.tasks import Split
from pocketbert.tokenizer import Tokenizer
from pocketbert.training.loop import EpochRecord, Report
from pocketbert.training.settings import Settings


@dataclass(frozen=True, eq=False)
class Job:
    """Everything a method is given."""

    labels: tuple[str, ...]
    train: Split
    dev: Split | None
    settings: Settings  # resolved
    model: Model | None = None
    start: tuple[Encoder, Tokenizer] | None = None  # what `prepare` gave, where it was called before
    checkpoint: Path | None = None  # where to go on from, and to leave a way to go on
    report: Report | None = None

    @property
    def targets(self) -> np.ndarray:
        assert self.train.labels is not None
        return self.train.labels


class Fitted(ABC):
    """Something that classifies, and can be written to a folder without pickle."""

    @abstractmethod
    def probabilities(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> np.ndarray:
        """(texts, labels), rows sum to one."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what the method trained."""

    trained_parameters: int = 0
    cut: int = 0  # texts that were truncated in the last call


@dataclass
class Trained:
    """What came out of a job."""

    fitted: Fitted
    history: list[EpochRecord] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)  # rate, epoch, dev_accuracy
    seconds: float = 0.0
    trials: int = 1  # rates x epochs that dev chose from


class Method(ABC):
    """How a model learns a task."""

    name: ClassVar[str]
    about: ClassVar[str]
    needs_model: ClassVar[bool] = True  # False: a baseline
    seeded: ClassVar[bool] = True  # False: every seed gives the same result

    def trains(self, parameter: str, *, pooler: bool) -> bool:
        """Does this parameter train? The same predicate says what is saved. `pooler`: is it read at all?"""
        return False

    def prepare(self, job: Job) -> tuple[Encoder, Tokenizer] | None:
        """The encoder to start from and the tokenizer it reads with; None for a method without. Errors come here."""
        return None

    @abstractmethod
    def fit(self, job: Job) -> Trained: ...

    @abstractmethod
    def load(self, folder: Path, labels: tuple[str, ...], settings: Settings, about: dict[str, Any]) -> Fitted:
        """Read back what `Fitted.save` wrote; `about` is the run's settings.json."""


_METHODS: dict[str, Method] = {}


def register(kind: type[Method]) -> type[Method]:
    _METHODS[kind.name] = kind()
    return kind


def list_methods() -> dict[str, Method]:
    """Every method by name."""
    package = importlib.import_module("pocketbert.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"pocketbert.methods.{module.name}")
    order = ["random", "majority", "tfidf", "frozen", "finetune", "scratch"]
    return dict(sorted(_METHODS.items(), key=lambda item: (order.index(item[0]) if item[0] in order else 99, item[0])))


def get_method(name: str) -> Method:
    known = list_methods()
    if name not in known:
        raise UserError(f"method '{name}' is not known; known are {', '.join(known)}")
    return known[name]
