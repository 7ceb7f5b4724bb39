"""A document as a study writes it, made of invented numbers that look like real ones; and a hostile one."""

import copy
import random
from typing import Any

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>",
    "W" * 5000,
    "שלום עולם: שורה מימין לשמאל \u202e evil",
    "🙂🔥 emoji 漢字" * 20,
    "</style></title><h1>out</h1>",
    "{{ 7 * 7 }}{% raw %}",
)


def _score(mean: float, std: float | None, digits: int = 4) -> dict[str, Any]:
    return {"mean": round(mean, digits), "std": None if std is None else round(std, digits)}


def _curves(draw: random.Random, seeds: int, final: float, rates: list[float], epochs: int) -> list[dict[str, Any]]:
    curves = []
    for seed in range(seeds):
        for rate in rates:
            worse = 0.02 * rates.index(rate)
            steps = range(1, epochs + 1)
            curves.append(
                {
                    "seed": seed,
                    "learning_rate": rate,
                    "epochs": list(steps),
                    "loss": [0.69 * 0.62 ** (step - 1) + draw.uniform(0, 0.03) + worse for step in steps],
                    "dev_accuracy": [
                        min(1.0, final - worse - 0.16 * 0.45**step + draw.uniform(-0.008, 0.008)) for step in steps
                    ],
                }
            )
    return curves


def row(
    task: str,
    name: str,
    mean: float,
    *,
    seeds: int = 3,
    rows: int = 853,
    labels: tuple[str, ...] = ("negative", "positive"),
    method: str = "scratch",
    baseline: bool = False,
    seconds: float = 40.0,
    rates: tuple[float, ...] = (5e-4,),
    epochs: int = 4,
    draw: random.Random | None = None,
    **more: Any,
) -> dict[str, Any]:
    draw = draw or random.Random(name)
    values = [mean + draw.uniform(-0.012, 0.012) * (seeds > 1) for _ in range(seeds)]
    centre = sum(values) / seeds
    half = 1.96 * (centre * (1 - centre) / rows) ** 0.5
    size = len(labels)
    each = max(1, rows * seeds // size)
    right = round(each * centre)
    matrix = [[right if a == b else (each - right) // max(1, size - 1) for b in range(size)] for a in range(size)]
    bins = [(low / 10 + 0.05, low / 10 + 0.05 - 0.02 * (low - 4), 0.04 + 0.08 * (low - 4)) for low in range(5, 10)]
    return {
        "task": task,
        "name": name,
        "model": None if baseline else "tiny",
        "method": method,
        "baseline": baseline,
        "guesses": method in ("random", "majority"),
        "deterministic": method in ("majority", "tfidf"),
        "seeds": list(range(seeds)),
        "split": "test",
        "accuracy": {
            **_score(centre, None if seeds == 1 else 0.007),
            "low": centre - half,
            "high": min(1.0, centre + half),
            "values": values,
            "counts_seeds": seeds > 1,
        },
        "macro_f1": _score(centre - 0.004, None if seeds == 1 else 0.008),
        "mcc": _score(2 * centre - 1, None if seeds == 1 else 0.014),
        "calibration_error": _score(0.061, None if seeds == 1 else 0.009),
        "temperature": {"mean": None if baseline else 1.43},
        "loss": _score(0.48, None if seeds == 1 else 0.02),
        "per_class": {
            label: {"precision": centre - 0.01, "recall": centre + 0.01, "f1": centre, "support": each // seeds}
            for label in labels
        },
        "confusion": matrix,
        "reliability": [
            {"confidence": sure, "accuracy": right, "share": share, "rows": round(share * rows)}
            for sure, right, share in bins
        ],
        "curves": [] if baseline else _curves(draw, seeds, mean, list(rates), epochs),
        "chosen": []
        if baseline
        else [{"seed": s, "learning_rate": rates[0], "epoch": epochs - 1} for s in range(seeds)],
        "trials": 0 if baseline else len(rates),
        "cost": {
            "seconds": seconds,
            "peak_memory_bytes": 310_000_000 + int(seconds * 4e6),
            "trained_parameters": 20_002 if baseline else 4_386_178,
            "examples_per_second": None if baseline else 1642.0,
        },
        "settings": {}
        if baseline
        else {"method": method, "batch": 32, "epochs": epochs, "dropout": 0.1, "learning_rates": list(rates)},
        "theirs": None,
        "note": None,
        **more,
    }


def _compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    pairs = []
    for index, first in enumerate(rows):
        for second in rows[index + 1 :]:
            effect = first["accuracy"]["mean"] - second["accuracy"]["mean"]
            real = abs(effect) > 0.034
            names = f"{first['name']} and {second['name']}"
            better, worse = (first, second) if effect > 0 else (second, first)
            pairs.append(
                {
                    "task": first["task"],
                    "first": first["name"],
                    "second": second["name"],
                    "effect": effect,
                    "low": effect - 0.034,
                    "high": effect + 0.034,
                    "p": 0.0004 if real else 0.31,
                    "corrected": 0.0008 if real else 0.62,
                    "smallest": 0.034,
                    "sentence": f"{better['name']} is better than {worse['name']} by {100 * abs(effect):.1f} points."
                    if real
                    else f"{names} cannot be told apart here.",
                }
            )
    return pairs


def _task(name: str, sizes: tuple[int, int, int], labels: tuple[str, ...], **more: Any) -> dict[str, Any]:
    rows = dict(zip(("train", "dev", "test"), sizes, strict=True))
    share = [0.5] * 2 if len(labels) == 2 else [1 / len(labels)] * len(labels)
    return {
        "name": name,
        "labels": list(labels),
        "pair": False,
        "rows": rows,
        "balance": {
            split: {label: round(size * part) for label, part in zip(labels, share, strict=True)}
            for split, size in rows.items()
        },
        "scored": "test",
        "refused": {},
        "licence": "MIT",
        "origin": f"{name}.csv, sentences of reviews",
        "said": ["12 rows that are twice in train were taken once."],
        "warnings": ["3 texts of test are in train too; they were left out of the score."],
        "errors": [],
        **more,
    }


def sample() -> dict[str, Any]:
    """Two tasks: one with everything, one of five labels whose test split was refused."""
    fives = ("very negative", "negative", "neutral", "positive", "very positive")
    movies = [
        row(
            "movies",
            "finetune minilm-l6",
            0.887,
            method="finetune",
            seconds=612.0,
            rates=(2e-5, 5e-5),
            theirs="72.1 / 81.6",
        ),
        row("movies", "scratch tiny", 0.809, seconds=41.2, theirs="70.15 / 74.35", epochs=6),
        row(
            "movies", "frozen minilm-l6", 0.813, method="frozen", seconds=55.0, note="head alone is trained; 512 tokens"
        ),
        row("movies", "tfidf", 0.818, seeds=1, method="tfidf", baseline=True, seconds=1.3),
        row("movies", "majority", 0.501, seeds=1, method="majority", baseline=True, seconds=0.02),
    ]
    stars = [
        row(
            "stars", "finetune minilm-l6", 0.506, labels=fives, rows=1101, split="dev", method="finetune", seconds=700.0
        ),
        row(
            "stars",
            "tfidf",
            0.403,
            labels=fives,
            rows=1101,
            split="dev",
            seeds=1,
            method="tfidf",
            baseline=True,
            seconds=2.0,
        ),
        row(
            "stars",
            "majority",
            0.262,
            labels=fives,
            rows=1101,
            split="dev",
            seeds=1,
            method="majority",
            baseline=True,
            seconds=0.03,
        ),
    ]
    texts = [
        "a gorgeous, witty, seductive movie that never quite becomes the masterpiece it wants to be",
        "you could say that it was slow studio sausage, and you would be right, and still",
        "not a bad way to spend an evening",
        "so busy making reference to other films and trying to be other films that it fails to have a heart",
    ]
    return {
        "format": 1,
        "pocketbert": "0.1.0",
        "name": "movies",
        "preset": None,
        "again": "pocketbert study movies stars --seeds 3 --rows 'scratch tiny,frozen minilm-l6,tfidf,majority'",
        "verdicts": [
            "On movies, finetune minilm-l6 is the best: 88.2 %, at least 3.0 points above every other row.",
            "scratch tiny, frozen minilm-l6 and tfidf cannot be told apart here: with 853 test rows a difference below "
            "3.4 points stays unseen.",
            "On stars, finetune minilm-l6 beats tfidf by 9.8 points; scored on dev: the test labels are placeholders.",
        ],
        "tasks": [
            _task("movies", (6824, 853, 853), ("negative", "positive")),
            _task(
                "stars",
                (8544, 1101, 488),
                fives,
                scored="dev",
                refused={"test": "all 488 labels are 0 while train has 5 classes: placeholders"},
                warnings=[],
            ),
        ],
        "rows": movies + stars,
        "comparisons": _compared(movies) + _compared(stars),
        "mistakes": [
            {
                "task": "movies" if index < 4 else "stars",
                "row": "finetune minilm-l6",
                "text": text,
                "second": None,
                "label": "negative" if index % 2 else "positive",
                "prediction": "positive" if index % 2 else "negative",
                "probability": 0.999 - 0.004 * index,
                "wrong": "3 of 3 seeds",
            }
            for index, text in enumerate(texts + texts[:2])
        ],
        "published": [
            {
                "title": "SST-5, accuracy dev / test",
                "columns": ["run", "theirs", "ours"],
                "rows": [["frozen", "0.390 / 0.404", "0.391 / 0.402"], ["finetune", "0.515 / 0.526", "0.506 / –"]],
                "differs": "theirs is BERT-base, ours has a fifth of its parameters.",
            }
        ],
        "probes": [
            {
                "task": "movies",
                "row": "finetune minilm-l6",
                "columns": ["text", "prediction", "probability"],
                "rows": [["not bad at all", "positive", 0.981], ["it was never boring", "negative", 0.702]],
            }
        ],
        "predicted": [
            {
                "task": "movies",
                "file": "hidden.csv",
                "out": "predictions/hidden.csv",
                "row": "finetune minilm-l6",
                "rows": 100,
            }
        ],
        "failures": [{"run": "stars, scratch tiny, seed 1", "error": "stopped: the disk was full"}],
        "versions": {"python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6", "tokenizers": "0.23.3"},
        "machine": {"processor": "x86_64", "cores": 2, "memory_bytes": 8_200_000_000},
        "seconds": 2140.0,
        "workers": 2,
        "rule": "best dev accuracy over epochs and learning rates; ties: the earlier epoch; test scored once",
    }


def hostile() -> dict[str, Any]:
    """The sample with every text replaced by something that tries to get out of its place."""
    document = copy.deepcopy(sample())
    names = {name: HOSTILE[index % len(HOSTILE)] for index, name in enumerate(_names(document))}
    spoilt = _spoil(document, names)
    spoilt["tasks"][0]["labels"] = [names["negative"], names["positive"]]
    return spoilt


def _names(document: dict[str, Any]) -> list[str]:
    found = {row["name"] for row in document["rows"]} | {task["name"] for task in document["tasks"]}
    found |= {label for task in document["tasks"] for label in task["labels"]}
    return sorted(found)


def _spoil(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(key, key): _spoil(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_spoil(item, names) for item in value]
    if isinstance(value, str) and value not in ("test", "dev", "train", "majority"):
        return names.get(value, HOSTILE[len(value) % len(HOSTILE)])
    return value


def large(rows: int, seeds: int, epochs: int = 10) -> dict[str, Any]:
    """A study of many runs: every pair compared."""
    draw = random.Random(0)
    document = sample()
    made = [
        row("movies", f"row {index}", 0.6 + 0.3 * index / rows, seeds=seeds, epochs=epochs, draw=draw)
        for index in range(rows)
    ]
    made.append(row("movies", "majority", 0.501, seeds=1, method="majority", baseline=True, seconds=0.02))
    return {**document, "tasks": document["tasks"][:1], "rows": made, "comparisons": _compared(made)}


def wide() -> dict[str, Any]:
    """Tables that no phone is wide enough for: twelve labels, and probes with many columns."""
    labels = tuple(f"department {index}" for index in range(12))
    document = sample()
    columns = [f"column {index}" for index in range(12)]
    return {
        **document,
        "tasks": [_task("mail", (6000, 600, 600), labels)],
        "rows": [row("mail", "ours", 0.7, labels=labels), row("mail", "other", 0.6, labels=labels, seconds=2.0)],
        "probes": [{"task": "mail", "row": "ours", "columns": columns, "rows": [columns]}],
    }
