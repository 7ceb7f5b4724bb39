"""A small study that runs in seconds: a CSV, a small model, a command."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from training.conftest import make_task, model, task, tokenizer  # noqa: F401 - fixtures

from pocketbert.config import Config

SMALL = ["--epochs", "2", "--batch-size", "32", "--seeds", "2", "--folds", "0"]


@pytest.fixture(scope="session")
def config(tokenizer):  # noqa: F811 - a fixture
    """For `model`: as small as can be, with places for the usual 128 tokens."""
    return Config(vocabulary=len(tokenizer) + 40, width=24, layers=2, heads=3, inner=40, positions=128)


@pytest.fixture(scope="session")
def reviews(tmp_path_factory) -> Path:
    """One file of labelled texts."""
    path = tmp_path_factory.mktemp("own") / "reviews.csv"
    toy = make_task(train=240)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for split in toy.splits.values():
            writer.writerows((text, toy.labels[label]) for text, label in zip(split.texts, split.labels, strict=True))
    return path


@pytest.fixture
def only_ray(tmp_path_factory):
    """One cluster at a time: "ray" without an address would find another test's."""
    from filelock import FileLock

    root = tmp_path_factory.getbasetemp()
    with FileLock((root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "ray.lock"):
        yield


def command(*arguments: str | Path, home: Path, **environment: str) -> subprocess.Popen:
    """The command line, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "pocketbert", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "POCKETBERT_HOME": str(home), **environment},
        # A suite in the background of a shell hands on an ignored Ctrl-C; a person's terminal does not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run(*arguments: str | Path, home: Path, code: int = 0, **environment: str) -> tuple[str, str]:
    """Run it to its end; its two outputs."""
    with command(*arguments, home=home, **environment) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == code, f"exit {process.returncode}\n{out}\n{err}"
    return out, err


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def numbers_of(folder: Path) -> dict[str, bytes]:
    """Everything of a study that must be the same the next time: predictions, models, results."""
    same = [path for path in files_of(folder) if path.endswith(("dev.csv", "test.csv", "results.csv", ".safetensors"))]
    return {name: (folder / name).read_bytes() for name in same}
