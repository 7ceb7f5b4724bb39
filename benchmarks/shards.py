"""A million rows in 16 files on a cluster of two nodes, one of them killed: every row once, as one process writes it.

python -m benchmarks.shards RUN --rows 1000000 --shards 16
"""

import argparse
import contextlib
import csv
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.data import REPOSITORY
from pocketbert.tasks import load_task

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}


def write_rows(folder: Path, rows: int, shards: int) -> None:
    """Sentences of the bundled task, in random order, each with a number of its own."""
    folder.mkdir()
    texts = np.array([text for split in load_task("movies").splits.values() for text in split.texts], dtype=object)
    chosen = np.random.default_rng(0).integers(0, len(texts), rows)
    for number, part in enumerate(np.array_split(np.arange(rows), shards)):
        table = pa.table({"id": part, "text": [f"{texts[chosen[row]]} ({row})" for row in part]})
        parquet.write_table(table, folder / f"part-{number:03}.parquet")


def start_node(*arguments: str) -> subprocess.Popen:
    script = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
    common = ["--node-ip-address=127.0.0.1", "--disable-usage-stats", "--object-store-memory=400000000", "--block"]
    node = subprocess.Popen(
        [sys.executable, "-c", script, "start", *arguments, "--num-cpus=1", *common],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, **QUIET},
    )
    time.sleep(15)
    return node


def kill_with_children(pid: int) -> None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                kill_with_children(int(entry.name))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def predict(run: Path, pattern: Path, out: Path, *more: str) -> dict[str, Any]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "pocketbert", "predict", str(run), str(pattern), "--out", str(out), "--json"]
    done = subprocess.run(
        [*command, "--text", "text", "--threads", "1", *more], capture_output=True, text=True, cwd=REPOSITORY
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return {"rows": json.loads(done.stdout)["rows"], "seconds": round(time.perf_counter() - began, 1)}


def outputs(folder: Path) -> tuple[dict[str, str], int, int]:
    """A digest of each file; how many different numbers the rows have, and how many rows there are."""
    digests, numbers, count = {}, set(), 0
    for path in sorted(folder.glob("*.csv")):
        digests[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                numbers.add(int(row["id"]))
                count += 1
    return digests, len(numbers), count


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("run", type=Path)
    reader.add_argument("--rows", type=int, default=1_000_000)
    reader.add_argument("--shards", type=int, default=16)
    given = reader.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shards"))
    nodes: list[subprocess.Popen] = []
    try:
        write_rows(folder / "in", given.rows, given.shards)
        pattern = folder / "in" / "*.parquet"
        alone = predict(given.run.resolve(), pattern, folder / "alone")
        print("one process:", alone, flush=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        temporary = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
        nodes.append(start_node("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={temporary}"))
        nodes.append(start_node(f"--address=127.0.0.1:{port}"))
        out = folder / "cluster"

        def kill_one() -> None:
            while len(list(out.glob("*.csv"))) < given.shards // 4:
                time.sleep(0.1)
            kill_with_children(nodes[1].pid)
            print(f"killed a node when {len(list(out.glob('*.csv')))} files were done", flush=True)

        threading.Thread(target=kill_one, daemon=True).start()
        together = predict(given.run.resolve(), pattern, out, "--workers", f"ray://127.0.0.1:{port}")
        print("two nodes, one killed:", together, flush=True)
        here, there = outputs(folder / "alone"), outputs(out)
        print(json.dumps({"rows": there[2], "different_rows": there[1], "equal_files": here == there}))
        if here != there or there[1] != given.rows or there[2] != given.rows:
            raise SystemExit("they differ")
    finally:
        for node in nodes:
            kill_with_children(node.pid)
            node.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
