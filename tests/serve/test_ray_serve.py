"""The service as a Ray Serve deployment on a cluster of two nodes, one of them killed under load."""

import http.client
import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from training.conftest import make_split

from pocketbert.errors import UserError
from pocketbert.runs import load_run

DEPLOY = """
import sys, ray
from ray import serve
from pocketbert.serve.ray_serve import deployment
ray.init(address=sys.argv[1], log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[2])})
serve.run(deployment([sys.argv[3]], replicas=(2, 3)), route_prefix="/")
print("ready")
"""


def test_what_a_deployment_cannot_send_is_said(runs):
    pytest.importorskip("ray.serve", reason="Ray Serve is not installed: pip install 'ray[serve]'")
    from pocketbert.serve.ray_serve import deployment

    with pytest.raises(UserError, match="needs weights that are not its own"):
        deployment([runs["frozen"]])
    with pytest.raises(UserError, match="replicas"):
        deployment([runs["single"]], replicas=(3, 2))


@pytest.mark.slow
def test_a_node_killed_under_load_costs_what_it_was_doing_and_no_wrong_answer(runs, tmp_path, monkeypatch):
    pytest.importorskip("ray.serve", reason="Ray Serve is not installed: pip install 'ray[serve]'")
    from study.test_ray import Cluster, free_port

    split = make_split(300, 17)
    expected = load_run(runs["single"]).fitted().probabilities(split.texts, None)
    port, stop = free_port(), threading.Event()
    answers: list[tuple[float, int, bool]] = []  # when, status, right

    def client(first: int) -> None:
        row = first
        while not stop.is_set():
            row = (row + 7) % 300
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                body = json.dumps({"texts": [split.texts[row]]})
                connection.request("POST", "/v1/predict", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                content, status = response.read(), response.status
                right = status != 200 or (
                    np.abs(
                        np.array(list(json.loads(content)["predictions"][0]["probabilities"].values())) - expected[row]
                    ).max()
                    < 1e-5
                )
            except OSError:
                status, right = 0, True
            finally:
                connection.close()
            answers.append((time.monotonic(), status, right))

    cluster = Cluster(tmp_path / "home")
    clients = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    try:
        place = ["--include-dashboard=false", f"--temp-dir={cluster.folder}"]
        # The controller and the head's proxy ask for no core: both replicas could be anywhere.
        cluster.add("--head", f"--port={cluster.port}", "--num-cpus=2", *place)
        node = cluster.add(f"--address={cluster.address}", "--num-cpus=2")
        arguments = [sys.executable, "-c", DEPLOY, cluster.address, str(port), str(runs["single"])]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=240)
        assert "ready" in done.stdout, done.stderr[-3_000:]
        for one in clients:
            one.start()
        time.sleep(4)
        before = [status for _, status, _ in answers]
        assert set(before) == {200}
        killed = time.monotonic()
        cluster.kill(node)
        time.sleep(30)
        stop.set()
        for one in clients:
            one.join()
        assert all(right for _, _, right in answers)
        failed = [(moment - killed, status) for moment, status, _ in answers if status != 200]
        last = [status for moment, status, _ in answers if moment > killed + 25]
        assert len(last) > 20
        assert set(last) == {200}, failed
        # What the lost replica was doing, and what reached it before it was known to be gone.
        assert len(failed) < 0.2 * len(answers), failed
    finally:
        stop.set()
        cluster.end()
