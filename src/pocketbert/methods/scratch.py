"""From scratch: a shape with fresh weights, and a vocabulary learned from the training texts."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pocketbert.methods.base import SHAPE, DataSize, register
from pocketbert.methods.neural import NetworkMethod
from pocketbert.training.settings import Settings, TrainingSettings, option
from pocketbert.values import Between

if TYPE_CHECKING:
    from pocketbert.encoder import Encoder
    from pocketbert.start import Start
    from pocketbert.tokenizer import Tokenizer
    from pocketbert.training.job import Job
    from pocketbert.training.network import Part

DROPOUT = 0.3  # without pretraining it is all that holds a model back from learning by heart


@dataclass(frozen=True)
class ScratchSettings(TrainingSettings):
    vocabulary: str | None = option(None, "A model's name or a vocab.txt; default: learn one from the texts.")
    vocabulary_size: Annotated[int, Between(1, 1_000_000)] = option(8_000, "Tokens to learn.")
    vocabulary_slice: bool = option(True, "Train only the word rows that the texts use: the same result, sooner.")


@register
class Scratch(NetworkMethod):
    name: ClassVar[str] = "scratch"
    description: ClassVar[str] = "the same shape with fresh weights, and a vocabulary learned from the training texts"
    settings: ClassVar[type[Settings]] = ScratchSettings
    starts_from: ClassVar[str | None] = SHAPE
    usual: ClassVar[bool] = True
    full_epochs: ClassVar[int] = 4
    rate_at_384: ClassVar[float] = 2e-4
    rate_power: ClassVar[float] = 0.8

    def trains(self, part: "Part") -> bool:
        return part.read

    def usual_model(self) -> str | None:
        return "tiny"

    def own_pooling(self, start: "Start") -> str:
        return "pooler"

    def resolve(self, settings: Settings, start: "Start | None", size: DataSize) -> Settings:
        resolved = super().resolve(settings, start, size)
        assert isinstance(resolved, ScratchSettings)
        return resolved if resolved.dropout is not None else replace(resolved, dropout=DROPOUT)

    def prepare(self, job: "Job") -> "tuple[Encoder, Tokenizer]":
        from pocketbert.config import Config
        from pocketbert.encoder import Encoder
        from pocketbert.tokenizer import Tokenizer

        settings = job.settings
        assert isinstance(settings, ScratchSettings)
        assert job.start is not None
        if settings.vocabulary is None:
            texts = [text for task in job.tasks for text in (*task.train.texts, *(task.train.second_texts or ()))]
            tokenizer = Tokenizer.learn(texts, settings.vocabulary_size)
        else:
            tokenizer = _given(settings.vocabulary)
        shape = vars(job.start.config)
        config = Config(**{**shape, "vocabulary": len(tokenizer), "padding_id": tokenizer.padding_id})
        return Encoder(config, seed=settings.seed), tokenizer

    def reading(self, start: "Start | None", settings: Settings) -> "tuple[Tokenizer | None, int | None]":
        assert isinstance(settings, ScratchSettings)
        return None, settings.max_length  # the vocabulary is not learned yet

    def identity(self, start: "Start | None", settings: Settings, fingerprint: str | None) -> Any:
        assert isinstance(settings, ScratchSettings)
        assert start is not None
        shape = {name: value for name, value in vars(start.config).items() if name != "vocabulary"}
        return [shape, None if settings.vocabulary is None else _content(settings.vocabulary)]

    def local_files(self, settings: Settings) -> list[str]:
        assert isinstance(settings, ScratchSettings)
        return [] if settings.vocabulary is None else [settings.vocabulary]


def _given(vocabulary: str) -> "Tokenizer":
    from pocketbert.loading import load_tokenizer
    from pocketbert.tokenizer import Tokenizer

    if vocabulary.endswith(".txt"):
        return Tokenizer.from_vocabulary_file(Path(vocabulary))
    return load_tokenizer(vocabulary)


def _content(vocabulary: str) -> str:
    """A hash of what a vocabulary that was named holds; a file that is not there is the run's to complain about."""
    if vocabulary.endswith(".txt") and not Path(vocabulary).is_file():
        return "missing"
    return hashlib.sha256(_given(vocabulary).to_json().encode()).hexdigest()
