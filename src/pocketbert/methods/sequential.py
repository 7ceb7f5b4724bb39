"""Sequential training: one task after the other, the run's own last; and what was forgotten of the earlier ones.

McCloskey and Cohen 1989 called it catastrophic interference. Three remedies can be tried side by side: replay of
earlier tasks' rows, smaller rates for lower layers, an adapter per task over an encoder that stays.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pocketbert.errors import UserError
from pocketbert.methods.base import register
from pocketbert.methods.finetune import Finetune, FinetuneSettings
from pocketbert.methods.pfeiffer import Pfeiffer
from pocketbert.training.settings import Settings, option
from pocketbert.values import Between, OneOf

if TYPE_CHECKING:
    from pocketbert.encoder import Encoder
    from pocketbert.start import Start
    from pocketbert.tokenizer import Tokenizer
    from pocketbert.training.fit import Recipe
    from pocketbert.training.job import Fitted, Job, Saved, Trained
    from pocketbert.training.network import Part

UPDATES = ("all", "adapters")


@dataclass(frozen=True)
class SequentialSettings(FinetuneSettings):
    updates: Annotated[str, OneOf(UPDATES)] = option(
        UPDATES[0], "What trains on each task: all of the encoder, or a pfeiffer adapter of its own (adapters)."
    )
    replay: Annotated[float, Between(0.0, 1.0)] = option(
        0.0, "Share of each earlier task's rows that is trained on again with every later task."
    )
    layer_decay: Annotated[float, Between(0.0, 1.0, above=True)] = option(
        1.0, "What a layer's rate is, as a factor of the one above it."
    )
    forward_transfer: bool = option(
        True, "Also train each later task alone, to know what the earlier ones brought: twice the time."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.updates == UPDATES[1] and (self.replay or self.layer_decay != 1.0):
            raise UserError("updates: an adapter per task forgets nothing; leave replay and layer_decay out")


@register
class Sequential(Finetune):
    name: ClassVar[str] = "sequential"
    description: ClassVar[str] = (
        "as finetune, on other tasks first (--tasks, in order), then on its own; what it forgets"
    )
    settings: ClassVar[type[Settings]] = SequentialSettings
    usual: ClassVar[bool] = False
    learns_several: ClassVar[bool] = True

    def resolve(self, settings: Settings, start: "Start | None", size: Any) -> Settings:
        assert isinstance(settings, SequentialSettings)
        assert start is not None
        if settings.updates == UPDATES[1] and settings.learning_rate is None:
            settings = replace(settings, learning_rate=Pfeiffer().default_rate(start.config.width))
        return super().resolve(settings, start, size)

    def fit(self, job: "Job") -> "Trained":
        from pocketbert.training.sequence import fit_sequence

        return fit_sequence(self._recipe(job.settings), job)

    def load(self, saved: "Saved") -> "Fitted":
        from pocketbert.training.fit import load_network

        return load_network(self._recipe(saved.settings), saved)

    def _recipe(self, settings: Settings) -> "Recipe":
        assert isinstance(settings, SequentialSettings)
        return _WithAdapters(self) if settings.updates == UPDATES[1] else self


@dataclass(frozen=True)
class _WithAdapters:
    """The same with a fresh adapter for each task: what trains is that, and a head."""

    method: Sequential

    def prepare(self, job: "Job") -> "tuple[Encoder, Tokenizer]":
        return self.method.prepare(job)

    def extend(self, encoder: "Encoder", settings: Any) -> None:
        kind = Pfeiffer()
        told = kind.settings(seed=settings.seed)
        kind.extend(encoder, kind.with_reduction(told, encoder.config.width))

    def trains(self, part: "Part") -> bool:
        return Pfeiffer().trains(part)
