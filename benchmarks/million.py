"""Does `pocketbert predict` stream? A million rows through the command, its peak memory and its speed.

    python -m benchmarks.million RUN [--rows N] [--json FILE]

RUN is a finished run folder. The file is SST-2's training sentences over and over; what the command shows while it
works is left on the terminal.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import data
from benchmarks.report import align, machine_facts

GOAL_BYTES = 1_000_000_000


def write_texts(path: Path, rows: int) -> None:
    """A CSV of one column, `text`."""
    texts = data.sst2().train.texts
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["text"])
        writer.writerows([texts[row % len(texts)]] for row in range(rows))


def count_rows(path: Path) -> int:
    """Rows of a CSV file, without its header."""
    with path.open(encoding="utf-8", newline="") as file:
        return sum(1 for _ in csv.reader(file)) - 1


def measure(run: Path, rows: int) -> dict[str, Any]:
    """Predict so many rows with the command, in a process of its own."""
    with tempfile.TemporaryDirectory() as temporary:
        texts, out = Path(temporary) / "texts.csv", Path(temporary) / "out.csv"
        write_texts(texts, rows)
        command = [sys.executable, "-m", "pocketbert", "predict", str(run), str(texts), "--out", str(out)]
        started = time.perf_counter()
        done = subprocess.run(command, check=False)
        seconds = time.perf_counter() - started
        if done.returncode:
            raise SystemExit(f"pocketbert predict ended with code {done.returncode}; its error is above")
        predicted = count_rows(out)
    if predicted != rows:
        raise SystemExit(f"{rows:,} rows went in, {predicted:,} came out")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"rows": rows, "seconds": seconds, "rows_per_second": rows / seconds, "peak_bytes": most, "goal": GOAL_BYTES}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.million", description="a million rows through pocketbert predict: memory and speed"
    )
    parser.add_argument("run", type=Path, help="a finished run folder")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers")
    options = parser.parse_args()
    data.skip_if_missing(rival=False)
    if not (options.run / "manifest.json").is_file():
        raise SystemExit(f"{options.run}: no finished run; make one with pocketbert train")
    found = measure(options.run, options.rows)
    verdict = "met" if found["peak_bytes"] < GOAL_BYTES else "missed"
    rows = [
        ["rows", "seconds", "rows/s", "peak memory", "goal"],
        [
            f"{found['rows']:,}",
            f"{found['seconds']:.1f}",
            f"{found['rows_per_second']:,.0f}",
            f"{found['peak_bytes'] / 1e6:,.0f} MB",
            f"< 1,000 MB {verdict}",
        ],
    ]
    print("\n".join(align(rows)))
    if options.json:
        results = {"machine": machine_facts(2), **found}
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
