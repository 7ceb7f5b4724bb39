"""kill -9 at any moment, continued: the same bytes, nothing done twice, nothing left lying about."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from study.conftest import command, files_of, numbers_of, run

# Read by Python at its start, where it is on the path: kills the process in the middle of its Nth rename, with the
# file written beside and not yet in its place.
KILL_AT_RENAME = """
import os, signal
left, replace = int(os.environ.get("KILL_AT_RENAME", "0")), os.replace

def counted(*arguments, **named):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(*arguments, **named)

os.replace = counted
"""


def torment(tmp_path: Path, reviews: Path, model: str, kills: int) -> None:
    arguments = [
        "study",
        reviews,
        "--models",
        f"tiny,{model}",
        "--epochs",
        "3",
        "--folds",
        "2",
        "--repeats",
        "1",
        "--batch-size",
        "32",
        "--workers",
        "2",
        "--out",
    ]
    started = time.monotonic()
    run(*arguments, tmp_path / "calm", home=tmp_path / "home")
    whole = time.monotonic() - started
    patched = tmp_path / "patched"
    patched.mkdir()
    (patched / "sitecustomize.py").write_text(KILL_AT_RENAME)
    chance = random.Random(7)
    folder = tmp_path / "killed"
    finished: dict[Path, int] = {}
    landed = attempts = 0
    while landed < kills:
        attempts += 1
        assert attempts <= 5 * kills, f"only {landed} kills landed"
        paths = os.pathsep.join(filter(None, [str(patched), os.environ.get("PYTHONPATH")]))
        at_rename = {"PYTHONPATH": paths, "KILL_AT_RENAME": str(chance.randint(1, 9))} if attempts % 3 == 2 else {}
        process = command(*arguments, folder, home=tmp_path / "home", **at_rename)
        try:
            process.wait(timeout=None if at_rename else chance.uniform(0.3, whole))
        except Exception:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        landed += process.returncode == -signal.SIGKILL  # others had ended before it came
        for path, stamp in finished.items():
            assert path.stat().st_mtime_ns == stamp, f"{path.parent.name} was done twice"
        finished = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/manifest.json")}
        if len(finished) == 11 and landed < kills:  # all is done: spoil some, so that there is something to kill
            for path in chance.sample(sorted(finished), 6):
                for file in sorted(path.parent.rglob("*"), reverse=True):
                    file.rmdir() if file.is_dir() else file.unlink()
                path.parent.rmdir()
                del finished[path]
    run(*arguments, folder, home=tmp_path / "home")
    for path, stamp in finished.items():
        assert path.stat().st_mtime_ns == stamp, f"{path.parent.name} was done twice"
    assert numbers_of(folder) == numbers_of(tmp_path / "calm")
    assert files_of(folder) == files_of(tmp_path / "calm")


@pytest.mark.slow
def test_a_study_survives_being_killed(tmp_path, reviews, model):
    torment(tmp_path, reviews, model, kills=2)


@pytest.mark.slow
def test_a_study_survives_being_killed_at_25_moments(tmp_path, reviews, model):
    torment(tmp_path, reviews, model, kills=25)
