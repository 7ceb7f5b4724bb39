"""Recommendations, promised scores and collapsed trainings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketbert import statistics as s

quick = settings(max_examples=40, deadline=None, derandomize=True)


def study(accuracies, examples, *, seed=0, folds=5, draws=1, clusters=None):
    """Rows of known accuracy on the same examples, half of what decides being common to all rows."""
    random = np.random.default_rng(seed)
    hard = random.random(examples)
    fold = None if not folds else np.stack([random.permutation(examples) % folds] * draws)
    rows = {}
    for name, accuracy in accuracies.items():
        own = np.where(random.random((draws, examples)) < 0.5, hard, random.random((draws, examples)))
        rows[name] = s.Outcomes.from_correct(own < accuracy, fold, clusters)
    return rows


def test_a_cheaper_row_that_is_as_good_is_recommended():
    rows = study({"large": 0.8, "small": 0.8, "poor": 0.6}, 20_000)
    found = s.recommend(rows, {"large": 10.0, "small": 1.0, "poor": 0.1}, margin=0.03)
    assert found.row == "small"
    assert found.best in ("large", "small")
    assert found.p_values["small"] < 0.05 < found.p_values["poor"]


def test_where_nothing_is_shown_the_best_row_is_recommended():
    rows = study({"large": 0.82, "small": 0.8}, 100)
    found = s.recommend(rows, {"large": 10.0, "small": 1.0}, margin=0.001)
    assert found.row == found.best == s.highest_score(rows)
    assert not found.cheaper


def test_a_single_row_is_recommended():
    rows = study({"only": 0.7}, 50)
    assert s.recommend(rows, {"only": 1.0}, margin=0.01).row == "only"


@quick
@given(st.integers(0, 10**6), st.floats(0.001, 0.3))
def test_what_is_recommended_is_never_dearer_than_the_best_row(seed, margin):
    random = np.random.default_rng(seed)
    rows = study({name: random.uniform(0.6, 0.9) for name in "abcd"}, 200, seed=seed)
    costs = dict(zip("abcd", random.random(4), strict=True))
    found = s.recommend(rows, costs, margin)
    assert found.best == s.highest_score(rows)
    assert costs[found.row] <= costs[found.best]
    if found.cheaper:
        assert found.p_values[found.row] < s.LEVEL
        assert s.non_inferiority(rows[found.best], rows[found.row], margin) <= found.p_values[found.row]


def test_a_row_worse_by_just_the_margin_is_rarely_recommended():
    margin, wrong = 0.05, 0
    for seed in range(300):
        rows = study({"good": 0.80, "worse": 0.75, "also worse": 0.75, "bad": 0.75}, 400, seed=seed)
        wrong += s.recommend(rows, {"good": 4.0, "worse": 1.0, "also worse": 2.0, "bad": 3.0}, margin).row != "good"
    assert wrong / 300 < 0.08


def test_the_score_of_the_best_of_equals_flatters_and_the_nested_one_does_not():
    naive, nested = [], []
    for seed in range(120):
        rows = study(dict.fromkeys("abcdefgh", 0.7), 150, seed=seed, folds=5 if seed % 2 else 0)
        naive.append(s.estimate(rows[s.highest_score(rows)]).mean)
        nested.append(s.estimate(s.nested_outcomes(rows)[0]).mean)
    error = np.std(nested, ddof=1) / np.sqrt(len(nested))
    assert np.mean(naive) > 0.72
    assert abs(np.mean(nested) - 0.7) < 3 * error


def test_a_part_of_the_examples_has_no_say_in_what_is_scored_on_it():
    rows = study({"a": 0.5, "b": 0.5}, 100)
    _, before = s.nested_outcomes(rows)
    fold = rows["a"].folds[0]
    first = np.unique(fold)[0]
    changed = rows["a"].predictions.copy()
    changed[:, fold == first] = 1  # all right, there
    rows["a"] = s.Outcomes(changed, rows["a"].labels, rows["a"].folds)
    nested, after = s.nested_outcomes(rows)
    assert after[0] == before[0]
    assert np.array_equal(nested.predictions[:, fold == first], rows[after[0]].predictions[:, fold == first])


def test_clusters_stay_whole_where_a_fixed_split_is_parted():
    clusters = np.arange(90) // 3
    rows = study({"a": 0.7, "b": 0.7}, 90, folds=0, draws=3, clusters=clusters)
    asked = []

    def choose(some):
        asked.append(some["a"].clusters)
        return "a"

    s.nested_outcomes(rows, choose, seed=4)
    assert len(asked) == 5
    for kept in asked:
        left_out = np.setdiff1d(clusters, kept)
        assert not np.isin(left_out, kept).any()
        assert len(left_out) == 6


def test_rows_with_fewer_draws_can_be_chosen_among_rows_with_more():
    many, few = study({"a": 0.9}, 60, draws=3), study({"b": 0.5}, 60, draws=1)
    rows = {**many, "b": s.Outcomes(few["b"].predictions, few["b"].labels, many["a"].folds[:1])}
    nested, chosen = s.nested_outcomes(rows)
    assert set(chosen) == {"a"}
    assert nested.draws == 1


@pytest.mark.parametrize(
    ("accuracies", "majority", "expected"),
    [
        ([0.5, 0.8, 0.82, 0.81, 0.79], 0.5, [True, False, False, False, False]),
        ([0.51, 0.8, 0.49], 0.5, [True, False, True]),
        ([0.5, 0.5, 0.5], 0.5, [False, False, False]),  # the method learns nothing: no training stands out
        ([0.52, 0.55, 0.56], 0.52, [False, False, False]),  # siblings are not far above
        ([0.8, 0.81, 0.82], 0.5, [False, False, False]),
        ([], 0.5, []),
    ],
)
def test_a_training_at_the_majoritys_level_collapsed_if_its_siblings_are_far_above(accuracies, majority, expected):
    assert s.collapsed(accuracies, majority).tolist() == expected


def test_under_folds_every_training_has_a_majority_of_its_own():
    assert s.collapsed([0.6, 0.8, 0.6], [0.6, 0.5, 0.4]).tolist() == [True, False, False]
