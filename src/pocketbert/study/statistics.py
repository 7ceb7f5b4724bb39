"""What several runs say together: intervals and comparisons that count seeds and test examples alike.

A table of right and wrong, one row a seed and one column a test example, has two sources of chance: another seed would
have learnt something else, another test set would have asked something else. Both are estimated here, from the same
table, and both widen the interval. docs/statistics.md explains every formula and shows how often each keeps its word.
"""

import itertools
import math
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from pocketbert import metrics

LEVEL = 0.05  # intervals hold 1 − LEVEL; a difference is called one below it
POWER = 0.8  # what "could have seen" means: in four studies of five
COLDEST, HOTTEST = 0.05, 20.0  # temperatures beyond these say "all right" or "all wrong", not how much
TINY = 1e-12  # a probability of 0 has no logarithm
BLIND = 0.25  # a study that could have missed so much tells nothing
EXTRA = 0.25  # of an imagined example a method, for what a small test set could have held and did not
LEAST = 1e-100  # smaller p are not told apart

VarianceParts = Sequence[
    tuple[Any, float]
]  # sources of noise, each (variance of the mean, degrees of freedom it is known with)


@dataclass(frozen=True)
class Estimate:
    """One method on one task: its accuracy over seeds, and how sure we are of it."""

    mean: float
    std: float | None  # over seeds; one seed has none
    low: float
    high: float
    seeds: int
    examples: int
    freedom: float | None  # with which Student's interval would be as wide; None: endless, as with one run
    seed_noise: float  # what the choice of seeds adds to the standard error of the mean
    example_noise: float  # and what the choice of test examples adds
    counts_seeds: bool  # False: one run of a method that has seeds, so the interval is about this run alone


@dataclass(frozen=True)
class Comparison:
    """Two methods on the same test examples: first minus second."""

    effect: float
    low: float
    high: float
    p: float
    freedom: float | None
    smallest: float  # the smallest difference that would have been seen in four studies of five
    example_noise: float  # what the choice of test examples adds to the standard error of the effect
    seed_noise: tuple[float, float]  # and what each side's choice of seeds adds
    seeds: tuple[int, int]
    examples: int
    corrected: float | None = None  # p after Holm, where there were several comparisons
    counts_seeds: bool = True  # False: a side with seeds brought only one


# The arithmetic. Every function works on the last axes, so that benchmarks/coverage.py can run thousands at once.


def seed_part(right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(…, seeds, examples) of 0 and 1 → the variance of the mean over seeds, and how much of it is no seed's merit.

    The second is there even if all seeds are equally able, because each errs in other places; an analysis of variance
    (seeds by examples) tells how much that is.
    """
    seeds, examples = right.shape[-2:]
    if seeds == 1:
        return np.zeros(right.shape[:-2]), np.zeros(right.shape[:-2])
    of_seed, of_example = right.mean(axis=-1), right.mean(axis=-2)
    mean = of_seed.mean(axis=-1)
    left = np.maximum(0.0, mean * (1 - mean) - of_seed.var(axis=-1) - of_example.var(axis=-1))
    return of_seed.var(axis=-1) / (seeds - 1), left / ((seeds - 1) * max(1, examples - 1))


def example_part(each: np.ndarray, without: np.ndarray) -> np.ndarray:
    """(…, examples) of means over seeds → the variance of their mean, without what the seeds' part holds already."""
    return np.maximum(0.0, each.var(axis=-1) / max(1, each.shape[-1] - 1) - without)


def critical_value(freedom: float, tail: float) -> float:
    """What Student's distribution exceeds with probability `tail`; endless degrees of freedom are the normal one."""
    return float(-special.ndtri(tail) if math.isinf(freedom) else -special.stdtrit(freedom, tail))


def bounds(mean: np.ndarray, width: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The accuracies `mean` is compatible with, after Wilson (1927): all p with (mean − p)² ≤ width · p (1 − p).

    Noise is smaller near 0 and 1, so the interval reaches further to the middle than to the end. `width` is the squared
    half of the plain interval as a share of mean (1 − mean).
    """
    half = np.sqrt(width**2 + 4 * width * mean * (1 - mean))
    low, high = ((2 * mean + width + sign * half) / (2 * (1 + width)) for sign in (-1, 1))
    return np.clip(np.minimum(mean, low), 0.0, 1.0), np.clip(np.maximum(mean, high), 0.0, 1.0)  # rounding aside


def accuracy_interval(right: np.ndarray) -> dict[str, np.ndarray]:
    """(…, seeds, examples) → mean, low, high, freedom and the two variances.

    Each source of noise brings its own critical value, and they add as squares (Banerjee 1960). With one seed it is
    Wilson's interval; with examples without end and seeds that vary little, Student's over the seeds' means.
    """
    seeds, examples = right.shape[-2:]
    of_example = right.mean(axis=-2)
    mean = of_example.mean(axis=-1)
    spread = mean * (1 - mean)
    of_seeds, without = seed_part(right)
    shared = example_part(of_example, without) * examples**2
    # How many independent examples the noise all seeds share amounts to: more than there are, if seeds err elsewhere.
    worth = examples * (spread * examples**2 / max(1, examples - 1) + EXTRA) / (shared + EXTRA)
    width = critical_value(math.inf, LEVEL / 2) ** 2 / worth
    width = width + critical_value(max(1, seeds - 1), LEVEL / 2) ** 2 * _share(of_seeds, spread)
    low, high = bounds(mean, width)
    freedom = freedom_of([(spread / worth, math.inf), (of_seeds, max(1, seeds - 1))])
    return {
        "mean": mean,
        "low": low,
        "high": high,
        "freedom": freedom,
        "of_seeds": of_seeds,
        "of_examples": spread / worth,
    }


def difference_parts(first: np.ndarray, second: np.ndarray) -> VarianceParts:
    """Two of (…, seeds, examples) with the same examples → the noise of the difference: examples, seeds, seeds.

    Differences are taken example by example, so what is hard for both cancels. Seeds are not paired: seed 0 of one
    method has nothing in common with seed 0 of another, so each side's seeds bring a variance of their own.
    """
    examples = first.shape[-1]
    (one, without_one), (two, without_two) = seed_part(first), seed_part(second)
    shared = example_part(first.mean(axis=-2) - second.mean(axis=-2), without_one + without_two)
    sizes = (examples, first.shape[-2], second.shape[-2])
    variances = (shared + 2 * EXTRA / examples**2, one, two)
    return [(variance, max(1, size - 1)) for variance, size in zip(variances, sizes, strict=True)]


def half_width(parts: VarianceParts, level: float = LEVEL) -> np.ndarray:
    """Of a difference's interval: every source of noise brings its own critical value, and they add as squares.

    Banerjee (1960) showed that such an interval holds at least as often as it says, for normal noise whose parts are
    estimated separately. One common number of degrees of freedom (Welch, Satterthwaite) does not, with 2 or 3 seeds.
    """
    return np.sqrt(sum(critical_value(freedom, level / 2) ** 2 * variance for variance, freedom in parts))


def freedom_of(parts: VarianceParts) -> np.ndarray:
    """The degrees of freedom with which Student's interval would be as wide: one number for the reader."""
    errors = _share(half_width(parts), np.sqrt(sum(variance for variance, _ in parts)))
    found = np.interp(errors, *_widths())
    return np.divide(1.0, found, out=np.full(np.shape(found), np.inf), where=found > 1e-9)


@cache
def _widths() -> tuple[np.ndarray, np.ndarray]:
    """Critical values, and the inverse of the degrees of freedom that have them."""
    inverse = np.linspace(0.0, 1.0, 401)
    return np.array([critical_value(1 / part if part else math.inf, LEVEL / 2) for part in inverse]), inverse


def smallest_difference(parts: VarianceParts, level: float = LEVEL) -> np.ndarray:
    """What would have been found with `POWER`: about 2.8 standard errors, more where few seeds tell them."""
    return np.minimum(
        1.0, np.sqrt(sum(_detectable_effect(freedom, level) ** 2 * variance for variance, freedom in parts))
    )


@cache
def _detectable_effect(freedom: float, level: float) -> float:
    """How many true standard errors of one part are found with `POWER`, averaged over what its estimate may be."""
    errors = np.sqrt(stats.chi2.ppf((np.arange(4000) + 0.5) / 4000, freedom) / freedom)
    limit = critical_value(freedom, level / 2)

    def missing(away: float) -> float:
        return float(special.ndtr(away - limit * errors).mean()) - POWER

    return float(optimize.brentq(missing, 0.0, 10 * limit))


def one_sided_p_value(distance: float, parts: VarianceParts) -> float:
    """One-sided p: the tail with which the interval reaches just this far."""
    if distance < 0:
        return 1 - one_sided_p_value(-distance, parts)

    def beyond(logarithm: float) -> float:
        return float(half_width(parts, 2 * math.exp(logarithm))) - distance

    least, most = math.log(LEAST), math.log(0.5)
    if distance == 0 or beyond(most) >= 0:
        return 0.5
    return LEAST if beyond(least) <= 0 else math.exp(float(optimize.brentq(beyond, least, most, maxiter=500)))


def _share(part: Any, whole: Any) -> np.ndarray:
    """A quotient that is 0 where there is nothing to divide."""
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole > 0)


# What studies use.


def estimate(right: np.ndarray, *, deterministic: bool = False) -> Estimate:
    """Accuracy over seeds from (seeds, examples) of 0 and 1.

    `deterministic` says that the method has no seed, so that one run of it lacks nothing.
    """
    right = _table(right)
    seeds, examples = right.shape
    found = {name: float(value) for name, value in accuracy_interval(right).items()}
    return Estimate(
        mean=found["mean"],
        std=float(right.mean(axis=1).std(ddof=1)) if seeds > 1 else None,
        low=found["low"],
        high=found["high"],
        seeds=seeds,
        examples=examples,
        freedom=_finite(found["freedom"]),
        seed_noise=math.sqrt(found["of_seeds"]),
        example_noise=math.sqrt(found["of_examples"]),
        counts_seeds=deterministic or seeds > 1,
    )


def compare(
    first: np.ndarray,
    second: np.ndarray,
    *,
    deterministic: tuple[bool, bool] = (False, False),
    level: float = LEVEL,
) -> Comparison:
    """First minus second, from two of (seeds, examples) that share their examples and need not share their seeds."""
    first, second = _table(first), _table(second)
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"two methods need the same examples; these have {first.shape[1]} and {second.shape[1]}")
    counts = all(known or len(side) > 1 for known, side in zip(deterministic, (first, second), strict=True))
    effect = float(first.mean() - second.mean())
    parts = difference_parts(first, second)
    half = float(half_width(parts))
    noise = [math.sqrt(variance) for variance, _ in parts]
    return Comparison(
        effect=effect,
        low=max(-1.0, effect - half),
        high=min(1.0, effect + half),
        p=2 * one_sided_p_value(abs(effect), parts),
        freedom=_finite(float(freedom_of(parts))),
        smallest=float(smallest_difference(parts, level)),
        example_noise=noise[0],
        seed_noise=(noise[1], noise[2]),
        seeds=(len(first), len(second)),
        examples=first.shape[1],
        counts_seeds=counts,
    )


def compare_all(
    rows: dict[str, np.ndarray],
    deterministic: Set[str] = frozenset(),
    pairs: Sequence[tuple[str, str]] | None = None,
) -> dict[tuple[str, str], Comparison]:
    """Every pair (or those named), with p corrected for how many there are.

    `smallest` is then for the strictest of Holm's steps, or it would promise more than the correction lets through.
    """
    pairs = list(itertools.combinations(rows, 2)) if pairs is None else pairs
    level = LEVEL / max(1, len(pairs))
    found = [
        compare(rows[a], rows[b], deterministic=(a in deterministic, b in deterministic), level=level) for a, b in pairs
    ]
    corrected = holm([one.p for one in found])
    return {pair: replace(one, corrected=p) for pair, one, p in zip(pairs, found, corrected, strict=True)}


def holm(p: Sequence[float]) -> list[float]:
    """Holm's correction (1979): the smallest p times their number, the next times one less, never falling."""
    corrected = [0.0] * len(p)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda index: p[index])):
        highest = max(highest, min(1.0, (len(p) - rank) * float(p[index])))
        corrected[index] = highest
    return corrected


def mcnemar(first: np.ndarray, second: np.ndarray) -> float:
    """Exact p for two single runs: among examples only one of them got right, is it a fair coin?"""
    first, second = np.asarray(first, dtype=bool).ravel(), np.asarray(second, dtype=bool).ravel()
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    return min(1.0, 2 * float(stats.binom.cdf(min(only_first, only_second), only_first + only_second, 0.5)))


def equivalent(comparison: Comparison, margin: float) -> float:
    """p of "they differ by `margin` or more" (two one-sided tests): small means the same for practical purposes.

    "No difference was found" is not that: it may only say that the study was small. The margin is the reader's choice,
    and is chosen before looking.
    """
    noise = (comparison.example_noise, *comparison.seed_noise)
    sizes = (comparison.examples, *comparison.seeds)
    parts = [(part**2, max(1, size - 1)) for part, size in zip(noise, sizes, strict=True)]
    return one_sided_p_value(margin - abs(comparison.effect), parts)


def per_class(matrix: np.ndarray) -> list[dict[str, float]]:
    """Precision, recall, F1 and rows of each class of a (true, predicted) table; 0 where there is nothing to divide."""
    matrix = np.asarray(matrix)
    right, predicted, true = np.diag(matrix).astype(np.float64), matrix.sum(axis=0), matrix.sum(axis=1)
    precision = np.divide(right, predicted, out=np.zeros_like(right), where=predicted > 0)
    recall = np.divide(right, true, out=np.zeros_like(right), where=true > 0)
    columns = zip(precision, recall, metrics.f1_scores(matrix), true, strict=True)
    return [
        {"precision": float(one), "recall": float(two), "f1": float(three), "support": int(rows)}
        for one, two, three, rows in columns
    ]


def temperature(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The one number to divide log-probabilities by so that confidence fits these labels best (Guo and others 2017).

    Above 1: too sure of itself. The log loss is convex in its inverse, so the one place where the slope is zero is it.
    """
    logs = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), TINY))
    labels = np.asarray(labels)
    if len(labels) == 0:
        return 1.0
    own = logs[np.arange(len(labels)), labels]

    def slope(inverse: float) -> float:
        return float(((_softmax(logs * inverse) * logs).sum(axis=1) - own).mean())

    if abs(slope(1.0)) < TINY:  # all classes alike in every row: no temperature changes anything
        return 1.0
    if slope(1 / COLDEST) <= 0:
        return COLDEST
    if slope(1 / HOTTEST) >= 0:
        return HOTTEST
    return 1 / float(optimize.brentq(slope, 1 / HOTTEST, 1 / COLDEST))


def rescale(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities at another temperature; which class is likeliest does not change."""
    return _softmax(np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), TINY)) / temperature)


def reliability(probabilities: np.ndarray, labels: np.ndarray, bins: int = 10) -> list[dict[str, float]]:
    """How often predictions of each confidence are right; bins as in `metrics.calibration_error`, no empty ones."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    return [
        {
            "confidence": float(confidence[which == index].mean()),
            "accuracy": float(right[which == index].mean()),
            "share": float((which == index).mean()),
            "rows": int((which == index).sum()),
        }
        for index in np.unique(which)
    ]


def words(first: str, second: str, comparison: Comparison) -> str:
    """A comparison as a sentence; a difference that chance explains is not called one."""
    effect, low, high = comparison.effect, comparison.low, comparison.high
    decides = comparison.p if comparison.corrected is None else comparison.corrected
    notes = "" if comparison.counts_seeds else "; with one seed, what another seed would change is not counted"
    if decides < LEVEL:
        if effect < 0:
            first, second, effect, low, high = second, first, -effect, -high, -low
        return f"{first} beats {second} by {effect_in_words(effect, low, high)}{notes}"
    if comparison.p < LEVEL:
        notes = "; alone it would pass for a difference, among so many comparisons it does not" + notes
    return (
        f"{first} and {second} cannot be told apart here: {effect_in_words(effect, low, high)}; "
        f"{missed_in_words([comparison.smallest])}{notes}"
    )


def effect_in_words(effect: float, low: float, high: float) -> str:
    """A difference and its interval, in points: "6.2 points (4.1 to 8.3)"."""
    return f"{_points(effect)} ({_number(low)} to {_number(high)})"


def missed_in_words(smallest: Sequence[float]) -> str:
    """How large a difference could have been there, unseen. Where methods seldom differ so much, that is said first."""
    if min(smallest) >= BLIND:
        return f"this study is too small to tell, it could have missed even {math.floor(100 * min(smallest))} points"
    ends = dict.fromkeys(_number(end) for end in (min(smallest), max(smallest)))
    return f"a difference below {' to '.join([*list(ends)[:-1], _points(max(smallest))])} could have been missed"


def _points(share: float) -> str:
    number = _number(share)
    return f"{number} point" + ("" if number in ("1.0", "−1.0") else "s")


def _number(share: float) -> str:
    """A share as points with one digit, and no minus before a zero."""
    return f"{round(100 * share, 1) + 0.0:.1f}".replace("-", "−")


def _table(right: np.ndarray) -> np.ndarray:
    table = np.atleast_2d(np.asarray(right, dtype=np.float64))
    if table.ndim != 2 or table.size == 0 or not np.isin(table, (0.0, 1.0)).all():
        raise ValueError(f"expected (seeds, examples) of 0 and 1, at least one of each; got shape {np.shape(right)}")
    return table


def _softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
