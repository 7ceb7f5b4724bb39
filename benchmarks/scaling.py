"""Does twice the data take twice the time? Fine-tunes tiny for one epoch on more and more phrases of sst2-glue.

    python -m benchmarks.scaling [--quick] [--json FILE]

The whole way is timed: reading the weights, tokenising, the slice, every step. There is no dev split in it, whose
constant cost would flatter the ratios.
"""

import argparse
import json
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks import data
from benchmarks.ours import resolved
from benchmarks.report import align, machine_facts
from pocketbert import Task, load_task
from pocketbert.catalog import load_model
from pocketbert.methods import get_method
from pocketbert.training.job import Job, JobTask
from pocketbert.training.machine import computing

GOAL = 2.2
THREADS = 2


def seconds_to_train(task: Task, rows: int, folder: Path) -> float:
    """One epoch over so many phrases, drawn at random."""
    settings = resolved("finetune", folder, task, {"epochs": 1, "threads": THREADS})
    chosen = np.random.default_rng(0).permutation(len(task.train))[:rows]
    job = Job((JobTask(task.name, task.labels, task.train.take(chosen)),), settings, load_model(folder))
    started = time.perf_counter()
    get_method("finetune").fit(job)
    return time.perf_counter() - started


def measure(sizes: list[int], rounds: int) -> list[dict[str, float | None]]:
    """Median seconds for each size, all sizes in every round, and how many times the size before it."""
    task = load_task("sst2-glue")
    with tempfile.TemporaryDirectory() as temporary, computing(THREADS):
        folder = data.write_model(Path(temporary), "tiny")
        seconds_to_train(task, min(sizes) // 4, folder)  # warm-up
        timed = [[seconds_to_train(task, rows, folder) for rows in sizes] for _ in range(rounds)]
    medians = np.median(timed, axis=0).tolist()
    each = [[later / before for before, later in pairwise(one)] for one in timed]  # inside a round: the machine drifts
    ratios = [None, *np.median(each, axis=0).tolist()]
    return [
        {"rows": rows, "seconds": seconds, "ratio": ratio}
        for rows, seconds, ratio in zip(sizes, medians, ratios, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling", description="one epoch on 4k to 64k phrases: does time grow as data does?"
    )
    parser.add_argument("--quick", action="store_true", help="128 and 256 phrases, to see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers")
    options = parser.parse_args()
    data.skip_if_missing(rival=False, task="sst2-glue")
    if options.quick:
        lines = measure([128, 256], rounds=1)
    else:
        lines = measure([4_000, 8_000, 16_000, 32_000, 64_000], rounds=5)
    rows = [["phrases", "seconds", "phrases/s", "ratio", "goal"]]
    for line in lines:
        assert line["rows"] is not None
        assert line["seconds"] is not None
        ratio = line["ratio"]
        verdict = "–" if ratio is None else f"≤ {GOAL} {'met' if ratio <= GOAL else 'missed'}"
        speed = line["rows"] / line["seconds"]
        shown = "–" if ratio is None else f"{ratio:.2f}"
        rows.append([f"{line['rows']:,}", f"{line['seconds']:.1f}", f"{speed:,.0f}", shown, verdict])
    print("\n".join(align(rows)))
    if options.quick:
        print("QUICK: it works, or it does not; the numbers mean nothing.")
    if options.json:
        results = {"machine": machine_facts(THREADS), "goal": GOAL, "lines": lines}
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
