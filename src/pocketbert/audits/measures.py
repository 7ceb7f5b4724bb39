"""From the change of every pair to effects with intervals, tests and what could not have been seen.

Pairs made of one template are no independent evidence, and neither are the pairs of one training: templates, trainings
and, where words are what is exchanged, the words are each a source of noise, and all of them widen the interval. A test
by permutation asks the same without a normal distribution: without an effect, every template's change could as well
have had the other sign. Of the two p-values the larger counts.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pocketbert.audits.intervals import half_width, one_sided_p_value
from pocketbert.statistics.estimate import score_interval
from pocketbert.statistics.variance import (
    LEVEL,
    Noise,
    VarianceComponent,
    count_clusters,
    detectable_effect,
    draw_variance,
    sums_by_group,
    variance_of_mean,
)

MARGIN = 0.02  # two points: what is shown to be smaller is called equivalent
PERMUTATIONS = 9_999
EXACT = 13  # templates: with so few, every pattern of signs is looked at
FEWEST = 5  # templates; fewer cannot reach a p-value below 0.05 by signs alone, and say little of other sentences


@dataclass(frozen=True)
class Change:
    """What one swap does to the probability of a label: the mean over pairs and trainings."""

    mean: float
    low: float
    high: float
    absolute: float  # the mean of the changes without their signs
    p_value: float
    permutation_p_value: float
    equivalence_p_value: float  # of "the change is as large as the margin, or larger"
    detectable: float  # the smallest mean change that four audits of five like this one would have found; 1: none
    pairs: int
    templates: int
    trainings: int


def change_noise(values: np.ndarray, templates: np.ndarray, words: np.ndarray | None = None) -> Noise:
    """(…, trainings, pairs) → the noise of the mean: of templates, of trainings and, where given, of words.

    A pair's noise is in the components of templates and of words, and is taken out of one of them (two-way clustering);
    what is luck of single trainings is in those of templates and trainings, and is taken out of the first.
    """
    each = values.mean(axis=-2)
    of_draws, luck = draw_variance(values, templates)
    of_templates = variance_of_mean(each, templates)
    components = [
        VarianceComponent(np.maximum(of_templates - luck, 0.1 * of_templates), max(1, count_clusters(0, templates) - 1))
    ]
    if words is not None:
        both = np.unique(np.stack([templates, words]), axis=1, return_inverse=True)[1].ravel()
        of_words = np.maximum(0.0, variance_of_mean(each, words) - variance_of_mean(each, both))
        components.append(VarianceComponent(of_words, max(1, count_clusters(0, words) - 1)))
    if values.shape[-2] > 1:
        components.append(VarianceComponent(of_draws, values.shape[-2] - 1))
    return (tuple(components),)


def measure_change(
    values: np.ndarray,
    templates: np.ndarray,
    words: np.ndarray | None = None,
    *,
    margin: float = MARGIN,
    level: float = LEVEL,
) -> Change:
    """The change of every pair in every training, (trainings, pairs), and the number of each pair's template.

    Args:
        words: the number of each pair's word, where words were drawn from a list.
        margin: changes shown to be smaller are equivalent.
        level: at which an effect would have been found, for `detectable`: stricter where there are several comparisons.
    """
    noise = change_noise(values, templates, words)
    mean, half = float(values.mean()), half_width(noise)
    permuted = permutation_p_value(values.mean(axis=0), templates)
    return Change(
        mean=mean,
        low=max(-1.0, mean - half),
        high=min(1.0, mean + half),
        absolute=float(np.abs(values).mean()),
        p_value=max(permuted, min(1.0, 2 * one_sided_p_value(abs(mean), noise))),
        permutation_p_value=permuted,
        equivalence_p_value=one_sided_p_value(margin - abs(mean), noise),
        detectable=float(detectable_effect(noise, level)) if least_p_value(templates) <= level else 1.0,
        pairs=values.shape[-1],
        templates=count_clusters(0, templates),
        trainings=values.shape[-2],
    )


def least_p_value(templates: np.ndarray) -> float:
    """That the test by signs can give: with few templates all changes may be alike, and it is still not small."""
    return max(2.0 ** (1 - count_clusters(0, templates)), 1 / (PERMUTATIONS + 1))


def permutation_p_value(each: np.ndarray, templates: np.ndarray) -> float:
    """Of "no effect", two-sided: how often random signs of the templates' changes give as large a sum."""
    sums = sums_by_group(each, templates)
    limit = abs(float(sums.sum())) * (1 - 1e-9)
    if limit == 0:
        return 1.0
    permuted = np.abs(_signs(len(sums)) @ sums)
    beyond = int((permuted >= limit).sum())
    return beyond / len(permuted) if len(sums) <= EXACT else (beyond + 1) / (len(permuted) + 1)


@lru_cache(maxsize=8)
def _signs(count: int) -> np.ndarray:
    """Every pattern of signs of few templates, or many random ones; the same in every audit."""
    if count <= EXACT:
        patterns = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    else:
        patterns = np.random.default_rng(0).integers(0, 2, (PERMUTATIONS, count))
    signs: np.ndarray = (2.0 * patterns - 1).astype(np.float32)
    return signs


def share_interval(values: np.ndarray, templates: np.ndarray) -> tuple[float, float, float]:
    """(trainings, pairs) of 0 and 1 → the share with its 95 % interval, clustered as above."""
    found = score_interval(values.astype(np.float64), None, templates)
    return float(found["mean"]), float(found["low"]), float(found["high"])
