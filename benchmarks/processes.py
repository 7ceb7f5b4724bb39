"""Do two processes under `torchrun` pretrain twice as fast as one? Each with one thread; and one with two threads.

    python -m benchmarks.processes [--size tiny] [--steps 60] [--rounds 3]

The same text, batches and steps each time; a number is the tokens a second of training alone, as the run itself wrote
them down. The three take turns; ratios are medians over rounds.
"""

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import align
from benchmarks.texts import write_random_text

WAYS = {"one process, one thread": (1, 1), "one process, two threads": (1, 2), "two processes, a thread each": (2, 1)}


def launcher(processes: int) -> list[str]:
    if processes == 1:
        return [sys.executable, "-m", "pocketbert"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    return [sys.executable, *torchrun, "--master-addr", "127.0.0.1", "--master-port", str(port), "-m", "pocketbert"]


def tokens_per_second(processes: int, threads: int, folder: Path, options: argparse.Namespace) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as out:
        flags = ["--size", options.size, "--steps", str(options.steps), "--threads", str(threads), "--checkpoints", "1"]
        places = ["--cache", str(folder / "cache"), "--out", f"{out}/model", "--precision", options.precision]
        command = [*launcher(processes), "pretrain", str(folder / "text.jsonl"), *flags, *places, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(json.loads(done.stdout)["metrics"]["cost"]["tokens_per_second"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    speeds: dict[str, list[float]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_random_text(folder / "text.jsonl")
        for _ in range(options.rounds):
            for name, (processes, threads) in WAYS.items():
                speeds[name].append(tokens_per_second(processes, threads, folder, options))
    alone = statistics.median(next(iter(speeds.values())))
    rows = [
        [name, f"{(speed := statistics.median(found)):,.0f}", f"{speed / alone:.2f}"] for name, found in speeds.items()
    ]
    print("\n".join(align([[f"{options.size}, {options.precision}", "tokens a second", "times the first"], *rows])))


if __name__ == "__main__":
    main()
