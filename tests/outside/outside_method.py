"""A method of another package: (IA)³-like vectors that scale what each sublayer gives (after Liu et al. 2022)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from pocketbert.methods import NetworkMethod
from pocketbert.training.settings import TrainingSettings, option


@dataclass(frozen=True)
class RescaleSettings(TrainingSettings):
    initial_scale: float = option(1.0, "What the scales start from.")


class Rescale(nn.Module):
    """norm(residual + scale * output): with scales of one, an empty slot."""

    def __init__(self, width: int, initial: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), initial))

    def forward(self, output, residual, norm):
        return norm(residual + self.scale * output)


class RescaleMethod(NetworkMethod):
    name: ClassVar[str] = "rescale"
    description: ClassVar[str] = "vectors that scale what each sublayer gives, and a new head"
    settings: ClassVar[type] = RescaleSettings
    rate_at_384: ClassVar[float] = 1e-3

    def trains(self, part) -> bool:
        return part.of in ("added", "heads")

    def extend(self, encoder, settings) -> None:
        for layer in encoder.layers:
            layer.after_attention = Rescale(encoder.config.width, settings.initial_scale)
            layer.after_feed_forward = Rescale(encoder.config.width, settings.initial_scale)
