"""Very little data: 8 to 64 examples per class. SetFit beside our methods: the same draws, the same body (MiniLM).

`python -m benchmarks.few_shot ours --out FILE` and, with the Python of an environment that has SetFit (`python -m venv
X && X/bin/pip install setfit torch==2.13.0`), `X/bin/python benchmarks/few_shot.py theirs --data FILE.draws --out FILE`
append a line of JSON per training; `python -m benchmarks.few_shot table FILE` prints means over draws. SetFit's pairs
are capped, as is usual on CPUs; both sides use one thread. `ours` writes the draws that `theirs` reads.
"""

import argparse
import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

SIZES = (8, 16, 32, 64)  # examples per class
DRAWS = 5
SCORED = 1_000  # test texts
PAIRS, MOST_STEPS = 16, 160  # of SetFit's contrastive training: pairs per step, and steps
OURS = (
    ("tfidf", None),
    ("frozen", "pocket-mini"),
    ("frozen", "minilm-l6"),
    ("finetune", "pocket-mini"),
    ("finetune", "minilm-l6"),
)


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _known(path: Path) -> set[tuple[Any, ...]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(line["task"], line["size"], line["draw"], line["row"]) for line in lines}


def _draw(name: str, size: int, draw: int) -> dict[str, Any]:
    import numpy as np

    from pocketbert import load_task

    task = load_task(name)
    random = np.random.default_rng([size, draw])
    train = task.train
    assert train.labels is not None
    chosen = [random.permutation(np.flatnonzero(train.labels == label))[:size] for label in range(len(task.labels))]
    rows = random.permutation(np.concatenate(chosen))
    test = task.split("test")
    assert test.labels is not None
    scored = np.random.default_rng(0).permutation(len(test))[:SCORED]
    return {
        "task": name,
        "size": size,
        "draw": draw,
        "train": [train.texts[row] for row in rows],
        "labels": train.labels[rows].tolist(),
        "test": [test.texts[row] for row in scored],
        "test_labels": test.labels[scored].tolist(),
    }


def ours(options: argparse.Namespace) -> None:
    import numpy as np

    import pocketbert as pb

    known, draws = _known(options.out), options.out.with_suffix(".draws")
    made = [_draw(name, size, draw) for name in options.tasks.split(",") for size in SIZES for draw in range(DRAWS)]
    draws.write_text("".join(json.dumps(one) + "\n" for one in made), encoding="utf-8")
    for one in made:
        for method, model in OURS:
            row = " ".join(filter(None, [method, model]))
            if (one["task"], one["size"], one["draw"], row) in known:
                continue
            began = time.perf_counter()
            classifier = pb.Classifier(model, method=method, seed=one["draw"], threads=1)
            classifier.fit(one["train"], one["labels"])
            seconds = time.perf_counter() - began
            right = np.asarray(classifier.predict(one["test"])) == np.asarray(one["test_labels"])
            _report(options.out, one, row, float(right.mean()), seconds)


def _report(out: Path, one: dict[str, Any], row: str, accuracy: float, seconds: float) -> None:
    kept = {name: one[name] for name in ("task", "size", "draw")}
    _append(out, {**kept, "row": row, "accuracy": accuracy, "seconds": seconds})


def theirs(options: argparse.Namespace) -> None:
    import numpy as np
    import torch
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    torch.set_num_threads(1)
    known = _known(options.out)
    for text in options.data.read_text(encoding="utf-8").splitlines():
        one = json.loads(text)
        if (one["task"], one["size"], one["draw"], "SetFit minilm-l6") in known:
            continue
        began = time.perf_counter()
        model = SetFitModel.from_pretrained(str(options.body))
        alike = sum(one["labels"].count(label) ** 2 for label in set(one["labels"]))
        pairs = max(alike, len(one["labels"]) ** 2 - alike)  # of each kind as many as of the more frequent
        arguments = TrainingArguments(
            batch_size=PAIRS,
            num_epochs=1,
            max_steps=min(MOST_STEPS, -(-pairs // PAIRS)),
            seed=one["draw"],
            report_to="none",
            output_dir=str(options.out.parent / "setfit"),
        )
        data = Dataset.from_dict({"text": one["train"], "label": one["labels"]})
        Trainer(model=model, args=arguments, train_dataset=data).train()
        seconds = time.perf_counter() - began
        right = np.asarray(model.predict(one["test"])) == np.asarray(one["test_labels"])
        _report(options.out, one, "SetFit minilm-l6", float(right.mean()), seconds)


def table(options: argparse.Namespace) -> None:
    cells: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for text in options.out.read_text().splitlines():
        line = json.loads(text)
        cells[line["task"], line["row"], line["size"]].append(line)
    print("| task | row | " + " | ".join(f"{size} per class" for size in SIZES) + " |")
    print("|---" * (2 + len(SIZES)) + "|")
    for task, row in dict.fromkeys(key[:2] for key in cells):
        shown = []
        for size in SIZES:
            found = cells.get((task, row, size), [])
            values = [100 * one["accuracy"] for one in found]
            mean = sum(values) / max(1, len(values))
            spread = (sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)) ** 0.5
            seconds = sum(one["seconds"] for one in found) / max(1, len(found))
            shown.append(f"{mean:.1f} ± {spread:.1f} ({seconds:.0f} s, {len(found)})" if found else "–")
        print(f"| {task} | {row} | " + " | ".join(shown) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.few_shot", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    for function in (ours, theirs, table):
        command = commands.add_parser(function.__name__)
        command.set_defaults(function=function)
        if function is table:
            command.add_argument("out", type=Path)
            continue
        command.add_argument("--out", type=Path, required=True)
        if function is ours:
            command.add_argument("--tasks", default="sst2")
        else:
            command.add_argument("--data", type=Path, required=True)
            command.add_argument("--body", type=Path, required=True, help="a sentence-transformers folder of MiniLM")
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    main()
