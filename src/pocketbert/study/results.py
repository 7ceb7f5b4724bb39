"""From finished runs to numbers: one plain document that the tables, the report and study.json are made of."""

import itertools
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

import numpy as np

from pocketbert import __version__, metrics
from pocketbert.methods import get_method
from pocketbert.runs import scored_split
from pocketbert.study import statistics, wording
from pocketbert.study.plan import Plan, PlannedRun, Row
from pocketbert.study.store import Store, read_predictions
from pocketbert.tasks import Split, Task

RULE = (
    "the epoch and the learning rate with the best dev accuracy (ties: the earlier epoch, then the rate listed first); "
    "the test split is scored once, after that choice"
)
MISTAKES = 5  # of each task, that are shown
VERSIONS = ("torch", "tokenizers", "safetensors", "numpy", "scipy", "scikit-learn")
SCORES = ("macro_f1", "mcc", "calibration_error", "loss")


def gather(plan: Plan, store: Store, failures: Sequence[tuple[PlannedRun, str]] = ()) -> dict[str, Any]:
    """Everything the finished runs of a plan say."""
    rows, mistakes, comparisons, verdicts = [], [], [], []
    for name, task in plan.tasks.items():
        split = scored_split(task)
        outcomes: dict[str, statistics.Outcomes] = {}
        of_task = []
        for number, row in enumerate(plan.rows):
            if row.task != name:
                continue
            runs = [run for run in plan.of_row(number) if store.finished(run)]
            if not runs:
                continue
            about, found, confident = _row(row, runs, store, task, split)
            of_task.append(about)
            outcomes[row.name] = found
            mistakes += confident
        pairs = _compare(outcomes, {about["name"] for about in of_task if about["guesses"]})
        compared = [_comparison(name, *both, result, outcomes) for both, result in pairs.items()]
        lost = [run for run, _ in failures if run.task == name]
        if lost:
            verdicts.append(f"On {name}, {len(lost)} runs failed; they are not in these numbers.")
        verdicts += verdict(task, split, of_task, compared, several=len(plan.tasks) > 1)
        rows += of_task
        comparisons += compared
    return {
        "format": 1,
        "pocketbert": __version__,
        "verdicts": verdicts,
        "rule": RULE,
        "tasks": [about_task(task, plan) for task in plan.tasks.values()],
        "rows": rows,
        "comparisons": comparisons,
        "mistakes": mistakes,
        "failures": [{"run": run.folder, "error": error} for run, error in failures],
        "said": list(plan.said),
        "versions": {"python": platform.python_version()} | {name: metadata.version(name) for name in VERSIONS},
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
    }


def _compare(
    outcomes: dict[str, statistics.Outcomes], guesses: set[str]
) -> dict[tuple[str, str], statistics.Comparison]:
    """Two families, each corrected for its own size: contenders among themselves, and each of them against guessing.

    Otherwise the price of asking "is it better than a coin?" would be paid by the questions a person has.
    """
    contenders = [name for name in outcomes if name not in guesses]
    among = list(itertools.combinations(contenders, 2))
    against = [(name, guess) for name in contenders for guess in outcomes if guess in guesses]
    return {**statistics.compare_all(outcomes, among), **statistics.compare_all(outcomes, against)}


def _row(
    row: Row, runs: list[PlannedRun], store: Store, task: Task, split: str
) -> tuple[dict[str, Any], statistics.Outcomes, list[dict[str, Any]]]:
    """A table row from its runs: (what it says, its predictions, its most certain mistakes)."""
    texts = task.split(split)
    labels = texts.labels
    assert labels is not None
    predictions, on_dev, written, temperatures = [], [], [], []
    pooled = np.zeros((len(labels), len(task.labels)))
    reliability = []
    for run in runs:
        found = store.load(run)
        probabilities, _ = read_predictions(found, split)
        predictions.append(probabilities.argmax(axis=1))
        written.append(found.metrics)
        pooled += probabilities / len(runs)
        reliability.append((probabilities, labels))
        dev = task.splits.get("dev")
        if dev is not None and dev.labels is not None and len(dev):
            told, _ = read_predictions(found, "dev")
            temperatures.append(metrics.temperature(told, dev.labels))
            on_dev.append(told.argmax(axis=1))
    seeded = get_method(row.method).seeded
    outcomes = statistics.Outcomes(np.array(predictions), labels, seeded=seeded)
    correct = outcomes.correct
    scores = [one["scores"][split] for one in written]
    matrix = np.sum([score["confusion"] for score in scores], axis=0)
    classes = metrics.per_class(matrix)
    costs = [one["cost"] for one in written]
    dev_labels = task.splits["dev"].labels if on_dev else None
    speeds = [cost["examples_per_second"] for cost in costs if cost["examples_per_second"]]
    about = {
        "task": row.task,
        "name": row.name,
        "model": row.model,
        "method": row.method,
        "baseline": row.baseline,
        "guesses": not get_method(row.method).reads_texts,
        "deterministic": not seeded,
        "seeds": [run.settings.seed for run in runs],
        "missing": row.seeds - len(runs),
        "split": split,
        "accuracy": {**_estimate(outcomes), "values": correct.mean(axis=1).tolist()},
        **{name: _spread([score[name] for score in scores]) for name in SCORES},
        "temperature": {"mean": _mean(temperatures)},
        "per_class": {
            name: {**one, "support": one["support"] / len(runs)} for name, one in zip(task.labels, classes, strict=True)
        },
        "confusion": matrix.tolist(),
        "reliability": metrics.reliability(
            np.concatenate([one for one, _ in reliability]), np.concatenate([one for _, one in reliability])
        ),
        "curves": [curve for one in written for curve in _curves(one["history"])],
        "chosen": [{"seed": run.settings.seed, **one["best"]} for run, one in zip(runs, written, strict=True)],
        "dev": None
        if dev_labels is None
        else _estimate(statistics.Outcomes(np.array(on_dev), dev_labels, seeded=seeded)),
        "trials": max(one["trials"] for one in written),
        "truncated": max(score.get("truncated", 0) for score in scores),
        "cost": {
            "seconds": _mean([cost["seconds"] for cost in costs]),
            "peak_memory_bytes": max(cost["peak_memory_bytes"] for cost in costs),
            "trained_parameters": max(cost["trained_parameters"] for cost in costs),
            "examples_per_second": _mean(speeds),
        },
        "settings": {name: value for name, value in runs[0].settings.to_dict().items() if name != "seed"},
        "folders": [run.folder for run in runs],
        "theirs": row.theirs,
        "note": row.note,
    }
    return about, outcomes, [] if row.baseline else _mistakes(row, texts, task.labels, pooled, correct)


def _mistakes(
    row: Row, texts: Split, names: tuple[str, ...], pooled: np.ndarray, correct: np.ndarray
) -> list[dict[str, Any]]:
    """The texts a row was most certain about, and wrong: often the label is what is wrong."""
    assert texts.labels is not None
    wrong = np.flatnonzero(pooled.argmax(axis=1) != texts.labels)
    worst = wrong[np.argsort(-pooled[wrong].max(axis=1), kind="stable")][:MISTAKES]
    seeds = len(correct)
    return [
        {
            "task": row.task,
            "row": row.name,
            "text": texts.texts[place],
            "second": None if texts.seconds is None else texts.seconds[place],
            "label": names[texts.labels[place]],
            "prediction": names[int(pooled[place].argmax())],
            "probability": float(pooled[place].max()),
            "wrong": f"{seeds - int(correct[:, place].sum())} of {seeds} seeds",
        }
        for place in worst.tolist()
    ]


def _curves(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One curve a seed and rate."""
    curves: dict[tuple[int, float], dict[str, Any]] = {}
    for record in history:
        curve = curves.setdefault(
            (record["seed"], record["rate"]),
            {"seed": record["seed"], "learning_rate": record["rate"], "epochs": [], "loss": [], "dev_accuracy": []},
        )
        curve["epochs"].append(record["epoch"])
        curve["loss"].append(record["loss"])
        curve["dev_accuracy"].append(record["dev_accuracy"])
    return list(curves.values())


def _estimate(outcomes: statistics.Outcomes) -> dict[str, Any]:
    found = vars(statistics.estimate(outcomes))
    return {**found, "seeds": outcomes.draws, "counts_seeds": found["counts_training_noise"]}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    """Mean, and standard deviation over seeds where there are several."""
    return {"mean": _mean(values), "std": float(np.std(values, ddof=1)) if len(values) > 1 else None}


def _comparison(
    task: str, first: str, second: str, result: statistics.Comparison, outcomes: dict[str, statistics.Outcomes]
) -> dict[str, Any]:
    """Two rows, the better one first. Two single runs also have an exact test."""
    if result.effect < 0:
        result = replace(result, effect=-result.effect, low=-result.high, high=-result.low)
        first, second = second, first
    one, two = outcomes[first], outcomes[second]
    single = one.draws == two.draws == 1
    return {
        "task": task,
        "first": first,
        "second": second,
        "effect": result.effect,
        "low": result.low,
        "high": result.high,
        "p": result.p_value,
        "corrected": result.corrected_p_value,
        "smallest": result.detectable_effect,
        "freedom": result.degrees_of_freedom,
        "counts_seeds": result.counts_training_noise,
        "mcnemar": statistics.mcnemar(one.correct, two.correct) if single else None,
        "sentence": wording.comparison_in_words(first, second, result),
    }


def about_task(task: Task, plan: Plan) -> dict[str, Any]:
    """What was learnt from and scored on, with everything there is to say about the data."""
    rows = [number for number, row in enumerate(plan.rows) if row.task == task.name]
    checks = [plan.checks[number] for number in rows]
    exact = [check for check in checks if any(split.tokens["unit"] == "tokens" for split in check.splits.values())]
    first = (exact or checks)[0]
    return {
        "name": task.name,
        "labels": list(task.labels),
        "pair": task.pair,
        "rows": {name: len(split) for name, split in task.splits.items()},
        "balance": {name: split.balance for name, split in first.splits.items() if split.labelled},
        "tokens": {name: split.tokens for name, split in first.splits.items()},
        "scored": scored_split(task),
        "refused": {name: split.reason for name, split in task.splits.items() if not split.labelled},
        "licence": task.licence,
        "origin": task.origin,
        "said": list(task.said),
        "warnings": list(dict.fromkeys(warning for check in exact or checks for warning in check.warnings)),
        "errors": [],
    }


def verdict(
    task: Task, split: str, rows: list[dict[str, Any]], comparisons: list[dict[str, Any]], *, several: bool
) -> list[str]:
    """What a person wants to know first, in words: which is best, what it surely beats, would a baseline do?"""
    if not rows:
        return [f"{task.name}: no run is finished yet."]
    best = max(rows, key=lambda row: row["accuracy"]["mean"])
    score = best["accuracy"]
    where = f"On {task.name}, " if several else ""
    chosen = ""
    if split != "test":
        chosen = ", on dev: there are no test labels to score"
        chosen += "" if best["baseline"] else ", and dev also chose its epoch"
    sentences = [
        f"{where}{best['name']} has the highest accuracy: {100 * score['mean']:.1f} % "
        f"({100 * score['low']:.1f} to {100 * score['high']:.1f}){chosen}."
    ]
    contenders = [row["name"] for row in rows if not row["guesses"]]
    sentences += _against(best["name"], contenders, comparisons, "It")
    plain = [row for row in rows if row["baseline"] and row["name"] in contenders]
    if plain and best not in plain:
        name = max(plain, key=lambda row: row["accuracy"]["mean"])["name"]
        rest = [other for other in contenders if other not in (name, best["name"])]
        sentences += _against(name, rest, comparisons, f"The baseline {name}")
    unsure = any(one["corrected"] >= statistics.LEVEL for one in comparisons)
    if unsure and any(1 < len(row["seeds"]) < 5 for row in rows):
        sentences.append("Five seeds or more would show smaller differences.")
    if any(not row["accuracy"]["counts_seeds"] for row in rows):
        sentences.append("Some rows have one seed: their intervals say nothing about other seeds.")
    return sentences


def _against(name: str, others: list[str], comparisons: list[dict[str, Any]], subject: str) -> list[str]:
    """One row against others, in at most three sentences: beats, is beaten by, has no significant difference from."""
    beats: list[str] = []
    beaten: list[str] = []
    even: list[str] = []
    missed: list[float] = []  # how large a difference could have been, and not be seen
    for one in comparisons:
        if name not in (one["first"], one["second"]):
            continue
        other = one["second"] if one["first"] == name else one["first"]
        if other not in others:
            continue
        if one["corrected"] < statistics.LEVEL:
            text = wording.effect_in_words(one["effect"], one["low"], one["high"])
            (beats if one["first"] == name else beaten).append(f"{other} by {text}")
        else:
            even.append(other)
            missed.append(one["smallest"])
    sentences = [f"{subject} beats {_listing(beats)}."] if beats else []
    sentences += [f"{subject} is beaten by {_listing(beaten)}."] if beaten else []
    if even:
        told = wording.missed_in_words(missed)
        sentences.append(f"{subject} has no significant difference from {_listing(even)}: {told}.")
    return sentences


def _listing(parts: list[str]) -> str:
    shown = parts[:4] + ([f"{len(parts) - 4} more"] if len(parts) > 4 else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
