"""Lower layers that stay as they are say the same about a text every time: what they say is computed once.

For methods that train only the upper layers of an encoder, or modules in them. The states of all tokens lie end to end
in memory; where they would take too much of it, every batch goes through all layers, with the same result.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pocketbert.tokenizer import Encoded
from pocketbert.training.batches import by_length
from pocketbert.training.network import Batch, Network, Readable

MOST_BYTES = 1_000_000_000  # for the states of one split
BATCH = 32


@dataclass(frozen=True, eq=False)
class LowerStates:
    """Tokenised texts with what the first layers of an encoder make of them."""

    encoded: Encoded
    states: Tensor  # (all tokens of all texts, H)

    @property
    def lengths(self) -> np.ndarray:
        return self.encoded.lengths

    def __len__(self) -> int:
        return len(self.encoded)

    def tensors(self, rows: np.ndarray) -> Batch:
        """As `Encoded.tensors`, and "states", (B, T, H). Padding has another token's states: nothing reads them."""
        batch = self.encoded.tensors(rows)
        places = self.encoded.starts[rows][:, None] + np.arange(batch["input_ids"].shape[1])
        places = torch.from_numpy(np.minimum(places, len(self.states) - 1))
        return {**batch, "states": self.states[places]}


def lower_states(network: Network, encoded: Encoded) -> Readable:
    """The texts with what the network's first `begin` layers make of them; the texts alone where that is too much."""
    parameter = next(network.encoder.parameters())
    width = network.encoder.config.width
    if len(encoded.ids) * width * parameter.element_size() > MOST_BYTES:
        return encoded
    network.eval()
    states = torch.zeros(len(encoded.ids), width, dtype=parameter.dtype)
    with torch.inference_mode():
        for rows in by_length(encoded.lengths, BATCH):
            batch = {name: tensor.to(parameter.device) for name, tensor in encoded.tensors(rows).items()}
            read = network.encoder.lower(**batch, layers=network.begin).cpu()
            for row, of_row in zip(rows, read, strict=True):
                begin, length = int(encoded.starts[row]), int(encoded.lengths[row])
                states[begin : begin + length] = of_row[:length]
    return LowerStates(encoded, states)
