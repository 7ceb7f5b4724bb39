"""A cut never puts a text on both sides, keeps its shares, and is the same on every machine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketbert.errors import UserError
from pocketbert.tasks import Split, Task, cut_split, normalise
from pocketbert.tasks.split import connected, cut, hash_fraction

words = st.sampled_from(["a b", "A  B!", "c", "d", "e f", "é", "e", "g", "!!!", "???", "h i j", "k"])
rows = st.lists(st.tuples(words, words, st.integers(0, 2)), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("it 's a charming , affecting journey .", "It's a charming, affecting journey."),
        ("they wo n't sit still", "They won't sit still"),
        ("crème brûlée", "creme brulee"),
        ("-lrb- a film -rrb-", "(a film)"),
        ("singer\\/composer", "Singer/composer"),
        ("ﬁlm", "film"),
    ],
)
def test_spellings_of_one_text_are_one_text(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(("one", "other"), [("!!!", "???"), ("good", "bad"), ("ကား", "ကူး"), ("😀", "😡")])
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@given(st.text(max_size=40))
def test_normalising_twice_is_normalising_once(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


@settings(deadline=None)
@given(rows=rows, pair=st.booleans(), seed=st.integers(0, 5))
def test_no_text_crosses_a_cut(rows: list[tuple[str, str, int]], pair: bool, seed: int) -> None:
    split = Split(
        [row[0] for row in rows],
        [row[1] for row in rows] if pair else None,
        np.array([row[2] for row in rows]),
    )
    parts = cut_split(split, {"test": 0.2, "dev": 0.2}, seed=seed)
    assert sum(len(part) for part in parts.values()) == len(split)
    texts = [{normalise(text) for text in (*part.texts, *(part.second_texts or ()))} for part in parts.values()]
    assert all(not (one & other) for i, one in enumerate(texts) for other in texts[i + 1 :])


@settings(deadline=None)
@given(sizes=st.lists(st.integers(0, 200), min_size=2, max_size=4), seed=st.integers(0, 5))
def test_each_label_has_its_share_in_each_part(sizes: list[int], seed: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    parts = cut([str(row) for row in range(len(labels))], labels, {"test": 0.1, "dev": 0.1}, seed)
    assert sorted(row for part in parts.values() for row in part) == list(range(len(labels)))
    for label, size in enumerate(sizes):
        for name in ("test", "dev"):
            count = int((labels[parts[name]] == label).sum())
            assert abs(count - 0.1 * size) <= 0.5 or (count == 1 and 3 <= size <= 5)


@given(rows=rows, seed=st.integers(0, 5), order=st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows: list[tuple[str, str, int]], seed: int, order: object) -> None:
    shuffled = list(rows)
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    def parts(of: list[tuple[str, str, int]]) -> dict[str, list[str]]:
        split = Split([row[0] for row in of], [row[1] for row in of], None)
        found = cut(connected(split), [row[2] for row in of], {"dev": 0.3}, seed)
        return {name: sorted(map(repr, (of[row] for row in index))) for name, index in found.items()}

    assert parts(rows) == parts(shuffled)


def test_hash_fractions_are_the_same_on_every_machine() -> None:
    assert [round(hash_fraction(key), 6) for key in ("a", "b", "c")] == [0.08534, 0.364232, 0.003329]


def test_seeds_give_different_cuts() -> None:
    groups = [str(row) for row in range(100)]
    one, other = (cut(groups, None, {"dev": 0.2}, seed)["dev"] for seed in (0, 1))
    assert len(one) == len(other) == 20
    assert set(one) != set(other)


def test_a_fingerprint_changes_with_any_text_label_or_name() -> None:
    def task(texts: list[str], labels: list[int], names: tuple[str, ...] = ("no", "yes")) -> str:
        split = Split(texts, None, np.array(labels))
        return Task("t", names, {"train": split}, pair=False).fingerprint("train")

    base = task(["ab", "c"], [0, 1])
    assert base == task(["ab", "c"], [0, 1]) == "6be0cd6db0e3154a817bce565c1d368f"
    others = [task(["a", "bc"], [0, 1]), task(["ab", "c"], [1, 1]), task(["ab", "c"], [0, 1], ("yes", "no"))]
    assert len({base, *others}) == 4


def test_a_split_that_is_not_there_is_an_error_that_lists_the_others() -> None:
    task = Task("t", ("a", "b"), {"train": Split(["x"], None, np.array([0]))}, pair=False)
    with pytest.raises(UserError, match="t has no split 'test'; it has: train"):
        _ = task.test


def test_a_pair_is_known_by_both_texts() -> None:
    assert Split(["a", "a"], ["b", "c"], None).normalised() == ["a\tb", "a\tc"]
