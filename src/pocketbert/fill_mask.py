"""Which word belongs in the gap? For models that kept their masked-word head."""

import os
import re
from dataclasses import dataclass

import torch

from pocketbert.catalog import PRETRAINED, find, is_available
from pocketbert.checkpoints import WeightFile
from pocketbert.errors import UserError
from pocketbert.loading import load_model, load_pretraining

MASK = "[MASK]"
HEAD = "cls.predictions.bias"


@dataclass(frozen=True)
class Guess:
    """One word for one gap."""

    word: str  # a piece that continues a word begins with ##
    probability: float


def fill(text: str, model: str | os.PathLike[str] | None = None, *, top: int = 5) -> list[list[Guess]]:
    """For each [MASK] of a text, the most probable words. Several gaps are filled each on its own.

    Args:
        text: with one [MASK] or more.
        model: one that kept its masked-word head; None: a bundled one.
        top: so many words for each gap, the most probable first.
    """
    if isinstance(top, bool) or not isinstance(top, int) or top < 1:
        raise UserError(f"top: {top!r} is not a whole number of at least 1")
    text = re.sub(r"\[mask\]", MASK, text, flags=re.IGNORECASE)
    if MASK not in text:
        raise UserError(f"no gap in the text: write {MASK} where a word is to be guessed")
    name = usual_filler() if model is None else model
    found = load_model(name)
    if found.folder is None:
        raise UserError(f"model '{found.name}' is a shape with fresh weights; its guesses would mean nothing")
    tokenizer = found.require_tokenizer()
    if HEAD not in WeightFile(found.folder).shapes:
        raise UserError(f"model '{found.name}' has no masked-word head; name one that has (such as `pretrain` makes)")
    network = load_pretraining(name, quiet=True)
    encoded = tokenizer([text])
    if int(encoded.lengths[0]) > found.config.positions:
        raise UserError(f"{int(encoded.lengths[0])} tokens, but model '{found.name}' reads {found.config.positions}")
    batch = encoded.tensors()
    with torch.inference_mode():
        states = network.encoder(**batch).last_hidden_state[0]  # (T, H)
        gaps = torch.nonzero(batch["input_ids"][0] == tokenizer.ids[MASK])[:, 0]
        logits = network.words(states[gaps], network.encoder.embeddings.word.weight)  # (gaps, V)
        logits = logits[:, : len(tokenizer)].double()
        likely = logits.softmax(dim=1).topk(min(top, len(tokenizer)), dim=1)
    tokens = tokenizer.tokens
    return [
        [Guess(tokens[row], share) for share, row in zip(shares, rows, strict=True)]
        for shares, rows in zip(likely.values.tolist(), likely.indices.tolist(), strict=True)
    ]


def usual_filler() -> str:
    """The first pretrained model available that has the head."""
    for name in PRETRAINED:
        folder = find(name).folder if is_available(name) else None
        if folder is not None and HEAD in WeightFile(folder).shapes:
            return name
    raise UserError(
        "no model with a masked-word head is available; name one (--model), or make one: pocketbert pretrain"
    )
