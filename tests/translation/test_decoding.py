"""Greedy and beam search: against exhaustive search, against each other, with states that must move with their rows."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketbert.translation import beam_search, greedy
from pocketbert.translation.decoding import reorder_rows

END = 0


class RandomModel:
    """A language model for each row, whose next words depend on all words so far. The state is those words."""

    def __init__(self, seed, vocabulary, rows=1, spread=1.5):
        self.seed, self.vocabulary, self.spread = seed, vocabulary, spread
        self.start = torch.full((rows,), vocabulary - 1)
        self.state = {"row": torch.arange(rows), "words": [torch.empty(rows, 0, dtype=torch.long)], "nothing": None}

    def log_probabilities(self, row, words):
        logits = np.random.default_rng([self.seed, row, 7, *words]).normal(0, self.spread, self.vocabulary)
        return torch.tensor(logits).log_softmax(0)

    def step(self, tokens, state):
        words = torch.cat([state["words"][0], tokens[:, None]], dim=1)
        said = [
            self.log_probabilities(row, seen) for row, seen in zip(state["row"].tolist(), words.tolist(), strict=True)
        ]
        return torch.stack(said), {**state, "words": [words]}

    def score(self, row, words):
        seen, total = [self.vocabulary - 1], 0.0
        for word in words:
            total += float(self.log_probabilities(row, seen)[word])
            seen.append(word)
        return total

    def all_sentences(self, length):
        others = range(1, self.vocabulary)
        for count in range(1, length + 1):
            last = range(self.vocabulary) if count == length else (END,)
            yield from product(*[others] * (count - 1), last)


models = st.builds(RandomModel, st.integers(0, 10**6), st.integers(2, 4), st.just(1), st.sampled_from([0.3, 1.5, 4.0]))
few = settings(max_examples=25, deadline=None)


@given(models, st.integers(1, 3), st.sampled_from([0.0, 0.6, 1.0]))
@few
def test_a_beam_that_nothing_falls_out_of_is_exhaustive_search(model, length, penalty):
    sentences = list(model.all_sentences(length))
    width = len(sentences)
    found = beam_search(
        model.step,
        model.state,
        model.start,
        end=END,
        max_length=length,
        width=width,
        best=width,
        length_penalty=penalty,
    )[0]
    ranked = sorted(((model.score(0, words) / len(words) ** penalty, words) for words in sentences), reverse=True)
    assert [one.tokens for one in found] == [words for _, words in ranked]
    assert [one.score for one in found] == pytest.approx([score for score, _ in ranked])


@given(models, st.integers(1, 6), st.sampled_from([0.0, 1.0]))
@few
def test_a_beam_of_one_is_greedy_search(model, length, penalty):
    told = {"end": END, "max_length": length, "length_penalty": penalty}
    one = greedy(model.step, model.state, model.start, **told)
    assert [one] == list(
        map(list, zip(*beam_search(model.step, model.state, model.start, width=1, **told), strict=True))
    )
    assert len(one[0].tokens) <= length
    assert one[0].ended == (one[0].tokens[-1] == END)


@given(models, st.integers(1, 5), st.integers(1, 6))
@few
def test_scores_are_sums_of_log_probabilities_best_first_and_no_sentence_twice(model, length, width):
    found = beam_search(model.step, model.state, model.start, end=END, max_length=length, width=width, best=width)[0]
    assert [one.log_probability for one in found] == pytest.approx([model.score(0, one.tokens) for one in found])
    assert sorted((one.score for one in found), reverse=True) == [one.score for one in found]
    assert len({one.tokens for one in found}) == len(found)
    assert all(END not in one.tokens[:-1] for one in found)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 4))
@few
def test_sentences_in_a_batch_are_decoded_as_if_alone(seed, length, width):
    batch = RandomModel(seed, 4, rows=3)
    together = beam_search(batch.step, batch.state, batch.start, end=END, max_length=length, width=width, best=width)
    for row in range(3):
        alone = RandomModel(seed, 4)
        alone.state = {**alone.state, "row": torch.tensor([row])}
        found = beam_search(alone.step, alone.state, alone.start, end=END, max_length=length, width=width, best=width)
        assert [one.tokens for one in found[0]] == [one.tokens for one in together[row]]
        assert [one.score for one in found[0]] == pytest.approx([one.score for one in together[row]])
    plain = greedy(batch.step, batch.state, batch.start, end=END, max_length=length)
    assert [one.tokens for one in plain] == [
        beam[0].tokens
        for beam in beam_search(batch.step, batch.state, batch.start, end=END, max_length=length, width=1)
    ]


class CachedDecoder:
    """One layer of attention over all tokens so far. Its state, as a real decoder's, is keys and values."""

    def __init__(self, seed, vocabulary=6, width=8):
        generator = torch.Generator().manual_seed(seed)
        shapes = [(vocabulary, width), (width, width), (width, width), (width, width), (width, vocabulary)]
        self.words, *self.matrices, self.out = (
            torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
        )

    def step(self, tokens, cache):
        x = self.words[tokens]  # (rows, width)
        query, key, value = (x @ matrix for matrix in self.matrices)
        keys, values = (torch.cat([past, new[:, None]], dim=1) for past, new in zip(cache, (key, value), strict=True))
        weights = (query[:, None] * keys).sum(2).softmax(1)
        return (((weights[:, :, None] * values).sum(1)) @ self.out).log_softmax(1), (keys, values)

    def score(self, start, words):
        """Without the search: the words fed one after the other to a fresh cache."""
        cache, total, last = self.empty(1), 0.0, start
        for word in words:
            said, cache = self.step(torch.tensor([last]), cache)
            total, last = total + float(said[0, word]), word
        return total

    def empty(self, rows):
        return (torch.empty(rows, 0, 8, dtype=torch.float64),) * 2


def test_a_cache_of_keys_and_values_moves_with_its_hypotheses():
    moved = 0
    for seed in range(10):
        decoder = CachedDecoder(seed)
        found = beam_search(
            decoder.step, decoder.empty(2), torch.tensor([3, 4]), end=END, max_length=6, width=4, best=4
        )
        for start, beams in zip((3, 4), found, strict=True):
            for one in beams:
                assert one.log_probability == pytest.approx(decoder.score(start, one.tokens))
        stuck = beam_search(
            decoder.step,
            decoder.empty(2),
            torch.tensor([3, 4]),
            end=END,
            max_length=6,
            width=4,
            best=4,
            reorder=lambda state, rows: state if len(state[0]) == len(rows) else reorder_rows(state, rows),
        )
        moved += any(abs(one.log_probability - decoder.score(3, one.tokens)) > 1e-6 for one in stuck[0])
    assert moved >= 3, "this test would notice a cache that stays where it was"


def test_a_state_of_its_own_kind_is_reordered_by_the_callers_function():
    def step(tokens, state):
        return torch.full((len(state), 3), -math.log(3)), [*state]

    with pytest.raises(TypeError, match="pass a function as `reorder`"):
        beam_search(step, {"a": {1, 2}}, torch.tensor([1]), end=END, max_length=2, width=2)
    found = beam_search(
        step,
        ["x"],
        torch.tensor([1]),
        end=END,
        max_length=2,
        width=2,
        best=2,
        reorder=lambda state, rows: [state[row] for row in rows.tolist()],
    )
    assert len(found[0]) == 2


def test_words_that_cannot_follow_are_never_chosen_and_fewer_hypotheses_than_asked_may_exist():
    def step(tokens, state):
        said = torch.full((len(tokens), 4), -torch.inf)
        said[:, 2] = 0.0
        said[tokens == 2] = torch.tensor([0.0, -torch.inf, -torch.inf, -torch.inf])
        return said, state

    found = beam_search(step, None, torch.tensor([1]), end=END, max_length=5, width=3, best=3)
    assert [one.tokens for one in found[0]] == [(2, END)]
    assert found[0][0].log_probability == 0.0


def test_a_length_penalty_of_one_ranks_by_the_mean():
    def step(tokens, state):  # end now: −1.0; or go on: −1.2, and then −0.1 for the end
        said = torch.full((len(tokens), 3), -torch.inf)
        said[:, 0], said[:, 1] = -1.0, -1.2
        said[tokens == 1] = torch.tensor([-0.1, -torch.inf, -torch.inf])
        return said, state

    best = {
        penalty: beam_search(step, None, torch.tensor([2]), end=END, max_length=3, width=2, length_penalty=penalty)[0][
            0
        ]
        for penalty in (0.0, 1.0)
    }
    assert best[0.0].tokens == (END,)
    assert best[1.0].tokens == (1, END)
    assert best[1.0].score == pytest.approx(-1.3 / 2)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (torch.zeros(1, 3) + 0.5, "no log-probabilities"),
        (torch.full((1, 3), torch.nan), "no log-probabilities"),
        (torch.zeros(2, 3), "expected"),
        (torch.zeros(3), "expected"),
    ],
)
def test_a_step_that_gives_nonsense_is_refused(said, message):
    for search in (greedy, lambda *a, **k: beam_search(*a, width=1, **k)):
        with pytest.raises(ValueError, match=message):
            search(lambda tokens, state: (said, state), None, torch.tensor([1]), end=END, max_length=2)


@pytest.mark.parametrize(
    "told", [{"width": 0}, {"width": 2, "best": 3}, {"width": 1, "max_length": 0}, {"width": True}]
)
def test_absurd_settings_are_refused(told):
    with pytest.raises(ValueError, match="width|best|max_length"):
        beam_search(lambda tokens, state: None, None, torch.tensor([1]), end=END, **{"max_length": 2, **told})
