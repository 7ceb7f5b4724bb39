"""Do two workers finish a study twice as fast as one? Eight equal runs of tiny from scratch on movies.

    python -m benchmarks.workers [--rows 2000] [--rounds 3]

Everything counts: starting the processes, planning, statistics, the report. One worker and two take turns; the ratio is
the median over rounds.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.report import align
from pocketbert.study import Row, Study

RUNS = 8
GOAL = 1.8


def seconds(workers: int, rows: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        table = [Row("movies", "scratch", "tiny", seeds=RUNS)]
        study = Study("movies", table=table, rows=rows, out=Path(folder) / "study")
        started = time.perf_counter()
        study.run(workers)
        return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.workers", description="one worker against two")
    parser.add_argument("--rows", type=int, default=3_000, help="texts of each split")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    timed = [(seconds(1, options.rows), seconds(2, options.rows)) for _ in range(options.rounds)]
    ratios = [one / two for one, two in timed]
    ratio = statistics.median(ratios)
    cells = [[f"{one:.1f} s", f"{two:.1f} s", f"{one / two:.2f}"] for one, two in timed]
    print("\n".join(align([["one worker", "two workers", "ratio"], *cells])))
    print(f"median {ratio:.2f}, goal ≥ {GOAL}: {'met' if ratio >= GOAL else 'missed'}")


if __name__ == "__main__":
    main()
