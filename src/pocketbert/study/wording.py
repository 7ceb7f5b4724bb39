"""Comparisons as sentences, in points of a per cent."""

import math
from collections.abc import Sequence

from pocketbert.statistics import LEVEL, Comparison

TOO_SMALL = 0.25  # a study that could have missed so much tells nothing


def comparison_in_words(first: str, second: str, comparison: Comparison) -> str:
    """A comparison as a sentence; a difference that chance explains is not called one."""
    effect, low, high = comparison.effect, comparison.low, comparison.high
    notes = "" if comparison.counts_training_noise else "; with one seed, what another seed would change is not counted"
    if comparison.significant:
        if effect < 0:
            first, second, effect, low, high = second, first, -effect, -high, -low
        return f"{first} beats {second} by {effect_in_words(effect, low, high)}{notes}"
    if comparison.p_value < LEVEL:
        notes = "; its own interval excludes 0, but among so many comparisons that is not significant" + notes
    return (
        f"no significant difference between {first} and {second}: {effect_in_words(effect, low, high)}; "
        f"{missed_in_words([comparison.detectable_effect])}{notes}"
    )


def effect_in_words(effect: float, low: float, high: float) -> str:
    """A difference and its interval, in points: "6.2 points (4.1 to 8.3)"."""
    return f"{points(effect)} ({number(low)} to {number(high)})"


def missed_in_words(detectable: Sequence[float]) -> str:
    """How large a difference could have been missed. Where methods seldom differ so much, that is said first."""
    if min(detectable) >= TOO_SMALL:
        return f"this study is too small to tell, it could have missed even {math.floor(100 * min(detectable))} points"
    ends = dict.fromkeys(number(end) for end in (min(detectable), max(detectable)))
    return f"a difference below {' to '.join([*list(ends)[:-1], points(max(detectable))])} could have been missed"


def points(share: float) -> str:
    """A share as points: "1.0 point"."""
    text = number(share)
    return f"{text} point" + ("" if text in ("1.0", "−1.0") else "s")


def number(share: float) -> str:
    """A share as points with one digit, and no minus before a zero."""
    return f"{round(100 * share, 1) + 0.0:.1f}".replace("-", "−")
