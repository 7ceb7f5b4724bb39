"""Thousands of commands in minutes: a server imports pocketbert once, and each command runs in a fork of it.

A crash, a hang or an exit ends the fork alone. `python forking.py` is the server; `Forks` talks to it in JSON lines.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

SECONDS = 10.0  # a command that takes longer hangs


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code (negative: a signal), what it wrote."""

    code: int
    out: bytes
    err: str
    seconds: float

    def fault(self, as_json: bool) -> str | None:
        """What is wrong with how it ended, if something is."""
        if self.seconds >= SECONDS:
            return f"a hang of {self.seconds:.0f} s"
        if self.code not in (0, 2):
            return f"exit code {self.code}"
        if re.search(r"Traceback|panicked|\w(Error|Exception|Warning): ", self.err):
            return "noise on standard error"
        if self.code and not self.err.strip():
            return "a failure without a word"
        if as_json:
            try:
                # A document that a strict parser reads: UTF-8, and no half of a character.
                json.dumps(json.loads(self.out.decode("utf-8")), ensure_ascii=False).encode("utf-8")
            except ValueError as error:
                return f"not one document: {error}"
        return None


class Forks:
    """The server, from outside."""

    def __init__(self, home: Path) -> None:
        environment = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "HOME": str(home), "POCKETBERT_HOME": str(home)}
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def run(self, folder: Path, arguments: list[str]) -> Done:
        """Run `pocketbert ARGUMENTS…` in a folder."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"folder": str(folder), "arguments": arguments}) + "\n")
        self.process.stdin.flush()
        code, seconds = json.loads(self.process.stdout.readline())
        err = (folder / ".err").read_bytes().decode("utf-8", "replace")
        return Done(code, (folder / ".out").read_bytes(), err, seconds)

    def close(self) -> None:
        self.process.communicate(timeout=SECONDS)


def serve() -> None:
    """Import what commands import, then fork for each line."""
    import importlib
    import pkgutil

    import pocketbert.catalog
    from pocketbert.cli import main

    ours = [module.name for module in pkgutil.walk_packages(pocketbert.__path__, "pocketbert.")]
    theirs = [
        "rich.box",
        "rich.console",
        "rich.table",
        "rich.text",
        "sklearn.linear_model",
        "pyarrow.csv",
        "typer.rich_utils",
    ]
    for name in [*ours, *theirs, "sklearn.feature_extraction.text", "pyarrow.parquet", "rich.markdown"]:
        if not name.endswith(("__main__", ".cluster")):
            importlib.import_module(name)
    pocketbert.catalog.show_model("tiny")  # torch imports the half of itself when it is first asked for a shape
    for line in sys.stdin:
        case = json.loads(line)
        started = time.monotonic()
        child = os.fork()
        if not child:
            _command(main, case)
        code = _wait(child, started + SECONDS)
        print(json.dumps([code, time.monotonic() - started]), flush=True)


def _command(main, case) -> None:
    os.setsid()
    os.chdir(case["folder"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, name in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(nothing, 0)
    sys.argv = ["pocketbert", *case["arguments"]]
    code = 1
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _wait(child: int, until: float) -> int:
    """Its exit code; what hangs is killed with all it started."""
    handle = os.pidfd_open(child)
    ready, _, _ = select.select([handle], [], [], max(0.0, until - time.monotonic()))
    if not ready:
        os.killpg(child, signal.SIGKILL)
    os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    serve()
