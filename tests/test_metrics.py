"""Scores and calibration of one run agree with scikit-learn, scipy and their own definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import optimize, special, stats
from sklearn.metrics import f1_score, precision_recall_fscore_support

from pocketbert import metrics

quick = settings(max_examples=60, deadline=None, derandomize=True)
matrices = st.integers(2, 5).flatmap(lambda n: arrays.arrays(np.int64, (n, n), elements=st.integers(0, 9)))


def examples_of(matrix):
    """(true, predicted) labels that have this confusion matrix."""
    classes = range(len(matrix))
    true = np.repeat([t for t in classes for _ in classes], matrix.ravel())
    return true, np.repeat([p for _ in classes for p in classes], matrix.ravel())


@quick
@given(matrices)
def test_per_class_numbers_are_those_of_scikit_learn(matrix):
    classes = range(len(matrix))
    if matrix.sum() == 0:
        assert all(value == 0 for row in metrics.per_class(matrix) for value in row.values())
        return
    known = precision_recall_fscore_support(*examples_of(matrix), labels=list(classes), zero_division=0)
    found = metrics.per_class(matrix)
    for index, name in enumerate(("precision", "recall", "f1", "support")):
        assert [row[name] for row in found] == pytest.approx(list(known[index]))


@quick
@given(matrices)
def test_macro_f1_is_that_of_scikit_learn(matrix):
    known = f1_score(*examples_of(matrix), average="macro") if matrix.sum() else 0.0
    assert metrics.macro_f1(matrix) == pytest.approx(known)


@pytest.mark.parametrize(("right", "rows"), [(0, 1), (0, 50), (57, 100), (99, 100), (100, 100)])
def test_a_share_has_wilsons_interval(right, rows):
    known = stats.binomtest(right, rows).proportion_ci(method="wilson")
    assert metrics.wilson(right, rows) == pytest.approx((known.low, known.high), abs=1e-12)


def test_a_share_of_nothing_may_be_anything():
    assert metrics.wilson(0, 0) == (0.0, 1.0)


def drawn(probabilities, random):
    """Labels that follow the probabilities, so that these are calibrated."""
    return (probabilities.cumsum(axis=1) < random.random((len(probabilities), 1))).sum(axis=1)


def test_softmax_is_that_of_scipy_and_does_not_overflow():
    logits = np.array([[1.0, 2.0, 3.0], [1e4, 0.0, -1e4]], dtype=np.float32)
    assert metrics.softmax(logits) == pytest.approx(special.softmax(logits.astype(np.float64), axis=1))


@pytest.mark.parametrize("times", [0.3, 1.0, 2.5])
def test_temperature_undoes_a_known_one(times):
    random = np.random.default_rng(10)
    logits = 1.5 * random.standard_normal((20_000, 3))
    labels = drawn(metrics.softmax(logits), random)
    assert metrics.temperature(metrics.softmax(logits * times), labels) == pytest.approx(times, rel=0.04)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 4), st.floats(0.2, 4))
def test_temperature_is_where_the_log_loss_is_least(seed, classes, times):
    random = np.random.default_rng(seed)
    logits = random.standard_normal((60, classes))
    labels = drawn(metrics.softmax(logits), random)
    probabilities = metrics.softmax(times * logits)
    rows = np.arange(60)

    def loss(logarithm):
        return -np.log(metrics.softmax(np.log(probabilities) / math.exp(logarithm))[rows, labels]).mean()

    bounds = (math.log(metrics.COLDEST), math.log(metrics.HOTTEST))
    known = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    grid = min(loss(place) for place in np.linspace(*bounds, 200))
    assert loss(math.log(metrics.temperature(probabilities, labels))) <= min(known.fun, grid) + 1e-9


def test_temperature_stays_within_bounds_where_no_best_one_exists():
    sure = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert metrics.temperature(sure, np.array([0, 1, 0])) <= 1
    assert metrics.temperature(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1])) == metrics.COLDEST
    assert metrics.temperature(sure, np.array([1, 0, 1])) == metrics.HOTTEST
    assert metrics.temperature(np.full((4, 2), 0.5), np.array([0, 0, 0, 1])) == 1
    assert metrics.temperature(np.zeros((0, 2)), np.zeros(0, dtype=int)) == 1
    assert metrics.COLDEST <= metrics.temperature(sure, np.array([0, 1, 1])) <= metrics.HOTTEST


@quick
@given(arrays.arrays(np.float64, (6, 3), elements=st.floats(0.01, 1)), st.floats(0.05, 20))
def test_rescaling_keeps_the_likeliest_class_and_sums_to_one(weights, temperature):
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    found = metrics.rescale(probabilities, temperature)
    assert found.sum(axis=1) == pytest.approx(np.ones(6))
    rows = np.arange(6)
    assert found[rows, probabilities.argmax(axis=1)] == pytest.approx(found.max(axis=1))
    assert metrics.rescale(probabilities, 1.0) == pytest.approx(probabilities)


@quick
@given(arrays.arrays(np.float64, (30, 3), elements=st.floats(0.01, 1)), st.integers(1, 20), st.integers(0, 999))
def test_reliability_counts_every_row_once_and_the_calibration_error_is_its_gap(weights, bins, seed):
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    labels = np.random.default_rng(seed).integers(0, 3, 30)
    found = metrics.reliability(probabilities, labels, bins)
    assert sum(row["share"] for row in found) == pytest.approx(1)
    assert sum(row["rows"] for row in found) == 30
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    edges = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs((right[edges == bin] - confidence[edges == bin]).sum()) for bin in range(bins)]
    assert metrics.calibration_error(probabilities, labels, bins) == pytest.approx(sum(gaps) / 30)


def test_reliability_of_nothing_is_nothing():
    assert metrics.reliability(np.zeros((0, 2)), np.zeros(0, dtype=int)) == []
