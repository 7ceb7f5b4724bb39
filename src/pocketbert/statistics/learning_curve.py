"""Would more data help? A power law through the errors at several sizes of the training set, and what it forecasts.

Errors fall about as a power of the number of training rows, so on logarithmic axes they lie near a line. The line is
fitted to the mean errors, larger sizes weighing more; leaving out one replicate (a fold, or a seed) at a time tells how
sure it is (the jackknife, with Student's t); that errors are not quite such a line adds three quarters of the gain.
Before anything is forecast, the line through all points but the last must meet the last.
"""

import math
from dataclasses import dataclass

import numpy as np

from pocketbert.statistics.variance import LEVEL, critical_value

MODEL_ERROR = 0.75  # of a forecast gain: errors fall as a power only about (python -m benchmarks.forecasts)


@dataclass(frozen=True)
class Forecast:
    """What a training set of another size would gain."""

    gain: float  # of the score, from the largest size measured to the one asked for
    low: float
    high: float
    exponent: float  # errors fall as size ** -exponent


def power_law(sizes: np.ndarray, errors: np.ndarray) -> tuple[float, float]:
    """Logarithm of the factor, and exponent, of `error = factor * size ** -exponent`."""
    x, y = np.log(np.asarray(sizes, dtype=np.float64)), np.log(errors)
    weights = np.asarray(sizes, dtype=np.float64) ** 0.5
    x_mean, y_mean = np.average(x, weights=weights), np.average(y, weights=weights)
    slope = float((weights * (x - x_mean) * (y - y_mean)).sum() / (weights * (x - x_mean) ** 2).sum())
    return float(y_mean - slope * x_mean), -slope


def forecast(sizes: np.ndarray, errors: np.ndarray, size: float) -> Forecast:
    """Going from the largest of `sizes` to `size` rows; `errors`: (replicates, sizes), at least two of each."""
    errors = np.asarray(errors, dtype=np.float64)
    replicates = len(errors)

    def gain(some: np.ndarray) -> float:
        means = np.maximum(some.mean(axis=0), 1e-4)  # without any error there is nothing to gain, nor a logarithm
        factor, exponent = power_law(sizes, means)
        return math.exp(factor) * (float(sizes[-1]) ** -exponent - size**-exponent)

    found = gain(errors)
    without = np.array([gain(np.delete(errors, one, axis=0)) for one in range(replicates)])
    error = math.sqrt((replicates - 1) / replicates * float(((without - without.mean()) ** 2).sum()))
    half = math.hypot(critical_value(replicates - 1, LEVEL / 2) * error, MODEL_ERROR * found)
    exponent = power_law(sizes, np.maximum(errors.mean(axis=0), 1e-4))[1]
    return Forecast(found, found - half, found + half, exponent)


def follows_power_law(sizes: np.ndarray, errors: np.ndarray) -> bool:
    """Does the law through all sizes but the last forecast what was measured at the last, as sure as both are?"""
    expected = forecast(sizes[:-1], errors[:, :-1], float(sizes[-1]))
    seen = errors[:, -2] - errors[:, -1]
    replicates = len(errors)
    spread = float(np.std(seen, ddof=1)) / math.sqrt(replicates)
    half = math.hypot(expected.high - expected.gain, critical_value(replicates - 1, LEVEL / 2) * spread)
    return abs(float(seen.mean()) - expected.gain) <= half
