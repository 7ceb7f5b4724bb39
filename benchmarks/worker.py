"""A process that measures one side, and the handle the benchmark holds it by.

Each side has processes of its own: what one sets for itself (threads, memory that is kept, small numbers flushed) does
not help or hurt the other. They take turns by lines of JSON over pipes; who is not asked, sleeps.
"""

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from benchmarks.data import REPOSITORY


class Worker:
    """One side's process, seen from the benchmark."""

    def __init__(self, side: str, folder: Path, *, threads: int, rows: int | None = None, plain: bool = False) -> None:
        options = ["--threads", str(threads), *(["--rows", str(rows)] if rows else []), *(["--plain"] if plain else [])]
        count = str(threads)
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", side, os.fspath(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **dict.fromkeys(names, count), "HF_HUB_OFFLINE": "1", "KINETO_LOG_LEVEL": "99"},
        )

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        if kind is not None:
            self.process.terminate()
        self.process.wait()

    def make(self, name: str, kind: str = "finetune", **spec: Any) -> None:
        """Build something to measure and warm it up."""
        self.ask(do="make", name=name, kind=kind, spec=spec)
        self.answer()

    def run(self, name: str, round_number: int) -> dict[str, Any]:
        self.ask(do="run", name=name, round=round_number)
        return self.answer()

    def call(self, do: str, **arguments: Any) -> dict[str, Any]:
        self.ask(do=do, **arguments)
        return self.answer()

    def ask(self, **request: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a worker ended with code {self.process.wait()}; its error is above")
        return json.loads(line)


def run_together(workers: list[Worker], name: str, round_number: int) -> dict[str, Any]:
    """The same task in several processes at once: time from the common start until the last has finished."""
    started = time.perf_counter()
    for worker in workers:
        worker.ask(do="run", name=name, round=round_number)
    answers = [worker.answer() for worker in workers]
    return {"seconds": time.perf_counter() - started, "examples": sum(answer["examples"] for answer in answers)}


def serve(side: str, folder: Path, rows: int | None, threads: int, requests: TextIO, answers: TextIO) -> None:
    """Do what is asked until nobody asks any more."""
    from benchmarks import breakdown, data

    module = importlib.import_module(f"benchmarks.{side}")
    task = data.sst2(rows)
    things: dict[str, Any] = {}
    for line in requests:
        request = json.loads(line)
        result: dict[str, Any] = {}
        if request["do"] == "make":
            things[request["name"]] = module.make(request["kind"], folder, task, request["spec"])
        elif request["do"] == "run":
            result = things[request["name"]].run(request["round"])
        elif request["do"] == "peak":
            result = breakdown.matrix_product_peak(threads, size=request["size"])
        elif request["do"] == "breakdown":
            result = breakdown.where_the_time_goes(things[request["name"]])
        else:
            raise ValueError(f"asked to {request['do']!r}, which a worker cannot")
        answers.write(json.dumps(result) + "\n")
        answers.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=("ours", "theirs"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--plain", action="store_true", help="threads alone, nothing else of what a run of ours sets")
    options = parser.parse_args()

    import torch

    from pocketbert.training.machine import computing

    torch.set_num_threads(options.threads)
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not come between
    ours = options.side == "ours" and not options.plain
    with computing(options.threads) if ours else contextlib.nullcontext():
        serve(options.side, options.folder, options.rows, options.threads, sys.stdin, answers)


if __name__ == "__main__":
    main()
