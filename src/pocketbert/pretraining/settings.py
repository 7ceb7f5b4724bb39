"""Everything pretraining can be told, checked when made; what is left open is derived from the model's size."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any

from pocketbert.config import SHAPES, Config
from pocketbert.errors import UserError
from pocketbert.pretraining.corpus import Reading
from pocketbert.pretraining.examples import Drawing
from pocketbert.training.machine import has_bfloat16
from pocketbert.training.settings import Rate, Seed, Share, Threads, check_device, known_device, usable_cores
from pocketbert.values import Between, OneOf, field_names, hold_fields, known_keys

POOLINGS = ("mean", "pooler")
BUDGETS = ("steps", "tokens", "minutes")
PRECISIONS = ("float32", "bfloat16")
BFLOAT16_FROM = 128  # width from which; lower than in fine-tuning, as the products over the vocabulary are large

Weight = Annotated[float, Between(0, 1e6)]  # of a loss; 0 leaves it out


@dataclass(frozen=True)
class PretrainingSettings:
    """How a BERT learns from raw text; exactly one of steps, tokens and minutes says how long. None means: derive it.

    Args:
        size, positions: a published shape, or layers x width as in "3x192"; the longest input it will read.
        steps, tokens, minutes: the budget: batches; tokens read; or time, which a short measurement turns into steps.
        fields: of JSON lines that hold text.
        vocabulary, vocabulary_size, vocabulary_sample, lowercase: a vocab.txt or a model's name; else so many tokens
            are learned, from so many characters, in lower case.
        held_out: share of the documents that the loss is measured on.
        batch_size, max_length, short: examples per step; their tokens; share of them that are shorter on purpose.
        share, whole_word, next_sentence, causal: what is learned: so many words are masked, as pieces or as a whole;
            does a sentence follow; or the next word, left to right.
        learning_rate, warmup, weight_decay, clip, dropout: of the optimiser.
        text_weight: of the text's own losses beside a teacher's; 0: the teacher alone.
        teacher, teacher_words, teacher_sentences, teacher_batch, teacher_length, teacher_pooling, teacher_layer: a
            model whose sentence vectors are learned, from so many sentences; its word table to start from; its layer
            whose states of words are learned.
        cosine_weight, similarity_weight, states_weight: of the teacher's losses.
        checkpoints: parts of the budget; after each it measures and saves.
        seed, device, precision, threads: as in `pocketbert train`.
        half: write the weights as float16.
    """

    size: str = "tiny"  # a published shape, or layers x width: 3x192
    positions: Annotated[int, Between(8, 100_000)] = 512  # those beyond max_length are copies of the trained ones
    # the budget: exactly one of these
    steps: Annotated[int, Between(1, 1_000_000_000)] | None = None
    tokens: Annotated[int, Between(1, 10**15)] | None = None  # read, without padding
    minutes: Annotated[float, Between(0, 1e6, above=True)] | None = (
        None  # of training; turned into steps by a short measurement, which is saved
    )
    # the text
    fields: tuple[str, ...] = ("text",)
    vocabulary: str | None = None
    vocabulary_size: Annotated[int, Between(10, 1_000_000)] = 12_000
    vocabulary_sample: Annotated[int, Between(1_000, 10**10)] = 30_000_000
    lowercase: bool = True
    held_out: Annotated[float, Between(0, 0.5)] = 0.01
    # the task
    batch_size: Annotated[int, Between(1, 100_000)] = 64
    max_length: Annotated[int, Between(8, 100_000)] = 128
    share: Annotated[float, Between(0.01, 0.9)] = 0.15
    whole_word: bool = False
    next_sentence: bool = True
    causal: bool = False
    short: Annotated[float, Between(0, 1)] = 0.1
    # learning
    learning_rate: Rate | None = None
    warmup: Share = 0.05
    weight_decay: Share = 0.01
    clip: Annotated[float, Between(0, 1e9)] = 1.0
    # While it is pretrained, a small model sees more text than it can keep; fine-tuning has BERT's 0.1 again.
    dropout: Annotated[float, Between(0, 0.98)] = 0.0
    text_weight: Weight = 1.0  # of the text's own losses, words and next sentences; 0: the teacher alone
    # a teacher
    teacher: str | None = None
    teacher_words: bool = False  # the word table starts from the teacher's
    teacher_sentences: Annotated[int, Between(2, 10**9)] = 200_000
    teacher_batch: Annotated[int, Between(2, 100_000)] = 64  # sentences per step
    teacher_length: Annotated[int, Between(3, 100_000)] = 64  # tokens per sentence
    teacher_pooling: Annotated[str, OneOf(POOLINGS)] = "mean"
    teacher_layer: Annotated[int, Between(0, 512)] | None = None  # whose states of words are learned, too
    cosine_weight: Weight = 3.0
    similarity_weight: Weight = 10.0
    states_weight: Weight = 3.0
    # the machine
    checkpoints: Annotated[int, Between(1, 1_000_000)] = 50  # parts of the budget: after each it measures and saves
    seed: Seed = 0
    device: str = "cpu"
    precision: Annotated[str, OneOf(PRECISIONS)] | None = None
    threads: Threads | None = None
    half: bool = False  # write the weights as float16

    def __post_init__(self) -> None:
        hold_fields(self)
        known_device(self.device)
        self.shape()
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(given) != 1:
            found = f"found {' and '.join(given)}" if given else "found none"
            raise UserError(f"budget: give exactly one of steps, tokens and minutes; {found}")
        if not self.fields or not all(self.fields):
            raise UserError("fields: name at least one field of the JSON lines")
        if self.max_length > self.positions:
            raise UserError(f"max_length {self.max_length} is more than the {self.positions} positions")
        if self.distils and self.teacher_length > self.positions:
            raise UserError(f"teacher_length {self.teacher_length} is more than the {self.positions} positions")
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
        """Those that say how a corpus is read."""
        return Reading(**{field.name: getattr(self, field.name) for field in fields(Reading)})

    def drawing(self) -> Drawing:
        """Those that say how examples are drawn from it."""
        return Drawing(**{field.name: getattr(self, field.name) for field in fields(Drawing)})

    def to_dict(self) -> dict[str, Any]:
        """By name, as settings.json has them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PretrainingSettings":
        known_keys(values, field_names(cls), "setting ")
        return cls(**values)


def resolve_settings(settings: PretrainingSettings, *, processes_here: int = 1) -> PretrainingSettings:
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
