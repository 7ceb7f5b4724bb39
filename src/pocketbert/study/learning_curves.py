"""From the runs on an eighth, a quarter and a half of the rows to learning curves, with what more data would bring."""

from collections.abc import Sequence

import numpy as np

from pocketbert import statistics
from pocketbert.report.document import CurvePoint, LearningCurve, Score
from pocketbert.study.plan import SHARES, Plan
from pocketbert.study.scored import ScoredRow, read_row
from pocketbert.study.store import Store
from pocketbert.study.wording import effect_in_words, points

LITTLE = 0.005  # half a point: a gain that is surely below it is little


def learning_curve(plan: Plan, store: Store, scored: ScoredRow, metric: str) -> LearningCurve | None:
    """A row's curve, where all its points were trained; None where it has none."""
    number = plan.rows.index(scored.row)
    smaller = [read_row(plan, store, number, share) for share in SHARES]
    known = [one for one in smaller if one is not None and not one.missing]
    if len(known) < len(SHARES):
        return None
    rows = [*known, scored]
    sizes = np.array([len(plan.task_of(one.runs[0]).split("train")) for one in rows])
    errors = 1 - np.stack([_replicates(one, known[0], metric) for one in rows], axis=1)
    follows = statistics.follows_power_law(sizes, errors)
    doubled = statistics.forecast(sizes, errors, 2 * float(sizes[-1])) if follows else None
    return LearningCurve(
        task=scored.row.task,
        row=scored.row.name,
        points=tuple(
            CurvePoint(int(size), Score(**vars(statistics.estimate(one.outcomes, metric))))
            for size, one in zip(sizes, rows, strict=True)
        ),
        follows_power_law=follows,
        gain=None if doubled is None else doubled.gain,
        low=None if doubled is None else doubled.low,
        high=None if doubled is None else doubled.high,
        sentence=_sentence(scored.row.name, doubled),
        folders=tuple(run.folder for one in known for run in one.runs),
    )


def _replicates(scored: ScoredRow, smallest: ScoredRow, metric: str) -> np.ndarray:
    """The scores of the trainings that every point has: one per fold of the first draw, or one per seed."""
    values = statistics.influence_values(scored.outcomes, metric)
    folds = scored.outcomes.folds
    if folds is None:
        return values[: len(smallest.runs)].mean(axis=1)
    return np.array([values[0][folds[0] == fold].mean() for fold in np.unique(folds[0])])


def _sentence(row: str, doubled: "statistics.Forecast | None") -> str:
    if doubled is None:
        return f"The learning curve of {row} follows no power law: what more data would bring is not forecast."
    if doubled.high < LITTLE:
        return f"Twice the data would bring {row} little: less than {points(max(doubled.high, 0.001))}."
    return f"Twice the data would bring {row} about {effect_in_words(doubled.gain, doubled.low, doubled.high)}."


def best_curve(curves: Sequence[LearningCurve], names: Sequence[str]) -> LearningCurve | None:
    """Of these rows, the curve that ends highest."""
    known = [one for one in curves if one.row in names]
    return max(known, key=lambda one: one.points[-1].score.mean, default=None)
