"""Workers that are killed and a service that is told to end, both under load."""

import http.client
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from .conftest import Served, wait_until


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Client(threading.Thread):
    """Asks again and again on one connection, until told to stop, or told by the service that the connection ends."""

    def __init__(self, port: int, *, again: bool) -> None:
        super().__init__(daemon=True)
        self.port, self.again = port, again
        self.statuses: list[int] = []
        self.lost: list[float] = []  # when a request that was sent had no answer
        self.last_answer = 0.0
        self.stop = False

    def run(self) -> None:
        body = json.dumps({"texts": ["good film"] * 3}).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self.stop:
            try:
                connection.connect() if connection.sock is None else None
            except ConnectionRefusedError:
                return
            try:
                connection.request("POST", "/v1/predict", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                response.read()
            except (OSError, http.client.HTTPException):
                self.lost.append(time.monotonic())
                connection.close()
                continue
            self.statuses.append(response.status)
            self.last_answer = time.monotonic()
            if response.headers.get("connection") == "close":
                connection.close()
                if not self.again:
                    return
        connection.close()


def start(clients: list[Client]) -> list[Client]:
    for client in clients:
        client.start()
    return clients


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="finds the workers through /proc")
def test_a_worker_killed_under_load_is_replaced_and_all_others_are_answered(runs):
    served = Served(runs["words"], "--workers", "2")
    clients: list[Client] = []
    try:
        wait_until(lambda: len(children(served.process.pid)) == 2)
        wait_until(lambda: served.counts()["pocketbert_worker_starts_total"] == 2, 120)
        clients = start([Client(served.port, again=True) for _ in range(6)])
        wait_until(lambda: all(len(client.statuses) > 5 for client in clients), 60)
        victim = children(served.process.pid)[0]
        killed = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: served.counts()["pocketbert_worker_starts_total"] == 3, 120)
        assert victim not in children(served.process.pid)
        replaced = time.monotonic()
        wait_until(lambda: all(client.last_answer > replaced for client in clients), 60)
    finally:
        for client in clients:
            client.stop = True
        for client in clients:
            client.join()
        assert served.end() == 0
    assert {status for client in clients for status in client.statuses} == {200}
    # Each client had one request under way; of those the killed worker's are lost, at that moment, and nothing else.
    lost = [moment for client in clients for moment in client.lost]
    assert all(len(client.lost) <= 1 for client in clients)
    assert all(killed - 0.1 < moment < killed + 5 for moment in lost)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_drains_without_a_lost_request_and_says_that_it_is_not_ready(runs, workers):
    served = Served(runs["words"], "--workers", workers)
    clients: list[Client] = []
    try:
        clients = start([Client(served.port, again=False) for _ in range(8)])
        wait_until(lambda: all(len(client.statuses) > 5 for client in clients), 60)
    finally:
        assert served.end() == 0
        for client in clients:
            client.join(30)
    assert not any(client.is_alive() for client in clients)
    assert [moment for client in clients for moment in client.lost] == []
    assert {status for client in clients for status in client.statuses} == {200}


def test_what_was_accepted_before_sigterm_is_answered_after_it(runs):
    served = Served(runs["single"], "--batch-tokens", "64", "--queue-seconds", "500", "--timeout", "100")
    found: list[int] = []

    def ask() -> None:
        found.append(served.ask("POST", "/v1/predict", {"texts": ["good film " * 60] * 30}, timeout=100)[0])

    clients = [threading.Thread(target=ask) for _ in range(10)]
    for client in clients:
        client.start()
    wait_until(lambda: served.counts()["pocketbert_requests_in_progress"] == 11)  # this question is one
    served.process.send_signal(signal.SIGTERM)
    assert served.ask("GET", "/readyz")[:2] == (503, {"status": "draining"})
    for client in clients:
        client.join()
    assert found == [200] * 10
    assert served.end() == 0
    with pytest.raises(ConnectionRefusedError):
        served.ask("GET", "/healthz")


def test_workers_that_cannot_start_end_the_service_with_a_line(runs, tmp_path):
    import shutil
    import subprocess
    import sys

    folder = tmp_path / "broken"
    shutil.copytree(runs["single"], folder)
    (folder / "model" / "trained.safetensors").write_bytes(b"nothing")
    command = [sys.executable, "-m", "pocketbert", "serve", str(folder), "--port", "0", "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "trained.safetensors" in done.stderr
