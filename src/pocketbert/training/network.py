"""An encoder, a pooling and heads: text in, logits out. And reading with it: probabilities for many texts.

A network has a head a task, each by its name. What a method trains of a network is said by one filter, which sees
every parameter as a `Part`; the same filter says what is saved, loaded and counted.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from pocketbert.encoder import Encoder, Encoding, is_added
from pocketbert.errors import UserError
from pocketbert.heads import Head
from pocketbert.training.batches import by_length

Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Part:
    """One parameter of a network, as a method's filter sees it."""

    name: str  # such as encoder.layers.0.inner.weight
    of: str  # embeddings, layers, pooler: the encoder's; heads; added: what a method put into the encoder's slots
    read: bool  # does the forward pass use it? A pooler is often there and not read


Filter = Callable[[Part], bool]


class Readable(Protocol):
    """Texts as batches are made of them: tokenised (`Encoded`), or read by the lower layers as well."""

    @property
    def lengths(self) -> np.ndarray: ...

    def __len__(self) -> int: ...

    def tensors(self, rows: np.ndarray) -> Batch: ...


class Network(nn.Module):
    """Encoder, pooling, heads."""

    def __init__(self, encoder: Encoder, heads: Mapping[str, Head], pooling: str, *, only_cls: bool = True) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads = nn.ModuleDict({module_name(task): head for task, head in heads.items()})
        if len(self.heads) < len(heads):
            raise UserError(f"two of the tasks {', '.join(heads)} have nearly the same name; rename one")
        self.pooling = pooling
        self.only_cls = only_cls
        self.begin = 0  # layers that a batch with "states" has been through (training/lower.py)

    def head(self, task: str) -> Head:
        head = self.heads[module_name(task)]
        assert isinstance(head, Head)
        return head

    def keep_head(self, task: str) -> None:
        """Leave all heads but one behind."""
        self.heads = nn.ModuleDict({module_name(task): self.head(task)})

    def forward(self, batch: Batch, task: str) -> Tensor:
        head = self.head(task)
        if head.reads_states:
            return head(self.encode(batch).last_hidden_state, batch["attention_mask"])  # (B, K)
        return head(self.pool(batch))  # (B, K)

    def encode(self, batch: Batch, *, only_cls: bool = False) -> Encoding:
        """All layers; or, of texts whose lower states are known, those above them."""
        return self.encoder(**batch, only_cls=only_cls, begin=self.begin if "states" in batch else 0)

    def pool(self, batch: Batch) -> Tensor:
        """One vector a sentence. [CLS] alone is enough unless the pooling reads the other tokens' last states."""
        encoding = self.encode(batch, only_cls=self.only_cls and self.pooling != "mean")
        if self.pooling == "pooler":
            return encoding.pooler_output  # (B, H)
        if self.pooling == "cls":
            return encoding.last_hidden_state[:, 0]
        return mean_pool(encoding.last_hidden_state, batch["attention_mask"])

    def parts(self) -> dict[str, Part]:
        """Every parameter by name, with what it belongs to and whether it is read."""
        reads_pooler = self.pooling == "pooler" and not all(head.reads_states for head in self.heads.values())
        parts = {}
        for name, _ in self.named_parameters():
            owner, _, rest = name.partition(".")
            of = owner if owner == "heads" else "added" if is_added(name) else rest.partition(".")[0]
            parts[name] = Part(name, of, of != "pooler" or reads_pooler)
        return parts

    def chosen(self, trains: Filter) -> dict[str, nn.Parameter]:
        """The parameters that a filter lets through, by name: what trains, is saved, loaded and counted."""
        parts = self.parts()
        return {name: parameter for name, parameter in self.named_parameters() if trains(parts[name])}

    def lowest_trained(self, trains: Filter) -> int:
        """How many of the lowest layers have nothing that trains in or below them."""
        numbers = [len(self.encoder.layers)]
        parts = self.parts()
        for name in self.chosen(trains):
            if parts[name].of == "embeddings":
                return 0
            if name.startswith("encoder.layers."):
                numbers.append(int(name.split(".")[2]))
        return min(numbers)

    def stands_alone(self, trains: Filter) -> bool:
        """Is everything that is read also trained? Then what is saved needs nothing of what it started from."""
        return all(trains(part) for part in self.parts().values() if part.read)


def module_name(task: str) -> str:
    """A task's name as torch takes it for a module: without dots and the like."""
    name = re.sub(r"[^0-9A-Za-z_-]", "_", task)
    # A task of train.csv is called train, as a method of every module is.
    return f"task_{name}" if hasattr(nn.ModuleDict, name) else name


def mean_pool(states: Tensor, attention_mask: Tensor) -> Tensor:
    """The mean over a sentence's tokens, padding left out."""
    mask = attention_mask[:, :, None].to(states.dtype)  # (B, T, 1)
    return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)  # (B, H)


def read_all(
    function: Callable[[Batch], Tensor],
    encoded: Readable,
    *,
    batch_size: int = 32,
    device: str = "cpu",
) -> np.ndarray:
    """A function of batches, over all rows, without gradients, in the order of the rows. Always in full precision."""
    results: np.ndarray | None = None
    with torch.inference_mode():
        for rows in by_length(encoded.lengths, batch_size):
            batch = {name: tensor.to(device) for name, tensor in encoded.tensors(rows).items()}
            got = function(batch).cpu().numpy()
            if results is None:
                results = np.zeros((len(encoded), *got.shape[1:]), dtype=got.dtype)
            results[rows] = got
    return np.zeros((0, 0), dtype=np.float32) if results is None else results
