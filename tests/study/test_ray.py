"""The same plan on a Ray cluster: a head and two more nodes, processes of their own on this machine."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from pocketbert import __version__
from pocketbert.study import Row
from pocketbert.study.cluster import do_job
from pocketbert.study.messages import task_to_json
from pocketbert.study.plan import make_plan
from study.conftest import command, make_task, numbers_of, run

pytest.importorskip("ray", reason="Ray is not installed (the extra: pocketbert[ray])")

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    """Nodes by `ray start`, each in a session of its own, so that one can be killed with all it started."""

    def __init__(self, home: Path) -> None:
        self.port, self.home = free_port(), home
        # Short: the paths of Ray's sockets are limited to about a hundred letters.
        self.folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
        self.nodes: list[subprocess.Popen] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def add(self, *arguments: str) -> subprocess.Popen:
        common = ["--node-ip-address=127.0.0.1", "--disable-usage-stats", "--object-store-memory=100000000", "--block"]
        script = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
        log = (self.folder / f"node{len(self.nodes)}.log").open("w")
        node = subprocess.Popen(
            [sys.executable, "-c", script, "start", *arguments, *common],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **QUIET, "POCKETBERT_HOME": str(self.home)},
        )
        log.close()
        self.nodes.append(node)
        self._wait(len(self.nodes))
        return node

    def start(self, nodes: int) -> list[subprocess.Popen]:
        """A head that computes nothing, and so many nodes of one core."""
        head = ["--head", f"--port={self.port}", "--num-cpus=0", "--include-dashboard=false"]
        self.add(*head, f"--temp-dir={self.folder}")
        return [self.add(f"--address={self.address}", "--num-cpus=1") for _ in range(nodes)]

    def _wait(self, nodes: int) -> None:
        script = (
            "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, configure_logging=False); "
            "print(sum(node['Alive'] for node in ray.nodes()))"
        )
        until = time.monotonic() + 90
        while time.monotonic() < until:
            seen = subprocess.run(
                [sys.executable, "-c", script, self.address],
                capture_output=True,
                text=True,
                env={**os.environ, **QUIET},
            )
            if seen.returncode == 0 and int(seen.stdout.split()[-1]) >= nodes:
                return
            time.sleep(0.5)
        raise TimeoutError(f"node {nodes} did not come up: {seen.stderr[-500:]}")

    def kill(self, node: subprocess.Popen) -> None:
        if node.poll() is None:
            for child in children(node.pid):
                try_kill(child)
            try_kill(node.pid)
            node.wait()

    def end(self) -> None:
        for node in reversed(self.nodes):
            self.kill(node)
        shutil.rmtree(self.folder, ignore_errors=True)


def children(pid: int) -> list[int]:
    """All processes below one, deepest last."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += [int(entry.name), *children(int(entry.name))]
    return found


def try_kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("address", ["ray", "ray://127.0.0.1:{port}", "ray://nowhere"])
def test_without_a_cluster_it_says_how_to_start_one(tmp_path, reviews, address, only_ray):
    arguments = ["study", reviews, "--methods", "random", "--seeds", "1", "--folds", "0", "--out", tmp_path / "study"]
    _, err = run(*arguments, "--workers", address.format(port=free_port()), home=tmp_path, code=2, **QUIET)
    assert "ray start --head" in err
    assert "Traceback" not in err


def test_a_cluster_that_has_ended_is_not_waited_for(tmp_path, reviews):
    """Ray remembers where the last one was, and would try for many minutes."""
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{free_port()}")
    arguments = ["study", reviews, "--methods", "random", "--seeds", "1", "--folds", "0", "--out", tmp_path / "study"]
    started = time.monotonic()
    _, err = run(*arguments, "--workers", "ray", home=tmp_path, code=2, **QUIET, RAY_TMPDIR=str(tmp_path))
    assert "no Ray cluster answers" in err
    assert time.monotonic() - started < 60


def test_a_node_uses_the_model_that_was_sent_to_it_also_for_the_runs_a_run_starts_from(tmp_path, model, monkeypatch):
    """No folder of the model's name is on the node; BitFit's run keeps biases only, so it needs the model again."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    files = {path.name: path.read_bytes() for path in Path(model).iterdir() if path.is_file()}
    told = {"epochs": 1, "max_length": 32, "learning_rate": 1e-3}
    common = {"task": "toy", "part": None, "model": str(tmp_path / "only" / "there"), "settings": told, "warnings": []}
    common["without_dev"] = False
    common |= {"share": 1.0, "others": [], "adapters": {}}
    plan = make_plan([Row("toy", "majority")], {"toy": make_task()})
    sent = (task_to_json(plan, "toy"), common["model"], files, __version__)
    first = {**common, "method": "bitfit", "start": None, "seeds": {0: "a"}}
    done = do_job([first], *sent, [])["a"]
    assert "files" in done, done
    second = {**common, "method": "finetune", "start": "a", "seeds": {0: "b"}}
    then = do_job([second], *sent, ["a"], done["files"])["b"]
    assert "files" in then, then
    assert json.loads(then["files"]["settings.json"])["model"] == common["model"]


@pytest.mark.slow
def test_a_cluster_gives_the_same_numbers_even_when_a_node_is_killed(tmp_path, reviews, model, only_ray):
    arguments = [
        "study",
        reviews,
        "--models",
        f"mini,{model}",
        "--epochs",
        "8",
        "--seeds",
        "2",
        "--folds",
        "0",
        "--out",
    ]
    run(*arguments, tmp_path / "here", home=tmp_path / "home")
    cluster = Cluster(tmp_path / "home")
    try:
        nodes = cluster.start(nodes=2)
        where = ["--workers", f"ray://{cluster.address}"]
        run(*arguments, tmp_path / "cluster", *where, home=tmp_path / "home", **QUIET)
        assert numbers_of(tmp_path / "cluster") == numbers_of(tmp_path / "here")
        process = command(*arguments, tmp_path / "killed", *where, home=tmp_path / "home", **QUIET)
        until = time.monotonic() + 120
        while not list(tmp_path.glob("killed/runs/*/manifest.json")) and time.monotonic() < until:
            time.sleep(0.2)
        assert process.poll() is None, "the study was over before a node could be killed"
        cluster.kill(nodes[0])
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, f"{out}\n{err}"
        assert numbers_of(tmp_path / "killed") == numbers_of(tmp_path / "here")
    finally:
        cluster.end()


@pytest.mark.slow
def test_a_budget_gives_the_same_bytes_with_one_worker_with_two_and_on_a_cluster(tmp_path, reviews, only_ray):
    arguments = ["study", reviews, "--models", "pocket-tiny", "--methods", "frozen,finetune", "--minutes", "1"]
    run(*arguments, "--workers", "2", "--out", tmp_path / "two", home=tmp_path / "home")
    cluster = Cluster(tmp_path / "home")
    try:
        cluster.start(nodes=2)
        for name, workers in (("one", "1"), ("cluster", f"ray://{cluster.address}")):
            (tmp_path / name / "runs").mkdir(parents=True)
            shutil.copy(tmp_path / "two" / "plan.json", tmp_path / name)
            run(*arguments, "--workers", workers, "--out", tmp_path / name, home=tmp_path / "home", **QUIET)
            assert numbers_of(tmp_path / name) == numbers_of(tmp_path / "two")
    finally:
        cluster.end()
