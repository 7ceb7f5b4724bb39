"""What a method is: how a model learns a task. One file each, in a registry that tests walk.

A method owns everything about itself: its settings (the class of fields it reads), what it derives for those left
open from the size of model and data, what trains, what that costs. Nothing outside its file knows its name. A new one
is one new file here, or a class in another package under the entry point `pocketbert.methods`.

Nothing here imports torch at the top: the command line makes its flags from the methods' settings.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar

from pocketbert.errors import UserError
from pocketbert.training.settings import Settings, usable_cores

if TYPE_CHECKING:
    from pocketbert.encoder import Encoder
    from pocketbert.start import Start
    from pocketbert.tokenizer import Tokenizer
    from pocketbert.training.job import Fitted, Job, Saved, Trained

# In tables, help and documentation; those of other packages follow by name.
ORDER = (
    "random",
    "majority",
    "tfidf",
    "frozen",
    "finetune",
    "scratch",
    "bitfit",
    "lora",
    "houlsby",
    "pfeiffer",
    "fusion",
    "multitask",
    "sequential",
)
DEFAULT = "finetune"  # when none is named
WEIGHTS, SHAPE = "weights", "shape"  # what a method may start from
BEGIN = 1.0  # seconds to begin and end a run


@dataclass(frozen=True)
class DataSize:
    """What defaults may depend on."""

    rows: int  # to train on
    classes: int


@dataclass(frozen=True)
class Workload:
    """What a cost is estimated from."""

    rows: int  # to train on
    evaluated: int  # in the other splits
    words: float  # of a text (both texts of a pair), on average


class Method(ABC):
    """How a model learns a task."""

    name: ClassVar[str]
    description: ClassVar[str]
    settings: ClassVar[type[Settings]] = Settings
    starts_from: ClassVar[str | None] = None  # WEIGHTS: a pretrained model; SHAPE: its shape alone; None: a baseline
    seeded: ClassVar[bool] = True  # False: every seed gives the same result
    reads_texts: ClassVar[bool] = True  # False: a guess, to be better than; no contender
    usual: ClassVar[bool] = False  # among what a study trains where no method is named
    fuses: ClassVar[str | None] = None  # the method whose runs' adapters it puts together; None: it takes none
    learns_several: ClassVar[bool] = False  # other tasks beside its own (Task.others)

    @property
    def needs_model(self) -> bool:
        return self.starts_from is not None

    def usual_model(self) -> str | None:
        """The model to take where none is named."""
        return None

    def read(self, told: Mapping[str, Any]) -> Settings:
        """What was told, as this method's settings; what it does not read is refused by name."""
        return self.settings.from_dict(told)

    def reads(self, name: str) -> bool:
        """Is this one of its settings?"""
        return name in {field.name for field in fields(self.settings)}

    def resolve(self, settings: Settings, start: "Start | None", size: DataSize) -> Settings:
        """The settings with nothing left open."""
        return settings if settings.threads is not None else replace(settings, threads=usable_cores())

    def prepare(self, job: "Job") -> "tuple[Encoder, Tokenizer] | None":
        """The encoder to start from and the tokenizer it reads with; None for a method without. Errors come here."""
        return None

    def reading(self, start: "Start | None", settings: Settings) -> "tuple[Tokenizer | None, int | None]":
        """How a text's length is counted before training, and where it is cut: (None: in words, None: nowhere)."""
        return None, None

    def identity(self, start: "Start | None", settings: Settings, fingerprint: str | None) -> Any:
        """What of its start decides a run's numbers, as JSON; `fingerprint` is that of the start's weights."""
        return None

    def shares(self, settings: Settings) -> bool:
        """Do runs with the same start and task have something to share, and should stay on one worker?"""
        return False

    def bank_size(self, settings: Settings, start: "Start | None", labels: int) -> int:
        """How many seeds train at once in less time than one after the other."""
        return 1

    def fit_bank(self, job: "Job", seeds: Sequence[int]) -> "list[Trained]":
        """Train several seeds, each with the result, to the last bit, that it has alone."""
        return [self.fit(replace(job, settings=replace(job.settings, seed=seed))) for seed in seeds]

    def local_files(self, settings: Settings) -> list[str]:
        """Files beside task and start that a run reads: a cluster does not have them."""
        return []

    def operations(self, start: "Start | None", settings: Settings, work: Workload) -> float:
        """Floating point operations to predict one text: what a row costs its user, the same on every machine."""
        return 0.0

    def estimated_seconds(self, start: "Start | None", settings: Settings, work: Workload) -> float:
        """A guess of how long a run takes in one thread, where it was never measured (study/timing.py)."""
        return BEGIN + work.rows * 1e-6

    @abstractmethod
    def fit(self, job: "Job") -> "Trained":
        """Train."""

    @abstractmethod
    def load(self, saved: "Saved") -> "Fitted":
        """Read back what `Fitted.save` wrote."""


_METHODS: dict[str, Method] = {}


def register(kind: type[Method]) -> type[Method]:
    """A class decorator: the method can now be named everywhere."""
    _METHODS[kind.name] = kind()
    return kind


@cache
def _find_all() -> None:
    """Import every file beside this one, and what other packages offer."""
    package = importlib.import_module("pocketbert.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"pocketbert.methods.{module.name}")
    for point in entry_points(group="pocketbert.methods"):
        if point.name not in _METHODS:
            register(point.load())


def list_methods() -> dict[str, Method]:
    """Every method by name."""
    _find_all()
    places = {name: place for place, name in enumerate(ORDER)}
    return dict(sorted(_METHODS.items(), key=lambda item: (places.get(item[0], len(places)), item[0])))


def get_method(name: str) -> Method:
    known = list_methods()
    if name not in known:
        raise UserError(f"method '{name}' is not known; known are {', '.join(known)}")
    return known[name]


def baselines() -> dict[str, Method]:
    """The methods without a model, which every table has."""
    return {name: method for name, method in list_methods().items() if not method.needs_model}
