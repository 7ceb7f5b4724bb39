"""AdamW with the settings BERT was trained with, over parameters laid end to end in memory.

Two long vectors (matrices, which decay; biases and norms, which do not) instead of dozens of small tensors: one fused
update each, one norm for clipping, one zeroing. The mathematics is torch's AdamW, which does the updating.
"""

import math
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

BETAS = (0.9, 0.999)
EPSILON = 1e-8


def decays(name: str, parameter: Tensor) -> bool:
    """Matrices decay; biases and norms (vectors) do not."""
    return parameter.ndim > 1


class FlatAdamW:
    """AdamW over the parameters of a module that a predicate lets train.

    Args:
        scales: what the rate is multiplied with, by the parameter's name; those that are not named have 1. One pair of
            vectors per scale.
        only_decays: the name of a parameter some of whose rows may be left out, and only decay (training/slice.py).
    """

    def __init__(
        self,
        parameters: Iterable[tuple[str, nn.Parameter]],
        *,
        weight_decay: float,
        clip: float,
        scales: Mapping[str, float] | None = None,
        only_decays: str = "",
    ) -> None:
        scale_of = scales or {}
        by_group: dict[tuple[float, bool], list[nn.Parameter]] = {}
        for name, parameter in parameters:
            by_group.setdefault((scale_of.get(name, 1.0), decays(name, parameter)), []).append(parameter)
        groups = sorted(by_group, reverse=True)  # matrices before vectors
        self.vectors = [_flatten(by_group[group]) for group in groups]
        self.scales = [scale for scale, _ in groups]
        self.clip = clip
        self.weight_decay = weight_decay
        self.decay = 1.0  # what has become of a weight that only decays
        self.decay_scale = scale_of.get(only_decays, 1.0)
        self.decays = [weight_decay if wanted else 0.0 for _, wanted in groups]
        self.means = [torch.zeros_like(vector) for vector in self.vectors]
        self.squares = [torch.zeros_like(vector) for vector in self.vectors]
        self.steps = [torch.zeros((), dtype=torch.float32, device=vector.device) for vector in self.vectors]

    def zero_grad(self) -> None:
        for vector in self.vectors:
            assert vector.grad is not None
            vector.grad.zero_()

    @torch.no_grad()
    def step(self, rate: float) -> None:
        if self.clip > 0:
            norm = math.hypot(*(torch.linalg.vector_norm(vector.grad).item() for vector in self.vectors))
            scale = self.clip / (norm + 1e-6)
            if scale < 1:
                for vector in self.vectors:
                    vector.grad.mul_(scale)  # type: ignore[union-attr]
        for i, vector in enumerate(self.vectors):
            assert vector.grad is not None
            adamw(
                [vector],
                [vector.grad],
                [self.means[i]],
                [self.squares[i]],
                [],
                [self.steps[i]],
                fused=True,
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=rate * self.scales[i],
                weight_decay=self.decays[i],
                eps=EPSILON,
                maximize=False,
            )
        self.decay *= 1.0 - rate * self.decay_scale * self.weight_decay

    def state(self) -> dict[str, Tensor]:
        """Everything a later process needs to go on, as tensors."""
        tensors = {"decay": torch.tensor(self.decay, dtype=torch.float64)}
        for i, vector in enumerate(self.vectors):
            tensors[f"{i}.weights"] = vector.detach()
            tensors[f"{i}.mean"], tensors[f"{i}.square"], tensors[f"{i}.step"] = (
                self.means[i],
                self.squares[i],
                self.steps[i],
            )
        return tensors

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        self.decay = float(tensors["decay"])
        for i, vector in enumerate(self.vectors):
            with torch.no_grad():
                vector.copy_(tensors[f"{i}.weights"])
                self.means[i].copy_(tensors[f"{i}.mean"])
                self.squares[i].copy_(tensors[f"{i}.square"])
                self.steps[i].copy_(tensors[f"{i}.step"])


def _flatten(parameters: list[nn.Parameter]) -> nn.Parameter:
    """Lay parameters end to end, and make each a view into the long vector; their gradients too."""
    vector = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
    vector.grad = torch.zeros_like(vector)
    offset = 0
    for p in parameters:
        count = p.numel()
        p.data = vector.detach().narrow(0, offset, count).view(p.shape)
        p.grad = vector.grad.narrow(0, offset, count).view(p.shape)
        offset += count
    return vector


def rate_schedule(peak: float, steps: int, *, warmup: float, schedule: str) -> Callable[[int], float]:
    """Step number (from 0) → learning rate: up over the warm-up, then down to zero in a line, or constant."""
    rising = math.ceil(warmup * steps)

    def rate(step: int) -> float:
        if step < rising:
            return peak * (step + 1) / rising
        if schedule == "constant":
            return peak
        return peak * (steps - step) / max(1, steps - rising)

    return rate
