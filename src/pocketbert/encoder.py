"""BERT, all of it: embeddings, attention, add & norm, feed-forward, layers, pooler.

Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", section 3,
on the encoder of Vaswani et al. 2017, "Attention Is All You Need". Post-norm: each sublayer's result is added to
its input, and the sum is normalised.

Shapes at the end of a line: B sentences, T tokens, H width, A heads, D = H / A width of a head, F feed-forward.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pocketbert.config import Config
from pocketbert.dropout import Dropout
from pocketbert.errors import UserError


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": F.relu,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


SLOTS = ("after_attention", "after_feed_forward", "projection")  # of a layer or its attention; empty in plain BERT


@dataclass
class Encoding:
    """What an encoder says about a batch."""

    last_hidden_state: Tensor  # (B, T, H)
    pooler_output: Tensor  # (B, H)
    hidden_states: tuple[Tensor, ...] | None = None  # layers + 1 of (B, T, H): the embeddings, then every layer
    attentions: tuple[Tensor, ...] | None = None  # layers of (B, A, T, T): rows sum to one


class Embeddings(nn.Module):
    """A token is the sum of its word, its place and its segment, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        # The padding row gets no gradient: padding is nothing that could be learned.
        self.word = nn.Embedding(config.vocabulary, config.width, padding_idx=config.padding_id)
        self.position = nn.Embedding(config.positions, config.width)
        self.token_type = nn.Embedding(config.token_types, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_epsilon)
        self.dropout = Dropout(config.dropout)

    def forward(self, input_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
        length = input_ids.shape[1]
        if length > self.position.num_embeddings:
            raise UserError(
                f"{length} tokens, but this model has positions for {self.position.num_embeddings}; "
                f"tokenise with max_length={self.position.num_embeddings}"
            )
        types = self.token_type.weight[0] if token_type_ids is None else self.token_type(token_type_ids)
        summed = self.word(input_ids) + types + self.position.weight[:length]  # (B, T, H)
        return self.dropout(self.norm(summed))


class Attention(nn.Module):
    """Multi-head scaled dot-product attention: softmax(QKᵀ/√D) V, for A heads at once."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        # Query, key and value are three H x H matrices; stacked, they are one product instead of three.
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)
        self.dropout = Dropout(config.attention_dropout)
        self.projection: nn.Module | None = None  # a method's own: (weight, bias) → the ones to compute with

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        *,
        want_map: bool = False,
        only_first: bool = False,
        places: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        if only_first:
            return self.for_the_first(x, mask)
        parts = F.linear(x, *self.projections()).chunk(3, dim=-1)  # 3 of (B, T, H)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)  # (B, A, T, D)
        # In bfloat16 torch's own attention is several times slower backward than the formula.
        by_formula = self.training and (self.dropout.p > 0 or query.dtype == torch.bfloat16)
        if want_map or by_formula:
            mixed, attention_map = attend_by_formula(query, key, value, mask, self.dropout)
        else:
            mixed, attention_map = F.scaled_dot_product_attention(query, key, value, attn_mask=mask), None
        together = mixed.transpose(1, 2).flatten(2)  # (B, T, H)
        return self.output(together if places is None else at_places(together, places)), attention_map

    def projections(self) -> tuple[Tensor, Tensor]:
        """The stacked weight (3H, H) and bias (3H) of query, key and value; LoRA, for one, changes them here."""
        weight, bias = self.query_key_value.weight, self.query_key_value.bias
        return (weight, bias) if self.projection is None else self.projection(weight, bias)

    @torch.no_grad()
    def merge_projection(self) -> None:
        """Put what the slot makes of weight and bias in their place, and empty it: the same function, without it."""
        weight, bias = (part.clone() for part in self.projections())
        self.query_key_value.weight.copy_(weight)
        self.query_key_value.bias.copy_(bias)
        self.projection = None

    def for_the_first(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same for the first token's query alone, without making a key and a value for every token.

        With one query q a head, q·(Kx + k) = (Kᵀq)·x + q·k, where q·k is the same for every token and falls out of the
        softmax; and Σ pₜ(Vxₜ + v) = V Σ pₜxₜ + v Σ pₜ. So the two matrices are applied
        once per sentence, not once per token.
        """
        weights, bias = (
            part.unflatten(0, (3, self.heads, -1)) for part in self.projections()
        )  # (3, A, D, H), (3, A, D)
        query = torch.einsum("bh,adh->abd", x[:, 0], weights[0]) + bias[0][:, None]  # (A, B, D)
        asked = (query @ weights[1]).transpose(0, 1)  # (B, A, H)
        scores = asked @ x.transpose(1, 2) * query.shape[-1] ** -0.5  # (B, A, T)
        if mask is not None:
            scores = scores + mask[:, 0, :1]  # what the first token may see
        attention_map = self.dropout(scores.softmax(dim=-1))  # (B, A, T)
        seen = (attention_map @ x).transpose(0, 1)  # (A, B, H)
        mixed = (seen @ weights[2].transpose(1, 2)).transpose(0, 1)  # (B, A, D)
        mixed = mixed + bias[2] * attention_map.sum(dim=-1, keepdim=True)
        return self.output(mixed.flatten(1))[:, None], attention_map[:, :, None]  # (B, 1, H), (B, A, 1, T)


def at_places(states: Tensor, places: Tensor) -> Tensor:
    """(B, T, H) → (M, H): the states of some tokens, by their numbers from 0 to B·T."""
    return states.flatten(0, 1).index_select(0, places)


def attend_by_formula(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Module
) -> tuple[Tensor, Tensor]:
    """The same attention written out: for maps, and for dropout, which falls on the map's entries."""
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)  # (B, A, T, T)
    if mask is not None:
        scores = scores + mask.to(scores.dtype)
    attention_map = dropout(scores.softmax(dim=-1))  # (B, A, T, T)
    return attention_map @ value, attention_map  # (B, A, T, D)


class Layer(nn.Module):
    """Attention, add & norm, feed-forward, add & norm.

    Two slots take a method's own modules, such as adapters, where the literature puts them: after each sublayer's
    dropout, before its sum is normalised. A slot is given (output, residual, norm) and gives what goes on; an empty one
    is norm(residual + output).
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.norm_epsilon)
        self.inner = nn.Linear(config.width, config.inner)
        self.activation = ACTIVATIONS[config.activation]
        self.outer = nn.Linear(config.inner, config.width)
        self.outer_norm = nn.LayerNorm(config.width, eps=config.norm_epsilon)
        self.dropout = Dropout(config.dropout)
        self.after_attention: nn.Module | None = None
        self.after_feed_forward: nn.Module | None = None

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        *,
        want_map: bool = False,
        only_first: bool = False,
        places: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        attended, attention_map = self.attention(x, mask, want_map=want_map, only_first=only_first, places=places)
        if only_first:
            x = x[:, :1]  # (B, 1, H)
        elif places is not None:
            x = at_places(x, places)  # (M, H)
        x = self.add_and_norm(attended, x, self.attention_norm, self.after_attention)
        inner = self.activation(self.inner(x))  # (B, T, F)
        return self.add_and_norm(self.outer(inner), x, self.outer_norm, self.after_feed_forward), attention_map

    def add_and_norm(self, output: Tensor, residual: Tensor, norm: nn.Module, slot: nn.Module | None) -> Tensor:
        if slot is None:
            return norm(self.dropout.add(residual, output))
        return slot(self.dropout(output), residual, norm)


class Encoder(nn.Module):
    """BERT: token ids in, one vector per token and one per sentence out. `load_encoder` reads one with its weights.

    Args:
        config: the shape.
        seed: the fresh weights are drawn from it, and from nothing else. None: a shape without numbers (on torch's
            meta device), to count or to fill from a file.
    """

    def __init__(self, config: Config, seed: int | None = 0) -> None:
        super().__init__()
        self.config = config
        with torch.device("meta"):
            self.embeddings = Embeddings(config)
            self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
            self.pooler = nn.Linear(config.width, config.width)
        if seed is not None:
            initialise(self, config.initial_std, seed)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        hidden_states: bool = False,
        attentions: bool = False,
        only_cls: bool = False,
        places: Tensor | None = None,
        states: Tensor | None = None,
        begin: int = 0,
    ) -> Encoding:
        """Encode a batch.

        Args:
            input_ids: (B, T) rows of the word table.
            attention_mask: (B, T) 1 for a token, 0 for padding; None: no padding. Or (B, T, T): what each token may
                see, one row per token (left to right: the lower triangle).
            token_type_ids: (B, T) 0 for the first segment, 1 for the second; None: all first.
            hidden_states: also give the embeddings' and every layer's result.
            attentions: also give every layer's attention map.
            only_cls: the last layer works for [CLS] alone, and last_hidden_state is (B, 1, H): one query, one output
                and one feed-forward per sentence instead of one per token.
            places: (M) numbers from 0 to B·T: the last layer finishes these tokens (and each [CLS]) alone, and
                last_hidden_state is (M, H). For pretraining, which asks about one token in seven.
            states: (B, T, H) what the embeddings and the first `begin` layers gave (`lower`), where it is known.
            begin: the number of layers that `states` has been through.
        """
        finished = None
        if places is not None:
            rows, length = input_ids.shape
            finished = torch.cat([torch.arange(rows, device=places.device) * length, places])  # (B + M)
        x = self.embeddings(input_ids, token_type_ids) if states is None else states  # (B, T, H)
        mask = additive_mask(attention_mask, x.dtype)
        given, maps = [x], []
        for number, layer in enumerate(self.layers[begin:], start=begin + 1):
            last = number == len(self.layers)
            only = finished if last else None
            x, attention_map = layer(x, mask, want_map=attentions, only_first=only_cls and last, places=only)
            given.append(x)
            maps.append(attention_map)
        first = x[:, 0] if finished is None else x[: len(input_ids)]  # (B, H)
        return Encoding(
            last_hidden_state=x if finished is None else x[len(input_ids) :],
            pooler_output=self.pool(first),
            hidden_states=tuple(given) if hidden_states else None,
            attentions=tuple(maps) if attentions else None,
        )

    def lower(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        *,
        layers: int,
    ) -> Tensor:
        """(B, T, H): what the embeddings and so many of the lowest layers make of a batch."""
        x = self.embeddings(input_ids, token_type_ids)
        mask = additive_mask(attention_mask, x.dtype)
        for layer in self.layers[:layers]:
            x, _ = layer(x, mask)
        return x

    def added(self) -> dict[str, nn.Module]:
        """What a method put into slots, by name, from the lowest layer up: "layers.0.after_attention"."""
        found = {}
        for path in [f"layers.{number}{part}" for number in range(len(self.layers)) for part in ("", ".attention")]:
            for slot in SLOTS:
                module = getattr(self.get_submodule(path), slot, None)
                if module is not None:
                    found[f"{path}.{slot}"] = module
        return found

    def put_added(self, modules: Mapping[str, nn.Module]) -> None:
        """Fill these slots, and empty all others: another method's, or another task's, modules over the same BERT."""
        for name in self.added().keys() - modules.keys():
            owner, _, slot = name.rpartition(".")
            setattr(self.get_submodule(owner), slot, None)
        for name, module in modules.items():
            owner, _, slot = name.rpartition(".")
            setattr(self.get_submodule(owner), slot, module)

    def merge_projections(self) -> None:
        """Compute once what `projection` slots make of the weights, put it in their place, and empty the slots."""
        for module in list(self.modules()):
            if isinstance(module, Attention):
                module.merge_projection()

    def base_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """BERT's own parameters: all but those that a method put into slots."""
        for name, parameter in self.named_parameters():
            if not is_added(name):
                yield name, parameter

    def pool(self, first: Tensor) -> Tensor:
        """The sentence vector that next-sentence prediction trained: dense and tanh over [CLS]."""
        return torch.tanh(self.pooler(first))  # (B, H)


def is_added(name: str) -> bool:
    """Is a parameter of this name a method's own, in one of the slots, and not BERT's?"""
    return any(slot in name.split(".") for slot in SLOTS)


def additive_mask(attention_mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """0 where a token may be seen, a lowest number where not; None where nothing is hidden (the fast case).

    The number is one that bfloat16 has, too: the lowest of float32 would become minus infinity there, and a row that
    sees nothing no number at all.
    """
    if attention_mask is None:
        return None
    # A GPU would be waited for; and an exported graph must hold for every mask, not for the one it was made with.
    looks = attention_mask.device.type == "cpu" and not torch.compiler.is_exporting()
    if looks and bool(attention_mask.all()):
        return None
    seen = attention_mask[:, None] if attention_mask.ndim == 3 else attention_mask[:, None, None]
    lowest = max(torch.finfo(dtype).min, torch.finfo(torch.bfloat16).min)
    return (1 - seen.to(dtype)) * lowest  # (B, 1, 1 or T, T)


def initialise(module: nn.Module, std: float, seed: int) -> None:
    """BERT's fresh weights: normal(0, std) matrices, zero biases, norms that do nothing, a zero padding row."""
    generator = torch.Generator().manual_seed(seed)
    module.to_empty(device="cpu")
    with torch.no_grad():
        for name, weight in module.named_parameters():
            owner = module.get_submodule(name.rpartition(".")[0])
            if isinstance(owner, nn.LayerNorm):
                weight.fill_(1.0 if name.endswith("weight") else 0.0)
            elif weight.ndim == 1:
                weight.zero_()
            elif isinstance(owner, nn.LSTM):  # only in a head; BERT's small std would leave its gates asleep
                bound = owner.hidden_size**-0.5
                weight.uniform_(-bound, bound, generator=generator)
            else:
                weight.normal_(0.0, std, generator=generator)
            if isinstance(owner, nn.Embedding) and owner.padding_idx is not None:
                weight[owner.padding_idx].zero_()
