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
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from pocketbert import metrics
from pocketbert import statistics as s
from pocketbert.statistics import correction, variance
from pocketbert.statistics.estimate import score_interval
from pocketbert.statistics.outcomes import influence_values

sys.path.insert(0, str(REPOSITORY))  # benchmarks are no part of the package
coverage = importlib.import_module("benchmarks.coverage")

quick = settings(max_examples=60, deadline=None, derandomize=True)
SCORES = {"accuracy": accuracy_score, "macro_f1": lambda *it: f1_score(*it, average="macro"), "mcc": matthews_corrcoef}


@st.composite
def studies(draw, rows=1):
    """Rows of a study: some with a fixed test split, some under folds, some with clusters."""
    examples, classes = draw(st.integers(1, 40)), draw(st.integers(2, 4))
    numbers = arrays.arrays(np.int64, examples, elements=st.integers(0, classes - 1))
    labels = draw(numbers)
    clusters = draw(st.none() | arrays.arrays(np.int64, examples, elements=st.integers(0, 15)))
    repeats = None
    if draw(st.booleans()):
        folds = arrays.arrays(np.int64, (3, examples), elements=st.integers(0, 4))
        repeats = draw(folds.filter(lambda it: len(np.unique(it, axis=0)) == 3 or examples < 3))
    found = []
    for _ in range(rows):
        draws = draw(st.integers(1, 3))
        predictions = np.stack([draw(numbers) for _ in range(draws)])
        folds = None if repeats is None else repeats[:draws]
        found.append(s.Outcomes(predictions, labels, folds, clusters, draw(st.booleans())))
    return found if rows > 1 else found[0]


metric_names = st.sampled_from(s.METRICS)


def numbers_of(thing):
    """Every number a result holds, as JSON would carry it."""
    flat = json.loads(json.dumps(dataclasses.asdict(thing), allow_nan=False))
    return {name: value for name, value in flat.items() if value is not None}


def close(first, second):
    """Two results that differ by rounding only."""
    one, two = numbers_of(first), numbers_of(second)
    assert one.keys() == two.keys()
    for name in one.keys() - {"noise"}:
        assert one[name] == pytest.approx(two[name], rel=1e-6, abs=1e-9), name


def made_up(accuracy, std, draws, examples, *, random=0, folds=None):
    """One row of made-up answers whose expected accuracy is known."""
    generator = np.random.default_rng(random)
    world = coverage.World(accuracy, std)
    right = coverage.answers((world,), (draws,), examples, 1, generator, folds)[0][0]
    return s.Outcomes.from_correct(right, folds)


def pair_of(draws, examples, *, random, accuracies=(0.8, 0.8), std=0.0, folds=None):
    """Two made-up rows on the same examples."""
    worlds = tuple(coverage.World(accuracy, std) for accuracy in accuracies)
    found = coverage.answers(worlds, (draws, draws), examples, 1, np.random.default_rng(random), folds)
    return [s.Outcomes.from_correct(one[0], folds) for one in found]


# Influence values: one mechanism for every metric.


@quick
@given(studies(), metric_names)
def test_influence_values_average_to_the_score_of_each_draw(outcomes, metric):
    known = [SCORES[metric](outcomes.labels, row) for row in outcomes.predictions]
    assert influence_values(outcomes, metric).mean(axis=1) == pytest.approx(np.array(known, dtype=float), abs=1e-9)


@pytest.mark.parametrize("metric", s.METRICS)
def test_influence_values_are_what_one_example_more_would_change(metric):
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 4000)
    predictions = np.where(random.random(4000) < 0.7, labels, random.integers(0, 3, 4000))
    values = influence_values(s.Outcomes(predictions[None], labels), metric)[0]
    score = SCORES[metric](labels, predictions)
    for example in range(12):
        more = SCORES[metric](np.append(labels, labels[example]), np.append(predictions, predictions[example]))
        assert (more - score) * 4001 == pytest.approx(values[example] - score, abs=5e-3)


@pytest.mark.parametrize("metric", s.METRICS)
def test_the_standard_error_is_that_of_a_bootstrap(metric):
    random = np.random.default_rng(2)
    labels = (random.random(2000) < 0.2).astype(int)
    predictions = np.where(random.random(2000) < 0.8, labels, 1 - labels)
    found = s.estimate(s.Outcomes(predictions[None], labels, seeded=False), metric)
    again = [random.integers(0, 2000, 2000) for _ in range(600)]
    known = np.std([SCORES[metric](labels[rows], predictions[rows]) for rows in again])
    assert found.example_noise == pytest.approx(known, rel=0.1)


def test_an_unknown_metric_is_refused_by_name():
    with pytest.raises(ValueError, match="'f2' is not known; known are accuracy, macro_f1, mcc"):
        s.estimate(made_up(0.8, 0, 1, 10), "f2")


# Intervals.


@pytest.mark.parametrize("right", [0, 1, 57, 99, 100])
def test_one_training_has_wilsons_interval(right):
    found = s.estimate(s.Outcomes.from_correct((np.arange(100) < right)[None]))
    assert (found.low, found.high) == pytest.approx(metrics.wilson(right, 100), abs=1e-9)
    assert found.std is None


@pytest.mark.parametrize("metric", s.METRICS)
def test_perfect_predictions_still_have_an_interval(metric):
    labels = np.arange(100) % 2
    found = s.estimate(s.Outcomes(labels[None], labels), metric)
    assert found.mean == found.high == 1
    low = metrics.wilson(100, 100)[0]
    assert found.low == pytest.approx(2 * low - 1 if metric == "mcc" else low)


def test_one_training_counts_seeds_only_if_the_method_has_none_or_folds_have_their_own():
    row = made_up(0.8, 0.0, 1, 50)
    assert not s.estimate(row).counts_training_noise
    assert s.estimate(dataclasses.replace(row, seeded=False)).counts_training_noise
    assert s.estimate(dataclasses.replace(row, folds=np.arange(50)[None] % 5)).counts_training_noise
    assert s.estimate(made_up(0.8, 0.0, 2, 50)).counts_training_noise


def test_with_endless_examples_the_interval_is_students_over_the_seeds():
    random = np.random.default_rng(3)
    accuracies = np.array([0.796, 0.800, 0.801, 0.807])
    right = random.random((4, 400_000)) < accuracies[:, None]  # no example is harder than another
    found = s.estimate(s.Outcomes.from_correct(right))
    means = right.mean(axis=1)
    known = stats.t.interval(0.95, 3, loc=means.mean(), scale=stats.sem(means))
    assert (found.low, found.high) == pytest.approx(known, rel=3e-4)
    assert found.std == pytest.approx(means.std(ddof=1))
    assert found.training_noise == pytest.approx(stats.sem(means), rel=0.01)
    assert found.degrees_of_freedom == pytest.approx(3, abs=0.05)


def test_with_endless_examples_the_interval_under_folds_is_students_over_the_folds():
    random = np.random.default_rng(3)
    fold = np.arange(500_000) % 5
    right = random.random(500_000) < np.array([0.79, 0.80, 0.805, 0.81, 0.78])[fold]
    found = s.estimate(s.Outcomes.from_correct(right[None], fold[None]))
    means = [right[fold == number].mean() for number in range(5)]
    known = stats.t.interval(0.95, 4, loc=np.mean(means), scale=stats.sem(means))
    assert (found.low, found.high) == pytest.approx(known, rel=1e-3)
    assert found.std == pytest.approx(np.std(means, ddof=1))
    assert found.trainings == 5


def test_folds_that_agree_leave_the_interval_of_the_examples():
    right = np.tile([1, 1, 1, 0], 100)
    found = s.estimate(s.Outcomes.from_correct(right[None], (np.arange(400) // 80)[None]))
    assert (found.low, found.high) == pytest.approx(metrics.wilson(300, 400), abs=1e-9)


def test_seeds_that_agree_on_everything_are_one_seed():
    row = made_up(0.8, 0.0, 1, 300)
    often = s.estimate(s.Outcomes.from_correct(np.repeat(row.correct, 5, axis=0)))
    once = s.estimate(row)
    assert (once.low, once.high) == pytest.approx((often.low, often.high))
    assert often.training_noise == pytest.approx(0, abs=1e-9)


def test_the_parts_of_the_noise_are_those_of_a_two_way_analysis_of_variance():
    right = made_up(0.7, 0.04, 4, 60).correct.astype(float)
    seeds, examples = right.shape
    rows, columns, mean = right.mean(1, keepdims=True), right.mean(0, keepdims=True), right.mean()
    of_rows = examples * ((rows - mean) ** 2).sum() / (seeds - 1)
    of_columns = seeds * ((columns - mean) ** 2).sum() / (examples - 1)
    left = ((right - rows - columns + mean) ** 2).sum() / ((seeds - 1) * (examples - 1))
    over_seeds, luck = variance.draw_variance(right, None)
    assert float(over_seeds) == pytest.approx(of_rows / (seeds * examples))
    assert float(luck) == pytest.approx(left / (seeds * examples))
    ((of_examples, _),) = variance.row_noise(right, None, None)
    assert float(of_examples.variance) == pytest.approx((of_columns - left) / (seeds * examples))


@pytest.mark.parametrize("folds", [None, 5])
@pytest.mark.parametrize("metric", s.METRICS)
def test_the_same_text_three_times_counts_once(metric, folds):
    random = np.random.default_rng(5)
    labels = random.integers(0, 2, 200)
    first, second = (np.where(random.random((2, 200)) < 0.8, labels, 1 - labels) for _ in range(2))
    fold = None if folds is None else np.stack([random.permutation(200) % folds for _ in range(2)])

    def rows(predictions, times):
        copies = np.repeat(np.arange(200), times)
        return s.Outcomes(predictions[:, copies], labels[copies], None if fold is None else fold[:, copies], copies)

    once, thrice = (s.estimate(rows(first, times), metric) for times in (1, 3))
    assert (once.low, once.high, once.clusters) == pytest.approx((thrice.low, thrice.high, thrice.clusters))
    one, three = (s.compare(rows(first, times), rows(second, times), metric) for times in (1, 3))
    assert (one.low, one.high, one.p_value) == pytest.approx((three.low, three.high, three.p_value))


@quick
@given(studies(), metric_names)
def test_an_estimate_is_finite_and_its_interval_holds_its_mean(outcomes, metric):
    found = s.estimate(outcomes, metric)
    assert (-1 if metric == "mcc" else 0) <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= 1
    assert found.low < found.high
    numbers_of(found)


@quick
@given(studies(), metric_names, st.randoms(use_true_random=False))
def test_the_order_of_examples_and_the_names_of_folds_and_clusters_do_not_matter(outcomes, metric, random):
    columns = list(range(outcomes.examples))
    random.shuffle(columns)
    other = outcomes.take(np.array(columns))
    names = np.array(random.sample(range(100, 200), 16))
    other = dataclasses.replace(
        other,
        folds=None if other.folds is None else names[other.folds],
        clusters=None if other.clusters is None else names[other.clusters],
    )
    close(s.estimate(outcomes, metric), s.estimate(other, metric))


@quick
@given(studies())
def test_right_and_wrong_mirror_each_other(outcomes):
    one = s.estimate(s.Outcomes.from_correct(outcomes.correct, outcomes.folds, outcomes.clusters))
    other = s.estimate(s.Outcomes.from_correct(~outcomes.correct, outcomes.folds, outcomes.clusters))
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-9)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"predictions": np.zeros((0, 3), int)}, "expected \\(draws, examples\\)"),
        ({"predictions": np.zeros(3, int)}, "expected \\(draws, examples\\)"),
        ({"labels": np.zeros(2, int)}, "labels: expected the shape \\(3,\\)"),
        ({"folds": np.zeros((1, 3), int)}, "folds: expected the shape \\(2, 3\\)"),
        ({"clusters": np.zeros(4, int)}, "clusters: expected the shape"),
        ({"predictions": np.full((2, 3), 0.5)}, "predictions: expected label numbers"),
        ({"labels": np.array([0, -1, 0])}, "labels: expected label numbers"),
    ],
)
def test_what_is_no_table_of_predictions_is_refused(wrong, message):
    right = {"predictions": np.zeros((2, 3), int), "labels": np.zeros(3, int)}
    with pytest.raises(ValueError, match=message):
        s.Outcomes(**{**right, **wrong})


# Comparisons.


def test_two_single_trainings_approach_the_paired_t_test():
    first, second = pair_of(1, 20_000, random=5, accuracies=(0.82, 0.8))
    found = s.compare(first, second)
    known = stats.ttest_rel(first.correct[0].astype(float), second.correct[0].astype(float))
    interval = known.confidence_interval()
    assert found.p_value == pytest.approx(known.pvalue, rel=0.01)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=2e-5)


def test_under_folds_p_is_the_larger_of_the_paired_t_tests_over_examples_and_over_folds():
    fold = np.arange(20_000)[None] % 5
    for std in (0.0, 0.04):
        first, second = pair_of(1, 20_000, random=5, accuracies=(0.82, 0.8), std=std, folds=fold)
        one, two = first.correct[0].astype(float), second.correct[0].astype(float)
        means = [[row[fold[0] == number].mean() for number in range(5)] for row in (one, two)]
        known = max(stats.ttest_rel(one, two).pvalue, stats.ttest_rel(*means).pvalue)
        assert s.compare(first, second).p_value == pytest.approx(known, rel=0.01)


def test_a_row_that_is_always_right_leaves_the_others_interval_over_seeds():
    random = np.random.default_rng(4)
    right = random.random((5, 400_000)) < np.array([0.490, 0.498, 0.500, 0.503, 0.509])[:, None]
    found = s.compare(s.Outcomes.from_correct(np.ones((5, 400_000))), s.Outcomes.from_correct(right))
    known = stats.t.interval(0.95, 4, loc=1 - right.mean(), scale=stats.sem(right.mean(axis=1)))
    assert (found.low, found.high) == pytest.approx(known, rel=3e-4)


@quick
@given(studies(rows=2), metric_names)
def test_a_comparison_is_finite_and_p_and_interval_agree(rows, metric):
    found = s.compare(*rows, metric)
    assert found.low <= found.effect <= found.high
    assert 0 <= found.p_value <= 1
    assert 0 < found.detectable_effect <= 1
    if abs(found.p_value - 0.05) > 1e-6:
        assert (found.p_value < 0.05) == (not found.low <= 0 <= found.high)
    numbers_of(found)


@quick
@given(studies(rows=2), metric_names)
def test_swapping_the_sides_turns_the_sign(rows, metric):
    one, other = s.compare(*rows, metric), s.compare(*reversed(rows), metric)
    assert (one.effect, one.low, one.high) == pytest.approx((-other.effect, -other.high, -other.low), abs=1e-12)
    assert (one.p_value, one.detectable_effect) == pytest.approx((other.p_value, other.detectable_effect))


def test_a_comparison_pairs_examples_and_not_seeds():
    first, second = pair_of(4, 300, random=8, std=0.01)
    mixed = s.Outcomes.from_correct(first.correct[[2, 0, 3, 1]])
    close(s.compare(first, second), s.compare(mixed, second))


def test_pairing_over_examples_sees_more_than_two_test_sets_would():
    first, second = pair_of(5, 1000, random=6)
    apart = s.Outcomes.from_correct(second.correct[:, np.random.default_rng(7).permutation(1000)])
    assert s.compare(first, second).detectable_effect < 0.8 * s.compare(first, apart).detectable_effect


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (3, 1), (3, 50)])
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("under_folds", [False, True])
def test_identical_rows_differ_by_nothing_with_p_one(shape, value, under_folds):
    folds = np.tile(np.arange(shape[1]) % 5, (shape[0], 1)) if under_folds else None
    rows = s.Outcomes.from_correct(np.full(shape, value), folds)
    found = s.compare(rows, rows)
    assert (found.effect, found.p_value) == (0, 1)
    assert found.low < 0 < found.high


def test_all_right_against_all_wrong_is_beyond_doubt_unless_there_is_one_example():
    right, wrong = s.Outcomes.from_correct(np.ones((2, 200))), s.Outcomes.from_correct(np.zeros((2, 200)))
    assert s.compare(right, wrong).effect == 1
    assert s.compare(right, wrong).p_value < 1e-50
    assert s.compare(right.take(np.array([0])), wrong.take(np.array([0]))).p_value > 0.3


def test_rows_that_do_not_belong_together_are_refused():
    fold = np.arange(4)[None] % 2
    row = s.Outcomes.from_correct(np.ones((1, 4)))
    for other, message in (
        (s.Outcomes.from_correct(np.ones((1, 3))), "these have 4 and 3"),
        (s.Outcomes(np.ones((1, 4), int), np.zeros(4, int)), "the same labels"),
        (dataclasses.replace(row, clusters=np.arange(4)), "the same clusters"),
        (dataclasses.replace(row, folds=fold), "a fixed test split"),
    ):
        with pytest.raises(ValueError, match=message):
            s.compare(row, other)
    with pytest.raises(ValueError, match="the same folds"):
        s.compare(dataclasses.replace(row, folds=fold), dataclasses.replace(row, folds=fold[:, [0, 0, 1, 1]]))


def test_a_row_may_have_more_repeats_than_the_other():
    random = np.random.default_rng(1)
    folds = np.stack([random.permutation(500) % 5 for _ in range(3)])
    first, second = pair_of(3, 500, random=2, accuracies=(0.8, 0.7), std=0.02, folds=folds)
    less = s.Outcomes.from_correct(second.correct[:1], folds[:1])
    found, both = s.compare(first, less), s.compare(first, second)
    assert found.trainings == (15, 5)
    assert found.effect == pytest.approx(first.correct.mean() - less.correct.mean())
    assert found.high - found.low > both.high - both.low


def test_repeats_tell_better_how_much_folds_scatter_and_seeds_of_the_same_folds_are_one_repeat():
    random = np.random.default_rng(1)
    folds = np.stack([random.permutation(2000) % 5 for _ in range(6)])
    first, second = pair_of(6, 2000, random=2, std=0.02, folds=folds)
    once = [s.Outcomes.from_correct(row.correct[:1], folds[:1]) for row in (first, second)]
    (_, (one,)), (_, (six,)) = s.compare(*once).noise, s.compare(first, second).noise
    assert (one.degrees_of_freedom, six.degrees_of_freedom) == (4, 24)
    alone = [
        s.compare(*(s.Outcomes.from_correct(row.correct[[draw]], folds[[draw]]) for row in (first, second)))
        for draw in range(6)
    ]
    assert six.variance == pytest.approx(np.mean([one.noise[1][0].variance for one in alone]))
    values = first.correct.astype(float)
    averaged, kept = variance.by_repeat(values, folds[[0, 0, 1, 1, 2, 2]])
    assert averaged == pytest.approx(values.reshape(3, 2, 2000).mean(axis=1))
    assert np.array_equal(kept, folds[:3])


def test_one_seed_of_a_method_with_seeds_is_said_to_count_none():
    one, five = made_up(0.8, 0.01, 1, 100), made_up(0.8, 0.01, 5, 100)
    assert not s.compare(one, five).counts_training_noise
    assert s.compare(dataclasses.replace(one, seeded=False), five).counts_training_noise
    assert s.compare(five, five).counts_training_noise


def test_a_seeded_row_near_one_is_less_sure_of_itself_against_a_row_without_seed():
    low, high = np.arange(1000) < 900, np.arange(1000)[None] < np.array([[975], [985], [980]])
    without = s.Outcomes.from_correct(low[None], seeded=False)
    seeded = s.Outcomes.from_correct(high)
    scaled, plain = (s.compare(dataclasses.replace(without, seeded=flag), seeded) for flag in (False, True))
    ratio = scaled.noise[0][2].variance / plain.noise[0][2].variance
    density = [stats.norm.pdf(stats.norm.ppf(share)) for share in (0.9, 0.98)]
    assert ratio == pytest.approx(min(4, (density[0] / density[1]) ** 2))


def test_the_detectable_effect_is_what_a_textbook_says():
    endless = variance.detectable_effect(((variance.VarianceComponent(1e-6, 100_000),),))
    assert float(endless) == pytest.approx(1e-3 * (stats.norm.ppf(0.975) + stats.norm.ppf(0.8)), rel=1e-3)
    for degrees in (2, 4, 9):  # the noncentral t distribution is the exact answer for one component
        away = float(variance.detectable_effect(((variance.VarianceComponent(1e-6, degrees),),))) / 1e-3
        assert stats.nct.sf(stats.t.ppf(0.975, degrees), degrees, away) == pytest.approx(0.8, abs=2e-3)


def test_more_comparisons_need_a_larger_difference():
    rows = {name: made_up(0.8, 0.01, 3, 200, random=seed) for seed, name in enumerate("abcd")}
    found = s.compare_all(rows)
    assert list(found) == list(itertools.combinations("abcd", 2))
    alone = s.compare(rows["a"], rows["b"])
    assert found["a", "b"].p_value == alone.p_value
    assert found["a", "b"].corrected_p_value >= alone.p_value
    assert found["a", "b"].detectable_effect > alone.detectable_effect
    assert s.compare_all({"a": rows["a"]}) == {}
    both = s.compare_all({"a": rows["a"], "b": rows["b"]})["a", "b"]
    assert (both.corrected_p_value, both.detectable_effect) == (alone.p_value, alone.detectable_effect)


# Corrections and tests.


def test_all_pairs_are_corrected_by_shaffer_and_other_families_by_holm():
    rows = {name: made_up(0.6 + 0.05 * seed, 0.01, 3, 200, random=seed) for seed, name in enumerate("abcde")}
    for names in ("abcde", "bcd"):
        pairs = list(itertools.combinations(names, 2))
        found = s.compare_all(rows, pairs)
        p_values = [one.p_value for one in found.values()]
        assert [one.corrected_p_value for one in found.values()] == s.shaffer(p_values, len(names))
    star = s.compare_all(rows, [("a", name) for name in "bcde"])
    assert [one.corrected_p_value for one in star.values()] == s.holm([one.p_value for one in star.values()])


def test_shaffers_multipliers_are_those_of_the_paper():
    assert correction.shaffer_multipliers(3) == [3, 1, 1]
    assert correction.shaffer_multipliers(4) == [6, 3, 3, 3, 2, 1]
    assert correction.shaffer_multipliers(5) == [10, 6, 6, 6, 6, 4, 4, 3, 2, 1]


@pytest.mark.parametrize("rows", range(2, 7))
def test_shaffers_multipliers_are_the_most_pairs_that_can_be_equal_at_once(rows):
    """By definition: every way to group the rows, and how many pairs are then within a group."""
    possible = set()
    for groups in itertools.product(range(rows), repeat=rows):
        possible.add(sum(one == two for one, two in itertools.combinations(groups, 2)))
    pairs = rows * (rows - 1) // 2
    known = [max(count for count in possible if count <= pairs - step) for step in range(pairs)]
    assert correction.shaffer_multipliers(rows) == known


@quick
@given(st.lists(st.floats(0, 1), min_size=10, max_size=10))
def test_shaffer_is_never_stricter_than_holm_nor_laxer_than_no_correction(p_values):
    for alone, corrected, strict in zip(p_values, s.shaffer(p_values, 5), s.holm(p_values), strict=True):
        assert alone <= corrected <= strict


def holm_by_definition(p_values):
    """Reject step by step: a hypothesis is corrected to the smallest level at which it is rejected."""

    def rejected(level):
        left = set(range(len(p_values)))
        while left:
            best = min(left, key=lambda index: p_values[index])
            if p_values[best] * len(left) > level:
                break
            left.remove(best)
        return set(range(len(p_values))) - left

    levels = {min(1.0, value * count) for value in p_values for count in range(1, len(p_values) + 1)} | {1.0}
    return [
        next(level for level in sorted(levels) if level >= 1 or index in rejected(level))
        for index in range(len(p_values))
    ]


@quick
@given(st.lists(st.floats(0, 1), max_size=7))
def test_holm_is_its_definition_and_keeps_the_order(p_values):
    found = s.holm(p_values)
    assert found == pytest.approx(holm_by_definition(p_values))
    for one, two in itertools.combinations(range(len(p_values)), 2):
        if p_values[one] <= p_values[two]:
            assert found[one] <= found[two]


@quick
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 9))
def test_mcnemar_is_a_coin_tossed_for_every_example_they_differ_on(only_first, only_second, both):
    first = np.r_[np.ones(only_first), np.zeros(only_second), np.ones(both)]
    second = np.r_[np.zeros(only_first), np.ones(only_second), np.ones(both)]
    tosses = only_first + only_second
    known = stats.binomtest(only_first, tosses).pvalue if tosses else 1.0
    assert s.mcnemar(first, second) == pytest.approx(known)


def test_equivalence_and_non_inferiority_are_one_sided_tests():
    first, second = pair_of(1, 20_000, random=8)
    comparison = s.compare(first, second)
    each = first.correct[0].astype(float) - second.correct[0]
    for margin in (0.001, 0.01, 0.02):
        lower = stats.ttest_1samp(each, -margin, alternative="greater").pvalue
        upper = stats.ttest_1samp(each, margin, alternative="less").pvalue
        assert s.equivalence(comparison, margin) == pytest.approx(max(lower, upper), rel=0.02)
        assert s.non_inferiority(first, second, margin) == pytest.approx(upper, rel=0.02)


def test_a_small_study_finds_neither_a_difference_nor_equivalence():
    comparison = s.compare(*pair_of(3, 100, random=9, std=0.01))
    assert comparison.p_value > 0.05
    assert s.equivalence(comparison, 0.01) > 0.05


@quick
@given(studies(rows=2))
def test_equivalence_is_easier_with_a_wider_margin(rows):
    comparison = s.compare(*rows)
    found = [s.equivalence(comparison, margin) for margin in (0.0, 0.01, 0.1, 0.5, 2.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] >= 0.5 - 1e-9


# Do they keep their word? A small simulation here, the whole grid in benchmarks/coverage.py.


@pytest.mark.parametrize(("accuracy", "examples"), [(0.8, 1800), (0.95, 600)])
def test_three_seeds_that_vary_are_covered_and_a_bootstrap_over_them_fails(accuracy, examples):
    random = np.random.default_rng(11)
    right = coverage.answers((coverage.World(accuracy, 0.04),), (3,), examples, 400, random)[0]
    found = score_interval(right.astype(float))
    assert ((found["low"] <= accuracy) & (accuracy <= found["high"])).mean() > 0.92
    low, high = coverage.bootstrap(right, np.random.default_rng(12))
    assert ((low <= accuracy) & (accuracy <= high)).mean() < 0.85


@pytest.mark.parametrize(("pair", "std"), [((3, 3), 0.04), ((0, 5), 0.01), ((1, 1), 0.0)])
def test_comparisons_of_equals_are_rarely_significant_and_find_what_they_say_they_could(pair, std):
    random = np.random.default_rng(13)
    worlds, seeds = coverage._sides(pair, 0.8, 0.8, std)
    share, detectable = coverage.alarms(worlds, seeds, 277, 400, random)
    assert share < 0.075
    worlds, seeds = coverage._sides(pair, 0.8 + detectable / 2, 0.8 - detectable / 2, std)
    share, _ = coverage.alarms(worlds, seeds, 277, 400, random)
    assert 0.72 < share < 0.93


@pytest.mark.parametrize("std", [0.0, 0.01, 0.04])
def test_under_folds_too_however_much_trainings_vary(std):
    random = np.random.default_rng(15)
    worlds = (coverage.World(0.8, std), coverage.World(0.8, std))
    share, _ = coverage.alarms(worlds, (1, 1), 1000, 600, random, coverage.random_folds(1, 1000, random))
    assert share < 0.075


def test_made_up_studies_have_the_accuracy_and_the_variance_they_were_asked_for():
    random = np.random.default_rng(14)
    right = coverage.answers((coverage.World(0.8, 0.04),), (40,), 1000, 60, random)[0]
    assert right.mean() == pytest.approx(0.8, abs=0.005)
    assert right.mean(axis=-1).std(axis=1, ddof=1).mean() == pytest.approx(0.04, abs=0.005)


def test_the_section_of_a_page_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    start, end = coverage.MARKS["folds"]
    page.write_text(f"before\n{start}\nold\n{end}\nafter\n", encoding="utf-8")
    coverage.write_section(page, "new", start, end)
    assert page.read_text(encoding="utf-8") == f"before\n{start}\nnew\n{end}\nafter\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="expected one"):
        coverage.write_section(page, "new", start, end)


@pytest.mark.slow
def test_the_whole_grid_keeps_what_the_page_promises():
    results = coverage.simulate(2000, 1, lambda line: None)
    slack = 3 * math.sqrt(0.05 * 0.95 / 2000)  # of the simulation itself
    for cell in results["coverage"]:
        if cell["seeds"] in ("5", "10"):
            assert 0.93 - slack <= cell["share"] <= 0.97 + slack, cell
        assert cell["share"] >= 0.90 - slack or cell["seeds"] == "1", cell
    for name in ("alarms", "folds", "families", "metrics"):
        for cell in results[name]:
            assert cell["share"] <= 0.06 + slack, cell
    for cell in results["power"]:
        assert 0.75 <= cell["share"] <= 0.95, cell
