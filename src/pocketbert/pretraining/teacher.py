"""A bigger encoder to learn from: its sentence vectors, computed once and kept, and its word vectors.

Sentence vectors of some of the corpus's sentences are kept on disk as float16, in the order in which the sentences were
drawn: a run that wants more of them only asks about the rest. They are written in chunks, and a killed run goes on with
the next. (The states of every token would be a hundred times as much.)
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
from pocketbert.files import lock
from pocketbert.models import Model, load_model, weights_fingerprint
from pocketbert.pretraining.corpus import Corpus, Say
from pocketbert.tokenizer import Tokenizer
from pocketbert.training.batches import epoch_batches
from pocketbert.training.loop import derived_seed
from pocketbert.training.network import mean_pool, read_all

CHUNK = 4_096  # sentences between two savings
LEAST_TOKENS = 4  # shorter ones say too little to be told apart
FORMAT = 1  # of kept vectors; raised when other sentences would be drawn
MOST_OF_ONE = 200  # sentences of a document, so that a few long books do not drown the rest
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
    """Numbers of training sentences of a sensible length and without unknown words, in an order drawn from the seed.

    Fewer of them are the first ones of more.
    """
    lengths = np.diff(corpus.starts)
    document = np.repeat(np.arange(len(corpus.held)), np.diff(corpus.firsts))
    good = np.flatnonzero((lengths >= LEAST_TOKENS) & (lengths <= max_length - 2) & ~corpus.held[document])
    random = np.random.default_rng(derived_seed(seed, SAMPLE))
    unknown = corpus.tokenizer.ids["[UNK]"]
    taken = np.zeros(len(corpus.held), dtype=np.int64)
    chosen: list[int] = []
    for number in good[random.permutation(len(good))]:
        if len(chosen) == count:
            break
        if taken[document[number]] < MOST_OF_ONE and not (corpus.sentence(number) == unknown).any():
            taken[document[number]] += 1
            chosen.append(int(number))
    if len(chosen) < 2:
        raise UserError(f"no sentences of {LEAST_TOKENS} to {max_length - 2} tokens to ask a teacher about")
    return np.array(chosen, dtype=np.int64)


def sentence_text(corpus: Corpus, number: int, tokens: list[str]) -> str:
    """A sentence as its words, from its ids: cleaned and split as the corpus is, which a BERT does anyway."""
    return " ".join(tokens[i] for i in corpus.sentence(number)).replace(" ##", "")


def sentence_vectors(
    teacher: Teacher,
    corpus: Corpus,
    sentences: np.ndarray,
    cache: Path,
    *,
    drawn: tuple[int, int] = (0, 0),
    max_length: int = 128,
    precision: str = "float32",
    device: str = "cpu",
    say: Say | None = None,
) -> np.ndarray:
    """The teacher's vectors of these sentences: mean over the tokens, length one. Kept in `cache`, made in chunks.

    `drawn` says how the sentences were drawn (seed, length): what was drawn so before is the beginning of these.
    """
    encoder = teacher.model.encoder().eval().to(device)
    tokens = corpus.tokenizer.tokens
    parts = (weights_fingerprint(encoder), teacher.tokenizer.to_json(), corpus.name, max_length, precision)
    key = hashlib.blake2b(repr((*parts, FORMAT, drawn)).encode(), digest_size=12).hexdigest()
    folder = cache / f"vectors-{key}"
    path, shape = folder / "vectors", (len(sentences), teacher.width)
    if _done(folder, sentences, teacher.width) < len(sentences):
        with lock(folder, wait=6 * 3_600):
            length = min(max_length, teacher.model.config.positions)
            pooled = _pooling(encoder, precision, device)

            def vectors(chunk: np.ndarray) -> np.ndarray:
                read = teacher.tokenizer([sentence_text(corpus, n, tokens) for n in chunk], max_length=length)
                return read_all(pooled, read, batch_size=64, device=device)

            _write_chunks(folder, vectors, sentences, teacher.width, say)
    return np.memmap(path, dtype="<f2", mode="r", shape=shape)


def _pooling(encoder: Encoder, precision: str, device: str) -> Callable[[dict[str, Tensor]], Tensor]:
    def pooled(batch: dict[str, Tensor]) -> Tensor:
        kind = torch.device(device).type
        with torch.autocast(kind, torch.bfloat16, enabled=precision == "bfloat16"):
            states = encoder(**batch).last_hidden_state
        return F.normalize(mean_pool(states.float(), batch["attention_mask"]), dim=1)

    return pooled


def _done(folder: Path, sentences: np.ndarray, width: int) -> int:
    """How many of the sentences, from the first, have their vectors there; 0 where they are of other sentences."""
    try:
        numbers = np.fromfile(folder / "sentences", dtype="<i8")
        rows = (folder / "vectors").stat().st_size // (2 * width)
    except FileNotFoundError:
        return 0
    done = min(rows, len(numbers), len(sentences))
    return done if (numbers[:done] == sentences[:done]).all() else 0


def _write_chunks(
    folder: Path, vectors: Callable[[np.ndarray], np.ndarray], sentences: np.ndarray, width: int, say: Say | None
) -> None:
    """Append chunk after chunk; what a killed writer left of one is cut off first.

    A chunk is read in batches of its own, so how many were asked for at a time changes no bit.
    """
    done = _done(folder, sentences, width) // CHUNK * CHUNK
    with (folder / "sentences").open("ab") as names, (folder / "vectors").open("ab") as file:
        names.truncate(8 * done)
        file.truncate(2 * width * done)
        for begin in range(done, len(sentences), CHUNK):
            chunk = sentences[begin : begin + CHUNK]
            for written, content in ((file, vectors(chunk).astype("<f2")), (names, chunk.astype("<i8"))):
                written.write(content.tobytes())
                written.flush()
                os.fsync(written.fileno())  # the vectors are there before they are named
            if say is not None:
                say(f"teacher's vectors: {begin + len(chunk):,} of {len(sentences):,} sentences")


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
