"""Small modules for the slots of an encoder: bottleneck adapters, AdapterFusion, low-rank changes of projections.

Houlsby et al. 2019, "Parameter-Efficient Transfer Learning for NLP": a bottleneck after each of a layer's two
sublayers, on the sublayer's output. Pfeiffer et al. 2021, "AdapterFusion: Non-Destructive Task Composition for Transfer
Learning": one bottleneck per layer, after the feed-forward, on the normalised sum; and a fusion of several tasks'
adapters by attention. Hu et al. 2022, "LoRA": W + BA in place of W, for query and value.

A slot after a sublayer is given (output, residual, norm) and gives what goes on (encoder.Layer). A fresh bottleneck or
low-rank change adds nothing: an encoder with one in it is the encoder.

Shapes: B sentences, T tokens, H width, N adapters.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from pocketbert.encoder import ACTIVATIONS, Encoder, initialise
from pocketbert.errors import UserError

STD = 0.02  # of fresh matrices: BERT's own


class Bottleneck(nn.Module):
    """Down to a few units, an activation, up again; the result is added to the sublayer's output.

    Args:
        after_norm: it reads the normalised sum of output and residual (Pfeiffer); else the output (Houlsby).
    """

    def __init__(self, width: int, units: int, activation: str, *, after_norm: bool) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, units), nn.Linear(units, width)
        self.activation = ACTIVATIONS[activation]
        self.after_norm = after_norm

    def reads(self, output: Tensor, residual: Tensor, norm: nn.Module) -> Tensor:
        return norm(residual + output) if self.after_norm else output

    def change(self, x: Tensor) -> Tensor:
        """What is added, for what it reads."""
        return self.up(self.activation(self.down(x)))

    def forward(self, output: Tensor, residual: Tensor, norm: nn.Module) -> Tensor:
        return norm(residual + output + self.change(self.reads(output, residual, norm)))


class Fusion(nn.Module):
    """Several tasks' adapters in one slot, mixed by attention: for every token, which of them to listen to.

    The query is what the adapters read; key and value are what each of them would add. The value matrix is kept as
    its difference from the identity, with which it starts: weight decay then draws it back to the adapters as they
    are, and not to nothing.
    """

    def __init__(self, members: Mapping[str, Bottleneck], width: int) -> None:
        super().__init__()
        if len({member.after_norm for member in members.values()}) != 1:
            raise UserError("adapters that read before the norm and adapters that read after it cannot be fused")
        self.members = nn.ModuleDict(members)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value_change = nn.Parameter(torch.zeros(width, width))

    def mixed(self, output: Tensor, residual: Tensor, norm: nn.Module) -> tuple[Tensor, Tensor]:
        """(what is added, (…, H); the weight of each adapter, (…, N))."""
        members: list[Bottleneck] = list(self.members.values())  # type: ignore[arg-type]
        read = members[0].reads(output, residual, norm)
        changes = torch.stack([member.change(read) for member in members], dim=-2)  # (…, N, H)
        scores = (self.key(changes) @ self.query(read).unsqueeze(-1)).squeeze(-1)  # (…, N)
        weights = scores.softmax(dim=-1)
        mean = (weights.unsqueeze(-2) @ changes).squeeze(-2)  # (…, H): the value is linear: it may come after the sum
        return mean + mean @ self.value_change.T, weights

    def forward(self, output: Tensor, residual: Tensor, norm: nn.Module) -> Tensor:
        return norm(residual + output + self.mixed(output, residual, norm)[0])


class LowRank(nn.Module):
    """(weight, bias) of query, key and value, stacked → the same with BA·scale added to query's and value's weight."""

    def __init__(self, width: int, rank: int, scale: float) -> None:
        super().__init__()
        self.query_a, self.value_a = (nn.Parameter(torch.zeros(rank, width)) for _ in range(2))
        self.query_b, self.value_b = (nn.Parameter(torch.zeros(width, rank)) for _ in range(2))
        self.scale = scale

    def forward(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        query, value = self.query_b @ self.query_a, self.value_b @ self.value_a  # (H, H)
        change = torch.cat([query, torch.zeros_like(query), value])
        return weight + self.scale * change, bias


# -- into an encoder, and out of it ----------------------------------------------------------------------------------


def put_bottlenecks(
    encoder: Encoder, slots: tuple[str, ...], units: int, activation: str, *, after_norm: bool, top: int, seed: int
) -> None:
    """Fresh bottlenecks in these slots of the `top` layers; those below are left as they are."""
    width = encoder.config.width
    for number, layer in _top(encoder, top):
        for place, slot in enumerate(slots):
            made = Bottleneck(width, units, activation, after_norm=after_norm)
            initialise(made, STD, _seed(seed, number, place))
            nn.init.zeros_(made.up.weight)
            setattr(layer, slot, made)


def put_low_rank(encoder: Encoder, rank: int, scale: float, *, top: int, seed: int) -> None:
    """Fresh low-rank changes of query and value in the `top` layers: A is drawn, B is zero."""
    for number, layer in _top(encoder, top):
        made = LowRank(encoder.config.width, rank, scale)
        generator = torch.Generator().manual_seed(_seed(seed, number, 0))
        with torch.no_grad():
            for matrix in (made.query_a, made.value_a):
                bound = encoder.config.width**-0.5
                matrix.uniform_(-bound, bound, generator=generator)
        layer.attention.projection = made  # type: ignore[union-attr]


def draw_fusion(encoder: Encoder, seed: int) -> None:
    """Fresh queries and keys, and the identity for values, in every fusion of an encoder."""
    for number, module in enumerate(fusions(encoder)):
        for place, matrix in enumerate((module.query, module.key)):
            initialise(matrix, STD, _seed(seed, number, place))
        nn.init.zeros_(module.value_change)


def fusions(encoder: Encoder) -> list[Fusion]:
    """Every fusion in an encoder, from the lowest layer up."""
    return [module for module in encoder.added().values() if isinstance(module, Fusion)]


def fuse(encoder: Encoder, members: Mapping[str, Mapping[str, nn.Module]]) -> None:
    """Put a fusion into every slot that the members, adapters by slot, have something in; each must have the same."""
    slots = {name: list(by_slot) for name, by_slot in members.items()}
    first, places = next(iter(slots.items()))
    for name, others in slots.items():
        if others != places:
            raise UserError(
                f"adapter '{name}' is not in the same places of the encoder as '{first}'; fuse adapters of one method "
                f"and of the same layers"
            )
    put = {}
    for slot in places:
        of_slot = {name: by_slot[slot] for name, by_slot in members.items()}
        for name, module in of_slot.items():
            if not isinstance(module, Bottleneck):
                raise UserError(f"adapter '{name}' is no bottleneck adapter: it cannot be fused with others")
        put[slot] = Fusion(of_slot, encoder.config.width)  # type: ignore[arg-type]
    encoder.put_added(put)


def _top(encoder: Encoder, top: int) -> Iterator[tuple[int, nn.Module]]:
    """The uppermost layers with their numbers; all slots of all layers are emptied first."""
    encoder.put_added({})
    for number, layer in enumerate(encoder.layers):
        if number >= len(encoder.layers) - top:
            yield number, layer


def _seed(*parts: int) -> int:
    """One of the many seeds that a run's own stands for."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0]) & (2**63 - 1)
