"""What sits on an encoder: classifiers over its states, and the two heads that BERT was pretrained with.

Shapes: B sentences, T tokens, H width, K labels, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from pocketbert.config import Config
from pocketbert.dropout import Dropout
from pocketbert.encoder import ACTIVATIONS, Encoder, initialise
from pocketbert.errors import UserError


class LinearHead(nn.Module):
    """Dropout and one linear layer over the sentence vector: what most fine-tuned BERTs have."""

    def __init__(self, width: int, labels: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, labels)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.output(self.dropout(pooled))  # (B, K)


class TwoLayerHead(nn.Module):
    """Dense, tanh, dropout, output over the sentence vector."""

    def __init__(self, width: int, labels: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, labels)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.output(self.dropout(torch.tanh(self.dense(pooled))))  # (B, K)


class BiLSTMHead(nn.Module):
    """A bidirectional LSTM over all hidden states; its two last states, dropout, output. Padding is never read."""

    def __init__(self, width: int, labels: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, max(1, width // 2), batch_first=True, bidirectional=True)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(2 * max(1, width // 2), labels)

    def forward(self, states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        if attention_mask is None:
            lengths = torch.full((states.shape[0],), states.shape[1])
        else:
            lengths = attention_mask.sum(dim=1).cpu().clamp(min=1)
        packed = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.lstm(packed)  # (2, B, H / 2)
        return self.output(self.dropout(torch.cat([last[0], last[1]], dim=1)))  # (B, K)


HEADS: dict[str, type[nn.Module]] = {"linear": LinearHead, "two-layer": TwoLayerHead, "bilstm": BiLSTMHead}


def make_head(
    name: str, width: int, labels: int, *, dropout: float = 0.1, std: float = 0.02, seed: int | None = 0
) -> nn.Module:
    """A classifier head by name, with fresh weights drawn from `seed` (None: a shape without numbers)."""
    if name not in HEADS:
        raise UserError(f"head {name!r} is not known; known are {', '.join(HEADS)}")
    if labels < 1:
        raise UserError(f"a head for {labels} labels cannot be made; it needs at least 1")
    with torch.device("meta"):
        head = HEADS[name](width, labels, dropout)
    if seed is not None:
        initialise(head, std, seed)
    return head


class MaskedWordHead(nn.Module):
    """Which word was here? Dense, activation, norm, then the word table itself, transposed, plus a bias a word.

    The table is not a parameter of this head: it is the encoder's, handed in, so the two can never come apart.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)
        self.activation = ACTIVATIONS[config.activation]
        self.norm = nn.LayerNorm(config.width, eps=config.norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))

    def forward(self, states: Tensor, word_table: Tensor) -> Tensor:
        return F.linear(self.norm(self.activation(self.dense(states))), word_table, self.bias)  # (…, V)


class NextSentenceHead(nn.Module):
    """Does the second segment follow the first? Index 0: it does; 1: it is from elsewhere."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.output = nn.Linear(config.width, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.output(pooled)  # (B, 2)


@dataclass
class PretrainingLogits:
    words: Tensor  # (B, T, V)
    next_sentence: Tensor  # (B, 2)


class Pretraining(nn.Module):
    """An encoder with both heads it is pretrained with."""

    def __init__(self, encoder: Encoder, seed: int | None = 0) -> None:
        super().__init__()
        self.encoder = encoder
        with torch.device("meta"):
            self.words = MaskedWordHead(encoder.config)
            self.next_sentence = NextSentenceHead(encoder.config)
        if seed is not None:
            initialise(self.words, encoder.config.initial_std, seed)
            initialise(self.next_sentence, encoder.config.initial_std, seed + 1)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> PretrainingLogits:
        encoding = self.encoder(input_ids, attention_mask, token_type_ids)
        return PretrainingLogits(
            words=self.words(encoding.last_hidden_state, self.encoder.embeddings.word.weight),
            next_sentence=self.next_sentence(encoding.pooler_output),
        )
