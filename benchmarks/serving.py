"""The service under load, beside a plain FastAPI handler with a `transformers` pipeline: on loopback, in one run.

    python -m benchmarks.serving RUN                         # capacity, overload, cold start, one text at a time
    python -m benchmarks.serving RUN --parts soak --minutes 15

RUN must be one that a pipeline can read: pocketbert train sst2 --model pocket-tiny --method finetune --pooling pooler
"""

import argparse
import asyncio
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks.data import REPOSITORY
from benchmarks.serving_client import Request, closed, opened, post
from benchmarks.serving_single import measure_single
from pocketbert.export import export_run
from pocketbert.runs import Run, load_run
from pocketbert.tasks import load_task

CLIENTS = 32
TOLERANCE = 1e-5
PARTS = ("load", "overload", "cold", "single", "soak")


class Server:
    """Either side's process, from its start to its first answer and until the end of the block."""

    def __init__(self, command: Sequence[str], port: int, threads: int) -> None:
        counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        began = time.perf_counter()
        self.port = port
        self.process = subprocess.Popen(
            command, cwd=REPOSITORY, env={**os.environ, **counts, "HF_HUB_OFFLINE": "1"}, stdout=subprocess.DEVNULL
        )
        while self.ask()[0] != 200:
            if self.process.poll() is not None or time.perf_counter() - began > 120:
                raise SystemExit(f"{' '.join(command)}: did not start")
            time.sleep(0.01)
        self.first_answer = time.perf_counter() - began

    def ask(self, path: str = "/v1/predict") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            if path == "/v1/predict":
                body = json.dumps({"texts": ["a stirring, funny film"]})
                connection.request("POST", path, body, {"Content-Type": "application/json"})
            else:
                connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def memory(self) -> float:
        """Megabytes, resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1000

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ours(run: Run, threads: int) -> Server:
    port = free_port()
    command = [sys.executable, "-m", "pocketbert", "serve", str(run.folder), "--port", str(port)]
    return Server([*command, "--threads", str(threads)], port, threads)


def theirs(exported: Path, threads: int) -> Server:
    port = free_port()
    return Server(
        [sys.executable, "-m", "benchmarks.serving_rival", str(port), str(exported), str(threads)], port, threads
    )


def single_requests(run: Run, texts: Sequence[str]) -> list[Request]:
    """A text per request, with the offline probabilities."""
    expected = run.fitted().probabilities(list(texts), None)
    return [(post("/v1/predict", {"texts": [text]}), [row]) for text, row in zip(texts, expected, strict=True)]


def right(expected: Any, status: int, body: bytes) -> bool:
    """Is it the offline prediction? What was refused is not wrong."""
    if isinstance(expected, int):  # a request that must be refused, and how
        return status in (expected, 429)
    if status != 200:
        return status == 429
    got = [list(one["probabilities"].values()) for one in json.loads(body)["predictions"]]
    return bool(np.abs(np.array(got) - np.array(expected)).max() < TOLERANCE)


def any_answer(expected: Any, status: int, body: bytes) -> bool:
    return status == 200


def measure_load(run: Run, exported: Path, requests: list[Request], seconds: float, threads: int) -> dict[str, Any]:
    """Capacity of both in turns, 32 clients each; then theirs at 80 % of it, and ours at five times that rate."""
    rounds: dict[str, list[Any]] = {"ours": [], "theirs": []}
    with ours(run, threads) as our_server, theirs(exported, threads) as their_server:
        for server in (our_server, their_server):
            asyncio.run(closed(server.port, requests, CLIENTS, min(3, seconds), any_answer))
        for _ in range(3):
            load = asyncio.run(closed(our_server.port, requests, CLIENTS, seconds, right))
            rounds["ours"].append(load.summary())
            load = asyncio.run(closed(their_server.port, requests, CLIENTS, seconds, any_answer))
            rounds["theirs"].append(load.summary())
        capacity = {side: statistics.median(one["per_second"] for one in found) for side, found in rounds.items()}
        rate = 0.8 * capacity["theirs"]
        their_open = asyncio.run(opened(their_server.port, requests, rate, seconds, any_answer, 1)).summary()
        our_open = asyncio.run(opened(our_server.port, requests, 5 * rate, seconds, right, 1)).summary()
    return {
        "clients": CLIENTS,
        "capacity_per_second": capacity,
        "times_theirs": round(capacity["ours"] / capacity["theirs"], 2),
        "rounds": rounds,
        "open_loop": {"theirs": {"rate": round(rate), **their_open}, "ours": {"rate": round(5 * rate), **our_open}},
    }


def measure_overload(run: Run, requests: list[Request], seconds: float, threads: int) -> dict[str, Any]:
    """Half of its capacity, all of it, and twice that."""
    found: dict[str, Any] = {}
    with ours(run, threads) as server:
        asyncio.run(closed(server.port, requests, CLIENTS, 3, right))
        capacity = asyncio.run(closed(server.port, requests, 4 * CLIENTS, seconds, right)).summary()["per_second"]
        for share in (0.5, 1.0, 2.0):
            load = asyncio.run(opened(server.port, requests, share * capacity, seconds, right, 2))
            found[f"{share:g} of capacity"] = {"rate": round(share * capacity), **load.summary()}
    return {"capacity_per_second": capacity, **found}


def measure_cold(run: Run, exported: Path, threads: int, times: int) -> dict[str, Any]:
    """Seconds from the command to the first answer, in turns."""
    found: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(times):
        with ours(run, threads) as server:
            found["ours"].append(round(server.first_answer, 2))
        with theirs(exported, threads) as server:
            found["theirs"].append(round(server.first_answer, 2))
    return {side: {"median_s": statistics.median(values), "all_s": values} for side, values in found.items()}


def mixed_requests(run: Run, texts: Sequence[str], seed: int = 0) -> list[Request]:
    """What a day brings: short and long, one and many, words explained, and mistakes of every kind."""
    rng = np.random.default_rng(seed)
    fitted = run.fitted()
    found: list[Request] = []
    for _ in range(1_500):
        kind = rng.random()
        if kind < 0.70:
            chosen = [str(rng.choice(texts))]
        elif kind < 0.85:
            chosen = [str(text) for text in rng.choice(texts, int(rng.integers(2, 40)))]
        elif kind < 0.92:
            chosen = [" ".join(rng.choice(texts, int(rng.integers(3, 30))))]
        else:
            bad = [
                (post("/v1/predict", b'{"texts":["\xff"]}'), 422),
                (post("/v1/predict", {"texts": [7]}), 422),
                (post("/v1/predict", {"texts": ["a"], "model": "../x"}), 404),
                (post("/v1/predict", {"texts": ["a"] * 1_001}), 422),
                (post("/v1/explain", {"text": str(rng.choice(texts))}), 200),
                (post("/v1/swap", {"text": f"she {rng.choice(texts)}"}), 200),
                (post("/v1/attention", {"text": "a film", "layer": 1}), 200),
            ]
            found.append(bad[int(rng.integers(len(bad)))])
            continue
        found.append((post("/v1/predict", {"texts": chosen}), fitted.probabilities(chosen, None)))
    return found


def measure_soak(run: Run, requests: list[Request], minutes: float, threads: int) -> dict[str, Any]:
    """Mixed load at about 60 % of what it can take, minute after minute, every answer compared, memory looked at."""
    memory, statuses, wrong = [], {}, 0
    with ours(run, threads) as server:
        capacity = asyncio.run(closed(server.port, requests, 16, 10, right)).summary()["per_second"]
        until, number = time.monotonic() + 60 * minutes, 0
        while time.monotonic() < until:
            left = until - time.monotonic()
            load = asyncio.run(opened(server.port, requests, 0.6 * capacity, min(20, left), right, number))
            wrong += load.wrong
            for status, count in load.statuses.items():
                statuses[str(status)] = statuses.get(str(status), 0) + count
            memory.append(round(server.memory(), 1))
            number += 1
    third = max(1, len(memory) // 3)
    return {
        "minutes": minutes,
        "rate": round(0.6 * capacity),
        "statuses": statuses,
        "wrong": wrong,
        "answers_5xx_or_none": sum(count for status, count in statuses.items() if status == "0" or status[0] == "5"),
        "memory_mb": memory,
        "growth_last_two_thirds_mb": round(
            statistics.mean(memory[-third:]) - statistics.mean(memory[third : 2 * third] or memory), 1
        ),
    }


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("run", type=Path)
    reader.add_argument("--parts", default=",".join(PARTS[:-1]))
    reader.add_argument("--seconds", type=float, default=15, help="of each measurement")
    reader.add_argument("--minutes", type=float, default=15, help="of the soak")
    reader.add_argument("--threads", type=int, default=1)
    reader.add_argument(
        "--rows", type=int, default=None, help="texts for the comparison of answers; default: all of SST-2"
    )
    reader.add_argument("--out", type=Path)
    given = reader.parse_args()
    run = load_run(given.run)
    task = load_task("sst2")
    texts = [text for split in task.splits.values() for text in split.texts][: given.rows]
    found: dict[str, Any] = {"threads": given.threads, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        exported = Path(folder) / "exported"
        export_run(run, exported)
        requests = single_requests(run, texts[:2_000])
        for part in given.parts.split(","):
            if part == "load":
                found[part] = measure_load(run, exported, requests, given.seconds, given.threads)
            elif part == "overload":
                found[part] = measure_overload(run, requests, given.seconds, given.threads)
            elif part == "cold":
                found[part] = measure_cold(run, exported, given.threads, 3)
            elif part == "single":
                rounds = {"rounds": 5, "timed": min(300, len(texts))}
                found[part] = measure_single(run, texts, Path(folder), threads=given.threads, **rounds)
            elif part == "soak":
                found[part] = measure_soak(run, mixed_requests(run, texts), given.minutes, given.threads)
            else:
                raise SystemExit(f"--parts {part}: expected {', '.join(PARTS)}")
            print(json.dumps({part: found[part]}, indent=1), flush=True)
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
