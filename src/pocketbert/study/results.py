"""From finished runs to numbers: the document that the tables, the report and study.json are made of."""

import itertools
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import numpy as np

from pocketbert import __version__
from pocketbert.methods import get_method
from pocketbert.report.document import (
    Bin,
    Chosen,
    ClassScores,
    ComparisonResult,
    Cost,
    Curve,
    Document,
    Failure,
    Machine,
    Mistake,
    RowResults,
    Score,
    Spread,
    TaskSummary,
)
from pocketbert.study import statistics
from pocketbert.study.plan import Plan, PlannedRun, Row
from pocketbert.study.store import Store
from pocketbert.study.verdict import verdict
from pocketbert.tasks import Split, Task

RULE = (
    "the epoch and the learning rate with the best dev accuracy (ties: the earlier epoch, then the rate listed first); "
    "the test split is scored once, after that choice"
)
MISTAKES = 5  # of each row, that are shown
VERSIONS = ("torch", "tokenizers", "safetensors", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True, eq=False)
class _Scored:
    """A row's finished runs, read: one entry per seed in each list."""

    row: Row
    runs: list[PlannedRun]
    metrics: list[dict[str, Any]]
    split: Split  # with labels
    probabilities: list[np.ndarray]  # (examples, labels)
    right: np.ndarray  # (seeds, examples)
    right_on_dev: np.ndarray | None
    temperatures: list[float]


def gather(
    plan: Plan,
    store: Store,
    failures: Sequence[tuple[PlannedRun, str]],
    *,
    name: str,
    preset: str | None,
    again: str | None,
    workers: int | str,
) -> Document:
    """Everything the finished runs of a plan say."""
    rows: list[RowResults] = []
    mistakes: list[Mistake] = []
    comparisons: list[ComparisonResult] = []
    verdicts: list[str] = []
    for task in plan.tasks.values():
        scored = [
            _read(row, runs, store, task)
            for number, row in enumerate(plan.rows)
            if row.task == task.name and (runs := [run for run in plan.of_row(number) if store.finished(run)])
        ]
        of_task = [_row(one, task) for one in scored]
        compared = _compare(of_task, [one.right for one in scored])
        lost = sum(run.task == task.name for run, _ in failures)
        if lost:
            verdicts.append(f"On {task.name}, {lost} runs failed; they are not in these numbers.")
        if of_task:
            first, *others = verdict(of_task, compared)
            verdicts += [f"On {task.name}, {first}" if len(plan.tasks) > 1 else first, *others]
        else:
            verdicts.append(f"{task.name}: no run is finished yet.")
        rows += of_task
        comparisons += compared
        mistakes += [mistake for one in scored if not one.row.baseline for mistake in _mistakes(one, task.labels)]
    return Document(
        pocketbert=__version__,
        name=name,
        preset=preset,
        again=again,
        workers=workers,
        seconds=sum(len(row.seeds) * row.cost.seconds for row in rows),
        verdicts=tuple(verdicts),
        rule=RULE,
        tasks=tuple(_summary(task, plan) for task in plan.tasks.values()),
        rows=tuple(rows),
        comparisons=tuple(comparisons),
        mistakes=tuple(mistakes),
        failures=tuple(Failure(run.folder, error) for run, error in failures),
        notes=tuple(plan.notes),
        versions={"python": platform.python_version()} | {name: metadata.version(name) for name in VERSIONS},
        machine=Machine(platform.system(), platform.machine(), os.cpu_count()),
    )


def _read(row: Row, runs: list[PlannedRun], store: Store, task: Task) -> _Scored:
    split, dev = task.scored_name, task.splits.get("dev")
    dev_labels = dev.labels if dev is not None and len(dev) else None
    metrics, probabilities, right, right_on_dev, temperatures = [], [], [], [], []
    for run in runs:
        found = store.load(run)
        metrics.append(found.metrics)
        for_split, predicted = found.predictions(split)
        probabilities.append(for_split)
        right.append(predicted == task.split(split).labels)
        if dev_labels is not None:
            for_dev, predicted = found.predictions("dev")
            right_on_dev.append(predicted == dev_labels)
            temperatures.append(statistics.temperature(for_dev, dev_labels))
    on_dev = None if dev_labels is None else np.array(right_on_dev)
    return _Scored(row, runs, metrics, task.split(split), probabilities, np.array(right), on_dev, temperatures)


def _row(scored: _Scored, task: Task) -> RowResults:
    row, runs, metrics = scored.row, scored.runs, scored.metrics
    method, split = get_method(row.method), task.scored_name
    scores = [one["scores"][split] for one in metrics]
    costs = [one["cost"] for one in metrics]
    matrix = np.sum([score["confusion"] for score in scores], axis=0)
    classes = zip(task.labels, statistics.per_class(matrix), strict=True)
    labels = np.tile(_labels(scored.split), len(runs))
    bins = statistics.reliability(np.concatenate(scored.probabilities), labels)
    settings = runs[0].settings.to_dict()
    return RowResults(
        task=row.task,
        name=row.name,
        model=row.model,
        method=row.method,
        baseline=row.baseline,
        guesses=not method.reads_texts,
        deterministic=not method.seeded,
        seeds=tuple(run.settings.seed for run in runs),
        missing=row.seeds - len(runs),
        split=split,
        accuracy=_score(scored.right, deterministic=not method.seeded),
        macro_f1=_spread(score["macro_f1"] for score in scores),
        mcc=_spread(score["mcc"] for score in scores),
        calibration_error=_spread(score["calibration_error"] for score in scores),
        loss=_spread(score["loss"] for score in scores),
        temperature=Spread(_mean(scored.temperatures)),
        dev=None if scored.right_on_dev is None else _score(scored.right_on_dev, deterministic=not method.seeded),
        per_class={name: ClassScores(**{**one, "support": one["support"] / len(runs)}) for name, one in classes},
        confusion=tuple(map(tuple, matrix.tolist())),
        reliability=tuple(Bin(one["confidence"], one["accuracy"], one["share"], int(one["rows"])) for one in bins),
        curves=tuple(curve for one in metrics for curve in _curves(one["history"])),
        chosen=tuple(Chosen(run.settings.seed, **one["best"]) for run, one in zip(runs, metrics, strict=True)),
        trials=max(one["trials"] for one in metrics),
        truncated=max(score.get("truncated", 0) for score in scores),
        cost=Cost(
            seconds=float(np.mean([cost["seconds"] for cost in costs])),
            peak_memory_bytes=max(cost["peak_memory_bytes"] for cost in costs),
            trained_parameters=max(cost["trained_parameters"] for cost in costs),
            examples_per_second=_mean([cost["examples_per_second"] for cost in costs if cost["examples_per_second"]]),
        ),
        settings={name: value for name, value in settings.items() if name != "seed"},
        folders=tuple(run.folder for run in runs),
        theirs=row.theirs,
        note=row.note,
    )


def _score(right: np.ndarray, *, deterministic: bool) -> Score:
    found = statistics.estimate(right, deterministic=deterministic)
    return Score(**vars(found), values=tuple(right.mean(axis=1).tolist()))


def _spread(values: Iterable[float]) -> Spread:
    """Mean, and standard deviation over seeds where there are several."""
    known = list(values)
    return Spread(_mean(known), float(np.std(known, ddof=1)) if len(known) > 1 else None)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _labels(split: Split) -> np.ndarray:
    assert split.labels is not None
    return split.labels


def _curves(history: list[dict[str, Any]]) -> list[Curve]:
    """One curve per seed and rate."""
    records: dict[tuple[int, float], list[dict[str, Any]]] = {}
    for record in history:
        records.setdefault((record["seed"], record["rate"]), []).append(record)
    return [
        Curve(seed, rate, *(tuple(one[key] for one in some) for key in ("epoch", "loss", "dev_accuracy")))
        for (seed, rate), some in records.items()
    ]


def _mistakes(scored: _Scored, names: tuple[str, ...]) -> list[Mistake]:
    """The texts a row was most certain about, and wrong: often the label is what is wrong."""
    split, labels, seeds = scored.split, _labels(scored.split), len(scored.runs)
    pooled = np.sum([one / seeds for one in scored.probabilities], axis=0)
    wrong = np.flatnonzero(pooled.argmax(axis=1) != labels)
    worst = wrong[np.argsort(-pooled[wrong].max(axis=1), kind="stable")][:MISTAKES]
    return [
        Mistake(
            task=scored.row.task,
            row=scored.row.name,
            text=split.texts[place],
            second_text=None if split.second_texts is None else split.second_texts[place],
            label=names[labels[place]],
            prediction=names[int(pooled[place].argmax())],
            probability=float(pooled[place].max()),
            wrong=f"{seeds - int(scored.right[:, place].sum())} of {seeds} seeds",
        )
        for place in worst.tolist()
    ]


def _compare(rows: Sequence[RowResults], right: Sequence[np.ndarray]) -> list[ComparisonResult]:
    """Two families, each corrected for its own size: contenders among themselves, and each of them against guessing.

    Otherwise the price of asking "is it better than a coin?" would be paid by the questions a person has.
    """
    by_name = {row.name: one for row, one in zip(rows, right, strict=True)}
    deterministic = {row.name for row in rows if row.deterministic}
    contenders = [row.name for row in rows if not row.guesses]
    among = list(itertools.combinations(contenders, 2))
    against = [(name, row.name) for name in contenders for row in rows if row.guesses]
    pairs = {
        **statistics.compare_all(by_name, deterministic, among),
        **statistics.compare_all(by_name, deterministic, against),
    }
    return [_comparison(rows[0].task, *names, found, by_name) for names, found in pairs.items()]


def _comparison(
    task: str, first: str, second: str, found: statistics.Comparison, right: dict[str, np.ndarray]
) -> ComparisonResult:
    """Two rows, the better one first. Two single runs also have an exact test."""
    if found.effect < 0:
        found = replace(found, effect=-found.effect, low=-found.high, high=-found.low)
        first, second = second, first
    assert found.corrected is not None
    single = len(right[first]) == len(right[second]) == 1
    return ComparisonResult(
        task=task,
        first=first,
        second=second,
        effect=found.effect,
        low=found.low,
        high=found.high,
        p_value=found.p,
        corrected=found.corrected,
        significant=found.corrected < statistics.LEVEL,
        detectable=found.smallest,
        freedom=found.freedom,
        example_noise=found.example_noise,
        seed_noise=found.seed_noise,
        seeds=found.seeds,
        examples=found.examples,
        counts_seeds=found.counts_seeds,
        mcnemar=statistics.mcnemar(right[first][0], right[second][0]) if single else None,
        sentence=statistics.words(first, second, found),
    )


def _summary(task: Task, plan: Plan) -> TaskSummary:
    """What was learnt from and scored on, with everything there is to say about the data."""
    checks = [check for row, check in zip(plan.rows, plan.checks, strict=True) if row.task == task.name]
    exact = [check for check in checks if any(split.tokens["unit"] == "tokens" for split in check.splits.values())]
    first = (exact or checks)[0]
    return TaskSummary(
        name=task.name,
        labels=task.labels,
        pair=task.pair,
        rows={name: len(split) for name, split in task.splits.items()},
        balance={name: split.balance for name, split in first.splits.items() if split.labelled},
        tokens={name: split.tokens for name, split in first.splits.items()},
        refused={name: split.reason for name, split in task.splits.items() if not split.labelled},
        scored=task.scored_name,
        licence=task.licence,
        origin=task.origin,
        notes=tuple(task.notes),
        warnings=tuple(dict.fromkeys(warning for check in exact or checks for warning in check.warnings)),
    )
