"""The numbers that define one BERT, checked when made. Nothing here needs torch.

The field names are pocketbert's; `from_hugging_face` and `to_hugging_face` translate config.json's.
"""

from dataclasses import dataclass, fields
from typing import Any

from pocketbert.errors import UserError, quote

# What config.json calls each field of ours.
HUGGING_FACE_NAMES = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "activation": "hidden_act",
    "positions": "max_position_embeddings",
    "token_types": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "norm_epsilon": "layer_norm_eps",
    "initial_std": "initializer_range",
    "padding_id": "pad_token_id",
}
REQUIRED = ("vocabulary", "width", "layers", "heads", "inner")

HEADS = ("linear", "two-layer", "bilstm")  # classifiers on an encoder, by name; heads.py has them
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh")

# Far above any BERT there is, far below what would exhaust a machine before the weights are even looked at.
MOST = {
    "vocabulary": 4_000_000,
    "width": 16_384,
    "layers": 512,
    "heads": 1_024,
    "inner": 131_072,
    "positions": 1_000_000,
    "token_types": 10_000,
}
MOST_PARAMETERS = 4_000_000_000
MOST_TENSORS = 20_000  # of a checkpoint; BERT has 16 per layer


@dataclass(frozen=True)
class Config:
    """The shape of a BERT encoder; wrong numbers are refused here, before anything is allocated.

    Args:
        vocabulary: rows of the word table.
        width: of every hidden state.
        layers, heads: how many layers, and attention heads in each; the width of a head is width / heads.
        inner: width of the feed-forward's middle.
        activation: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish or tanh.
        positions: the longest input, in tokens.
        token_types: segments that are told apart.
        dropout, attention_dropout: of hidden states, and of attention maps.
        norm_epsilon: added to a variance before its root is taken.
        initial_std: of fresh weights.
        padding_id: the row of the word table that is padding.
    """

    vocabulary: int = 30_522  # rows of the word table
    width: int = 768  # H: size of every hidden state
    layers: int = 12
    heads: int = 12  # A: attention heads, each of width H / A
    inner: int = 3_072  # width of the feed-forward's middle
    activation: str = "gelu"
    positions: int = 512  # the longest input, in tokens
    token_types: int = 2
    dropout: float = 0.1
    attention_dropout: float = 0.1
    norm_epsilon: float = 1e-12
    initial_std: float = 0.02
    padding_id: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            self._check(field.name, getattr(self, field.name))
        if self.width % self.heads:
            self._refuse("width", f"{self.width} is not divisible by the {self.heads} attention heads (heads)")
        if self.padding_id >= self.vocabulary:
            self._refuse("padding_id", f"{self.padding_id} is not a row of a table of {self.vocabulary:,} words")
        if self.parameters_about > MOST_PARAMETERS:
            self._refuse("width", f"these sizes make about {self.parameters_about:,} parameters; that is no BERT")

    def _check(self, name: str, value: Any) -> None:
        if name == "activation":
            if value not in ACTIVATIONS:
                self._refuse(name, f"{quote(value)} is not known; known are {', '.join(ACTIVATIONS)}")
        elif name in MOST or name == "padding_id":
            if isinstance(value, bool) or not isinstance(value, int):
                self._refuse(name, f"{quote(value)} is not a whole number")
            least, most = (0, MOST["vocabulary"]) if name == "padding_id" else (1, MOST[name])
            if not least <= value <= most:
                self._refuse(name, f"{quote(value)} is outside {least} to {most:,}")
        else:
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._refuse(name, f"{quote(value)} is not a number")
            if not 0 <= value < 1 or (name == "norm_epsilon" and value == 0):  # nor is NaN inside
                self._refuse(name, f"{quote(value)} is outside 0 to 1")

    @staticmethod
    def _refuse(name: str, why: str) -> None:
        raise UserError(f"field '{HUGGING_FACE_NAMES[name]}' ({name}): {why}")

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def parameters_about(self) -> int:
        """The matrices alone: enough to refuse absurd sizes without allocating them."""
        table = (self.vocabulary + self.positions + self.token_types) * self.width
        return table + self.layers * (4 * self.width**2 + 2 * self.width * self.inner)

    @classmethod
    def from_hugging_face(cls, values: Any, *, source: str) -> "Config":
        """Translate the content of a config.json; `source` names the file in every error."""
        if not isinstance(values, dict):
            raise UserError(f"{source}: expected a JSON object of settings, found {type(values).__name__}")
        _refuse_what_is_not_plain_bert(values, source)
        for ours in REQUIRED:
            if values.get(HUGGING_FACE_NAMES[ours]) is None:
                raise UserError(f"{source}: field '{HUGGING_FACE_NAMES[ours]}' is missing")
        theirs = {ours: values[name] for ours, name in HUGGING_FACE_NAMES.items() if values.get(name) is not None}
        try:
            return cls(**theirs)
        except UserError as error:
            raise UserError(f"{source}: {error}") from None

    def to_hugging_face(self) -> dict[str, Any]:
        """The content of a config.json."""
        named = {theirs: getattr(self, ours) for ours, theirs in HUGGING_FACE_NAMES.items()}
        return {"model_type": "bert", **named}


def _refuse_what_is_not_plain_bert(values: dict[str, Any], source: str) -> None:
    """Settings that make it another function than BERT, or that make other libraries run code from the folder."""
    kind = values.get("model_type", "bert")
    if kind != "bert":
        raise UserError(f"{source}: field 'model_type' is {quote(kind)}; pocketbert reads 'bert' only")
    for name in ("auto_map", "custom_pipelines", "trust_remote_code"):
        if values.get(name):
            raise UserError(
                f"{source}: field '{name}' asks to run code that comes with the model; pocketbert never does. "
                f"If the weights are a plain BERT, remove the field"
            )
    plain = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
    for name, expected in plain.items():
        if values.get(name, expected) not in (expected, None):
            raise UserError(f"{source}: field '{name}' is {quote(values[name])}; pocketbert reads {expected!r} only")
    for name in ("pruned_heads", "quantization_config"):
        if values.get(name):
            raise UserError(f"{source}: field '{name}' is set; pocketbert reads whole, unquantised BERTs only")


# The published shapes (Turc et al. 2019 for the small four, Devlin et al. 2019 for base and large).
SHAPES = {
    name: Config(width=width, layers=layers, heads=width // 64, inner=4 * width)
    for name, layers, width in [
        ("tiny", 2, 128),
        ("mini", 4, 256),
        ("small", 4, 512),
        ("medium", 8, 512),
        ("base", 12, 768),
        ("large", 24, 1_024),
    ]
}
