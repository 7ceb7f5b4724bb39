"""One row of a study: its mean score over trainings, and how sure we are of it."""

import functools
import math
from dataclasses import dataclass

import numpy as np

from pocketbert import metrics
from pocketbert.statistics.outcomes import Outcomes, influence_values
from pocketbert.statistics.variance import (
    EXTRA,
    LEVEL,
    VarianceComponent,
    count_clusters,
    critical_value,
    degrees_of_freedom,
    half_width,
    quotient,
    row_noise,
)


@dataclass(frozen=True)
class Estimate:
    """One row on one task: its score over trainings, and how sure we are of it."""

    mean: float
    std: float | None  # over trainings, each scored on the examples it tested; one training has none
    low: float
    high: float
    draws: int
    trainings: int
    examples: int
    clusters: int  # of near-equal texts; as many as examples where all are independent
    degrees_of_freedom: float | None  # with which Student's interval would be as wide; None: endless
    example_noise: float  # what the choice of test examples adds to the standard error of the mean
    training_noise: float  # and what the choice of seeds, and under folds of training sets, adds
    counts_training_noise: bool  # False: one training of a method that has seeds, so this is about that training alone


def estimate(outcomes: Outcomes, metric: str = "accuracy") -> Estimate:
    """The mean score over draws with its interval."""
    values = influence_values(outcomes, metric)
    scale, shift = (2.0, 1.0) if metric == "mcc" else (1.0, 0.0)  # a correlation, as a share between 0 and 1
    found = score_interval((values + shift) / scale, outcomes.folds, outcomes.clusters)
    return Estimate(
        mean=float(values.mean()),
        std=_std(outcomes, metric),
        low=float(scale * found["low"] - shift),
        high=float(scale * found["high"] - shift),
        draws=outcomes.draws,
        trainings=outcomes.trainings,
        examples=outcomes.examples,
        clusters=count_clusters(outcomes.examples, outcomes.clusters),
        degrees_of_freedom=finite(float(found["degrees_of_freedom"])),
        example_noise=scale * math.sqrt(found["example_variance"]),
        training_noise=scale * math.sqrt(found["training_variance"]),
        counts_training_noise=counts_training_noise(outcomes),
    )


def score_interval(
    values: np.ndarray, folds: np.ndarray | None = None, clusters: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """(…, draws, examples) of shares → mean, low, high, degrees of freedom and the two variances.

    Each source of noise brings its own critical value, and they add as squares. Near 0 and 1 the interval is lopsided,
    as Wilson's is; with one training of independent examples it is Wilson's.
    """
    examples = count_clusters(values.shape[-1], clusters)
    mean = np.clip(values.mean(axis=(-2, -1)), 0.0, 1.0)
    spread = mean * (1 - mean)
    noise = row_noise(values, folds, clusters)
    # How many independent examples the shared noise amounts to: more than there are, if trainings err elsewhere.
    squares = noise[0][0].variance * examples**2
    worth = examples * (spread * examples**2 / max(1, examples - 1) + EXTRA) / (squares + EXTRA)
    of_examples = VarianceComponent(spread / worth, math.inf)
    noise = ((of_examples, *noise[0][1:]), *noise[1:])
    half = half_width(noise)
    width = np.maximum(critical_value(math.inf, LEVEL / 2) ** 2 / worth, quotient(half**2, spread))
    low, high = metrics.wilson_bounds(mean, width)
    total = functools.reduce(np.maximum, [sum(one.variance for one in components) for components in noise])
    return {
        "mean": mean,
        "low": low,
        "high": high,
        "degrees_of_freedom": degrees_of_freedom(half, total),
        "example_variance": of_examples.variance,
        "training_variance": np.maximum(0.0, total - of_examples.variance),
    }


def counts_training_noise(outcomes: Outcomes) -> bool:
    """Does the table show what another training would change?"""
    return not outcomes.seeded or outcomes.draws > 1 or outcomes.folds is not None


def finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _std(outcomes: Outcomes, metric: str) -> float | None:
    """The standard deviation over trainings."""
    scores = []
    for draw in range(outcomes.draws):
        one = Outcomes(outcomes.predictions[[draw]], outcomes.labels)
        fold = np.zeros(outcomes.examples, dtype=int) if outcomes.folds is None else outcomes.folds[draw]
        scores += [float(influence_values(one.take(fold == number), metric).mean()) for number in np.unique(fold)]
    return float(np.std(scores, ddof=1)) if len(scores) > 1 else None
