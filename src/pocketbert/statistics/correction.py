"""Several comparisons at once: p-values corrected so that, of all, even one false alarm is rare."""

from collections.abc import Sequence
from functools import cache


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction (1979): the smallest p-value times their number, the next times one less, never falling."""
    return step_down(p_values, range(len(p_values), 0, -1))


def shaffer(p_values: Sequence[float], rows: int) -> list[float]:
    """Shaffer's static procedure (1986) for all pairs of `rows` rows.

    If one pair differs, its rows cannot both equal a third: not every number of pairs can be equal at once, so the
    multipliers are smaller than Holm's, at the same guarantee.
    """
    return step_down(p_values, shaffer_multipliers(rows))


def step_down(p_values: Sequence[float], multipliers: Sequence[int]) -> list[float]:
    """p-values in order, each times its multiplier, never falling."""
    if len(p_values) != len(multipliers):
        raise ValueError(f"{len(p_values)} p-values, but {len(multipliers)} multipliers")
    corrected = [0.0] * len(p_values)
    highest = 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for index, multiplier in zip(order, multipliers, strict=True):
        highest = max(highest, min(1.0, multiplier * float(p_values[index])))
        corrected[index] = highest
    return corrected


def shaffer_multipliers(rows: int) -> list[int]:
    """For five rows 10, 6, 6, 6, 6, 4, 4, 3, 2, 1."""
    pairs = rows * (rows - 1) // 2
    possible = _possible_equal_pairs(rows)
    return [max(count for count in possible if count <= left) for left in range(pairs, 0, -1)]


@cache
def _possible_equal_pairs(rows: int) -> frozenset[int]:
    """How many pairs can be equal at once: rows fall into groups of equals, and a group of g has g (g − 1) / 2."""
    if rows < 2:
        return frozenset({0})
    return frozenset(
        size * (size - 1) // 2 + rest for size in range(1, rows + 1) for rest in _possible_equal_pairs(rows - size)
    )
