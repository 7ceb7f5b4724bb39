"""What a teacher makes of the corpus's sentences: computed once and kept, then a batch of it for every step.

Of each drawn sentence its vector is kept, as float16; on wish also the states of its words in one of the teacher's
layers, as a byte a number. Sentences are kept in the order in which they were drawn: a run that wants more of them only
asks about the rest. They are written in chunks, and a killed run goes on with the next.

Shapes: S sentences, T tokens, P of them between [CLS] and [SEP], W words, D the teacher's width.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
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
from pocketbert.pretraining.corpus import Corpus, Say
from pocketbert.pretraining.teacher import Teacher
from pocketbert.start import weights_fingerprint
from pocketbert.tokenizer import Tokenizer
from pocketbert.training.batches import by_length, epoch_batches, round_up_to_bucket
from pocketbert.training.loop import derived_seed
from pocketbert.training.network import mean_pool

CHUNK = 4_096  # sentences between two savings
BATCH = 64  # sentences the teacher reads at once
LEAST_TOKENS = 4  # shorter ones say too little to be told apart
FORMAT = 2  # of what is kept; raised when other sentences would be drawn, or anything else be kept of them
MOST_OF_ONE = 200  # sentences of a document, so that a few long books do not drown the rest
STEPS = 32  # of a kept state, to a standard deviation: a byte reaches to four of them
SAMPLE, ORDER = 21, 22  # what a derived seed is for


# -- which sentences -------------------------------------------------------------------------------------------------


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


def continuing(tokenizer: Tokenizer) -> np.ndarray:
    """Which tokens go on with a word."""
    return np.array([token.startswith("##") for token in tokenizer.tokens])


def find_words(ids: np.ndarray, lengths: np.ndarray, goes_on: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of padded rows [CLS] … [SEP]: places (P) of the tokens between those two in the flattened (S·T), the number (P)
    of the word that each belongs to, counted through all rows, and how many words (S) each row has."""
    at = np.arange(ids.shape[1])
    inside = (at >= 1) & (at < lengths[:, None] - 1)
    begins = inside & (~goes_on[ids] | (at == 1))
    places = np.flatnonzero(inside)
    return places, np.cumsum(begins.ravel()[places]) - 1, begins.sum(axis=1)


def word_means(states: Tensor, places: Tensor, numbers: Tensor, count: int) -> Tensor:
    """(S, T, H) → (W, H): the mean over each word's tokens."""
    pieces = states.flatten(0, 1)[places]
    sums = states.new_zeros(count, states.shape[2]).index_add(0, numbers, pieces)
    return sums / torch.bincount(numbers, minlength=count).clamp(min=1).to(states.dtype)[:, None]


# -- asking and keeping ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TeacherTargets:
    """What a teacher made of some sentences; vectors and states stay on disk."""

    vectors: np.ndarray  # (S, D) float16: the mean over the tokens, of length one
    counts: np.ndarray | None = None  # (S) words of each sentence whose states are there
    states: np.ndarray | None = None  # (W, D) int8: standardised, in STEPS


def ask_teacher(
    teacher: Teacher,
    corpus: Corpus,
    sentences: np.ndarray,
    cache: Path,
    *,
    layer: int | None = None,
    drawn: tuple[int, int] = (0, 0),
    max_length: int = 128,
    precision: str = "float32",
    device: str = "cpu",
    say: Say | None = None,
) -> TeacherTargets:
    """The teacher's vectors of these sentences, and of their words in `layer`; from `cache` as far as they are there.

    `drawn` says how the sentences were drawn (seed, length): what was drawn so before is the beginning of these.
    """
    encoder = teacher.model.encoder().eval().to(device)
    parts = (weights_fingerprint(encoder), teacher.tokenizer.to_json(), corpus.name, max_length, precision)
    key = hashlib.blake2b(repr((*parts, FORMAT, drawn, layer)).encode(), digest_size=12).hexdigest()
    teacher_cache = TeacherCache(cache / f"vectors-{key}", teacher.width, layer is not None)
    if teacher_cache.done(sentences) < len(sentences):
        length = min(max_length, teacher.model.config.positions)
        reader = _Reader(encoder, teacher.tokenizer, corpus, layer, length, precision, device)
        with lock(teacher_cache.folder, wait=6 * 3_600, say=say):
            teacher_cache.fill(sentences, reader, say)
    return teacher_cache.targets(len(sentences))


@dataclass(frozen=True, eq=False)
class _Reader:
    """A teacher at work."""

    encoder: Encoder
    tokenizer: Tokenizer
    corpus: Corpus
    layer: int | None
    length: int
    precision: str
    device: str

    def __call__(self, sentences: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """(S, D) vectors, and each sentence's words' states; none where the two tokenizers see other words."""
        tokens = self.corpus.tokenizer.tokens
        read = self.tokenizer([sentence_text(self.corpus, n, tokens) for n in sentences], max_length=self.length)
        theirs, ours = continuing(self.tokenizer), continuing(self.corpus.tokenizer)
        vectors = np.zeros((len(sentences), self.encoder.config.width), dtype=np.float32)
        states: list[np.ndarray] = [vectors[:0]] * len(sentences)
        for rows in by_length(read.lengths, BATCH):
            batch = {name: tensor.to(self.device) for name, tensor in read.tensors(rows).items()}
            hidden, last = self._states(batch)
            vectors[rows] = F.normalize(mean_pool(last, batch["attention_mask"]), dim=1).cpu().numpy()
            if hidden is None:
                continue
            places, numbers, counts = find_words(batch["input_ids"].cpu().numpy(), read.lengths[rows], theirs)
            of_tokens = [torch.from_numpy(array).to(self.device) for array in (places, numbers)]
            means = word_means(hidden, of_tokens[0], of_tokens[1], int(counts.sum())).cpu().numpy()
            for row, words in zip(rows, np.split(means, np.cumsum(counts)[:-1]), strict=True):
                begins = ~ours[self.corpus.sentence(sentences[row])]
                if begins[0] and begins.sum() == len(words) and not read.cut[row]:
                    states[row] = words
        return vectors, states

    def _states(self, batch: dict[str, Tensor]) -> tuple[Tensor | None, Tensor]:
        """The asked layer's and the last one's, in full precision."""
        kind = torch.device(self.device).type
        asked = self.layer is not None
        with torch.inference_mode(), torch.autocast(kind, torch.bfloat16, enabled=self.precision == "bfloat16"):
            encoding = self.encoder(**batch, hidden_states=asked)
        if self.layer is None or encoding.hidden_states is None:
            return None, encoding.last_hidden_state.float()
        return encoding.hidden_states[self.layer].float(), encoding.last_hidden_state.float()


@dataclass(frozen=True)
class TeacherCache:
    """A folder of what a teacher said: files that only grow, by whole chunks."""

    folder: Path
    width: int
    words: bool  # are words' states kept, too?

    def done(self, sentences: np.ndarray) -> int:
        """How many of the sentences, from the first, are there; 0 where others are."""
        try:
            numbers = np.fromfile(self.folder / "sentences", dtype="<i8")
        except FileNotFoundError:
            return 0
        done = min(len(numbers), len(sentences))
        return done if (numbers[:done] == sentences[:done]).all() else 0

    def targets(self, count: int) -> TeacherTargets:
        vectors = np.memmap(self.folder / "vectors", dtype="<f2", mode="r", shape=(count, self.width))
        if not self.words:
            return TeacherTargets(vectors)
        counts = np.fromfile(self.folder / "counts", dtype="<i4", count=count)
        shape = (int(counts.sum()), self.width)
        states = np.memmap(self.folder / "states", dtype="i1", mode="r", shape=shape) if shape[0] else np.zeros(shape)
        return TeacherTargets(vectors, counts, states)

    def fill(
        self,
        sentences: np.ndarray,
        read: Callable[[np.ndarray], tuple[np.ndarray, list[np.ndarray]]],
        say: Say | None,
    ) -> None:
        """Append chunk after chunk; what a killed writer left of one is cut off first.

        A chunk is read in batches of its own, so how many whole ones were asked for at a time changes no bit.
        """
        done = self.done(sentences)
        if done == len(sentences):
            return  # another process did it meanwhile, and may be reading it
        done = done // CHUNK * CHUNK
        self._cut(done)
        for begin in range(done, len(sentences), CHUNK):
            chunk = sentences[begin : begin + CHUNK]
            vectors, states = read(chunk)
            if self.words:
                mean, spread = self._spread(states)
                self._append("states", (_standardised(words, mean, spread) for words in states))
                self._append("counts", [np.array([len(words) for words in states], dtype="<i4")])
            self._append("vectors", [vectors.astype("<f2")])
            self._append("sentences", [chunk.astype("<i8")])  # named when all else is there
            if say is not None:
                say(f"teacher's vectors: {begin + len(chunk):,} of {len(sentences):,} sentences")

    def _cut(self, done: int) -> None:
        """Back to so many sentences."""
        sizes = {"sentences": 8 * done, "vectors": 2 * self.width * done}
        if self.words:
            counts = self.folder / "counts"
            words = int(np.fromfile(counts, dtype="<i4", count=done).sum()) if done else 0
            sizes |= {"states": self.width * words, "counts": 4 * done}
        for name, size in sizes.items():
            with (self.folder / name).open("ab") as file:
                file.truncate(size)
        if not done:
            (self.folder / "spread").unlink(missing_ok=True)

    def _append(self, name: str, arrays: Iterable[np.ndarray]) -> None:
        with (self.folder / name).open("ab") as file:
            for array in arrays:
                file.write(array.tobytes())
            file.flush()
            os.fsync(file.fileno())

    def _spread(self, states: list[np.ndarray]) -> np.ndarray:
        """(2, D): mean and standard deviation of every dimension over the first chunk's words; for all chunks."""
        path = self.folder / "spread"
        if not path.is_file():
            words = np.concatenate(states)
            if len(words) < 2:
                raise UserError(
                    "teacher_layer: the teacher's tokenizer and the corpus's see the same words in hardly any "
                    "sentence; use the teacher's vocabulary (--vocabulary), or no layer"
                )
            both = np.stack([words.mean(axis=0), np.maximum(words.std(axis=0), 1e-6)])
            self._append("spread", [both.astype("<f4")])
        return np.fromfile(path, dtype="<f4").reshape(2, self.width)


def _standardised(words: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """In STEPS to a standard deviation, int8."""
    return np.clip(np.rint((words - mean) / spread * STEPS), -127, 127).astype("i1")


# -- batches ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Words:
    """The words of a process's sentences, and the teacher's states of them."""

    places: Tensor  # (P) of their tokens in the flattened (S·T)
    numbers: Tensor  # (P) the word that each token belongs to
    states: Tensor  # (W, D)
    everywhere: int  # words of all processes' sentences
    computed: int  # at least P: so many tokens are computed, to have few shapes

    def to(self, device: str) -> "Words":
        places, numbers, states = (given.to(device) for given in (self.places, self.numbers, self.states))
        return Words(places, numbers, states, self.everywhere, self.computed)


@dataclass(frozen=True, eq=False)
class DistillationBatch:
    """A batch: one process's sentences, what the teacher made of them."""

    sentences: dict[str, Tensor]  # an encoder's arguments
    vectors: Tensor  # (S, D), of all processes' sentences
    words: Words | None
    tokens_everywhere: int = 0  # of all processes' sentences

    def to(self, device: str) -> "DistillationBatch":
        sentences = {name: tensor.to(device) for name, tensor in self.sentences.items()}
        words = None if self.words is None else self.words.to(device)
        return DistillationBatch(sentences, self.vectors.to(device), words, self.tokens_everywhere)


class DistillationBatches:
    """Sentences of the corpus with what the teacher made of them; a batch of them for every step."""

    def __init__(
        self,
        corpus: Corpus,
        sentences: np.ndarray,
        targets: TeacherTargets,
        *,
        batch_size: int,
        max_length: int,
        seed: int,
    ) -> None:
        self.corpus = corpus
        self.targets = targets
        self.width = targets.vectors.shape[1]
        self.begins = np.asarray(corpus.starts[sentences])
        self.max_length = max_length
        self.lengths = np.minimum(np.asarray(corpus.starts[sentences + 1]) - self.begins, max_length - 2)
        self.batch_size = min(batch_size, len(sentences))
        self.batches = len(sentences) // self.batch_size  # a pass
        self.seed = seed
        self._pass = lru_cache(maxsize=2)(self._make_pass)
        if targets.counts is not None:
            self._goes_on = continuing(corpus.tokenizer)
            self._first_word = np.concatenate([[0], np.cumsum(targets.counts)])

    def _make_pass(self, number: int) -> list[np.ndarray]:
        """Which sentences share a batch: those of like length."""
        random = np.random.default_rng(derived_seed(self.seed, number, ORDER))
        batches = epoch_batches(self.lengths, self.batch_size, random)
        return [rows for rows in batches if len(rows) == self.batch_size]

    def batch(self, step: int, rank: int = 0, processes: int = 1) -> DistillationBatch:
        """This process's sentences of a step; the teacher's vectors of everybody's."""
        number, place = divmod(step, self.batches)
        rows = self._pass(number)[place]
        own = rows[rank::processes]
        at = np.arange(round_up_to_bucket(int(self.lengths[rows].max()) + 2, self.max_length))
        lengths = self.lengths[own][:, None]
        special = self.corpus.tokenizer.ids
        ids = np.full((len(own), len(at)), special["[PAD]"], dtype=np.int64)
        text = (at >= 1) & (at <= lengths)
        ids[text] = self.corpus.ids[(self.begins[own][:, None] + at - 1)[text]]
        ids[:, 0] = special["[CLS]"]
        ids[np.arange(len(own)), lengths[:, 0] + 1] = special["[SEP]"]
        mask = (at < lengths + 2).astype(np.int64)
        sentences = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        vectors = torch.from_numpy(np.asarray(self.targets.vectors[rows], dtype=np.float32))
        return DistillationBatch(sentences, vectors, self._words(ids, rows, own), int((self.lengths[rows] + 2).sum()))

    def _words(self, ids: np.ndarray, rows: np.ndarray, own: np.ndarray) -> Words | None:
        """Of the sentences whose words' states were kept."""
        counts, states = self.targets.counts, self.targets.states
        if counts is None or states is None:
            return None
        places, numbers, found = find_words(ids, self.lengths[own] + 2, self._goes_on)
        targets = counts[own] > 0
        assert (found == counts[own])[targets].all()
        taught = np.repeat(targets, found)  # (words)
        given = taught[numbers]
        again = np.cumsum(taught) - 1  # a word's number among those that are taught
        known = [states[self._first_word[row] : self._first_word[row + 1]] for row in own]
        return Words(
            torch.from_numpy(places[given]),
            torch.from_numpy(again[numbers[given]]),
            torch.from_numpy(np.concatenate([states[:0], *known]).astype(np.float32)),
            int(counts[rows].sum()),
            round_up_to_bucket(int(given.sum()), len(own) * self.max_length),
        )
