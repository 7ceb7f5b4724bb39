"""The Hub, for real: huggingface_hub talks to a small server on this machine, and to the cache it leaves behind."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
EXTRA = {
    "flax_model.msgpack": b"x" * 10,
    "README.md": b"# card",
    "pytorch_model.bin": b"pickle",
    "modeling_evil.py": b"boom",
}


class Hub(BaseHTTPRequestHandler):
    """The few answers of the Hub that a snapshot needs."""

    files: dict[str, bytes] = {}
    asked: list[str] = []

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        parts = path.strip("/").split("/")
        if path.startswith("/api/models/small/bert"):
            revision = parts[5] if len(parts) > 5 else "main"
            if revision not in ("main", COMMIT):
                return self.answer(404, b"{}", X_Error_Code="RevisionNotFound")
            siblings = [{"rfilename": name, "size": len(body)} for name, body in self.files.items()]
            if "tree" in parts:
                tree = [
                    {"type": "file", "path": n, "size": len(b), "oid": hashlib.sha1(b).hexdigest()}
                    for n, b in self.files.items()
                ]
                return self.answer(200, json.dumps(tree).encode(), Content_Type="application/json")
            body = json.dumps({"_id": "1", "id": "small/bert", "sha": COMMIT, "siblings": siblings}).encode()
            return self.answer(200, body, Content_Type="application/json")
        if path.startswith("/api/models/"):
            return self.answer(404, b"{}", X_Error_Code="RepoNotFound")
        if "resolve" in parts and parts[-1] in self.files:
            self.asked.append(parts[-1])
            body = self.files[parts[-1]]
            return self.answer(200, body, ETag=f'"{hashlib.sha1(body).hexdigest()}"', X_Repo_Commit=COMMIT)
        return self.answer(404, X_Error_Code="EntryNotFound")

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(folder):
    Hub.files = {path.name: path.read_bytes() for path in folder.iterdir()} | EXTRA
    Hub.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def show(tmp_path, *arguments, **environment):
    """`models show` in a fresh process, whose Hub cache is a folder of this test."""
    values = {
        **os.environ,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        **environment,
    }
    command = [sys.executable, "-m", "pocketbert", "models", *arguments, "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=values, timeout=120)


@pytest.mark.slow
def test_only_the_files_we_read_are_downloaded_and_afterwards_the_cache_is_enough(hub, tmp_path):
    done = show(tmp_path, "show", "small/bert", HF_ENDPOINT=hub)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["width"] == 32
    assert set(Hub.asked) == {"config.json", "model.safetensors", "vocab.txt"}
    pinned = show(tmp_path, "show", "small/bert", "--revision", COMMIT, HF_ENDPOINT=hub)
    assert pinned.returncode == 0, pinned.stderr
    offline = show(tmp_path, "show", "small/bert", HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr


@pytest.mark.slow
def test_a_wrong_name_and_a_wrong_revision_are_told_apart(hub, tmp_path):
    nameless = show(tmp_path, "show", "small/brt", HF_ENDPOINT=hub)
    assert nameless.returncode == 2
    assert "no such model on the Hub" in nameless.stderr
    revision = show(tmp_path, "show", "small/bert", "--revision", "v9", HF_ENDPOINT=hub)
    assert revision.returncode == 2
    assert "not this revision" in revision.stderr
    malformed = show(tmp_path, "show", "small/be--rt..", HF_ENDPOINT=hub)
    assert malformed.returncode == 2
    assert "Traceback" not in malformed.stderr


def test_a_model_that_is_only_a_pickle_on_the_hub_says_how_to_import_it(hub, tmp_path):
    del Hub.files["model.safetensors"]
    done = show(tmp_path, "show", "small/bert", HF_ENDPOINT=hub)
    assert done.returncode == 2
    assert "pytorch_model.bin" not in Hub.asked, "no pickle is fetched unasked"
    assert "pocketbert models import small/bert --allow-pickle" in done.stderr


def test_such_a_model_is_imported_and_then_known_by_its_name_without_a_network(hub, tmp_path):
    import torch
    from conftest import hugging_face_bert

    del Hub.files["model.safetensors"]
    torch.save(hugging_face_bert().state_dict(), tmp_path / "w.bin")
    Hub.files["pytorch_model.bin"] = (tmp_path / "w.bin").read_bytes()
    done = show(tmp_path, "import", "small/bert", "--allow-pickle", HF_ENDPOINT=hub)
    assert done.returncode == 0, done.stderr
    shown = show(tmp_path, "show", "small/bert", HF_HUB_OFFLINE="1")
    assert json.loads(shown.stdout)["from"] == "imported"


def test_without_a_network_the_error_comes_at_once(tmp_path):
    import socket

    with socket.socket() as taken:  # a port nobody listens on
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    start = time.perf_counter()
    done = show(tmp_path, "show", "small/bert", HF_ENDPOINT=f"http://127.0.0.1:{port}")
    assert done.returncode == 2
    assert "cannot be reached" in done.stderr
    assert time.perf_counter() - start < 20


@pytest.mark.parametrize("arguments", [["check", "sst2", "--hub"], ["models", "show", "small/bert"]])
def test_without_a_network_it_is_one_line_at_once(arguments, tmp_path):
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))  # bound, and nobody listens there
    address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    environment = {**os.environ, "HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "cache")}
    environment.pop("POCKETBERT_DATA", None)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pocketbert", *arguments], capture_output=True, text=True, env=environment, check=False
    )
    closed.close()
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "the Hub cannot be reached" in done.stderr
    assert time.perf_counter() - began < 15
