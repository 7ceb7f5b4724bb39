"""Something that writes, killed at the n-th change it makes to the disk: in a child that a clean server forks."""

import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pocketbert.files import new_file, new_folder

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

server = multiprocessing.get_context("forkserver")
# What the children would import each for itself.
server.set_forkserver_preload(
    ["killing", "pytest", "pocketbert.predict", "sklearn.linear_model", "sklearn.feature_extraction.text"]
)


def killed(operation: Callable[..., None], *arguments: object, at: int = 0) -> bool:
    """Do it; kill -9 before its n-th change. False: it made fewer than that, and came to its end."""
    child = server.Process(target=_do, args=(operation, arguments, at))
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL), f"exit {child.exitcode}"
    return child.exitcode != 0


def every_kill(operation: Callable[..., None], *arguments: object) -> Iterator[int]:
    """1, 2, … : after each, the operation was killed there. The caller puts everything as it was before."""
    for at in itertools.count(1):
        if not killed(operation, *arguments, at=at):
            return
        yield at


def _do(operation: Callable[..., None], arguments: tuple[object, ...], at: int) -> None:
    left = at

    def count(event: str, details: tuple) -> None:
        nonlocal left
        if event in CHANGES or (event == "open" and isinstance(details[2], int) and details[2] & FOR_WRITING):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.dont_write_bytecode = True
    sys.addaudithook(count)
    operation(*arguments)


# -- what is killed --------------------------------------------------------------------------------------------------


def write_file(path: Path, text: str) -> None:
    with new_file(path) as part, part.open("w") as file:
        file.write(text)


def write_folder(path: Path, text: str) -> None:
    """Two files, one of them deeper: half of it can be there."""
    with new_folder(path, overwrite=True) as part:
        (part / "one").write_text(text)
        (part / "deep").mkdir()
        (part / "deep" / "two").write_text(text)


def read_folder(path: Path) -> str | None:
    """The text of a whole folder; None: there is none."""
    if not path.exists():
        return None
    assert sorted(file.name for file in path.rglob("*")) == ["deep", "one", "two"], "half a folder"
    one, two = (path / "one").read_text(), (path / "deep" / "two").read_text()
    assert one == two, "half old, half new"
    return one


def train(data: Path, folder: Path) -> None:
    from pocketbert.tasks import load_task
    from pocketbert.train import train_run

    train_run(load_task(str(data)), "tfidf", folder)


def predict(run: Path, data: Path, out: Path) -> None:
    from pocketbert.predict import predict_file
    from pocketbert.runs import load_run

    predict_file(load_run(run), data, out)
