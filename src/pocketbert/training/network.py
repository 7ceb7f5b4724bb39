"""An encoder, a pooling and a head: text in, logits out. And reading with it: probabilities for many texts."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from pocketbert.encoder import Encoder
from pocketbert.heads import BiLSTMHead
from pocketbert.tokenizer import Encoded
from pocketbert.training.batches import by_length

Batch = dict[str, Tensor]


class Network(nn.Module):
    """Encoder, pooling, head."""

    def __init__(self, encoder: Encoder, head: nn.Module, pooling: str, *, only_cls: bool = True) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.pooling = pooling
        # [CLS] alone is enough unless the head or the pooling reads the other tokens' last states.
        self.only_cls = only_cls and pooling != "mean" and not isinstance(head, BiLSTMHead)

    def forward(self, batch: Batch) -> Tensor:
        if isinstance(self.head, BiLSTMHead):
            return self.head(self.encoder(**batch).last_hidden_state, batch["attention_mask"])  # (B, K)
        return self.head(self.pool(batch))  # (B, K)

    def pool(self, batch: Batch) -> Tensor:
        """One vector a sentence."""
        encoding = self.encoder(**batch, only_cls=self.only_cls)
        if self.pooling == "pooler":
            return encoding.pooler_output  # (B, H)
        if self.pooling == "cls":
            return encoding.last_hidden_state[:, 0]
        return mean_pool(encoding.last_hidden_state, batch["attention_mask"])

    def uses_pooler(self) -> bool:
        return self.pooling == "pooler" and not isinstance(self.head, BiLSTMHead)


def mean_pool(states: Tensor, attention_mask: Tensor) -> Tensor:
    """The mean over a sentence's tokens, padding left out."""
    mask = attention_mask[:, :, None].to(states.dtype)  # (B, T, 1)
    return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)  # (B, H)


def read_all(
    function: Callable[[Batch], Tensor],
    encoded: Encoded,
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


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities, in float64: the last digit does not depend on how rows were batched."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
