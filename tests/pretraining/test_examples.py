"""Batches: what is masked, what follows, what depends on what."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pocketbert.errors import UserError
from pocketbert.pretraining.corpus import Corpus
from pocketbert.pretraining.examples import Drawing, Examples
from pocketbert.tokenizer import Tokenizer

WORDS = [f"w{i}" for i in range(700)]
PIECES = [f"##p{i}" for i in range(300)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def made_corpus(documents: int = 400, seed: int = 0) -> Corpus:
    """A corpus of random ids, made without reading any text."""
    random = np.random.default_rng(seed)
    tokenizer = Tokenizer.from_tokens([*SPECIAL, *WORDS, *PIECES])
    counts = random.integers(2, 60, documents)
    lengths = random.integers(3, 45, counts.sum())
    starts = np.concatenate([[0], np.cumsum(lengths)])
    ids = random.integers(5, len(tokenizer), starts[-1]).astype(np.uint16)
    firsts = np.concatenate([[0], np.cumsum(counts)])
    return Corpus(ids, starts, firsts, np.arange(documents) % 50 == 0, tokenizer, {}, "made")


CORPUS = made_corpus()
DRAWING = Drawing(batch_size=256)


def within(count: int, total: int, share: float) -> bool:
    """Inside four and a half standard errors: wrong once in a hundred thousand times."""
    return abs(count / total - share) < 4.5 * (share * (1 - share) / total) ** 0.5


@pytest.mark.parametrize("whole_word", [False, True])
def test_masking_over_a_million_tokens(whole_word):
    examples = Examples(CORPUS, replace(DRAWING, whole_word=whole_word))
    text = chosen = masked = kept = other = step = 0
    while text < 1_000_000:
        batch = examples.batch(step)
        shown = batch.input_ids.flatten()[batch.places]
        special = torch.isin(batch.input_ids, torch.tensor([0, 2, 3]))
        text += int((~special).sum())
        chosen += len(shown)
        masked += int((shown == 4).sum())
        kept += int((shown == batch.words).sum())
        other += int(((shown != 4) & (shown != batch.words)).sum())
        assert (batch.words >= 5).all()  # never a special token
        assert (shown >= 4).all()
        assert not (batch.attention_mask.flatten()[batch.places] == 0).any()
        step += 1
    same = 1 / (len(WORDS) + len(PIECES))  # a random word may be the true one
    if whole_word:  # pieces of a word share their fate: the sampling error is that of words, about 1.5 pieces each
        assert abs(chosen / text - 0.15) < 4.5 * 1.6 * (0.15 * 0.85 / text) ** 0.5
    else:
        assert within(chosen, text, 0.15)
    assert within(masked, chosen, 0.8)
    assert within(kept, chosen, 0.1 + 0.1 * same)
    assert within(other, chosen, 0.1 * (1 - same))


def test_a_whole_word_is_masked_with_all_its_pieces():
    examples = Examples(CORPUS, replace(DRAWING, whole_word=True, batch_size=32))
    continues = examples.continues
    for step in range(5):
        shown, chosen, ids = examples._masked(*_plain(examples, step), step)
        joined = continues[ids[:, 1:]] & _plain(examples, step)[1][:, 1:] & _plain(examples, step)[1][:, :-1]
        assert (chosen[:, 1:] == chosen[:, :-1])[joined].all()
        assert (shown == ids)[~chosen].all()


def _plain(examples: Examples, step: int) -> tuple[np.ndarray, np.ndarray]:
    """The true ids of a batch and where text is."""
    batch = examples.batch(step)
    ids = batch.input_ids.clone()
    ids.view(-1)[batch.places] = batch.words
    return ids.numpy(), ~torch.isin(ids, torch.tensor([0, 1, 2, 3])).numpy()


def test_half_of_the_seconds_follow_and_the_others_are_from_another_document():
    examples = Examples(CORPUS, DRAWING)
    ends = CORPUS.starts[CORPUS.firsts[1:]]
    strangers = rows = 0
    lengths, whole = {0: [], 1: []}, {0: [], 1: []}
    for step in range(200):
        begin_a, a, begin_b, b, next_sentence_labels = examples.rows(step)
        document_a, document_b = (np.searchsorted(ends, begin, side="right") for begin in (begin_a, begin_b))
        odd = next_sentence_labels == 1
        assert (document_a[odd] != document_b[odd]).all()
        assert (begin_b == begin_a + a)[~odd].all()
        assert (a >= 1).all()
        assert (b >= 1).all()
        assert (a + b <= DRAWING.max_length - 3).all()
        assert (begin_a + a <= ends[document_a]).all()
        assert (begin_b + b <= ends[document_b]).all()
        assert np.isin(begin_b, CORPUS.starts).all()  # both kinds begin with a sentence
        assert not CORPUS.held[document_b].any()
        strangers += int(odd.sum())
        rows += len(a)
        for kind in (0, 1):
            lengths[kind] += b[next_sentence_labels == kind].tolist()
            whole[kind] += np.isin(begin_b + b, CORPUS.starts)[next_sentence_labels == kind].tolist()
    assert within(strangers, rows, 0.5)
    # Neither the length nor a whole last sentence gives the strangers away.
    spread = np.std(lengths[0] + lengths[1]) * (2 / len(lengths[0])) ** 0.5
    assert abs(np.mean(lengths[0]) - np.mean(lengths[1])) < 4.5 * spread
    assert abs(np.mean(whole[0]) - np.mean(whole[1])) < 0.02


def test_every_sentence_is_read_again_and_again():
    examples = Examples(CORPUS, replace(DRAWING, next_sentence=False, batch_size=16, short=0.0))
    seen = np.zeros(len(CORPUS.ids), dtype=bool)
    for step in range(3 * examples.batches):
        begin, length, *_ = examples.rows(step)
        for first, count in zip(begin, length, strict=True):
            seen[first : first + count] = True
    held = np.repeat(np.repeat(CORPUS.held, np.diff(CORPUS.firsts)), np.diff(CORPUS.starts))
    assert seen[~held].mean() > 0.97
    assert not seen[held].any()


def test_a_batch_depends_on_seed_and_step_alone():
    one, two = Examples(CORPUS, DRAWING), Examples(CORPUS, DRAWING)
    for step in (0, 5, 5 * one.batches + 3):
        first, second = one.batch(step), two.batch(step)
        assert torch.equal(first.input_ids, second.input_ids)
        assert torch.equal(first.places, second.places)
    assert not torch.equal(one.batch(1).words, Examples(CORPUS, replace(DRAWING, seed=1)).batch(1).words)


def test_shares_of_processes_make_up_the_batch():
    examples = Examples(CORPUS, replace(DRAWING, batch_size=7))
    whole = examples.batch(3)
    for rank in range(3):
        part = examples.batch(3, rank, 3)
        assert torch.equal(part.input_ids, whole.input_ids[rank::3])
        assert torch.equal(part.next_sentence_labels, whole.next_sentence_labels[rank::3])
        assert part.masked_everywhere == len(whole.words)
    assert sum(len(examples.batch(3, rank, 3).words) for rank in range(3)) == len(whole.words)


def test_left_to_right_asks_for_every_next_word():
    examples = Examples(CORPUS, replace(DRAWING, causal=True, next_sentence=False, batch_size=16))
    batch = examples.batch(0)
    assert batch.next_sentence_labels is None
    assert batch.attention_mask.ndim == 3
    rows, columns = batch.places // batch.input_ids.shape[1], batch.places % batch.input_ids.shape[1]
    assert torch.equal(batch.words, batch.input_ids[rows, columns + 1])
    assert (torch.triu(batch.attention_mask, diagonal=1) == 0).all()
    assert len(batch.words) == int((batch.input_ids >= 5).sum())


def test_a_corpus_smaller_than_a_batch_is_refused():
    small = made_corpus(documents=8)
    with pytest.raises(UserError, match=r"smaller than a batch: it gives \d+ stretches.*batch_size"):
        Examples(small, DRAWING)
    single = Corpus(small.ids, small.starts, np.arange(len(small.starts)), np.zeros(len(small.starts) - 1, bool),
                    small.tokenizer, {}, "made")  # fmt: skip
    with pytest.raises(UserError, match="without next sentences"):
        Examples(single, DRAWING)


def test_batches_come_in_few_shapes():
    """With every length and count there is, memory grows for hours (`python -m benchmarks.memory`)."""
    examples = Examples(CORPUS, replace(DRAWING, batch_size=16, short=0.5))
    batches = [examples.batch(step) for step in range(300)]
    lengths = {batch.input_ids.shape[1] for batch in batches}
    assert len(lengths) <= 16
    assert max(lengths) == DRAWING.max_length
    assert len({len(batch.places) for batch in batches}) > 100
    assert len({batch.computed for batch in batches}) <= 16 + 4  # a few have more than their share
    assert all(len(batch.places) <= batch.computed < len(batch.places) + 20 for batch in batches)
