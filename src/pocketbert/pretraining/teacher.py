"""A bigger encoder to learn from, and a word table made from its own."""

from dataclasses import dataclass

import numpy as np

from pocketbert.catalog import load_model
from pocketbert.errors import UserError
from pocketbert.start import Start
from pocketbert.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class Teacher:
    """A model whose opinion is asked."""

    name: str
    model: Start
    tokenizer: Tokenizer

    @property
    def width(self) -> int:
        return self.model.config.width


def find_teacher(name: str, layer: int | None = None) -> Teacher:
    """The model of that name; it has such a layer."""
    model = load_model(name)
    if not model.pretrained or model.tokenizer is None:
        raise UserError(f"teacher '{model.name}' has no pretrained weights or no tokenizer; it can teach nothing")
    if layer is not None and layer > model.config.layers:
        raise UserError(f"teacher_layer: {layer}, but teacher '{model.name}' has {model.config.layers} layers")
    return Teacher(model.name, model, model.tokenizer)


def word_table(teacher: Teacher, tokenizer: Tokenizer, width: int, std: float) -> np.ndarray:
    """Our tokens' vectors made from the teacher's, (V, width), float32.

    A token is cut up by the teacher's tokenizer, its pieces' vectors are averaged, and all are reduced to our width by
    their principal components, scaled so that the table has BERT's usual spread. Special tokens are the teacher's own.
    """
    table = teacher.model.encoder().embeddings.word.weight.detach().double().numpy()
    tokens = tokenizer.tokens
    theirs = {token: row for row, token in enumerate(teacher.tokenizer.tokens)}
    vectors = np.zeros((len(tokens), table.shape[1]))
    cut = teacher.tokenizer([token.removeprefix("##") for token in tokens])
    for row, token in enumerate(tokens):
        if token in theirs:  # special tokens, and pieces that both have
            vectors[row] = table[theirs[token]]
        else:
            pieces = cut.row(row)[1:-1]
            vectors[row] = table[pieces if len(pieces) else [theirs["[UNK]"]]].mean(axis=0)
    reduced = principal_components(vectors, width)
    reduced *= std / max(reduced.std(), 1e-12)
    reduced[tokenizer.padding_id] = 0.0
    return reduced.astype(np.float32)


def principal_components(vectors: np.ndarray, width: int) -> np.ndarray:
    """(N, D) → (N, width): centred, along the directions of most spread; zeros where there are fewer than asked.

    A direction's sign is free; it is fixed by its largest entry, so that the same table comes out everywhere.
    """
    centred = vectors - vectors.mean(axis=0)
    _, directions = np.linalg.eigh(centred.T @ centred)
    directions = directions[:, ::-1][:, :width]
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, np.arange(directions.shape[1])])
    reduced = np.zeros((len(vectors), width))
    reduced[:, : directions.shape[1]] = centred @ directions
    return reduced
