"""A bigger encoder to learn from: its sentence vectors, computed once and kept, and its word vectors.

Sentence vectors of some of the corpus's sentences are kept on disk as float16, in a folder named after the teacher's
weights and the sentences; they are written in chunks, and a killed run goes on with the next. (The states of every
token would be a hundred times as much.)
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.files import lock, read_json, write_json
from pocketbert.models import Model, load_model, weights_fingerprint
from pocketbert.pretraining.corpus import Corpus, Say
from pocketbert.tokenizer import Tokenizer
from pocketbert.training.batches import epoch_batches
from pocketbert.training.loop import derived_seed
from pocketbert.training.network import mean_pool, read_all

CHUNK = 4_096  # sentences between two savings
LEAST_TOKENS = 4  # shorter ones say too little to be told apart
SAMPLE, ORDER = 21, 22  # what a derived seed is for


@dataclass(frozen=True, eq=False)
class Teacher:
    """A model whose opinion is asked."""

    name: str
    model: Model
    tokenizer: Tokenizer

    @property
    def width(self) -> int:
        return self.model.config.width


def find_teacher(name: str) -> Teacher:
    model = load_model(name)
    if model.folder is None or model.tokenizer is None:
        raise UserError(f"teacher '{model.name}' has no pretrained weights or no tokenizer; it can teach nothing")
    return Teacher(model.name, model, model.tokenizer)


# -- sentences -------------------------------------------------------------------------------------------------------


class Lessons:
    """Sentences of the corpus with what the teacher made of them; a batch of them for every step."""

    def __init__(
        self, corpus: Corpus, sentences: np.ndarray, vectors: np.ndarray, *, batch_size: int, max_length: int, seed: int
    ) -> None:
        self.corpus = corpus
        self.vectors = vectors  # (sentences, D) float16, on disk, rows of length one
        self.width = vectors.shape[1]
        self.begins = np.asarray(corpus.starts[sentences])
        self.lengths = np.minimum(np.asarray(corpus.starts[sentences + 1]) - self.begins, max_length - 2)
        self.batch_size = min(batch_size, len(sentences))
        self.batches = len(sentences) // self.batch_size  # a pass
        self.seed = seed
        self._pass = lru_cache(maxsize=2)(self._make_pass)

    def _make_pass(self, number: int) -> list[np.ndarray]:
        """Which sentences share a batch: those of like length."""
        random = np.random.default_rng(derived_seed(self.seed, number, ORDER))
        batches = epoch_batches(self.lengths, self.batch_size, random)
        return [rows for rows in batches if len(rows) == self.batch_size]

    def batch(self, step: int, rank: int = 0, processes: int = 1) -> tuple[dict[str, Tensor], Tensor]:
        """This process's sentences of a step, as an encoder's arguments; the teacher's vectors of all of them."""
        number, place = divmod(step, self.batches)
        rows = self._pass(number)[place]
        lengths = self.lengths[rows][:, None]
        at = np.arange(int(lengths.max()) + 2)
        special = self.corpus.tokenizer.ids
        ids = np.full((len(rows), len(at)), special["[PAD]"], dtype=np.int64)
        text = (at >= 1) & (at <= lengths)
        ids[text] = self.corpus.ids[(self.begins[rows][:, None] + at - 1)[text]]
        ids[:, 0] = special["[CLS]"]
        ids[np.arange(len(rows)), lengths[:, 0] + 1] = special["[SEP]"]
        mask = (at < lengths + 2).astype(np.int64)
        own = slice(rank, None, processes)
        batch = {"input_ids": torch.from_numpy(ids[own].copy()), "attention_mask": torch.from_numpy(mask[own].copy())}
        return batch, torch.from_numpy(np.asarray(self.vectors[rows], dtype=np.float32))


def choose_sentences(corpus: Corpus, count: int, max_length: int, seed: int) -> np.ndarray:
    """Numbers of training sentences of a sensible length and without unknown words, drawn from the seed, sorted."""
    lengths = np.diff(corpus.starts)
    held = np.repeat(corpus.held, np.diff(corpus.firsts))
    good = np.flatnonzero((lengths >= LEAST_TOKENS) & (lengths <= max_length - 2) & ~held)
    random = np.random.default_rng(derived_seed(seed, SAMPLE))
    unknown = corpus.tokenizer.ids["[UNK]"]
    chosen: list[int] = []
    for number in good[random.permutation(len(good))]:
        if len(chosen) == count:
            break
        if not (corpus.sentence(number) == unknown).any():
            chosen.append(int(number))
    if len(chosen) < 2:
        raise UserError(f"no sentences of {LEAST_TOKENS} to {max_length - 2} tokens to ask a teacher about")
    return np.sort(np.array(chosen, dtype=np.int64))


def sentence_text(corpus: Corpus, number: int, tokens: list[str]) -> str:
    """A sentence as its words, from its ids: cleaned and split as the corpus is, which a BERT does anyway."""
    return " ".join(tokens[i] for i in corpus.sentence(number)).replace(" ##", "")


def sentence_vectors(
    teacher: Teacher,
    corpus: Corpus,
    sentences: np.ndarray,
    cache: Path,
    *,
    max_length: int = 128,
    precision: str = "float32",
    device: str = "cpu",
    say: Say | None = None,
) -> np.ndarray:
    """The teacher's vectors of these sentences: mean over the tokens, length one. Kept in `cache`, made in chunks."""
    encoder = teacher.model.encoder().eval().to(device)
    tokens = corpus.tokenizer.tokens
    texts = hashlib.blake2b(digest_size=16)
    for number in sentences:
        texts.update(sentence_text(corpus, number, tokens).encode() + b"\n")
    parts = (weights_fingerprint(encoder), teacher.tokenizer.to_json(), texts.hexdigest(), max_length, precision)
    key = hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()
    folder = cache / f"vectors-{key}"
    path, shape = folder / "vectors", (len(sentences), teacher.width)
    with lock(folder, wait=6 * 3_600):
        if not (folder / "vectors.json").is_file():
            length = min(max_length, teacher.model.config.positions)
            pooled = _pooling(encoder, precision, device)

            def vectors(chunk: np.ndarray) -> np.ndarray:
                read = teacher.tokenizer([sentence_text(corpus, n, tokens) for n in chunk], max_length=length)
                return read_all(pooled, read, batch_size=64, device=device)

            _write_chunks(path, vectors, sentences, teacher.width, say)
            write_json(folder / "vectors.json", {"teacher": teacher.name, "shape": list(shape), "precision": precision})
    if read_json(folder / "vectors.json")["shape"] != list(shape) or path.stat().st_size != 2 * shape[0] * shape[1]:
        raise UserError(f"{folder}: damaged; remove this folder, it will be made again")
    return np.memmap(path, dtype="<f2", mode="r", shape=shape)


def _pooling(encoder: Encoder, precision: str, device: str) -> Callable[[dict[str, Tensor]], Tensor]:
    def pooled(batch: dict[str, Tensor]) -> Tensor:
        kind = torch.device(device).type
        with torch.autocast(kind, torch.bfloat16, enabled=precision == "bfloat16"):
            states = encoder(**batch).last_hidden_state
        return F.normalize(mean_pool(states.float(), batch["attention_mask"]), dim=1)

    return pooled


def _write_chunks(
    path: Path, vectors: Callable[[np.ndarray], np.ndarray], sentences: np.ndarray, width: int, say: Say | None
) -> None:
    """Append chunk after chunk; what a killed writer left of one is cut off first."""
    row = 2 * width  # bytes
    there = path.stat().st_size if path.is_file() else 0
    done = there // (row * CHUNK) * CHUNK
    with path.open("r+b" if path.is_file() else "wb") as file:
        file.truncate(done * row)
        file.seek(done * row)
        for begin in range(done, len(sentences), CHUNK):
            file.write(vectors(sentences[begin : begin + CHUNK]).astype("<f2").tobytes())
            file.flush()
            os.fsync(file.fileno())
            if say is not None:
                say(f"teacher's vectors: {min(begin + CHUNK, len(sentences)):,} of {len(sentences):,} sentences")


# -- words -----------------------------------------------------------------------------------------------------------


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
