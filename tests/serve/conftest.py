"""Runs small enough to be trained here, and the service as a process of its own, asked over real sockets."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from training.conftest import make_split, make_task, model, task, tokenizer  # noqa: F401 - fixtures

from pocketbert.config import Config
from pocketbert.train import train_run

pytest.importorskip("uvicorn", reason="the service's packages are not installed: pip install 'pocketbert[serve]'")
pytest.importorskip("fastapi", reason="the service's packages are not installed: pip install 'pocketbert[serve]'")


@pytest.fixture(scope="session")
def config(tokenizer):  # noqa: F811 - a fixture
    return Config(vocabulary=len(tokenizer) + 40, width=24, layers=2, heads=3, inner=40, positions=128)


@pytest.fixture(scope="session")
def runs(tmp_path_factory, model) -> dict[str, Path]:  # noqa: F811 - a fixture
    """A fine-tuned run, its pair and its baselines."""
    folder = tmp_path_factory.mktemp("served")
    quick = {"epochs": 6, "learning_rate": 3e-3, "batch_size": 16, "threads": 1}
    made = {"single": ("finetune", False), "pairs": ("finetune", True), "frozen": ("frozen", False)}
    for name, (method, pairs) in made.items():
        train_run(make_task(pairs=pairs), method, folder / name, model=model, settings=quick)
    train_run(make_task(), "tfidf", folder / "words", settings={"threads": 1})
    return {name: folder / name for name in (*made, "words")}


@pytest.fixture(scope="session")
def study(tmp_path_factory) -> Path:
    """A study with a recommended model and a report."""
    from pocketbert.study import Study

    folder = tmp_path_factory.mktemp("studies")
    split = make_split(120, 21)
    lines = [f"{text},{'good' if label else 'bad'}" for text, label in zip(split.texts, split.labels, strict=True)]
    (folder / "reviews.csv").write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    methods = ["majority", "tfidf"]
    study = Study([folder / "reviews.csv"], methods=methods, folds=2, repeats=1, out=folder / "reviews")
    study.run(workers=1, progress=False)
    return folder / "reviews"


class Served:
    """`pocketbert serve` in a process of its own, until `end`."""

    def __init__(self, *arguments: str | Path, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pocketbert", "serve", "--port", "0", "--json", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            start_new_session=True,
        )
        self.errors: list[str] = []
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()
        text = ""
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            assert line, f"it ended: {self.process.wait()}\n{''.join(self.errors)}"
            text += line
            try:
                self.started = json.loads(text)
                break
            except ValueError:
                continue
        assert "url" in self.started, f"it did not start ({self.end()}): {self.started}"
        self.url: str = self.started["url"]
        self.port = int(self.url.rpartition(":")[2])

    def _hear(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line)

    def ask(
        self, method: str, path: str, body: Any = None, timeout: float = 30, **headers: str
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, body (parsed where it is JSON), headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {"Content-Type": "application/json"} if body is not None else {}
        given.update({name.replace("_", "-"): value for name, value in headers.items()})
        try:
            connection.request(method, path, data, given)
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        kind = response.headers.get("content-type", "")
        return (
            response.status,
            json.loads(content) if "json" in kind and content else content,
            dict(response.headers.items()),
        )

    def predict(self, *texts: Any, **more: Any) -> tuple[int, Any]:
        status, body, _ = self.ask("POST", "/v1/predict", {"texts": texts, **more})
        return status, body

    def raw(self, content: bytes, *, half_close: bool = False, wait: float = 15) -> bytes:
        """What comes back for these bytes, until the other side closes or says nothing more."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            connection.sendall(content)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
            got = b""
            try:
                while part := connection.recv(65_536):
                    got += part
            except (TimeoutError, ConnectionResetError):
                pass
            return got

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=90)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            self._hearing.join()
            assert self.process.stdout is not None
            assert self.process.stderr is not None
            self.process.stdout.close()
            self.process.stderr.close()

    def counts(self) -> dict[str, float]:
        _, text, _ = self.ask("GET", "/metrics")
        lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


@pytest.fixture(scope="module")
def service(runs):
    """One service for the tests of a module: two models of single texts, one of pairs, one adapter."""
    served = Served(runs["single"], runs["words"], runs["pairs"], "--adapters", runs["frozen"])
    yield served
    assert served.end() == 0


def wait_until(holds, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it did not come to be"
        time.sleep(0.05)
