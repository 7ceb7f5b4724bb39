"""How wide the interval of a mean change is, whose noise has several sources, each known from few or many of them.

Two ways are known. Banerjee's gives every source its own critical value: it holds at least as often as it says, and
more often where a source that is known from three trainings is about as large as the others. Welch's gives all sources
one common number of degrees of freedom: it is right there, and too narrow where that source is most of the noise. The
mean of both (of their squares) is near 95 % in all regimes that benchmarks/audit_coverage.py simulates; either alone
is not.
"""

import math

import numpy as np
from scipy import optimize

from pocketbert.statistics.variance import LEVEL, Noise, critical_value

SMALLEST_P_VALUE = 1e-12


def half_width(noise: Noise, level: float = LEVEL) -> float:
    """Of the interval that holds with probability 1 - level."""
    return max(_half_width(components, level) for components in noise)


def _half_width(components: tuple[tuple[np.ndarray, float], ...], level: float) -> float:
    variances = [float(variance) for variance, _ in components]
    total = sum(variances)
    if total <= 0:
        return 0.0
    common = total**2 / sum(variance**2 / degrees for variance, (_, degrees) in zip(variances, components, strict=True))
    welch = critical_value(common, level / 2) ** 2 * total
    banerjee = sum(
        critical_value(degrees, level / 2) ** 2 * variance
        for variance, (_, degrees) in zip(variances, components, strict=True)
    )
    return math.sqrt((welch + banerjee) / 2)


def one_sided_p_value(distance: float, noise: Noise) -> float:
    """The tail with which the interval reaches just this far; above a half on the wrong side."""
    if distance < 0:
        return 1 - one_sided_p_value(-distance, noise)

    def beyond(logarithm: float) -> float:
        return half_width(noise, 2 * math.exp(logarithm)) - distance

    least, most = math.log(SMALLEST_P_VALUE), math.log(0.4999)
    if distance == 0 or beyond(most) >= 0:
        return 0.5
    if beyond(least) <= 0:
        return SMALLEST_P_VALUE
    return math.exp(float(optimize.brentq(beyond, least, most, maxiter=500)))
