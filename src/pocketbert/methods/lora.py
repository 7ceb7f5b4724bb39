"""LoRA: low-rank changes of query and value in a pretrained encoder, merged into it for export (Hu et al. 2022)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pocketbert.methods.added import AddedMethod, AddedSettings
from pocketbert.methods.base import register
from pocketbert.training.settings import Settings, option
from pocketbert.values import Between

if TYPE_CHECKING:
    from pocketbert.encoder import Encoder


@dataclass(frozen=True)
class LoraSettings(AddedSettings):
    rank: Annotated[int, Between(1, 100_000)] = option(8, "Rows of the low-rank matrices.")
    lora_alpha: Annotated[float, Between(0.0, 1e6, above=True)] = option(
        16.0, "The change is scaled by this, divided by the rank."
    )


@register
class Lora(AddedMethod):
    name: ClassVar[str] = "lora"
    description: ClassVar[str] = "low-rank changes of query and value in a pretrained encoder, and a new head"
    settings: ClassVar[type[Settings]] = LoraSettings

    def extend(self, encoder: "Encoder", settings: Any) -> None:
        from pocketbert.adapters import put_low_rank

        rank = min(settings.rank, encoder.config.width)
        scale = settings.lora_alpha / settings.rank
        put_low_rank(encoder, rank, scale, top=settings.top(len(encoder.layers)), seed=settings.seed)
