"""What the methods have in common that put small modules into an encoder's slots, and train only those and a head.

They leave the encoder as it is, so a run is kilobytes, and many tasks' runs share one encoder in memory. Layers below
the lowest module say the same about a text every time: they have no dropout, and what they say is computed once.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pocketbert.errors import UserError
from pocketbert.methods.base import DataSize
from pocketbert.methods.neural import NetworkMethod
from pocketbert.training.settings import Settings, TrainingSettings, option
from pocketbert.values import Between, shown

if TYPE_CHECKING:
    from pocketbert.encoder import Encoder
    from pocketbert.start import Start
    from pocketbert.training.network import Part

EVERY, TOP = "all", "top:"
FEWEST_UNITS = 32  # of a bottleneck, by default: a sixteenth of a small model's width would be too few to learn with
REDUCTION = 16  # of the literature, for models 768 wide


@dataclass(frozen=True)
class AddedSettings(TrainingSettings):
    adapter_layers: str = option(EVERY, "Which layers get modules: all, or top:2 for the uppermost two.")
    cache_features: bool = option(True, "Compute what stays the same (lower layers) once, for all epochs.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.top(1)

    def top(self, layers: int) -> int:
        """How many of the uppermost layers get modules, of an encoder with so many."""
        if self.adapter_layers == EVERY:
            return layers
        number = self.adapter_layers.removeprefix(TOP)
        if not (self.adapter_layers.startswith(TOP) and number.isascii() and number.isdigit() and int(number) > 0):
            raise UserError(f"adapter_layers: {shown(self.adapter_layers)} is not {EVERY}, nor {TOP} and a number")
        return min(int(number), layers)


class AddedMethod(NetworkMethod):
    """A method that trains what it adds, and a head."""

    settings: ClassVar[type[Settings]] = AddedSettings
    full_epochs: ClassVar[int] = 4
    rate_at_384: ClassVar[float] = 1e-3  # fresh parameters, and few of them

    def trains(self, part: "Part") -> bool:
        return part.of in ("added", "heads")


@dataclass(frozen=True)
class BottleneckSettings(AddedSettings):
    reduction: Annotated[int, Between(1, 100_000)] | None = option(
        None, "The model's width over the adapter's units. Default: 16, or what leaves 32 units."
    )


class BottleneckMethod(AddedMethod):
    """Bottleneck adapters; subclasses say where they are and what they compute."""

    settings: ClassVar[type[Settings]] = BottleneckSettings
    slots: ClassVar[tuple[str, ...]]
    activation: ClassVar[str]
    after_norm: ClassVar[bool]

    def resolve(self, settings: Settings, start: "Start | None", size: DataSize) -> Settings:
        assert start is not None
        return super().resolve(self.with_reduction(settings, start.config.width), start, size)

    def with_reduction(self, settings: Settings, width: int) -> Settings:
        """The settings with the reduction that suits an encoder so wide, where none was told."""
        assert isinstance(settings, BottleneckSettings)
        if settings.reduction is not None:
            return settings
        return replace(settings, reduction=max(1, min(REDUCTION, width // FEWEST_UNITS)))

    def extend(self, encoder: "Encoder", settings: Any) -> None:
        from pocketbert.adapters import put_bottlenecks

        put_bottlenecks(
            encoder,
            self.slots,
            max(1, encoder.config.width // settings.reduction),
            self.activation,
            after_norm=self.after_norm,
            top=settings.top(len(encoder.layers)),
            seed=settings.seed,
        )
