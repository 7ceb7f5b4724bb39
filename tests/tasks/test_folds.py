"""Folds test every row once, keep clusters whole and labels in their shares, and refuse what cannot be cut."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pocketbert import load_tokenizer
from pocketbert.errors import UserError
from pocketbert.tasks import Split, Task, load_task
from pocketbert.tasks.folds import Part, cut_folds, fold_notes, fold_task, make_folds
from pocketbert.tasks.near_duplicates import group_near_duplicates

Rows = list[tuple[int, int]]  # (label, cluster)
clustered = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60)), min_size=20, max_size=150)


def folds_of(rows: Rows, folds: int, **settings: int) -> np.ndarray:
    try:
        return make_folds(np.array([row[0] for row in rows]), np.array([row[1] for row in rows]), folds, **settings)
    except UserError:
        assume(False)
        raise


def spread(counts: np.ndarray) -> int:
    return int(counts.max() - counts.min())


@settings(deadline=None)
@given(rows=clustered, folds=st.integers(2, 6), seed=st.integers(0, 5))
def test_every_row_is_tested_once_and_no_cluster_is_torn(rows: Rows, folds: int, seed: int) -> None:
    assignment = folds_of(rows, folds, seed=seed)
    assert len(assignment) == len(rows)
    assert set(assignment.tolist()) == set(range(folds))
    assert len(set(zip((row[1] for row in rows), assignment.tolist(), strict=True))) == len({row[1] for row in rows})


@settings(deadline=None)
@given(rows=clustered, folds=st.integers(2, 6), seed=st.integers(0, 5))
def test_every_training_part_has_every_class(rows: Rows, folds: int, seed: int) -> None:
    assignment = folds_of(rows, folds, seed=seed)
    labels = np.array([row[0] for row in rows])
    for label in set(labels.tolist()):
        assert len(set(assignment[labels == label].tolist())) >= 2


@settings(deadline=None)
@given(sizes=st.lists(st.integers(6, 200), min_size=2, max_size=5), folds=st.integers(2, 6), seed=st.integers(0, 5))
def test_without_clusters_folds_and_the_labels_in_them_differ_by_one_row(
    sizes: list[int], folds: int, seed: int
) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    assignment = make_folds(labels, np.arange(len(labels)), folds, seed=seed)
    assert spread(np.bincount(assignment, minlength=folds)) <= 1
    for label in range(len(sizes)):
        assert spread(np.bincount(assignment[labels == label], minlength=folds)) <= 1


def test_with_clusters_folds_and_the_labels_in_them_are_of_nearly_equal_size() -> None:
    random = np.random.default_rng(0)
    clusters = np.repeat(np.arange(700), random.choice([1, 1, 1, 2, 5], 700))
    labels = np.where(random.random(len(clusters)) < 0.1, random.integers(0, 3, len(clusters)), clusters % 3)
    assignment = make_folds(labels, clusters)
    assert spread(np.bincount(assignment)) <= 5
    assert all(spread(np.bincount(assignment[labels == label])) <= 5 for label in range(3))


@settings(deadline=None)
@given(rows=clustered, seed=st.integers(0, 5), order=st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows: Rows, seed: int, order: object) -> None:
    places = list(range(len(rows)))
    order.shuffle(places)  # type: ignore[attr-defined]
    shuffled = folds_of([rows[place] for place in places], 3, seed=seed)
    assert shuffled.tolist() == folds_of(rows, 3, seed=seed)[places].tolist()


def test_a_seed_and_a_repeat_draw_folds_of_their_own_and_the_same_ones_again() -> None:
    labels, clusters = np.arange(100) % 2, np.arange(100)
    drawn = [
        make_folds(labels, clusters, seed=seed, repeat=repeat).tolist() for seed in range(3) for repeat in range(3)
    ]
    assert all(one != other for i, one in enumerate(drawn) for other in drawn[i + 1 :])
    assert drawn[0] == make_folds(labels, clusters).tolist()


@pytest.mark.parametrize(
    ("labels", "clusters", "folds", "message"),
    [
        ([0, 1] * 5, range(10), 1, "--folds 1: at least two"),
        ([0, 1, 0], range(3), 5, "3 labelled rows cannot make 5 folds"),
        ([0] * 20 + [1] * 3, range(23), 5, "of every class.*rare has 3 rows; use --folds 3, add rows, merge"),
        ([0] * 20 + [1], range(21), 5, "rare has 1 row; add rows"),
        ([0] * 20 + [1] * 9, [*range(20), *[20] * 7, 21, 22], 5, r"rare has 9 rows \(3 without near-duplicates\)"),
        ([0, 1] * 10, [7] * 20, 5, "all 20 texts are near-duplicates.*--text"),
        ([0, 1] * 10, [0] * 11 + list(range(1, 10)), 5, "11 of 20 texts.*less than half"),
    ],
)
def test_what_cannot_be_cut_is_refused_with_what_to_do(
    labels: list[int], clusters: list[int], folds: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        make_folds(np.array(labels), np.array(list(clusters)), folds, names=["usual", "rare"])


def test_a_cluster_larger_than_a_fold_is_kept_whole_and_said() -> None:
    clusters = np.array([0] * 30 + list(range(1, 71)))
    assignment = make_folds(np.arange(100) % 2, clusters)
    assert len(set(assignment[:30].tolist())) == 1
    assert sorted(np.bincount(assignment).tolist()) == [17, 17, 18, 18, 30]
    notes = fold_notes(clusters, 5)
    assert "30 of 100 texts are near-duplicates" in notes[0]
    assert "larger than a fold of 20 rows" in notes[1]
    assert fold_notes(np.arange(100), 5) == ()


def sentences(count: int) -> Split:
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice([f"w{number}" for number in range(200)], 12)) for _ in range(count)]
    texts += [f"{text} again" for text in texts[: count // 10]]
    return Split(texts, None, np.array([len(text) % 3 for text in texts], dtype=np.int64))


def test_no_near_duplicate_crosses_from_train_to_dev_or_test() -> None:
    rows = sentences(300)
    task = Task("made", ("a", "b", "c"), {"all": rows}, pair=False)
    clusters = group_near_duplicates(rows)
    assert rows.labels is not None
    assignment = make_folds(rows.labels, clusters)
    cluster_of = dict(zip(rows.texts, clusters.tolist(), strict=True))
    devs = []
    for fold in range(5):
        made = fold_task(task, assignment, clusters, fold)
        parts = [{cluster_of[text] for text in split.texts} for split in (made.train, made.dev, made.test)]
        assert all(not (one & other) for i, one in enumerate(parts) for other in parts[i + 1 :])
        assert sum(len(split) for split in made.splits.values()) == len(rows)
        assert len(made.dev) == pytest.approx(0.1 * (len(rows) - len(made.test)), abs=6)
        for split in (made.train, made.dev, made.test):
            assert split.labels is not None
            assert set(split.labels.tolist()) == {0, 1, 2}
        devs.append(parts[1])
    assert len(set.intersection(*devs)) == 0  # dev is drawn anew in each fold


def test_out_of_fold_predictions_go_back_to_the_rows_they_are_of() -> None:
    rows = sentences(100)
    task = Task("made", ("a", "b", "c"), {"all": rows}, pair=False)
    clusters = group_near_duplicates(rows)
    assert rows.labels is not None
    assignment = make_folds(rows.labels, clusters)
    back = np.full(len(rows), "", dtype=object)
    for fold in range(5):
        back[assignment == fold] = fold_task(task, assignment, clusters, fold).test.texts
    assert back.tolist() == rows.texts


def test_folds_have_every_labelled_row_of_a_file_in_its_order(reviews: Path) -> None:
    folds = cut_folds(load_task(str(reviews)), 5, repeats=2)
    assert len(folds.rows) == 100
    assert folds.rows.numbers is not None
    lines = reviews.read_text(encoding="utf-8").splitlines()
    assert all(text in lines[number] for text, number in zip(folds.rows.texts, folds.rows.numbers, strict=True))
    tested = [folds.tested(part) for part in folds.parts(repeats=2)]
    assert len(tested) == 10
    for repeat in (tested[:5], tested[5:]):
        assert sorted(np.concatenate(repeat).tolist()) == list(range(100)), "every row is tested once per repeat"
    assert any(one.tolist() != two.tolist() for one, two in zip(tested[:5], tested[5:], strict=True))


def test_folds_are_views_that_are_tokenised_with_the_whole(reviews: Path) -> None:
    tokenizer = load_tokenizer("pocket-tiny")
    folds = cut_folds(load_task(str(reviews)), 5, repeats=1)
    whole = folds.rows.encoded(tokenizer, 16)
    for fold in range(5):
        test = folds.task_of(Part(0, fold)).test
        read = test.encoded(tokenizer, 16)
        assert [read.row(row).tolist() for row in range(len(test))] == [
            whole.row(row).tolist() for row in folds.tested(Part(0, fold))
        ]
        plain = tokenizer(test.texts, max_length=16)
        assert all((getattr(read, name) == getattr(plain, name)).all() for name in ("ids", "starts", "cut"))
    assert len(folds.rows.derived.encodings) == 1


def test_without_dev_all_other_rows_are_trained_on(reviews: Path) -> None:
    folds = cut_folds(load_task(str(reviews)), 5, repeats=1)
    for part in folds.parts(repeats=1):
        with_dev, without = folds.task_of(part), folds.task_of(part, dev=False)
        assert set(without.splits) == {"train", "test"}
        assert without.test.texts == with_dev.test.texts
        assert sorted(without.train.texts) == sorted(with_dev.train.texts + with_dev.dev.texts)


def test_rows_too_few_for_dev_are_refused() -> None:
    rows = Split(["a", "b", "c", "d"], None, np.array([0, 1, 0, 1]))
    task = Task("tiny", ("x", "y"), {"all": rows}, pair=False)
    clusters = np.arange(4)
    assert rows.labels is not None
    with pytest.raises(UserError, match="too few to cut dev"):
        fold_task(task, make_folds(rows.labels, clusters, 2), clusters, 0)
