"""Where the noise of a mean comes from, how much each source adds, and how wide an interval that makes.

Every function works on the last axes of arrays of influence values, (…, draws, examples), so that
benchmarks/coverage.py can run thousands of studies at once.
"""

import functools
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special, stats

LEVEL = 0.05  # intervals hold 1 − LEVEL; a difference is significant below it
POWER = 0.8  # what "detectable" means: in four studies of five
EXTRA = 0.25  # of an imagined example per row, for what a small test set could have held and did not
EXPLAINED = 0.75  # of what examples should make folds scatter; with all of it, skewness still makes 6 % false alarms
SMALLEST_P_VALUE = 1e-100  # below it, p-values are all the same


class VarianceComponent(NamedTuple):
    """One source of noise: what it adds to the variance of the mean, and how well that is known."""

    variance: Any
    degrees_of_freedom: float


Components = tuple[VarianceComponent, ...]  # of one mean; they add up
Noise = tuple[Components, ...]  # accounts of the same noise: the one that gives the widest interval counts


# Components.


def sums_by_group(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """(…, examples) → (…, groups): the sum of each group, in the order of their numbers."""
    order = np.argsort(groups, kind="stable")
    begins = np.flatnonzero(np.diff(groups[order], prepend=groups[order[0]] - 1))
    return np.add.reduceat(values[..., order], begins, axis=-1)


def count_clusters(examples: int, clusters: np.ndarray | None) -> int:
    return examples if clusters is None else len(np.unique(clusters))


def variance_of_mean(values: np.ndarray, clusters: np.ndarray | None) -> np.ndarray:
    """(…, examples) → the variance of their mean, clusters being what is independent (Liang and Zeger 1986)."""
    deviations = values - values.mean(axis=-1, keepdims=True)
    if clusters is not None:
        deviations = sums_by_group(deviations, clusters)
    count = deviations.shape[-1]
    return (deviations**2).sum(axis=-1) / values.shape[-1] ** 2 * count / max(1, count - 1)


def draw_variance(values: np.ndarray, clusters: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Trainings that all took the same test: the variance of the mean over draws, and how much of it is luck.

    Luck is there even if all trainings are equally able, because each errs on other examples: the residual of a
    two-way analysis of variance (draws by examples). The examples' component holds it too, so it is counted once.
    """
    draws, examples = values.shape[-2:]
    if draws == 1:
        return np.zeros(values.shape[:-2]), np.zeros(values.shape[:-2])
    of_draw, of_example = values.mean(axis=-1, keepdims=True), values.mean(axis=-2, keepdims=True)
    residual = values - of_draw
    residual -= of_example - of_draw.mean(axis=-2, keepdims=True)
    if clusters is not None:
        residual = sums_by_group(residual, clusters)
    count = residual.shape[-1]
    squares = np.einsum("...de,...de->...", residual, residual)
    luck = squares / (draws * (draws - 1) * examples**2) * count / max(1, count - 1)
    return of_draw[..., 0].var(axis=-1) / (draws - 1), luck


def fold_noise(
    each: np.ndarray,
    values: np.ndarray,
    folds: np.ndarray,
    clusters: np.ndarray | None,
    *,
    imagined: float = 0.0,
    scale: Any = 1.0,
) -> Noise:
    """The noise of a mean under cross-validation, accounted for twice; the wider account counts.

    `each`: (…, examples), averaged over all draws; `values`: (…, repeats, examples) of the repeats that tell how much
    trainings add. The first account knows examples alone, and knows them well. The second lets every fold be one
    observation, so that whatever a training adds is in it, but folds are few. The excess of the second over the first
    is no component of its own: with five folds, cutting it off at 0 makes too many false alarms. `scale`: of what
    trainings seem to add (`skewness_scales`).
    """
    repeats, examples = values.shape[-2:]
    scatter = expected = np.zeros(each.shape[:-1])
    degrees = 0
    for repeat in range(repeats):
        one, fold = values[..., repeat, :], folds[repeat]
        sizes = np.unique(fold, return_counts=True)[1]
        means = sums_by_group(one, fold) / sizes
        squares = (sizes / examples * (means - one.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
        scatter = scatter + squares / max(1, len(sizes) - 1)
        expected = expected + variance_of_mean(one, clusters)
        degrees += max(1, len(sizes) - 1)
    scatter, expected = scatter / repeats, expected / repeats
    scatter = scatter + (scale - 1) * np.maximum(0.0, scatter - EXPLAINED * expected)
    # All repeats learn from the same rows: they tell better how much folds scatter, and do not make it less.
    of_examples = variance_of_mean(each, clusters)
    known = max(1, count_clusters(examples, clusters) - 1)
    return (
        (VarianceComponent(of_examples + imagined, known),),
        (VarianceComponent(scatter + imagined, degrees),),
    )


def by_repeat(values: np.ndarray, folds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws with the same folds are averaged: (…, repeats, examples), and the folds of each repeat."""
    repeats: dict[bytes, list[int]] = {}
    for draw, row in enumerate(np.asarray(folds, dtype=np.int64)):
        repeats.setdefault(row.tobytes(), []).append(draw)
    means = [values[..., draws, :].mean(axis=-2) for draws in repeats.values()]
    return np.stack(means, axis=-2), folds[[draws[0] for draws in repeats.values()]]


def row_noise(values: np.ndarray, folds: np.ndarray | None, clusters: np.ndarray | None) -> Noise:
    """The noise of one row's mean."""
    each = values.mean(axis=-2)
    if folds is not None:
        return fold_noise(each, *by_repeat(values, folds), clusters)
    of_draws, luck = draw_variance(values, clusters)
    return (
        (
            VarianceComponent(
                np.maximum(0.0, variance_of_mean(each, clusters) - luck),
                max(1, count_clusters(each.shape[-1], clusters) - 1),
            ),
            VarianceComponent(of_draws, max(1, values.shape[-2] - 1)),
        ),
    )


def difference_noise(
    first: np.ndarray,
    second: np.ndarray,
    folds: tuple[np.ndarray, np.ndarray] | None,
    clusters: np.ndarray | None,
    scales: tuple[Any, Any] = (1.0, 1.0),
) -> Noise:
    """The noise of the difference of two rows with the same examples.

    Differences are taken example by example, so what is hard for both cancels. With a fixed test split trainings are
    not paired (seed 0 of one row has nothing in common with seed 0 of another): each row's are a component. Under folds
    both rows learn from the same examples in each fold, so the folds' differences tell what trainings add. `scales`: of
    the noise of each row's trainings (`skewness_scales`).
    """
    each = first.mean(axis=-2) - second.mean(axis=-2)
    examples = count_clusters(each.shape[-1], clusters)
    imagined = 2 * EXTRA / examples**2
    if folds is None:
        (one, luck_one), (two, luck_two) = draw_variance(first, clusters), draw_variance(second, clusters)
        shared = np.maximum(0.0, variance_of_mean(each, clusters) - luck_one - luck_two)
        return (
            (
                VarianceComponent(shared + imagined, max(1, examples - 1)),
                VarianceComponent(one * scales[0], max(1, first.shape[-2] - 1)),
                VarianceComponent(two * scales[1], max(1, second.shape[-2] - 1)),
            ),
        )
    (one, folds_one), (two, folds_two) = by_repeat(first, folds[0]), by_repeat(second, folds[1])
    # One row may have more repeats than the other. The common ones tell how much trainings add; what the others would
    # take off is left in.
    common = min(len(folds_one), len(folds_two))
    if not np.array_equal(folds_one[:common], folds_two[:common]):
        raise ValueError("two rows need the same folds in the repeats that both have")
    paired = one[..., :common, :] - two[..., :common, :]
    scale = np.maximum(*scales)
    return fold_noise(each, paired, folds_one[:common], clusters, imagined=imagined, scale=scale)


def skewness_scales(accuracies: tuple[Any, Any], seeded: tuple[bool, bool]) -> tuple[Any, Any]:
    """How much more a row's trainings may vary than they did, where the other row has no seed.

    Accuracies vary less near 0 and 1, so a seeded row that happens to be near looks too sure of itself, and nothing on
    the other side makes up for it. Under the hypothesis of no difference it is as able as the other row is, and on the
    scale of a normal distribution varies alike everywhere.
    """
    if seeded[0] == seeded[1]:
        return 1.0, 1.0
    density = [_normal_density(accuracy) for accuracy in accuracies]
    if seeded[0]:
        return np.clip((density[1] / density[0]) ** 2, 1.0, 4.0), 1.0
    return 1.0, np.clip((density[0] / density[1]) ** 2, 1.0, 4.0)


def _normal_density(share: np.ndarray) -> np.ndarray:
    return stats.norm.pdf(special.ndtri(np.clip(share, 1e-3, 1 - 1e-3)))


# Intervals and tests.


def critical_value(degrees_of_freedom: float, tail: float) -> float:
    """What Student's distribution exceeds with probability `tail`; endless degrees of freedom are the normal one."""
    endless = math.isinf(degrees_of_freedom)
    return float(-special.ndtri(tail) if endless else -special.stdtrit(degrees_of_freedom, tail))


def half_width(noise: Noise, level: float = LEVEL) -> np.ndarray:
    """Of an interval: every component brings its own critical value, and they add as squares.

    Banerjee (1960) showed that such an interval holds at least as often as it says, for normal noise whose components
    are estimated separately. One common number of degrees of freedom (Welch, Satterthwaite) does not, with few draws.
    """
    return np.sqrt(_widest(noise, lambda degrees: critical_value(degrees, level / 2)))


def _widest(noise: Noise, factor: Callable[[float], float]) -> Any:
    """The largest sum of variances, each times its squared factor."""
    sums = [sum(factor(degrees) ** 2 * variance for variance, degrees in components) for components in noise]
    return functools.reduce(np.maximum, sums)


def degrees_of_freedom(half: Any, variance: Any) -> np.ndarray:
    """With which Student's interval of this variance would be as wide: one number for the reader."""
    found = np.interp(quotient(half, np.sqrt(variance)), *_widths())
    return np.divide(1.0, found, out=np.full(np.shape(found), np.inf), where=found > 1e-9)


@cache
def _widths() -> tuple[np.ndarray, np.ndarray]:
    """Critical values, and the inverse of the degrees of freedom that have them."""
    inverse = np.linspace(0.0, 1.0, 401)
    return np.array([critical_value(1 / part if part else math.inf, LEVEL / 2) for part in inverse]), inverse


def detectable_effect(noise: Noise, level: float = LEVEL) -> np.ndarray:
    """What would be found with `POWER`: about 2.8 standard errors, more where few trainings tell them."""
    return np.minimum(1.0, np.sqrt(_widest(noise, lambda degrees: _detectable_errors(degrees, level))))


@cache
def _detectable_errors(degrees_of_freedom: float, level: float) -> float:
    """How many true standard errors of one component are found with `POWER`, averaged over what its estimate may be."""
    errors = np.sqrt(stats.chi2.ppf((np.arange(4000) + 0.5) / 4000, degrees_of_freedom) / degrees_of_freedom)
    limit = critical_value(degrees_of_freedom, level / 2)

    def missing(away: float) -> float:
        return float(special.ndtr(away - limit * errors).mean()) - POWER

    return float(optimize.brentq(missing, 0.0, 10 * limit))


def one_sided_p_value(distance: float, noise: Noise) -> float:
    """The tail with which the interval reaches just this far."""
    if distance < 0:
        return 1 - one_sided_p_value(-distance, noise)

    def beyond(logarithm: float) -> float:
        return float(half_width(noise, 2 * math.exp(logarithm))) - distance

    least, most = math.log(SMALLEST_P_VALUE), math.log(0.5)
    if distance == 0 or beyond(most) >= 0:
        return 0.5
    if beyond(least) <= 0:
        return SMALLEST_P_VALUE
    return math.exp(float(optimize.brentq(beyond, least, most, maxiter=500)))


def quotient(part: Any, whole: Any) -> np.ndarray:
    """0 where there is nothing to divide."""
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    return np.divide(part, whole, out=np.zeros(np.broadcast(part, whole).shape), where=whole > 0)
