"""Batches to learn from, made from (corpus, seed, step) and nothing else.

So a run that goes on after a kill needs no random state, and every process of several can make the whole batch and take
its share of the rows.

A pass cuts every document into stretches of about a sequence's length, at sentence starts, each pass at other places.
With next sentences, a stretch is parted at one of its sentences into A and B; in half of the rows B is exchanged for
text of another document, as many tokens long and from a sentence's start. B always ends where the room does, as a rule
inside a sentence, so neither the length nor the ending tells the two kinds apart.

Shapes: B rows, T tokens, M places whose word is to be told.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pocketbert.errors import UserError
from pocketbert.pretraining.corpus import Corpus
from pocketbert.training.batches import epoch_batches, round_up_to_bucket
from pocketbert.training.loop import derived_seed

PASS, BATCH, MASK = 11, 12, 13  # what a derived seed is for
TRIES = 50  # to find a text of another document that is long enough
MASKED, RANDOM = 0.8, 0.1  # of the chosen places: [MASK], another word; the rest keep theirs


@dataclass(frozen=True)
class Drawing:
    """How batches are drawn."""

    batch_size: int = 64
    max_length: int = 128
    next_sentence: bool = True
    causal: bool = False  # tell the next word from those to the left, instead of masked ones
    share: float = 0.15  # of the tokens that are chosen
    whole_word: bool = False  # choose all pieces of a word or none
    short: float = 0.1  # share of batches that are cut to a random shorter length
    seed: int = 0


@dataclass
class PretrainingBatch:
    """What a model is given, and what it should say."""

    input_ids: Tensor  # (B, T)
    attention_mask: Tensor  # (B, T), or (B, T, T) where a token sees only those to its left
    token_type_ids: Tensor  # (B, T)
    places: Tensor  # (M) into B·T
    words: Tensor  # (M) the true ids there
    next_sentence_labels: Tensor | None  # (B) 0: B follows A; 1: it is from elsewhere
    computed: int  # at least M: for so many places something is computed, to have few shapes
    masked_everywhere: int  # places in the whole batch, over all processes
    rows_everywhere: int
    tokens_everywhere: int  # without padding

    def to(self, device: str) -> "PretrainingBatch":
        if device == "cpu":
            return self
        moved: dict[str, Any] = {
            name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **moved)


class Examples:
    """All batches of one side of a corpus: `examples.batch(step)`."""

    def __init__(self, corpus: Corpus, drawing: Drawing, *, held: bool = False, what: str = "the corpus") -> None:
        self.corpus, self.drawing = corpus, drawing
        tokenizer = corpus.tokenizer
        self.special = tokenizer.ids
        tokens = tokenizer.tokens
        self.continues = np.array([token.startswith("##") for token in tokens])
        self.ordinary = np.array([row for row, token in enumerate(tokens) if token not in tokenizer.ids])
        self.room = drawing.max_length - (3 if drawing.next_sentence else 2)
        self.most_asked = math.ceil(drawing.batch_size * drawing.max_length * (1 if drawing.causal else drawing.share))
        documents = corpus.documents(held=held)
        counts = (corpus.firsts[1:] - corpus.firsts[:-1])[documents]
        self.document = np.repeat(documents.astype(np.int32), counts)  # of each sentence of this side
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        sentences = np.repeat(corpus.firsts[documents], counts) + within
        self.begins = np.asarray(corpus.starts)[sentences]  # where in the ids
        self.ends = np.asarray(corpus.starts)[sentences + 1]
        self.document_begins = np.asarray(corpus.starts)[corpus.firsts[:-1]]  # by number of the document
        self.document_ends = np.asarray(corpus.starts)[corpus.firsts[1:]]
        self._pass = lru_cache(maxsize=2)(self._make_pass)
        stretches = len(self._stretches(0)[0])
        if stretches < drawing.batch_size:
            self._refuse(what, stretches)
        self.batches = stretches // drawing.batch_size  # a pass

    def _refuse(self, what: str, stretches: int) -> None:
        drawing = self.drawing
        if not stretches and drawing.next_sentence and len(self.begins):
            raise UserError(f"{what}: no two sentences of a document follow each other; train without next sentences")
        raise UserError(
            f"{what} is smaller than a batch: it gives {stretches} stretches of up to {self.room} tokens, and a batch "
            f"has {drawing.batch_size}; give more text, or a smaller batch_size"
        )

    # -- which text ----------------------------------------------------------------------------------------------

    def _stretches(self, offset: int) -> tuple[np.ndarray, np.ndarray]:
        """(first sentence, one after the last) of every stretch: the sentences that begin within one room's length.

        What hangs over is cut; another pass, with another offset, cuts elsewhere.
        """
        number = (self.begins - self.document_begins[self.document] + offset) // self.room
        new = np.flatnonzero(np.diff(number, prepend=-1) | np.diff(self.document, prepend=-1))
        last = np.append(new[1:], len(number))
        if self.drawing.next_sentence:  # one sentence alone has nothing that follows
            several = last - new >= 2
            new, last = new[several], last[several]
        return new, last

    def _make_pass(self, number: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Stretches, and which of them share a batch (of like length: little padding)."""
        random = np.random.default_rng(derived_seed(self.drawing.seed, number, PASS))
        offset = int(random.integers(self.room)) if number else 0
        first, last = self._stretches(offset)
        if len(first) < self.drawing.batch_size:  # few texts, cut unluckily
            first, last = self._stretches(0)
        lengths = np.minimum(self.ends[last - 1] - self.begins[first], self.room)
        batches = epoch_batches(lengths, self.drawing.batch_size, random)
        return first, last, [rows for rows in batches if len(rows) == self.drawing.batch_size]

    def rows(self, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """For each row: where A begins, its length, where B begins, its length, is B from another document."""
        number, place = divmod(step, self.batches)
        firsts, lasts, batches = self._pass(number)
        chosen = batches[place % len(batches)]
        first, last = firsts[chosen], lasts[chosen]
        random = np.random.default_rng(derived_seed(self.drawing.seed, step, BATCH))
        room = self.room
        if random.random() < self.drawing.short:
            room = int(random.integers(min(8, room), room + 1))
        begin, end = self.begins[first], self.ends[last - 1]
        nothing = np.zeros(len(chosen), dtype=np.int64)
        if not self.drawing.next_sentence:
            return begin, np.minimum(end - begin, room), begin, nothing, nothing
        # A stretch that would end with a whole sentence loses a part of it: negatives end inside one, too.
        whole = end <= begin + self.room
        loss = (random.random(len(chosen)) * (end - self.begins[last - 1])).astype(np.int64)
        end = np.minimum(end - np.where(whole, loss, 0), begin + self.room)
        parted = first + 1 + (random.random(len(chosen)) * (last - first - 1)).astype(np.int64)
        middle = self.begins[parted]
        a, b = _fit(middle - begin, end - middle, room)
        begin = middle - a  # A keeps its end, B its beginning: what follows still follows
        next_sentence_labels = (random.random(len(chosen)) < 0.5).astype(np.int64)
        other, longest = self._negatives(self.document[first], b, random)
        begin_b = np.where(next_sentence_labels, other, middle)
        return begin, a, begin_b, np.where(next_sentence_labels, np.minimum(b, longest), b), next_sentence_labels

    def _negatives(
        self, document: np.ndarray, length: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each row: a sentence's start in another document, with `length` tokens after it; and how many there are.

        Where none is found (a corpus of very short documents), the longest that was.
        """
        begins, longest = np.zeros(len(document), dtype=np.int64), np.zeros(len(document), dtype=np.int64)
        for _ in range(TRIES):
            missing = np.flatnonzero(longest < length)
            if not len(missing):
                break
            drawn = random.integers(len(self.begins), size=len(missing))
            left = self.document_ends[self.document[drawn]] - self.begins[drawn]
            better = (self.document[drawn] != document[missing]) & (left > longest[missing])
            begins[missing[better]], longest[missing[better]] = self.begins[drawn][better], left[better]
        alone = np.flatnonzero(longest == 0)
        if len(alone):  # nearly all sentences are of one document: take the first of any other
            for row in alone:
                other = int(np.flatnonzero(self.document != document[row])[0])
                begins[row] = self.begins[other]
                longest[row] = self.document_ends[self.document[other]] - begins[row]
        return begins, longest

    # -- the batch -----------------------------------------------------------------------------------------------

    def batch(self, step: int, rank: int = 0, processes: int = 1) -> PretrainingBatch:
        """The batch of a step; with several processes, this one's rows of it (every `processes`-th)."""
        begin_a, a, begin_b, b, next_sentence_labels = self.rows(step)
        pairs = self.drawing.next_sentence
        lengths = (a + b + (3 if pairs else 2))[:, None]
        place = np.arange(round_up_to_bucket(int(lengths.max()), self.drawing.max_length))
        ids = np.full((len(a), len(place)), self.special["[PAD]"], dtype=np.int64)
        second = (a + 2)[:, None]  # where B's part begins
        in_a = (place >= 1) & (place < second - 1)
        in_b = (place >= second) & (place < lengths - 1)
        ids[in_a] = self.corpus.ids[(begin_a[:, None] + place - 1)[in_a]]
        if pairs:
            ids[in_b] = self.corpus.ids[(begin_b[:, None] + place - second)[in_b]]
            ids[np.arange(len(a)), a + 1] = self.special["[SEP]"]
        ids[:, 0] = self.special["[CLS]"]
        ids[np.arange(len(a)), lengths[:, 0] - 1] = self.special["[SEP]"]
        here = place < lengths
        types = (place >= second) & here if pairs else np.zeros_like(here)
        text = (in_a | in_b) & (ids != self.special["[UNK]"])  # nobody can tell an unknown word
        shown, chosen, words = self._next_words(ids, text) if self.drawing.causal else self._masked(ids, text, step)
        mask = here
        if self.drawing.causal:
            mask = here[:, None, :] & np.tril(np.ones((len(place), len(place)), dtype=bool))  # (B, T, T)
        own = slice(rank, None, processes)
        asked = int(chosen[own].sum())
        return PretrainingBatch(
            input_ids=torch.from_numpy(shown[own].copy()),
            attention_mask=torch.from_numpy(mask[own].astype(np.int64)),
            token_type_ids=torch.from_numpy(types[own].astype(np.int64)),
            places=torch.from_numpy(np.flatnonzero(chosen[own])),
            words=torch.from_numpy(words[own][chosen[own]]),
            next_sentence_labels=torch.from_numpy(next_sentence_labels[own].copy()) if pairs else None,
            computed=round_up_to_bucket(asked, -(-self.most_asked // processes)),
            masked_everywhere=int(chosen.sum()),
            rows_everywhere=len(a),
            tokens_everywhere=int(lengths.sum()),
        )

    def _masked(self, ids: np.ndarray, text: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(what is shown, which places are asked, the true ids), section 3.1 of the paper."""
        random = np.random.default_rng(derived_seed(self.drawing.seed, step, MASK))
        if self.drawing.whole_word:
            begins = ~(self.continues[ids] & text)
            number = np.cumsum(begins) - 1  # a word for each token
            chosen = (random.random(int(number[-1]) + 1) < self.drawing.share)[number].reshape(ids.shape) & text
        else:
            chosen = (random.random(ids.shape, dtype=np.float32) < self.drawing.share) & text
        shown = ids.copy()
        fate = random.random(int(chosen.sum()))
        replaced = ids[chosen]
        replaced[fate < MASKED] = self.special["[MASK]"]
        other = (fate >= MASKED) & (fate < MASKED + RANDOM)
        replaced[other] = self.ordinary[random.integers(len(self.ordinary), size=int(other.sum()))]
        shown[chosen] = replaced
        return shown, chosen, ids

    def _next_words(self, ids: np.ndarray, text: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every place whose next token is text tells it."""
        chosen, words = np.zeros_like(text), np.zeros_like(ids)
        chosen[:, :-1], words[:, :-1] = text[:, 1:], ids[:, 1:]
        return ids, chosen, words


def _fit(a: np.ndarray, b: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Two lengths cut to fit a room together, the longer one first; both keep at least a token."""
    shorter = np.minimum(np.minimum(a, b), room // 2)
    longer = np.minimum(np.maximum(a, b), room - shorter)
    return np.where(a <= b, shorter, longer), np.where(a <= b, longer, shorter)
