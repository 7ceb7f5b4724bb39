"""Dropout that is quick on a CPU and draws from a generator of its own.

torch's dropout asks its random engine once for every number. This one draws 64 random bits and uses them for four
numbers, 16 bits each, so the probability is a multiple of 1/65536 (0.1 becomes 0.100006, and the scale fits it). For a
tiny BERT, masks are a real share of a training step.

The generator is part of the module: seed it, and the masks are the same, whatever else drew random numbers.
"""

import torch
from torch import Tensor, nn

LEVELS = 65_536


class Dropout(nn.Module):
    """Zero a share `p` of the entries while training, and scale the rest so that the mean stays."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.generator: torch.Generator | None = None  # None: torch's own, shared by all

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0.0:
            return x
        return x * self.mask(x)

    def add(self, x: Tensor, change: Tensor) -> Tensor:
        """x + dropout(change), in one pass."""
        if not self.training or self.p == 0.0:
            return x + change
        return torch.addcmul(x, change, self.kept(change), value=self.scale)

    def mask(self, x: Tensor) -> Tensor:
        """0 for a dropped entry, 1 / (1 - p) for a kept one."""
        return self.kept(x).mul_(self.scale)

    def kept(self, x: Tensor) -> Tensor:
        """0 for a dropped entry, 1 for a kept one."""
        count = x.numel()
        bits = torch.empty((count + 3) // 4, dtype=torch.int64, device=x.device)
        bits.random_(-(2**63), None, generator=self.generator)  # the full range of 64 bits
        kept = bits.view(torch.int16)[:count] >= self.dropped - LEVELS // 2
        return kept.view(x.shape).to(x.dtype)

    @property
    def dropped(self) -> int:
        return round(self.p * LEVELS)

    @property
    def scale(self) -> float:
        return LEVELS / (LEVELS - self.dropped)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def seed_dropout(module: nn.Module, seed: int, device: torch.device | str = "cpu") -> None:
    """Give every dropout inside a module one generator, freshly seeded."""
    generator = torch.Generator(device).manual_seed(seed)
    for part in module.modules():
        if isinstance(part, Dropout):
            part.generator = generator


def set_dropout(module: nn.Module, p: float) -> None:
    """One probability for every dropout inside a module."""
    for part in module.modules():
        if isinstance(part, Dropout):
            part.p = p
