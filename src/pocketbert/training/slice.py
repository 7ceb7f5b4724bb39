"""The vocabulary slice: train only the word rows that the texts use.

A row that no training text uses gets no gradient; all that AdamW does to it is decay. So the trainer keeps the rows of
the training and dev texts in a small table (dev rows too: their decay must be current at every evaluation), and puts
the large one together again when a model is saved, the other rows decayed by the product of all factors. That is equal
to training the whole table, and most of a small BERT's parameters are in it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pocketbert.encoder import Encoder
from pocketbert.tokenizer import Encoded


@dataclass
class VocabularySlice:
    """Which rows were taken, and the whole table as it was."""

    rows: Tensor  # (n) row numbers in the whole table, rising
    whole: Tensor  # (V, H)
    local: np.ndarray  # (V) row number in the small table; only rows taken have one

    def encoded(self, encoded: Encoded) -> Encoded:
        """The same texts, with ids into the small table."""
        return Encoded(
            ids=self.local[encoded.ids],
            starts=encoded.starts,
            second_starts=encoded.second_starts,
            cut=encoded.cut,
            padding_id=int(self.local[encoded.padding_id]),
            pairs=encoded.pairs,
        )

    def put_together(self, small: Tensor, decay: float) -> Tensor:
        """The whole table: the trained rows, and the others decayed as they would have been."""
        table = self.whole * decay
        table[self.rows] = small.to(table.dtype)
        return table


class _Rows(torch.autograd.Function):
    """Look rows up; the gradient goes straight into the table's own, row by row, not through a table of zeros."""

    @staticmethod
    def forward(context: Any, weight: Tensor, ids: Tensor) -> Tensor:
        context.save_for_backward(ids)
        context.weight = weight
        return weight[ids]

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, None]:
        (ids,) = context.saved_tensors
        table = context.weight.grad
        table.index_add_(0, ids.reshape(-1), gradient.reshape(-1, gradient.shape[-1]).to(table.dtype))
        return None, None


class SlicedEmbedding(nn.Embedding):
    """An embedding whose backward touches only the rows of the batch, once `weight.grad` is there to be added to."""

    def forward(self, ids: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and self.weight.requires_grad) or self.weight.grad is None:
            return super().forward(ids)
        looked_up = _Rows.apply(self.weight, ids)
        # The padding row learns nothing: its gradient is cut off where it is looked up.
        padding = ids.eq(self.padding_idx or 0)[..., None]
        none = padding.device.type == "cpu" and not bool(padding.any())  # a GPU would be waited for
        return looked_up if none else torch.where(padding, looked_up.detach(), looked_up)


def take_slice(encoder: Encoder, texts: list[Encoded]) -> VocabularySlice:
    """Replace the encoder's word table by the rows these texts use."""
    word = encoder.embeddings.word
    padding = encoder.config.padding_id
    used = np.unique(np.concatenate([[padding], *(encoded.ids for encoded in texts)]))
    local = np.zeros(word.num_embeddings, dtype=np.int32)
    local[used] = np.arange(len(used), dtype=np.int32)
    rows = torch.from_numpy(used)
    whole = word.weight.detach()
    taken = whole.index_select(0, rows.to(whole.device))
    encoder.embeddings.word = SlicedEmbedding(len(used), whole.shape[1], padding_idx=int(local[padding]), _weight=taken)
    return VocabularySlice(rows, whole.cpu(), local)
