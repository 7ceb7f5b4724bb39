"""A document as a study writes it, made of invented numbers that look like real ones; and a hostile one."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

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
    Predicted,
    Probe,
    Published,
    Recommended,
    RowResults,
    Score,
    Setting,
    Spread,
    Suspect,
    TaskSummary,
)

HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>",
    "W" * 5000,
    "שלום עולם: שורה מימין לשמאל \u202e evil",
    "🙂🔥 emoji 漢字" * 20,
    "</style></title><h1>out</h1>",
    "{{ 7 * 7 }}{% raw %}",
)


def _spread(mean: float, std: float, seeds: int) -> Spread:
    return Spread(round(mean, 4), None if seeds == 1 else round(std, 4))


def _score(mean: float, std: float, half: float, trainings: int, rows: int, values: tuple[float, ...] = ()) -> Score:
    return Score(
        **vars(_spread(mean, std, trainings)),
        low=mean - half,
        high=min(1.0, mean + half),
        draws=trainings,
        trainings=trainings,
        examples=rows,
        clusters=rows,
        degrees_of_freedom=None,
        example_noise=half / 1.96,
        training_noise=0.003,
        counts_training_noise=trainings > 1,
        values=values,
    )


def _curves(draw: random.Random, seeds: int, final: float, rates: tuple[float, ...], epochs: int) -> Iterator[Curve]:
    for seed in range(seeds):
        for number, rate in enumerate(rates):
            worse = 0.02 * number
            steps = tuple(range(1, epochs + 1))
            loss = tuple(0.69 * 0.62 ** (step - 1) + draw.uniform(0, 0.03) + worse for step in steps)
            accuracy = (final - worse - 0.16 * 0.45**step + draw.uniform(-0.008, 0.008) for step in steps)
            yield Curve(seed, rate, steps, loss, tuple(min(1.0, value) for value in accuracy))


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
    split: str = "test",
    theirs: str | None = None,
    note: str | None = None,
) -> RowResults:
    draw = draw or random.Random(name)
    values = tuple(mean + draw.uniform(-0.012, 0.012) * (seeds > 1) for _ in range(seeds))
    centre = sum(values) / seeds
    half = 1.96 * (centre * (1 - centre) / rows) ** 0.5
    size = len(labels)
    each = max(1, rows * seeds // size)
    right = round(each * centre)
    wrong = (each - right) // max(1, size - 1)
    bins = [(low / 10 + 0.05, low / 10 + 0.05 - 0.02 * (low - 4), 0.04 + 0.08 * (low - 4)) for low in range(5, 10)]
    settings: dict[str, Setting] = {
        "method": method,
        "batch": 32,
        "epochs": epochs,
        "dropout": 0.1,
        "learning_rate": rates,
    }
    return RowResults(
        task=task,
        name=name,
        model=None if baseline else "tiny",
        method=method,
        baseline=baseline,
        guesses=method in ("random", "majority"),
        deterministic=method in ("majority", "tfidf"),
        seeds=tuple(range(seeds)),
        missing=0,
        split=split,
        accuracy=_score(centre, 0.007, half, seeds, rows, values),
        macro_f1=_score(centre - 0.004, 0.008, half, seeds, rows),
        mcc=_score(2 * centre - 1, 0.014, 2 * half, seeds, rows),
        calibration_error=_spread(0.061, 0.009, seeds),
        loss=_spread(0.48, 0.02, seeds),
        temperature=Spread(None if baseline else 1.43),
        dev=None,
        per_class={label: ClassScores(centre - 0.01, centre + 0.01, centre, each / seeds) for label in labels},
        confusion=tuple(tuple(right if a == b else wrong for b in range(size)) for a in range(size)),
        reliability=tuple(Bin(sure, hit, share, round(share * rows)) for sure, hit, share in bins),
        curves=() if baseline else tuple(_curves(draw, seeds, mean, rates, epochs)),
        chosen=tuple(Chosen(seed) if baseline else Chosen(seed, rates[0], epochs - 1) for seed in range(seeds)),
        trials=0 if baseline else len(rates),
        truncated=0,
        cost=Cost(
            seconds=seconds,
            peak_memory_bytes=310_000_000 + int(seconds * 4e6),
            trained_parameters=20_002 if baseline else 4_386_178,
            examples_per_second=None if baseline else 1642.0,
        ),
        settings={} if baseline else settings,
        folders=tuple(f"{task}-{method}-seed{seed}" for seed in range(seeds)),
        theirs=theirs,
        note=note,
        collapsed=0,
        undertrained=0,
    )


def pair(first: str, second: str, effect: float, **more: Any) -> ComparisonResult:
    significant = abs(effect) > 0.034
    words = "is better than" if significant else "has no significant difference from"
    usual = ComparisonResult(
        task="movies",
        first=first,
        second=second,
        effect=effect,
        low=effect - 0.034,
        high=effect + 0.034,
        p_value=0.0004 if significant else 0.31,
        corrected=0.0008 if significant else 0.62,
        significant=significant,
        detectable=0.034,
        degrees_of_freedom=3.2,
        trainings=(3, 3),
        examples=853,
        counts_training_noise=True,
        mcnemar=None,
        sentence=f"{first} {words} {second}: {100 * abs(effect):.1f} points.",
    )
    return replace(usual, **more)


def _compared(rows: Sequence[RowResults]) -> tuple[ComparisonResult, ...]:
    return tuple(
        pair(first.name, second.name, first.accuracy.mean - second.accuracy.mean, task=first.task)
        for first, second in itertools.combinations(rows, 2)
    )


def task_summary(name: str, sizes: tuple[int, int, int], labels: tuple[str, ...], **more: Any) -> TaskSummary:
    rows = dict(zip(("train", "dev", "test"), sizes, strict=True))
    usual = TaskSummary(
        name=name,
        labels=labels,
        pair=False,
        rows=rows,
        balance={split: dict.fromkeys(labels, round(size / len(labels))) for split, size in rows.items()},
        tokens={split: {"unit": "tokens", "p50": 21, "max": 64} for split in rows},
        refused={},
        scored="test",
        licence="MIT",
        origin=f"{name}.csv, sentences of reviews",
        notes=("12 rows that are twice in train were taken once.",),
        warnings=("3 texts of test are in train too; they were left out of the score.",),
    )
    return replace(usual, **more)


def sample() -> Document:
    """Two tasks: one with everything, one of five labels whose test split was refused."""
    fives = ("very negative", "negative", "neutral", "positive", "very positive")
    usual: dict[str, Any] = {"method": "finetune", "rates": (2e-5, 5e-5), "theirs": "72.1 / 81.6"}
    movies = (
        row("movies", "finetune minilm-l6", 0.887, seconds=612.0, **usual),
        row("movies", "scratch tiny", 0.809, seconds=41.2, theirs="70.15 / 74.35", epochs=6),
        row("movies", "frozen minilm-l6", 0.813, method="frozen", seconds=55.0, note="head alone is trained"),
        row("movies", "tfidf", 0.818, seeds=1, method="tfidf", baseline=True, seconds=1.3),
        row("movies", "majority", 0.501, seeds=1, method="majority", baseline=True, seconds=0.02),
    )
    on_dev: dict[str, Any] = {"labels": fives, "rows": 1101, "split": "dev"}
    stars = (
        row("stars", "finetune minilm-l6", 0.506, method="finetune", seconds=700.0, **on_dev),
        row("stars", "tfidf", 0.403, seeds=1, method="tfidf", baseline=True, seconds=2.0, **on_dev),
        row("stars", "majority", 0.262, seeds=1, method="majority", baseline=True, seconds=0.03, **on_dev),
    )
    refused = {"test": "all 488 labels are 0 while train has 5 classes: placeholders"}
    texts = (
        "a gorgeous, witty, seductive movie that never quite becomes the masterpiece it wants to be",
        "you could say that it was slow studio sausage, and you would be right, and still",
        "not a bad way to spend an evening",
        "so busy making reference to other films and trying to be other films that it fails to have a heart",
    )
    mistakes = [
        Mistake(
            task="movies" if index < 4 else "stars",
            row="finetune minilm-l6",
            text=text,
            second_text="a second text" if index == 1 else None,
            label="negative" if index % 2 else "positive",
            prediction="positive" if index % 2 else "negative",
            probability=0.999 - 0.004 * index,
            wrong="3 of 3 seeds",
        )
        for index, text in enumerate(texts + texts[:2])
    ]
    return Document(
        pocketbert="0.1.0",
        name="movies",
        preset=None,
        again="pocketbert study movies stars --seeds 3 --rows 'scratch tiny,frozen minilm-l6,tfidf,majority'",
        workers=2,
        seconds=2140.0,
        verdicts=(
            "On movies, finetune minilm-l6 has the highest accuracy: 88.2 % (86.0 to 90.3).",
            "It beats scratch tiny by 7.8 points (4.4 to 11.2).",
            "On stars, finetune minilm-l6 has the highest accuracy; scored on dev: the test labels are placeholders.",
        ),
        rule="best dev accuracy over epochs and learning rates; ties: the earlier epoch; test scored once",
        tasks=(
            task_summary("movies", (6824, 853, 853), ("negative", "positive")),
            task_summary("stars", (8544, 1101, 488), fives, scored="dev", refused=refused, warnings=()),
        ),
        rows=movies + stars,
        comparisons=_compared(movies) + _compared(stars),
        mistakes=tuple(mistakes),
        metric="accuracy",
        recommended=(
            Recommended(
                task="movies",
                row="finetune minilm-l6",
                best="finetune minilm-l6",
                margin=0.01,
                p_value=None,
                promised=_score(0.881, 0.008, 0.022, 3, 853),
                chosen=("finetune minilm-l6",) * 5,
                final="final",
                sentence="Recommended: finetune minilm-l6; it has the highest score.",
            ),
        ),
        suspects=(
            Suspect("movies", 17, "a triumph of dullness", None, "positive", "negative", 0.03, "4 of 4"),
            Suspect("stars", 5, "fine", "and well", "0", "4", 0.11, "2 of 3"),
        ),
        failures=(Failure("stars, scratch tiny, seed 1", "stopped: the disk was full"),),
        notes=("minilm-l6 stands in for a larger model",),
        versions={"python": "3.11.7", "torch": "2.13.0", "numpy": "2.4.6", "tokenizers": "0.23.3"},
        machine=Machine("Linux", "x86_64", 2),
        published=(
            Published(
                title="SST-5, accuracy dev / test",
                columns=("run", "theirs", "ours"),
                rows=(("frozen", "0.390 / 0.404", "0.391 / 0.402"), ("finetune", "0.515 / 0.526", "0.506 / –")),
                differs="theirs is BERT-base, ours has a fifth of its parameters.",
            ),
        ),
        probes=(
            Probe(
                task="movies",
                row="finetune minilm-l6",
                columns=("text", "prediction", "probability"),
                rows=(("not bad at all", "positive", "98 %"), ("it was never boring", "negative", "70 %")),
            ),
        ),
        predicted=(Predicted("movies", "hidden.csv", "predictions/hidden.csv", "finetune minilm-l6", 100),),
    )


def hostile() -> Document:
    """The sample with every text replaced by something that tries to get out of its place."""
    texts = {"test": "test", "dev": "dev", "train": "train"}
    return _spoil(sample(), texts)


def _spoil(value: Any, texts: dict[str, str]) -> Any:
    """Each text by another, the same by the same: names of rows, tasks and labels must still fit each other."""
    if isinstance(value, str):
        return texts.setdefault(value, f"{HOSTILE[len(texts) % len(HOSTILE)]} {len(texts)}")
    if isinstance(value, dict):
        return {_spoil(key, texts): _spoil(one, texts) for key, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_spoil(one, texts) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _spoil(getattr(value, field.name), texts) for field in fields(value)})
    return value


def large(rows: int, seeds: int, epochs: int = 10) -> Document:
    """A study of many runs: every pair compared."""
    draw = random.Random(0)
    made = [
        row("movies", f"row {index}", 0.6 + 0.3 * index / rows, seeds=seeds, epochs=epochs, draw=draw)
        for index in range(rows)
    ]
    made.append(row("movies", "majority", 0.501, seeds=1, method="majority", baseline=True, seconds=0.02))
    return of_movies(rows=tuple(made), comparisons=_compared(made))


def of_movies(**more: Any) -> Document:
    """The sample with its first task alone."""
    document = sample()
    of_task = {
        name: tuple(one for one in getattr(document, name) if one.task == "movies")
        for name in ("rows", "comparisons", "mistakes", "recommended", "suspects")
    }
    return replace(document, **{"tasks": document.tasks[:1], **of_task, **more})


def bare() -> Document:
    """A study of which nothing is finished."""
    return replace(
        sample(),
        **{field.name: () for field in fields(Document) if isinstance(getattr(sample(), field.name), tuple)},
        again=None,
    )


def wide() -> Document:
    """Tables that no phone is wide enough for: twelve labels, and probes with many columns."""
    labels = tuple(f"department {index}" for index in range(12))
    columns = tuple(f"column {index}" for index in range(12))
    return replace(
        sample(),
        tasks=(task_summary("mail", (6000, 600, 600), labels),),
        rows=(row("mail", "ours", 0.7, labels=labels), row("mail", "other", 0.6, labels=labels, seconds=2.0)),
        comparisons=(),
        mistakes=(),
        recommended=(),
        suspects=(),
        probes=(Probe("mail", "ours", columns, (columns,)),),
    )
