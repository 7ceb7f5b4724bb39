"""What training starts from: an encoder with its tokenizer and pooling, and everything it has learnt from so far.

A pretrained model is a start (`loading.load_model`); so is a finished run (`runs.load_start`), which keeps its pooling
and brings its ancestry along: which runs on which tasks made it, and hashes of every text any of them learnt from, so
that a leak through two steps is noticed like one through one.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Start:
    """A name with what it stands for. The encoder is made when it is asked for."""

    name: str  # as a person gives it: a model's name, a folder, a run's folder
    config: Config
    make: Callable[[int], Encoder]  # from a seed, for what has no weights yet
    tokenizer: Tokenizer | None = None  # None: a shape has none
    pretrained: bool = True  # False: a shape with fresh weights
    pooling: str = "pooler"  # what suits it
    has_pooler: bool = True  # False: a pooler would be fresh, and mean nothing until trained
    folder: Path | None = None  # where a model's files are; None: a shape, or a run
    model: str = ""  # the name of the pretrained model it all began with; a model's is its own
    run: Path | None = None  # the run's folder, if it is one
    ancestry: tuple[dict[str, Any], ...] = ()  # the runs it has been through, oldest first: task, method, model, seed
    adapters: dict[str, dict[str, Any]] = field(default_factory=dict)  # other runs' in its encoder's slots, by name
    seen: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # hashes of all texts it learnt from

    def encoder(self, seed: int = 0) -> Encoder:
        """The encoder, made anew."""
        return self.make(seed)

    def require_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise UserError(f"{self.name}: the model has no tokenizer.json and no vocab.txt")
        return self.tokenizer


def weights_fingerprint(encoder: Encoder) -> str:
    """A hash of BERT's every weight: two plain encoders with the same one are the same function."""
    digest = hashlib.blake2b(repr(encoder.config).encode(), digest_size=16)
    for name, parameter in sorted(encoder.base_parameters()):
        digest.update(name.encode())
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
