"""Fine-tuning: all of a pretrained encoder that is read, and a new head (Devlin et al. 2019, section 4)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pocketbert.methods.base import register
from pocketbert.methods.neural import NetworkMethod
from pocketbert.training.settings import Settings, TrainingSettings, option

if TYPE_CHECKING:
    from pocketbert.training.network import Part


@dataclass(frozen=True)
class FinetuneSettings(TrainingSettings):
    vocabulary_slice: bool = option(True, "Train only the word rows that the texts use: the same result, sooner.")


@register
class Finetune(NetworkMethod):
    name: ClassVar[str] = "finetune"
    description: ClassVar[str] = "all parameters of a pretrained encoder, and a new head"
    settings: ClassVar[type[Settings]] = FinetuneSettings
    usual: ClassVar[bool] = True

    def trains(self, part: "Part") -> bool:
        return part.read
