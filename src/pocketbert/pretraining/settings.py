"""Everything pretraining can be told, checked when made; what is left open is derived from the model's size."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from pocketbert.config import SHAPES, Config
from pocketbert.errors import UserError
from pocketbert.pretraining.corpus import Reading
from pocketbert.pretraining.examples import Drawing
from pocketbert.training.machine import has_bfloat16
from pocketbert.training.settings import check_device, usable_cores

POOLINGS = ("mean", "pooler")
BUDGETS = ("steps", "tokens", "minutes")
PRECISIONS = ("float32", "bfloat16")
BFLOAT16_FROM = 128  # width from which; lower than in fine-tuning, as the products over the vocabulary are large


@dataclass(frozen=True)
class PretrainingSettings:
    """How a BERT learns from raw text. None means: derive it."""

    size: str = "tiny"  # a published shape, or layers x width: 3x192
    positions: int = 512  # those beyond max_length are copies of the trained ones
    # the budget: exactly one of these
    steps: int | None = None
    tokens: int | None = None  # read, without padding
    minutes: float | None = None  # of training; turned into steps by a short measurement, which is saved
    # the text
    fields: tuple[str, ...] = ("text",)
    vocabulary: str | None = None
    vocabulary_size: int = 12_000
    vocabulary_sample: int = 30_000_000
    lowercase: bool = True
    held_out: float = 0.01
    # the task
    batch_size: int = 64
    max_length: int = 128
    share: float = 0.15
    whole_word: bool = False
    next_sentence: bool = True
    causal: bool = False
    short: float = 0.1
    # learning
    learning_rate: float | None = None
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    # While it is pretrained, a small model sees more text than it can keep; fine-tuning has BERT's 0.1 again.
    dropout: float = 0.0
    text_weight: float = 1.0  # of the text's own losses, words and next sentences; 0: the teacher alone
    # a teacher
    teacher: str | None = None
    teacher_words: bool = False  # the word table starts from the teacher's
    teacher_sentences: int = 200_000
    teacher_batch: int = 64  # sentences a step
    teacher_length: int = 64  # tokens a sentence
    teacher_pooling: str = "mean"
    teacher_layer: int | None = None  # whose states of words are learned, too
    cosine_weight: float = 3.0
    similarity_weight: float = 10.0
    states_weight: float = 3.0
    # the machine
    checkpoints: int = 50  # parts of the budget: after each it measures and saves
    seed: int = 0
    device: str = "cpu"
    precision: str | None = None
    threads: int | None = None
    half: bool = False  # write the weights as float16

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        self.shape()
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"found {' and '.join(given)}" if given else "found none"
            raise UserError(f"budget: give exactly one of steps, tokens and minutes; {found}")
        for name in _WHOLE:
            _check(name, getattr(self, name), int, least=_WHOLE[name])
        for name, (least, most) in _BETWEEN.items():
            _check(name, getattr(self, name), float, least=least, most=most)
        if self.learning_rate == 0 or self.minutes == 0:
            raise UserError(f"{'learning_rate' if self.learning_rate == 0 else 'minutes'}: 0 is not a number above 0")
        if not self.fields or not all(isinstance(field, str) and field for field in self.fields):
            raise UserError("fields: name at least one field of the JSON lines")
        if self.max_length > self.positions:
            raise UserError(f"max_length {self.max_length} is more than the {self.positions} positions")
        if self.distils and self.teacher_length > self.positions:
            raise UserError(f"teacher_length {self.teacher_length} is more than the {self.positions} positions")
        if self.seed >= 2**32:
            raise UserError(f"seed: {self.seed} is too large; at most {2**32 - 1}")
        for name, value, allowed in (
            ("teacher_pooling", self.teacher_pooling, POOLINGS),
            ("precision", self.precision, (*PRECISIONS, None)),
            ("device", self.device.split(":")[0], ("cpu", "cuda")),
        ):
            if value not in allowed:
                raise UserError(f"{name}: {value!r} is not known; known are {', '.join(filter(None, allowed))}")
        self._check_together()

    def _check_together(self) -> None:
        if self.causal and self.next_sentence:
            raise UserError("left to right (causal), [CLS] sees nothing: train without next sentences (--no-nsp)")
        if self.causal and self.whole_word:
            raise UserError("left to right (causal) masks no words: whole_word means nothing there")
        if self.causal and self.share != type(self).share:
            raise UserError("left to right (causal) masks no words, it asks for every one: share means nothing there")
        if self.teacher is None and self.teacher_words:
            raise UserError("teacher_words needs a teacher: name one (--teacher)")
        if self.teacher is None and self.teacher_layer is not None:
            raise UserError("teacher_layer needs a teacher: name one (--teacher)")
        if self.teacher_layer is not None and not self.states_weight:
            raise UserError("states_weight 0 leaves out what teacher_layer asks for: drop one of them")
        if self.teacher_layer is None and self.states_weight != type(self).states_weight:
            raise UserError("states_weight: whose states? Name a layer of the teacher (--teacher-layer)")
        if not self.text_weight and not self.distils:
            raise UserError("nothing to learn: the text has no weight (text_weight 0), and no teacher's loss has one")
        if not self.text_weight and self.next_sentence:
            raise UserError("text_weight 0 leaves the text out: no next sentences then (--no-nsp)")

    @property
    def distils(self) -> bool:
        """Does it learn to agree with a teacher? (It may also only take the teacher's word vectors.)"""
        return self.learns_sentences or self.learns_states

    @property
    def learns_sentences(self) -> bool:
        """Does it learn what the teacher makes of a sentence?"""
        return self.teacher is not None and (self.cosine_weight > 0 or self.similarity_weight > 0)

    @property
    def learns_states(self) -> bool:
        """Does it learn what the teacher makes of words?"""
        return self.teacher_layer is not None  # and there is a teacher: that was checked

    @property
    def reads(self) -> bool:
        """Does it learn from the text itself?"""
        return self.text_weight > 0

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that is read; later positions stay untrained."""
        return max(self.max_length if self.reads else 0, self.teacher_length if self.distils else 0)

    @property
    def trains_pooler(self) -> bool:
        return self.next_sentence or (self.learns_sentences and self.teacher_pooling == "pooler")

    @property
    def pooling(self) -> str:
        """How the finished model's sentence vectors are best made: as the teacher's were learned, else as trained."""
        if self.learns_sentences:
            return self.teacher_pooling
        return "pooler" if self.trains_pooler else "mean"

    def shape(self, vocabulary: int = 1_000, padding_id: int = 0) -> Config:
        """The model's shape, with a vocabulary of so many words."""
        own = re.fullmatch(r"(\d{1,3})x(\d{1,5})", self.size)
        if own:
            layers, width = int(own[1]), int(own[2])
            shape = Config(width=width, layers=layers, heads=max(1, width // 64), inner=4 * width)
        elif self.size in SHAPES:
            shape = SHAPES[self.size]
        else:
            raise UserError(f"size: {self.size!r} is not known; known: {', '.join(SHAPES)}, or 3x192 (layers x width)")
        return replace(shape, vocabulary=vocabulary, positions=self.positions, padding_id=padding_id)

    def reading(self) -> Reading:
        return Reading(**{field.name: getattr(self, field.name) for field in fields(Reading)})

    def drawing(self) -> Drawing:
        return Drawing(**{field.name: getattr(self, field.name) for field in fields(Drawing)})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PretrainingSettings":
        strange = sorted(set(values) - {field.name for field in fields(cls)})
        if strange:
            raise UserError(f"setting '{strange[0]}' of pretraining is not known")
        return cls(**values)


_WHOLE = {
    "positions": 8, "steps": 1, "tokens": 1, "vocabulary_size": 10, "vocabulary_sample": 1_000, "batch_size": 1,
    "max_length": 8, "teacher_sentences": 2, "teacher_batch": 2, "teacher_length": 3, "teacher_layer": 0,
    "checkpoints": 1, "seed": 0, "threads": 1,
}  # fmt: skip
_BETWEEN = {
    "minutes": (0, 1e6), "held_out": (0, 0.5), "share": (0.01, 0.9), "short": (0, 1), "learning_rate": (0, 10),
    "warmup": (0, 0.99), "weight_decay": (0, 0.99), "clip": (0, 1e9), "dropout": (0, 0.98),
    "text_weight": (0, 1e6), "cosine_weight": (0, 1e6), "similarity_weight": (0, 1e6),
    "states_weight": (0, 1e6),
}  # fmt: skip


def _check(name: str, value: Any, kind: type, *, least: float, most: float = math.inf) -> None:
    if value is None:
        return
    good = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if not good or not least <= value <= most:
        what = "a whole number" if kind is int else "a number"
        bounds = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
        raise UserError(f"{name}: {value!r} is not {what} {bounds}")


def resolve(settings: PretrainingSettings, *, processes_here: int = 1) -> PretrainingSettings:
    """Fill in what was left open. Processes of one machine share its cores."""
    check_device(settings.device)
    width = settings.shape().width
    changes: dict[str, Any] = {}
    if settings.threads is None:
        changes["threads"] = max(1, usable_cores() // processes_here)
    if settings.learning_rate is None:
        changes["learning_rate"] = default_rate(width)
    if settings.precision is None:
        changes["precision"] = "bfloat16" if width >= BFLOAT16_FROM and has_bfloat16() else "float32"
    return replace(settings, **changes)


def default_rate(width: int) -> float:
    """One significant digit of a power law through 1e-3 at 128 (a base BERT's 768 gets 2e-4; the paper has 1e-4)."""
    return float(f"{1e-3 * (128 / width) ** 0.8:.0e}")
