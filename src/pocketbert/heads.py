"""What sits on an encoder: classifiers over its states, and the two heads that BERT was pretrained with.

A classifier head says what it reads: the sentence's vector, or the states of all tokens. One that reads a vector can
also be computed for many at once: `logits_of_many` takes the parameters of several heads of its kind, stacked.

Shapes: B sentences, T tokens, H width, K labels, V vocabulary; S seeds and R rates of heads that are stacked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

from pocketbert.config import HEADS as NAMES
from pocketbert.config import Config
from pocketbert.dropout import Dropout
from pocketbert.encoder import ACTIVATIONS, Encoder, initialise
from pocketbert.errors import UserError


class Head(nn.Module):
    """A classifier over what an encoder says about a sentence."""

    reads_states: ClassVar[bool] = (
        False  # True: forward(states (B, T, H), attention_mask); False: forward(vector (B, H))
    )
    output: nn.Linear

    def linear_layers(self) -> tuple[nn.Linear, ...]:
        """The linear layers that it is, with tanh between them; none: it is more than that."""
        return ()

    @staticmethod
    def logits_of_many(parameters: dict[str, Tensor], vectors: Tensor, drop: Callable[[Tensor], Tensor]) -> Tensor:
        """(S or 1, B, H) → (S, R, B, K); parameters have S and R in front. `drop`: dropout, the same for every rate."""
        raise TypeError("heads of this kind cannot be computed together")


class LinearHead(Head):
    """Dropout and one linear layer over the sentence vector: what most fine-tuned BERTs have."""

    def __init__(self, width: int, labels: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, labels)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.output(self.dropout(pooled))  # (B, K)

    def linear_layers(self) -> tuple[nn.Linear, ...]:
        return (self.output,)

    @staticmethod
    def logits_of_many(parameters: dict[str, Tensor], vectors: Tensor, drop: Callable[[Tensor], Tensor]) -> Tensor:
        return _linear_of_many(parameters, "output", drop(vectors)[:, None])


class TwoLayerHead(Head):
    """Dense, tanh, dropout, output over the sentence vector."""

    def __init__(self, width: int, labels: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, labels)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.output(self.dropout(torch.tanh(self.dense(pooled))))  # (B, K)

    @staticmethod
    def logits_of_many(parameters: dict[str, Tensor], vectors: Tensor, drop: Callable[[Tensor], Tensor]) -> Tensor:
        inner = torch.tanh(_linear_of_many(parameters, "dense", vectors[:, None]))  # (S, R, B, H)
        return _linear_of_many(parameters, "output", drop(inner))

    def linear_layers(self) -> tuple[nn.Linear, ...]:
        return self.dense, self.output


def _linear_of_many(parameters: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """(S or 1, R or 1, B, H) → (S, R, B, …)."""
    return x @ parameters[f"{name}.weight"].transpose(-2, -1) + parameters[f"{name}.bias"][:, :, None]


class BiLSTMHead(Head):
    """A bidirectional LSTM over all hidden states; its two last states, dropout, output. Padding is never read."""

    reads_states: ClassVar[bool] = True

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


HEADS: dict[str, type[Head]] = dict(zip(NAMES, (LinearHead, TwoLayerHead, BiLSTMHead), strict=True))


def make_head(
    name: str, width: int, labels: int, *, dropout: float = 0.1, std: float = 0.02, seed: int | None = 0
) -> Head:
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
    """Which word was here? Dense, activation, norm, then the word table itself, transposed, plus one bias per word.

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
