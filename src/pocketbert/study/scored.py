"""A row's finished runs, read: what they predicted for every test example, and what they say of themselves.

With a test split, a draw is one training; under folds it is one training per fold, put together again. A draw that
lacks a training is left out as a whole: its examples would not be all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pocketbert import metrics
from pocketbert.methods import get_method
from pocketbert.statistics import Outcomes, collapsed
from pocketbert.study.plan import Plan, PlannedRun
from pocketbert.study.rows import Row
from pocketbert.study.store import Store
from pocketbert.tasks import Split


@dataclass(frozen=True, eq=False)
class ScoredRow:
    """One entry per training in each list."""

    row: Row
    runs: list[PlannedRun]
    missing: int  # trainings that are not finished, or whose draw is not whole
    results: list[dict[str, Any]]  # metrics.json
    scores: list[dict[str, Any]]  # on what each was tested on
    split: Split  # every test example, with labels
    probabilities: np.ndarray  # (draws, examples, labels)
    outcomes: Outcomes
    temperatures: list[float]
    dev: Outcomes | None  # where all trainings have the same dev
    collapsed: int  # trainings that learnt nothing, while others of the row did
    undertrained: int  # trainings that predict one class only, or whose loss did not fall

    @property
    def learnt(self) -> bool:
        """Did any of its trainings learn something?"""
        return self.undertrained < len(self.runs)

    @property
    def draws(self) -> int:
        return len(self.probabilities)


def read_row(plan: Plan, store: Store, number: int, share: float = 1.0) -> ScoredRow | None:
    """None where no draw is whole yet. `share`: of the training rows, a point of the row's learning curve."""
    row = plan.rows[number]
    planned = plan.of_row(number, share)
    draws = _whole_draws(planned, store)
    runs = [run for draw in draws for run in draw]
    if not runs:
        return None
    split = plan.tasks[row.task].split(plan.tasks[row.task].scored_name)
    assert split.labels is not None
    loaded = [store.load(run) for run in runs]
    results = [one.metrics for one in loaded]
    name = "test" if runs[0].part is not None else plan.tasks[row.task].scored_name
    predictions = np.zeros((len(draws), len(split)), dtype=np.int64)
    probabilities = np.zeros((len(draws), len(split), len(plan.tasks[row.task].labels)))
    folds = None if runs[0].part is None else np.zeros_like(predictions)
    temperatures, dev_predictions, dev_labels = [], [], None
    for place, (run, found) in enumerate(zip(runs, loaded, strict=True)):
        draw = place // len(draws[0])
        tested = np.arange(len(split)) if run.part is None else plan.folds[row.task].tested(run.part)
        probabilities[draw, tested], predictions[draw, tested] = found.predictions(name)
        if folds is not None and run.part is not None:
            folds[draw, tested] = run.part.fold
        dev = plan.task_of(run).splits.get("dev")
        if dev is not None and dev.labels is not None and len(dev):
            for_dev, predicted = found.predictions("dev")
            temperatures.append(metrics.temperature(for_dev, dev.labels))
            dev_predictions.append(predicted)
            dev_labels = dev.labels
    clusters = None if folds is None else plan.folds[row.task].clusters
    method = get_method(row.method)
    same_dev = None
    if dev_labels is not None and folds is None:
        same_dev = Outcomes(np.array(dev_predictions), dev_labels, seeded=method.seeded)
    return ScoredRow(
        row=row,
        runs=runs,
        missing=len(planned) - len(runs),
        results=results,
        scores=[one["scores"][name] for one in results],
        split=split,
        probabilities=probabilities,
        outcomes=Outcomes(predictions, split.labels, folds, clusters, seeded=method.seeded),
        temperatures=temperatures,
        dev=same_dev,
        collapsed=0 if row.baseline else _count_collapsed(results),
        undertrained=0 if row.baseline else sum(is_undertrained(one, name) for one in results),
    )


def _whole_draws(planned: Sequence[PlannedRun], store: Store) -> list[list[PlannedRun]]:
    draws: dict[Any, list[PlannedRun]] = {}
    for run in planned:
        draws.setdefault((run.part.repeat if run.part else 0, run.number), []).append(run)
    return [draw for draw in draws.values() if all(store.finished(run) for run in draw)]


def _count_collapsed(results: list[dict[str, Any]]) -> int:
    on_dev = [one["scores"]["dev"] for one in results if "confusion" in one["scores"].get("dev", {})]
    if len(on_dev) < len(results):
        return 0
    majority = [max(map(sum, score["confusion"])) / max(1, score["rows"]) for score in on_dev]
    return int(collapsed([score["accuracy"] for score in on_dev], majority).sum())


def is_undertrained(results: dict[str, Any], split: str) -> bool:
    """Does it predict one class only, though there are several? Or did its loss not fall?"""
    confusion = np.array(results["scores"][split]["confusion"])
    one_class = np.count_nonzero(confusion.sum(axis=0)) == 1 < np.count_nonzero(confusion.sum(axis=1))
    best = results["best"].get("learning_rate")
    losses = [one["loss"] for one in results["history"] if one["rate"] == best and one["loss"] is not None]
    return bool(one_class or (len(losses) > 1 and losses[-1] >= losses[0]))
