"""Many files, each predicted once: here, on a cluster that loses a node, and after whatever was stopped."""

import csv
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from training.conftest import BAD, FILL, GOOD

from pocketbert.errors import UserError
from pocketbert.predict import predict_file
from pocketbert.runs import load_run
from pocketbert.shards import PREDICTED, predict_shards


def write_shards(folder: Path, shards: int, rows: int) -> None:
    folder.mkdir()
    random = np.random.default_rng(3)
    words = np.array([*FILL, *GOOD, *BAD])
    for number in range(shards):
        texts = [" ".join(random.choice(words, 6)) for _ in range(rows)]
        table = pa.table({"id": range(number * rows, (number + 1) * rows), "text": texts})
        parquet.write_table(table, folder / f"part-{number:02}.parquet")


def ids_of(folder: Path) -> list[int]:
    found = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            found += [int(row["id"]) for row in csv.DictReader(file)]
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


def test_each_file_becomes_what_predict_makes_of_it(runs, tmp_path):
    write_shards(tmp_path / "in", 3, 40)
    run = load_run(runs["single"])
    done = predict_shards(run, tmp_path / "in" / "*.parquet", tmp_path / "out", text="text")
    assert (done["files"], done["rows"], done["files_done_before"]) == (3, 120, 0)
    assert sum(done["predicted"].values()) == 120
    assert ids_of(tmp_path / "out") == list(range(120))
    predict_file(run, tmp_path / "in" / "part-01.parquet", tmp_path / "one.csv", text="text")
    assert (tmp_path / "out" / "part-01.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def test_what_is_done_stays_and_what_is_missing_damaged_or_changed_is_done_again(runs, tmp_path):
    write_shards(tmp_path / "in", 4, 30)
    run, out = load_run(runs["words"]), tmp_path / "out"
    predict_shards(run, tmp_path / "in" / "*.parquet", out)
    first = contents(out)
    (out / "part-00.csv").unlink()
    (out / "part-01.csv").write_text("damaged")
    record = json.loads((out / PREDICTED).read_text())
    del record["shards"]["part-02.csv"]  # as if killed before it was written down
    (out / PREDICTED).write_text(json.dumps(record))
    before = (out / "part-03.csv").stat().st_mtime_ns
    done = predict_shards(run, tmp_path / "in" / "*.parquet", out)
    assert done["files_done_before"] == 1
    assert (out / "part-03.csv").stat().st_mtime_ns == before
    assert contents(out) == first
    write_shards(tmp_path / "other", 1, 10)
    (tmp_path / "other" / "part-00.parquet").rename(tmp_path / "in" / "part-03.parquet")
    assert predict_shards(run, tmp_path / "in" / "*.parquet", out)["rows"] == 100


def test_a_folder_of_another_run_a_name_twice_and_a_file_that_cannot_be_read_are_said(runs, tmp_path):
    write_shards(tmp_path / "in", 2, 10)
    pattern, out = tmp_path / "in" / "*", tmp_path / "out"
    predict_shards(load_run(runs["words"]), pattern, out)
    with pytest.raises(UserError, match="another run"):
        predict_shards(load_run(runs["single"]), pattern, out)
    with pytest.raises(UserError, match="other options"):
        predict_shards(load_run(runs["words"]), pattern, out, numbers=True)
    (tmp_path / "in" / "part-01.csv").write_text("text\na\n")
    with pytest.raises(UserError, match="would both become part-01.csv"):
        predict_shards(load_run(runs["words"]), pattern, out)
    (tmp_path / "in" / "part-01.csv").unlink()
    (tmp_path / "in" / "part-02.parquet").write_bytes(b"PAR1 no")
    write = parquet.write_table
    write(pa.table({"id": [1], "text": ["good"]}), tmp_path / "in" / "part-03.parquet")
    with pytest.raises(UserError, match=r"1 of 4 files were not predicted: .*part-02.parquet"):
        predict_shards(load_run(runs["words"]), pattern, out)
    assert (out / "part-03.csv").is_file()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="holds letter.txt"):
        predict_shards(load_run(runs["words"]), pattern, mine)
    assert [path.name for path in mine.iterdir() if path.name != ".lock"] == ["letter.txt"]
    with pytest.raises(UserError, match="no file of such a name"):
        predict_shards(load_run(runs["words"]), tmp_path / "nosuch*", out)


def command(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "pocketbert", "predict", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_the_command_takes_a_pattern_and_says_what_workers_are_for(runs, tmp_path):
    write_shards(tmp_path / "in", 2, 20)
    done = command(runs["words"], tmp_path / "in" / "*.parquet", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 40
    done = command(runs["words"], tmp_path / "in" / "part-00.parquet", "--workers", "ray")
    assert done.returncode == 2
    assert "in quotes" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["single", "frozen"])
def test_a_cluster_that_loses_a_node_writes_every_row_once_and_the_same(runs, tmp_path, name, monkeypatch):
    pytest.importorskip("ray", reason="Ray is not installed (the extra: pocketbert[ray])")
    from study.test_ray import Cluster

    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "1")
    write_shards(tmp_path / "in", 8, 4_000)
    pattern = tmp_path / "in" / "*.parquet"
    run = load_run(runs[name])
    predict_shards(run, pattern, tmp_path / "here", text="text", threads=1)
    cluster = Cluster(tmp_path / "home")
    try:
        place = ["--include-dashboard=false", f"--temp-dir={cluster.folder}"]
        cluster.add("--head", f"--port={cluster.port}", "--num-cpus=1", *place)
        node = cluster.add(f"--address={cluster.address}", "--num-cpus=1")
        out = tmp_path / "there"

        def kill_when_some_are_done() -> None:
            until = time.monotonic() + 200
            while time.monotonic() < until and len(contents(out)) < 2:
                time.sleep(0.05)
            cluster.kill(node)

        killer = threading.Thread(target=kill_when_some_are_done)
        killer.start()
        done = command(runs[name], pattern, "--out", out, "--workers", f"ray://{cluster.address}", "--json")
        killer.join()
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"] == 32_000
        assert ids_of(out) == list(range(32_000))
        assert contents(out) == contents(tmp_path / "here")
    finally:
        cluster.end()
