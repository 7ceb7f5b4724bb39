"""Near-duplicates are found exactly, in any order, and without comparing every pair."""

import csv
import re
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketbert.tasks import near_duplicates
from pocketbert.tasks.normalise import normalise
from pocketbert.tasks.task import Split

SENTENCE = "the film is a quiet and rather lovely story about two old men who walk home through the snow"
few_words = st.lists(st.sampled_from("abc"), max_size=14).map(" ".join)
edited = st.lists(st.sampled_from(SENTENCE.split()), max_size=2).map(lambda extra: " ".join([SENTENCE, *extra]))
texts = st.lists(st.one_of(few_words, edited), max_size=24)


def group_near_duplicates(
    texts: list[str], second_texts: list[str] | None = None, threshold: float = 0.8
) -> np.ndarray:
    return near_duplicates.group_near_duplicates(Split(texts, second_texts, None), threshold)


def gram_set(text: str, second: str | None) -> set[tuple[str, ...]]:
    def words(of: str) -> list[str]:
        return re.findall(r"\w+", of.lower()) or [normalise(of)]

    sequence = words(text) if second is None else [*words(text), "|", *words(second)]
    if len(sequence) < 3:
        return {tuple(sequence)}
    return set(zip(sequence, sequence[1:], sequence[2:], strict=False))


def brute_force(firsts: list[str], seconds: list[str] | None, threshold: float) -> set[frozenset[int]]:
    """Every pair compared, plainly."""
    sets = [gram_set(text, None if seconds is None else seconds[row]) for row, text in enumerate(firsts)]
    keys = [(normalise(text), None if seconds is None else normalise(seconds[row])) for row, text in enumerate(firsts)]
    clusters = [{row} for row in range(len(firsts))]
    for one, other in combinations(range(len(firsts)), 2):
        similar = len(sets[one] & sets[other]) / len(sets[one] | sets[other]) >= threshold
        if (similar or keys[one] == keys[other]) and clusters[one] is not clusters[other]:
            clusters[one] |= clusters[other]
            for row in clusters[other]:
                clusters[row] = clusters[one]
    return {frozenset(cluster) for cluster in clusters}


def as_sets(numbers: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(numbers == number).tolist()) for number in np.unique(numbers)}


@settings(deadline=None, max_examples=300)
@given(firsts=texts, threshold=st.sampled_from([0.5, 0.8, 0.9, 1.0]))
def test_clusters_are_those_of_comparing_every_pair(firsts: list[str], threshold: float) -> None:
    assert as_sets(group_near_duplicates(firsts, threshold=threshold)) == brute_force(firsts, None, threshold)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(few_words, few_words), max_size=24))
def test_both_texts_of_a_pair_count(rows: list[tuple[str, str]]) -> None:
    firsts, seconds = [row[0] for row in rows], [row[1] for row in rows]
    assert as_sets(group_near_duplicates(firsts, seconds)) == brute_force(firsts, seconds, 0.8)


def test_sentences_that_differ_in_a_word_at_a_thousand_rows_are_found_as_by_comparing_every_pair() -> None:
    random = np.random.default_rng(0)
    vocabulary = [f"word{number}" for number in range(60)]
    rows = [" ".join(random.choice(vocabulary, random.integers(1, 40))) for _ in range(250)]
    for _ in range(750):
        words = rows[random.integers(len(rows))].split()
        words[random.integers(len(words))] = random.choice(vocabulary)
        rows.append(" ".join(words))
    found = as_sets(group_near_duplicates(rows))
    assert found == brute_force(rows, None, 0.8)
    assert 1 < len(found) < len(rows)


@settings(deadline=None)
@given(firsts=texts, order=st.randoms(use_true_random=False))
def test_clusters_and_their_numbers_do_not_depend_on_the_order_of_the_rows(firsts: list[str], order: object) -> None:
    places = list(range(len(firsts)))
    order.shuffle(places)  # type: ignore[attr-defined]
    shuffled = group_near_duplicates([firsts[place] for place in places])
    assert shuffled.tolist() == group_near_duplicates(firsts)[places].tolist()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SENTENCE, SENTENCE.upper() + "!"),
        (SENTENCE, SENTENCE + " again"),
        ("it 's n't a charming , affecting journey .", "It's n't a charming, affecting journey"),
        ("they wo n't sit still", "They won't sit still"),  # other words, but one normalised text
        ("-LRB- a film about two old men -RRB-", "(a film about two old men)"),
        ("", "   "),
        ("Good film", "good, film"),
    ],
)
def test_spellings_and_small_edits_are_near_duplicates(one: str, other: str) -> None:
    assert len(set(group_near_duplicates([one, "something else", other]).tolist())) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("good film", "bad film"),
        ("!!!", "???"),
        ("", "a"),
        ("a", "a b"),
        ("ကား", "ကူး"),
        (SENTENCE, SENTENCE.replace("quiet", "loud").replace("snow", "rain")),
    ],
)
def test_texts_that_differ_in_substance_are_not(one: str, other: str) -> None:
    assert len(set(group_near_duplicates([one, other]).tolist())) == 2


def test_a_word_moved_from_one_text_of_a_pair_to_the_other_makes_another_pair() -> None:
    assert len(set(group_near_duplicates(["a b", "a"], ["c", "b c"]).tolist())) == 2


def test_no_texts_have_no_clusters_and_a_threshold_of_nothing_is_refused() -> None:
    assert group_near_duplicates([]).tolist() == []
    with pytest.raises(ValueError, match="Jaccard"):
        group_near_duplicates(["a"], threshold=0)


ROWS = range(20_000)
# How 20,000 texts are made, and how many clusters they are.
CROWDS: dict[str, tuple[Callable[[int, np.random.Generator], str], int | None]] = {
    "equal": (lambda row, random: SENTENCE, 1),
    "empty": (lambda row, random: "", 1),
    "shared but for a word": (lambda row, random: f"{SENTENCE} {row}", 1),
    "half shared": (lambda row, random: " ".join([SENTENCE, *(f"{row}x{word}" for word in range(12))]), 20_000),
    "few words in ever new order": (lambda row, random: " ".join(random.choice(list("abcd"), 20)), None),
    "one long text": (lambda row, random: str(row) if row else " ".join(map(str, range(100_000))), 20_000),
}


@pytest.mark.parametrize("name", CROWDS)
def test_texts_made_to_be_alike_do_not_make_the_search_quadratic(name: str) -> None:
    make, expected = CROWDS[name]
    random = np.random.default_rng(0)
    rows = [make(row, random) for row in ROWS]
    before = time.process_time()
    clusters = group_near_duplicates(rows)
    assert time.process_time() - before < 30  # all pairs of 20,000 would take many minutes
    if expected is not None:
        assert len(np.unique(clusters)) == expected


@pytest.mark.slow
def test_a_hundred_thousand_real_pairs_take_less_than_a_minute(data: Path) -> None:
    rows: list[list[str]] = []
    for name in ("snli", "mnli"):
        path = data / "nli_train_from_natinst" / f"{name}_train_subset.tsv"
        with path.open(encoding="utf-8") as file:
            rows += list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    rows = rows[:100_000]
    before = time.process_time()
    clusters = group_near_duplicates([row[0] for row in rows], [row[1] for row in rows])
    assert time.process_time() - before < 60
    assert 95_000 < len(np.unique(clusters)) < 99_000
