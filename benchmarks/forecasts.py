"""Do learning curves tell what more data brings? Forecast from half of the rows, and measured with all of them.

`python -m benchmarks.forecasts --tasks sst2,sick,qnli,sst5 --out FOLDER` draws the learning curves of tfidf and of
frozen pocket-tiny and pocket-mini on each task's rows, in five folds, as a study does. The law through an eighth, a
quarter and a half forecasts what the whole would gain over the half; the table has what it gained, and whether the
interval of the forecast, widened by how well the gain itself is known, holds it.
"""

import argparse
import csv
import math
from pathlib import Path

import numpy as np

from pocketbert import load_task, statistics
from pocketbert.statistics.variance import LEVEL, critical_value
from pocketbert.study import Study
from pocketbert.study.learning_curves import _replicates
from pocketbert.study.plan import SHARES
from pocketbert.study.scored import read_row
from pocketbert.study.store import Store

MOST_ROWS = 6_000
METHODS, MODELS = ["tfidf", "frozen"], ["pocket-tiny", "pocket-mini"]


def write_rows(name: str, path: Path) -> None:
    """All labelled rows of a task in one file, at most so many, drawn."""
    task = load_task(name)
    rows = []
    for split in task.splits.values():
        if split.labels is not None:
            second_texts = split.second_texts or [""] * len(split)
            rows += list(zip(split.texts, second_texts, (task.labels[label] for label in split.labels), strict=True))
    chosen = np.random.default_rng(0).permutation(len(rows))[:MOST_ROWS]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "text2", "label"] if task.pair else ["text", "label"])
        writer.writerows(rows[one] if task.pair else (rows[one][0], rows[one][2]) for one in chosen)


def forecasts(name: str, out: Path) -> list[str]:
    path = out / f"{name}-rows.csv"
    if not path.exists():
        write_rows(name, path)
    pair = load_task(name).pair
    loaded = load_task(path, text="text", text2="text2" if pair else None, label="label")
    study = Study([loaded], models=MODELS, methods=METHODS, curves=METHODS, out=out / name)
    plan = study.plan(1)
    study.run(2, plan=plan)
    store, lines = Store(out / name), []
    for number, row in enumerate(plan.rows):
        if not row.curve:
            continue
        points = [read_row(plan, store, number, share) for share in (*SHARES, 1.0)]
        known = [point for point in points if point is not None]
        sizes = np.array([len(plan.task_of(point.runs[0]).split("train")) for point in known])
        errors = 1 - np.stack([_replicates(point, known[0], "accuracy") for point in known], axis=1)
        expected = statistics.forecast(sizes[:-1], errors[:, :-1], float(sizes[-1]))
        gains = errors[:, -2] - errors[:, -1]
        spread = critical_value(len(gains) - 1, LEVEL / 2) * float(np.std(gains, ddof=1)) / math.sqrt(len(gains))
        half = math.hypot(expected.high - expected.gain, spread)
        holds = abs(float(gains.mean()) - expected.gain) <= half
        told = f"{100 * expected.gain:.1f} ({100 * expected.low:.1f} to {100 * expected.high:.1f})"
        lines.append(
            f"| {name} | {row.name} | {sizes[-2]:,} → {sizes[-1]:,} | {told} | {100 * gains.mean():.1f} | "
            f"{'yes' if holds else 'NO'} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.forecasts", description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", default="sst2,sick,qnli,sst5")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print("| task | row | training rows | forecast gain, points | measured | holds |\n|---|---|---|---|---|---|")
    for name in options.tasks.split(","):
        print("\n".join(forecasts(name, options.out)), flush=True)


if __name__ == "__main__":
    main()
