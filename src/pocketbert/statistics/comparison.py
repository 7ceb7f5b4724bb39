"""Two rows of a study on the same test examples: how far apart they are, and whether that can be chance."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from pocketbert.statistics.correction import holm, shaffer
from pocketbert.statistics.estimate import counts_training_noise, finite
from pocketbert.statistics.outcomes import Outcomes, influence_values
from pocketbert.statistics.variance import (
    LEVEL,
    Noise,
    VarianceComponent,
    degrees_of_freedom,
    detectable_effect,
    difference_noise,
    half_width,
    one_sided_p_value,
    skewness_scales,
)

Pair = tuple[str, str]


@dataclass(frozen=True)
class Comparison:
    """First minus second."""

    effect: float
    low: float
    high: float
    p_value: float
    detectable_effect: float  # the smallest difference that would have been significant in four studies of five
    degrees_of_freedom: float | None
    noise: Noise  # of the effect: accounts of its variance components
    trainings: tuple[int, int]
    examples: int
    counts_training_noise: bool  # False: a side that has seeds brought only one training
    corrected_p_value: float | None = None  # where there were several comparisons

    @property
    def significant(self) -> bool:
        """After correction, where there was one."""
        return (self.p_value if self.corrected_p_value is None else self.corrected_p_value) < LEVEL


def compare(first: Outcomes, second: Outcomes, metric: str = "accuracy", level: float = LEVEL) -> Comparison:
    """First minus second. They share their examples, and under folds the repeats that both have.

    `level` is that of `detectable_effect`; the interval is always one of 95 %.
    """
    _check_same_examples(first, second)
    values = influence_values(first, metric), influence_values(second, metric)
    folds = None if first.folds is None or second.folds is None else (first.folds, second.folds)
    scales = skewness_scales((first.correct.mean(), second.correct.mean()), (first.seeded, second.seeded))
    noise = tuple(
        tuple(VarianceComponent(float(variance), float(degrees)) for variance, degrees in components)
        for components in difference_noise(*values, folds, first.clusters, scales)
    )
    effect = float(values[0].mean() - values[1].mean())
    half = float(half_width(noise))
    total = max(sum(one.variance for one in components) for components in noise)
    least, most = (-2.0, 2.0) if metric == "mcc" else (-1.0, 1.0)
    return Comparison(
        effect=effect,
        low=max(least, effect - half),
        high=min(most, effect + half),
        p_value=2 * one_sided_p_value(abs(effect), noise),
        detectable_effect=float(detectable_effect(noise, level)),
        degrees_of_freedom=finite(float(degrees_of_freedom(half, total))),
        noise=noise,
        trainings=(first.trainings, second.trainings),
        examples=first.examples,
        counts_training_noise=counts_training_noise(first) and counts_training_noise(second),
    )


def compare_all(
    rows: Mapping[str, Outcomes], pairs: Sequence[Pair] | None = None, metric: str = "accuracy"
) -> dict[Pair, Comparison]:
    """Every pair (or those named), with p-values corrected for how many there are.

    Shaffer's procedure where the pairs are all pairs of some rows, Holm's elsewhere. `detectable_effect` is for the
    strictest step, or it would promise more than the correction lets through.
    """
    pairs = list(itertools.combinations(rows, 2)) if pairs is None else list(pairs)
    level = LEVEL / max(1, len(pairs))
    found = [compare(rows[first], rows[second], metric, level) for first, second in pairs]
    p_values = [one.p_value for one in found]
    named = {name for pair in pairs for name in pair}
    every = {frozenset(pair) for pair in itertools.combinations(named, 2)}
    complete = len(pairs) == len(every) and {frozenset(pair) for pair in pairs} == every
    corrected = shaffer(p_values, len(named)) if complete else holm(p_values)
    return {pair: replace(one, corrected_p_value=p) for pair, one, p in zip(pairs, found, corrected, strict=True)}


def equivalence(comparison: Comparison, margin: float) -> float:
    """p-value of "they differ by `margin` or more" (two one-sided tests): small means the same for practical purposes.

    "No significant difference" is not that: it may only say that the study was small. The margin is the reader's
    choice, and is chosen before looking.
    """
    return one_sided_p_value(margin - abs(comparison.effect), comparison.noise)


def mcnemar(first: np.ndarray, second: np.ndarray) -> float:
    """Exact p-value for two single trainings: among examples only one of them got right, is it a fair coin?"""
    first, second = np.asarray(first, dtype=bool).ravel(), np.asarray(second, dtype=bool).ravel()
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    return min(1.0, 2 * float(stats.binom.cdf(min(only_first, only_second), only_first + only_second, 0.5)))


def _check_same_examples(first: Outcomes, second: Outcomes) -> None:
    if first.examples != second.examples:
        raise ValueError(f"two rows need the same examples; these have {first.examples} and {second.examples}")
    for name in ("labels", "clusters"):
        one, two = getattr(first, name), getattr(second, name)
        if (one is None) != (two is None) or (one is not None and not np.array_equal(one, two)):
            raise ValueError(f"two rows need the same {name}")
    if (first.folds is None) != (second.folds is None):
        raise ValueError("a row that was tested in folds cannot be compared with one that had a fixed test split")
