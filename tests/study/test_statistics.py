"""Intervals and comparisons keep their word; every formula agrees with an independent one where there is one."""

import dataclasses
import importlib
import itertools
import json
import math
import sys

import numpy as np
import pytest
from conftest import REPOSITORY
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import optimize, stats
from sklearn.metrics import precision_recall_fscore_support

from pocketbert import metrics
from pocketbert.study import statistics as s

sys.path.insert(0, str(REPOSITORY))  # benchmarks are no part of the package
coverage = importlib.import_module("benchmarks.coverage")

shapes = st.tuples(st.integers(1, 6), st.integers(1, 40))
tables = shapes.flatmap(lambda shape: arrays.arrays(np.int8, shape, elements=st.integers(0, 1)))
pairs = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 40)).flatmap(
    lambda sizes: st.tuples(
        arrays.arrays(np.int8, (sizes[0], sizes[2]), elements=st.integers(0, 1)),
        arrays.arrays(np.int8, (sizes[1], sizes[2]), elements=st.integers(0, 1)),
    )
)
quick = settings(max_examples=60, deadline=None, derandomize=True)


def numbers_of(thing):
    """Every number a result holds, as JSON would carry it."""
    flat = json.loads(json.dumps(dataclasses.asdict(thing), allow_nan=False))
    return {name: value for name, value in flat.items() if value is not None}


def close(first, second):
    """Two results that differ by rounding only."""
    one, two = numbers_of(first), numbers_of(second)
    assert one.keys() == two.keys()
    for name in one:
        assert one[name] == pytest.approx(two[name], rel=1e-6, abs=1e-9), name


def study(accuracy, std, seeds, examples, *, random=0, count=1):
    """Made-up answers whose expected accuracy is known."""
    chance = np.random.default_rng(random)
    return coverage.answers((coverage.World(accuracy, std),), (seeds,), examples, count, chance)[0]


# Intervals.


@pytest.mark.parametrize("right", [0, 1, 57, 99, 100])
def test_one_run_has_the_interval_of_a_single_run(right):
    row = np.arange(100) < right
    found = s.estimate(row[None])
    assert (found.low, found.high) == pytest.approx(metrics.wilson(right, 100), abs=1e-12)
    known = stats.binomtest(right, 100).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-9)
    assert found.std is None
    assert found.freedom is None


def test_one_run_counts_seeds_only_if_the_method_has_none():
    row = study(0.8, 0.0, 1, 50)[0]
    assert not s.estimate(row).counts_seeds
    assert s.estimate(row, deterministic=True).counts_seeds
    assert s.estimate(study(0.8, 0.0, 2, 50)[0]).counts_seeds


def test_with_endless_examples_the_interval_is_students_over_the_seeds():
    chance = np.random.default_rng(3)
    accuracies = np.array([0.796, 0.800, 0.801, 0.807])
    right = chance.random((4, 400_000)) < accuracies[:, None]  # no example is harder than another
    found = s.estimate(right)
    means = right.mean(axis=1)
    known = stats.t.interval(0.95, 3, loc=means.mean(), scale=stats.sem(means))
    assert (found.low, found.high) == pytest.approx(known, rel=3e-4)
    assert found.high - found.low == pytest.approx(known[1] - known[0], rel=0.01)
    assert found.std == pytest.approx(means.std(ddof=1))
    assert found.seed_noise == pytest.approx(stats.sem(means))
    assert found.freedom == pytest.approx(3, abs=0.05)


def test_seeds_that_agree_on_everything_are_one_seed():
    row = study(0.8, 0.0, 1, 300)[0]
    once, often = s.estimate(row, deterministic=True), s.estimate(np.repeat(row, 5, axis=0))
    assert (once.low, once.high) == pytest.approx((often.low, often.high))
    assert often.seed_noise == pytest.approx(0, abs=1e-9)


def test_the_parts_of_the_noise_are_those_of_a_two_way_analysis_of_variance():
    right = study(0.7, 0.04, 4, 60)[0].astype(float)
    seeds, examples = right.shape
    rows, columns, mean = right.mean(1, keepdims=True), right.mean(0, keepdims=True), right.mean()
    of_rows = examples * ((rows - mean) ** 2).sum() / (seeds - 1)
    of_columns = seeds * ((columns - mean) ** 2).sum() / (examples - 1)
    left = ((right - rows - columns + mean) ** 2).sum() / ((seeds - 1) * (examples - 1))
    over_seeds, without = s.seed_part(right)
    shared = s.example_part(right.mean(0), without)
    assert float(over_seeds) == pytest.approx(of_rows / (seeds * examples))
    assert float(without) == pytest.approx(left / (seeds * examples))
    assert float(shared) == pytest.approx((of_columns - left) / (seeds * examples))


@quick
@given(tables)
def test_an_estimate_is_finite_and_its_interval_holds_its_mean(right):
    found = s.estimate(right)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.mean == pytest.approx(right.mean())
    assert found.low < found.high
    numbers_of(found)


@quick
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_seeds_and_of_examples_does_not_matter(right, random):
    rows, columns = list(range(right.shape[0])), list(range(right.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    close(s.estimate(right), s.estimate(right[rows][:, columns]))


@quick
@given(tables)
def test_right_and_wrong_mirror_each_other(right):
    one, other = s.estimate(right), s.estimate(1 - right)
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-9)


def test_what_is_no_table_of_right_and_wrong_is_refused():
    for wrong in (np.zeros((0, 3)), np.zeros((2, 0)), np.full((2, 3), 0.5), np.zeros((1, 2, 3))):
        with pytest.raises(ValueError, match="seeds, examples"):
            s.estimate(wrong)


# Comparisons.


def test_two_single_runs_approach_the_paired_t_test():
    first, second = coverage.answers(
        (coverage.World(0.82, 0), coverage.World(0.8, 0)), (1, 1), 20_000, 1, np.random.default_rng(5)
    )
    found = s.compare(first[0], second[0], deterministic=(True, True))
    known = stats.ttest_rel(first[0, 0].astype(float), second[0, 0].astype(float))
    interval = known.confidence_interval()
    assert found.p == pytest.approx(known.pvalue, rel=0.01)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=2e-5)
    assert found.counts_seeds


def test_a_method_that_is_always_right_leaves_the_others_interval_over_seeds():
    chance = np.random.default_rng(4)
    right = chance.random((5, 400_000)) < np.array([0.490, 0.498, 0.500, 0.503, 0.509])[:, None]
    found = s.compare(np.ones((1, 400_000)), right, deterministic=(True, False))
    known = stats.t.interval(0.95, 4, loc=1 - right.mean(), scale=stats.sem(right.mean(axis=1)))
    assert (found.low, found.high) == pytest.approx(known, rel=3e-4)


@quick
@given(pairs)
def test_a_comparison_is_finite_and_p_and_interval_agree(rows):
    found = s.compare(*rows)
    assert -1 <= found.low <= found.effect <= found.high <= 1
    assert 0 <= found.p <= 1
    assert 0 < found.smallest <= 1
    if abs(found.p - 0.05) > 1e-6:
        assert (found.p < 0.05) == (not found.low <= 0 <= found.high)
    numbers_of(found)


@quick
@given(pairs)
def test_swapping_the_sides_turns_the_sign(rows):
    one, other = s.compare(*rows), s.compare(*reversed(rows))
    assert (one.effect, one.low, one.high) == pytest.approx((-other.effect, -other.high, -other.low), abs=1e-12)
    assert (one.p, one.smallest) == pytest.approx((other.p, other.smallest))


@quick
@given(pairs, st.randoms(use_true_random=False))
def test_a_comparison_pairs_examples_and_not_seeds(rows, random):
    columns = list(range(rows[0].shape[1]))
    random.shuffle(columns)
    order = list(range(len(rows[0])))
    random.shuffle(order)
    close(s.compare(*rows), s.compare(rows[0][order][:, columns], rows[1][:, columns]))


def test_pairing_over_examples_sees_more_than_two_test_sets_would():
    first, second = coverage.answers(
        (coverage.World(0.8, 0), coverage.World(0.8, 0)), (5, 5), 1000, 1, np.random.default_rng(6)
    )
    mixed = np.random.default_rng(7).permutation(1000)
    assert s.compare(first[0], second[0]).smallest < 0.8 * s.compare(first[0], second[0][:, mixed]).smallest


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (3, 1), (3, 50)])
@pytest.mark.parametrize("value", [0, 1])
def test_identical_rows_differ_by_nothing_with_p_one(shape, value):
    rows = np.full(shape, value)
    found = s.compare(rows, rows)
    assert (found.effect, found.p) == (0, 1)
    assert found.low < 0 < found.high


def test_all_right_against_all_wrong_is_beyond_doubt_unless_there_is_one_example():
    sure = s.compare(np.ones((2, 200)), np.zeros((2, 200)))
    assert sure.effect == 1
    assert sure.p < 1e-50
    assert s.compare([[1]], [[0]]).p > 0.3


def test_other_examples_are_refused():
    with pytest.raises(ValueError, match="these have 3 and 4"):
        s.compare(np.ones((1, 3)), np.ones((1, 4)))


def test_one_seed_of_a_method_with_seeds_is_said_to_count_none():
    one, five = study(0.8, 0.01, 1, 100)[0], study(0.8, 0.01, 5, 100)[0]
    assert not s.compare(one, five).counts_seeds
    assert s.compare(one, five, deterministic=(True, False)).counts_seeds
    assert s.compare(five, five).counts_seeds


def test_the_smallest_difference_needs_what_a_textbook_says():
    endless = s.smallest_difference([(np.asarray(1e-6), 100_000)])
    assert float(endless) == pytest.approx(1e-3 * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)), rel=1e-3)
    for freedom in (2, 4, 9):  # the noncentral t distribution is the exact answer for one part
        away = float(s.smallest_difference([(np.asarray(1e-6), freedom)])) / 1e-3
        assert stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, away) == pytest.approx(0.8, abs=2e-3)


def test_more_comparisons_need_a_larger_difference():
    rows = {name: study(0.8, 0.01, 3, 200, random=seed)[0] for seed, name in enumerate("abcd")}
    found = s.compare_all(rows)
    assert list(found) == list(itertools.combinations("abcd", 2))
    alone = s.compare(rows["a"], rows["b"])
    assert found["a", "b"].p == alone.p
    assert found["a", "b"].corrected >= alone.p
    assert found["a", "b"].smallest > alone.smallest
    assert s.compare_all({"a": rows["a"]}) == {}
    both = s.compare_all({"a": rows["a"], "b": rows["b"]})["a", "b"]
    assert (both.corrected, both.smallest) == (alone.p, alone.smallest)


def test_methods_without_seeds_are_known_by_name():
    rows = {"tfidf": study(0.7, 0, 1, 80)[0], "tiny": study(0.8, 0.01, 3, 80)[0], "mini": study(0.8, 0.01, 1, 80)[0]}
    found = s.compare_all(rows, {"tfidf"})
    assert found["tfidf", "tiny"].counts_seeds
    assert not found["tfidf", "mini"].counts_seeds


# Corrections and tests.


def holm_by_definition(p):
    """Reject step by step: a hypothesis is corrected to the smallest level at which it is rejected."""

    def rejected(level):
        left = set(range(len(p)))
        while left:
            best = min(left, key=lambda index: p[index])
            if p[best] * len(left) > level:
                break
            left.remove(best)
        return set(range(len(p))) - left

    levels = sorted({min(1.0, value * count) for value in p for count in range(1, len(p) + 1)} | {1.0})
    return [next(level for level in levels if level >= 1 or index in rejected(level)) for index in range(len(p))]


@quick
@given(st.lists(st.floats(0, 1), max_size=7))
def test_holm_is_its_definition_and_keeps_the_order(p):
    found = s.holm(p)
    assert found == pytest.approx(holm_by_definition(p))
    assert all(one <= two <= 1 for one, two in zip(p, found, strict=True))
    for one, two in itertools.combinations(range(len(p)), 2):
        if p[one] <= p[two]:
            assert found[one] <= found[two]


@quick
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 9))
def test_mcnemar_is_a_coin_tossed_for_every_example_they_differ_on(only_first, only_second, both):
    first = np.r_[np.ones(only_first), np.zeros(only_second), np.ones(both)]
    second = np.r_[np.zeros(only_first), np.ones(only_second), np.ones(both)]
    tosses = only_first + only_second
    known = stats.binomtest(only_first, tosses).pvalue if tosses else 1.0
    assert s.mcnemar(first, second) == pytest.approx(known)


def test_equivalence_is_two_one_sided_tests():
    first, second = coverage.answers(
        (coverage.World(0.8, 0), coverage.World(0.8, 0)), (1, 1), 20_000, 1, np.random.default_rng(8)
    )
    comparison = s.compare(first[0], second[0])
    each = first[0, 0].astype(float) - second[0, 0]
    for margin in (0.001, 0.01, 0.02):
        lower = stats.ttest_1samp(each, -margin, alternative="greater").pvalue
        upper = stats.ttest_1samp(each, margin, alternative="less").pvalue
        assert s.equivalent(comparison, margin) == pytest.approx(max(lower, upper), rel=0.02)


def test_a_small_study_finds_neither_a_difference_nor_equivalence():
    first, second = coverage.answers(
        (coverage.World(0.8, 0.01), coverage.World(0.8, 0.01)), (3, 3), 100, 1, np.random.default_rng(9)
    )
    comparison = s.compare(first[0], second[0])
    assert comparison.p > 0.05
    assert s.equivalent(comparison, 0.01) > 0.05


@quick
@given(pairs)
def test_equivalence_is_easier_with_a_wider_margin(rows):
    comparison = s.compare(*rows)
    found = [s.equivalent(comparison, margin) for margin in (0.0, 0.01, 0.1, 0.5, 2.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] >= 0.5 - 1e-9


# One run: classes and calibration.


@quick
@given(st.integers(2, 5).flatmap(lambda n: arrays.arrays(np.int64, (n, n), elements=st.integers(0, 9))))
def test_per_class_numbers_are_those_of_scikit_learn(matrix):
    classes = range(len(matrix))
    if matrix.sum() == 0:
        assert all(value == 0 for row in s.per_class(matrix) for value in row.values())
        return
    true = np.repeat([t for t in classes for _ in classes], matrix.ravel())
    said = np.repeat([p for _ in classes for p in classes], matrix.ravel())
    known = precision_recall_fscore_support(true, said, labels=list(classes), zero_division=0)
    found = s.per_class(matrix)
    for index, name in enumerate(("precision", "recall", "f1", "support")):
        assert [row[name] for row in found] == pytest.approx(list(known[index]))


def softmax(values):
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def drawn(probabilities, chance):
    """Labels that follow the probabilities, so that these are calibrated."""
    return (probabilities.cumsum(axis=1) < chance.random((len(probabilities), 1))).sum(axis=1)


@pytest.mark.parametrize("times", [0.3, 1.0, 2.5])
def test_temperature_undoes_a_known_one(times):
    chance = np.random.default_rng(10)
    logits = 1.5 * chance.standard_normal((20_000, 3))
    labels = drawn(softmax(logits), chance)
    assert s.temperature(softmax(logits * times), labels) == pytest.approx(times, rel=0.04)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(2, 4), st.floats(0.2, 4))
def test_temperature_is_where_the_log_loss_is_least(seed, classes, times):
    chance = np.random.default_rng(seed)
    logits = chance.standard_normal((60, classes))
    labels = drawn(softmax(logits), chance)
    probabilities = softmax(times * logits)
    rows = np.arange(60)

    def loss(logarithm):
        return -np.log(softmax(np.log(probabilities) / math.exp(logarithm))[rows, labels]).mean()

    bounds = (math.log(s.COLDEST), math.log(s.HOTTEST))
    known = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    grid = min(loss(place) for place in np.linspace(*bounds, 200))
    assert loss(math.log(s.temperature(probabilities, labels))) <= min(known.fun, grid) + 1e-9


def test_temperature_stays_within_bounds_where_no_best_one_exists():
    sure = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert s.temperature(sure, np.array([0, 1, 0])) <= 1
    assert s.temperature(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 1])) == s.COLDEST
    assert s.temperature(sure, np.array([1, 0, 1])) == s.HOTTEST
    assert s.temperature(np.full((4, 2), 0.5), np.array([0, 0, 0, 1])) == 1
    assert s.temperature(np.zeros((0, 2)), np.zeros(0, dtype=int)) == 1
    assert s.COLDEST <= s.temperature(sure, np.array([0, 1, 1])) <= s.HOTTEST


@quick
@given(arrays.arrays(np.float64, (6, 3), elements=st.floats(0.01, 1)), st.floats(0.05, 20))
def test_rescaling_keeps_the_likeliest_class_and_sums_to_one(weights, temperature):
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    found = s.rescale(probabilities, temperature)
    assert found.sum(axis=1) == pytest.approx(np.ones(6))
    rows = np.arange(6)
    assert found[rows, probabilities.argmax(axis=1)] == pytest.approx(found.max(axis=1))
    assert s.rescale(probabilities, 1.0) == pytest.approx(probabilities)


@quick
@given(arrays.arrays(np.float64, (30, 3), elements=st.floats(0.01, 1)), st.integers(1, 20), st.integers(0, 999))
def test_reliability_adds_up_to_the_calibration_error(weights, bins, seed):
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    labels = np.random.default_rng(seed).integers(0, 3, 30)
    found = s.reliability(probabilities, labels, bins)
    assert sum(row["share"] for row in found) == pytest.approx(1)
    assert sum(row["rows"] for row in found) == 30
    error = sum(row["share"] * abs(row["accuracy"] - row["confidence"]) for row in found)
    assert error == pytest.approx(metrics.calibration_error(probabilities, labels, bins))


def test_reliability_of_nothing_is_nothing():
    assert s.reliability(np.zeros((0, 2)), np.zeros(0, dtype=int)) == []


# Sentences.


def comparison_of(effect, half, p, **more):
    base = s.compare(np.ones((2, 9)), np.ones((2, 9)))
    return dataclasses.replace(base, effect=effect, low=effect - half, high=effect + half, p=p, **more)


@pytest.mark.parametrize(
    ("comparison", "sentence"),
    [
        (comparison_of(0.062, 0.021, 0.001), "tiny beats tfidf by 6.2 points (4.1 to 8.3)"),
        (comparison_of(-0.01, 0.005, 0.001), "tfidf beats tiny by 1.0 point (0.5 to 1.5)"),
        (
            comparison_of(0.003, 0.015, 0.6, smallest=0.021),
            "tiny and tfidf cannot be told apart here: 0.3 points (−1.2 to 1.8); "
            "a difference below 2.1 points could have been missed",
        ),
        (
            comparison_of(-0.0001, 0.015, 0.9, smallest=0.01),
            "tiny and tfidf cannot be told apart here: 0.0 points (−1.5 to 1.5); "
            "a difference below 1.0 point could have been missed",
        ),
        (
            comparison_of(0.03, 0.02, 0.01, corrected=0.06, smallest=0.04),
            "tiny and tfidf cannot be told apart here: 3.0 points (1.0 to 5.0); "
            "a difference below 4.0 points could have been missed; "
            "alone it would pass for a difference, among so many comparisons it does not",
        ),
        (
            comparison_of(0.03, 0.5, 0.9, smallest=0.547),
            "tiny and tfidf cannot be told apart here: 3.0 points (−47.0 to 53.0); "
            "this study is too small to tell, it could have missed even 54 points",
        ),
        (
            comparison_of(0.03, 0.02, 0.01, counts_seeds=False),
            "tiny beats tfidf by 3.0 points (1.0 to 5.0); with one seed, what another seed would change is not counted",
        ),
    ],
)
def test_a_comparison_reads_as_a_sentence(comparison, sentence):
    assert s.words("tiny", "tfidf", comparison) == sentence


@pytest.mark.parametrize(
    ("smallest", "told"),
    [
        ([0.138, 0.114, 0.12], "a difference below 11.4 to 13.8 points could have been missed"),
        ([0.0101, 0.01], "a difference below 1.0 point could have been missed"),
        ([0.25, 0.778], "this study is too small to tell, it could have missed even 25 points"),
        ([0.249, 0.778], "a difference below 24.9 to 77.8 points could have been missed"),
    ],
)
def test_several_differences_that_could_have_been_missed_are_told_at_once(smallest, told):
    assert s.missed_in_words(smallest) == told


# Do they keep their word? A small simulation here, the whole grid in benchmarks/coverage.py.


@pytest.mark.parametrize(("accuracy", "examples"), [(0.8, 1800), (0.95, 600)])
def test_three_seeds_that_vary_are_covered_and_a_bootstrap_over_them_fails(accuracy, examples):
    right = study(accuracy, 0.04, 3, examples, random=11, count=400)
    found = s.accuracy_interval(right)
    assert ((found["low"] <= accuracy) & (accuracy <= found["high"])).mean() > 0.92
    low, high = coverage.bootstrap(right, np.random.default_rng(12))
    assert ((low <= accuracy) & (accuracy <= high)).mean() < 0.85


@pytest.mark.parametrize(("pair", "std"), [((3, 3), 0.04), ((0, 5), 0.01), ((1, 1), 0.0)])
def test_comparisons_of_equals_rarely_fire_and_find_what_they_say_they_could(pair, std):
    chance = np.random.default_rng(13)
    worlds, seeds = coverage._sides(pair, 0.8, 0.8, std)
    share, smallest = coverage.fired(worlds, seeds, 277, 400, chance)
    assert share < 0.075
    worlds, seeds = coverage._sides(pair, 0.8 + smallest / 2, 0.8 - smallest / 2, std)
    share, _ = coverage.fired(worlds, seeds, 277, 400, chance)
    assert 0.72 < share < 0.93


def test_made_up_studies_have_the_accuracy_and_the_variance_they_were_asked_for():
    right = study(0.8, 0.04, 40, 1000, random=14, count=60)
    over_seeds = right.mean(axis=-1)
    assert right.mean() == pytest.approx(0.8, abs=0.005)
    assert over_seeds.std(axis=1, ddof=1).mean() == pytest.approx(0.04, abs=0.005)


def test_the_section_of_a_page_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{coverage.START}\nold\n{coverage.END}\nafter\n", encoding="utf-8")
    coverage.write_section(page, "new")
    assert page.read_text(encoding="utf-8") == f"before\n{coverage.START}\nnew\n{coverage.END}\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="expected one"):
        coverage.write_section(page, "new")


@pytest.mark.slow
def test_the_whole_grid_keeps_what_the_page_promises():
    results = coverage.simulate(2000, 1, lambda line: None)
    slack = 3 * math.sqrt(0.05 * 0.95 / 2000)  # of the simulation itself
    for cell in results["coverage"]:
        if cell["seeds"] in ("5", "10"):
            assert 0.93 - slack <= cell["share"] <= 0.97 + slack, cell
        assert cell["share"] >= 0.90 - slack or cell["seeds"] == "1", cell
    for cell in results["firing"]:
        skewed = cell["std"] == "large" and cell["accuracy"] == 0.95  # the page's first limit
        assert cell["share"] <= (0.09 if skewed else 0.06) + slack, cell
    for cell in results["power"]:
        if 2 not in cell["pair"]:  # two seeds hardly tell how large their own noise is
            assert 0.75 <= cell["share"] <= 0.95, cell
