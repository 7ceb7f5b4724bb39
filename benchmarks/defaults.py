"""How many epochs, and how large a batch, for how many rows? Fine-tuning on subsets, judged by the task's dev.

`python -m benchmarks.defaults run --tasks sst2,sick --rows 200,500 --settings 4x32,10x8 --out FILE`
trains on drawn rows (a tenth of them is held out to choose the epoch, as a user's file would be), scores on the task's
official dev split, and appends one line of JSON per training. A second call goes on where the first one stopped.
`python -m benchmarks.defaults table FILE` prints means over draws. No test split is read.
"""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pocketbert import load_task
from pocketbert.loading import load_model
from pocketbert.methods import DataSize, get_method
from pocketbert.tasks import Split, Task
from pocketbert.training.job import Job, JobTask
from pocketbert.training.machine import computing

DEV = 0.1  # of the drawn rows


def scored_split(task: Task) -> Split:
    """Where the official dev is not there, a fixed fifth of the training rows stands for it."""
    return task.split("dev")


def one(task: Task, model: str, rows: int, settings: str, draw: int) -> dict[str, Any]:
    """`settings`: epochs x batch size, and a factor of the default rate after another x; `default` is the package's."""
    random = np.random.default_rng([rows, draw])
    chosen = random.permutation(len(task.train))[:rows]
    held = max(2, round(DEV * rows))
    train, dev = task.train.take(np.sort(chosen[held:])), task.train.take(np.sort(chosen[:held]))
    method, start = get_method("finetune"), load_model(model)
    told: dict[str, Any] = {"seed": draw, "threads": 1}
    size = DataSize(len(train), len(task.labels))
    if settings != "default":
        epochs, batch, *factor = settings.split("x")
        told |= {"epochs": int(epochs), "batch_size": int(batch)}
        if factor:
            usual = method.resolve(method.read(told), start, size)
            told["learning_rate"] = float(factor[0]) * usual.rates[0]  # type: ignore[attr-defined]
    resolved = method.resolve(method.read(told), start, size)
    began = time.perf_counter()
    with computing(1):
        trained = method.fit(Job((JobTask(task.name, task.labels, train, dev),), resolved, start))
        target = scored_split(task)
        said = trained.fitted.predict(target).probabilities.argmax(axis=1)
    assert target.labels is not None
    return {
        "task": task.name,
        "model": model,
        "rows": rows,
        "settings": settings,
        "draw": draw,
        "accuracy": float((said == target.labels).mean()),
        "one_class": bool(len(np.unique(said)) == 1),
        "majority": float(np.bincount(target.labels).max() / len(target.labels)),
        "seconds": time.perf_counter() - began,
    }


def _known(path: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {tuple(line[name] for name in ("task", "model", "rows", "settings", "draw")): line for line in lines}


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    known = _known(options.out)
    for rows in map(int, options.rows.split(",")):
        for model in options.models.split(","):
            for name in options.tasks.split(","):
                task = load_task(name)
                for settings in options.settings.split(","):
                    for draw in range(options.draws):
                        if (name, model, rows, settings, draw) not in known:
                            line = one(task, model, rows, settings, draw)
                            with options.out.open("a") as file:
                                file.write(json.dumps(line) + "\n")


def table(options: argparse.Namespace) -> None:
    """Means over draws; behind each how many of them predict one class only, where any does."""
    cells: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for line in _known(options.out).values():
        cells[line["task"], line["model"], line["rows"], line["settings"]].append(line)
    settings = list(dict.fromkeys(key[3] for key in cells))
    print("| task | model | rows | " + " | ".join(settings) + " |")
    print("|---" * (3 + len(settings)) + "|")
    for task, model, rows in sorted({key[:3] for key in cells}):
        row = []
        for each in settings:
            found = cells.get((task, model, rows, each), [])
            mean = f"{100 * np.mean([one['accuracy'] for one in found]):.1f}" if found else "–"
            stuck = sum(one["one_class"] for one in found)
            row.append(mean + (f" ({stuck} of {len(found)} one class)" if stuck else ""))
        print(f"| {task} | {model} | {rows:,} | " + " | ".join(row) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    for name, function in (("run", run), ("table", table)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        if name == "run":
            command.add_argument("--tasks", default="sst2,sick")
            command.add_argument("--models", default="pocket-tiny")
            command.add_argument("--rows", default="200,500,1000,2000")
            command.add_argument("--settings", default="4x32,10x32,10x8,15x8")
            command.add_argument("--draws", type=int, default=2)
            command.add_argument("--out", type=Path, required=True, metavar="FILE")
        else:
            command.add_argument("out", type=Path, metavar="FILE")
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    main()
