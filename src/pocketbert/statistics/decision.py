"""From numbers to what to do: which row to take, what to promise of it, which trainings went wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pocketbert.statistics.comparison import compare
from pocketbert.statistics.correction import step_down
from pocketbert.statistics.outcomes import Outcomes, influence_values
from pocketbert.statistics.variance import LEVEL, one_sided_p_value

PARTS = 5  # of a fixed test split, where a choice is scored on rows that did not make it
AT_MAJORITY = 0.02  # a dev accuracy no further above the majority's share has learnt nothing
FAR_ABOVE = 0.10  # and its siblings' is so much above, at least

Rows = Mapping[str, Outcomes]


@dataclass(frozen=True)
class Recommendation:
    """The row to take, and why."""

    row: str
    best: str  # with the highest score
    p_values: dict[str, float]  # per row, corrected: of "it is worse than some other row by the margin or more"
    margin: float

    @property
    def cheaper(self) -> bool:
        """Was a cheaper row shown to be good enough, or is it simply the best?"""
        return self.row != self.best


def non_inferiority(better: Outcomes, cheaper: Outcomes, margin: float, metric: str = "accuracy") -> float:
    """p-value of "the cheaper row is worse by `margin` or more": small means that it is shown not to be."""
    comparison = compare(better, cheaper, metric)
    return one_sided_p_value(margin - comparison.effect, comparison.noise)


def highest_score(rows: Rows, metric: str = "accuracy") -> str:
    """The row with the highest mean score; of equals the first."""
    return max(rows, key=lambda name: float(influence_values(rows[name], metric).mean()))


def recommend(
    rows: Rows, costs: Mapping[str, float], margin: float, metric: str = "accuracy", level: float = LEVEL
) -> Recommendation:
    """The cheapest row that is shown not to be worse than the best by `margin` or more, else the one that looks best.

    Which row is truly best is not known, so a row must be shown not to be worse than any other: its p-value is the
    largest of those, which needs no correction. Over the rows p-values are corrected as Holm does; the best row itself
    is not worse than any, so at most all rows but one can be, and the first multiplier is one less.
    """
    best = highest_score(rows, metric)
    if len(rows) == 1:
        return Recommendation(best, best, {}, margin)
    p_values = [
        max(non_inferiority(rows[other], rows[name], margin, metric) for other in rows if other != name)
        for name in rows
    ]
    count = len(rows)
    corrected = dict(zip(rows, step_down(p_values, [count - 1, *range(count - 1, 0, -1)]), strict=True))
    shown = [name for name in rows if corrected[name] < level and costs[name] < costs[best]]
    return Recommendation(min(shown, key=lambda name: costs[name], default=best), best, corrected, margin)


def nested_outcomes(
    rows: Rows, choose: Callable[[Rows], str] = highest_score, *, parts: int = PARTS, seed: int = 0
) -> tuple[Outcomes, list[str]]:
    """What "choose a row, then use it" predicts of rows that had no part in the choice, and what was chosen.

    The best of several rows looks better than it is on the examples that chose it. So for every part of the examples
    the choice is made on the others: the parts are the folds, or random parts of a fixed test split that leave clusters
    whole. The result is scored like any row.
    """
    names = list(rows)
    first = rows[names[0]]
    part_of = _random_parts(first, parts, seed) if first.folds is None else first.folds[0]
    draws = min(row.draws for row in rows.values())
    predictions = np.zeros((draws, first.examples), dtype=np.int64)
    chosen = []
    for part in np.unique(part_of):
        others, here = np.flatnonzero(part_of != part), np.flatnonzero(part_of == part)
        # With a single part there is nothing else to choose on.
        chosen.append(choose({name: rows[name].take(others) for name in names}) if len(others) else choose(rows))
        predictions[:, here] = rows[chosen[-1]].predictions[:draws][:, here]
    folds = None if first.folds is None else next(row.folds for row in rows.values() if row.draws == draws)
    return Outcomes(predictions, first.labels, folds, first.clusters), chosen


def collapsed(
    dev_accuracies: Sequence[float] | np.ndarray, majority: Sequence[float] | np.ndarray | float
) -> np.ndarray:
    """Which trainings of a row learnt nothing: at the majority's share on dev, while siblings are far above it.

    One such training in twenty breaks every interval, so they are named and counted. They stay in the means: a method
    that sometimes fails is that good on average.
    """
    above = np.asarray(dev_accuracies, dtype=np.float64) - np.asarray(majority, dtype=np.float64)
    learnt = above > AT_MAJORITY
    if not learnt.any() or np.median(above[learnt]) < FAR_ABOVE:
        return np.zeros(len(above), dtype=bool)
    return ~learnt


def _random_parts(outcomes: Outcomes, parts: int, seed: int) -> np.ndarray:
    clusters = np.arange(outcomes.examples) if outcomes.clusters is None else outcomes.clusters
    _, which = np.unique(clusters, return_inverse=True)
    count = which.max() + 1
    return (np.random.default_rng(seed).permutation(count) % min(parts, count))[which]
