"""A command of pocketbert in a child that may take so much memory and time and no more; what it took is measured."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

LIMIT = 1_500_000_000  # bytes of its own data that a child may have
SECONDS = 60.0


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code (negative: a signal), what it wrote, the most memory it had."""

    code: int
    out: str
    err: str
    peak: int  # bytes, resident
    timed_out: bool

    @property
    def document(self):
        """The one JSON document on standard output."""
        return json.loads(self.out)

    def refused(self) -> bool:
        """One clear line and exit code 2: no traceback, no signal, no panic."""
        noise = any(word in self.err + self.out for word in ("Traceback", "panicked", "MemoryError"))
        return self.code == 2 and not noise and not self.timed_out


def limited(*arguments, home: Path, limit: int = LIMIT, seconds: float = SECONDS, stdin=None, **environment) -> Ended:
    """Run `pocketbert ARGUMENTS…` with at most `limit` bytes of data and `seconds` of time, one thread."""

    def fence() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    command = [sys.executable, "-m", "pocketbert", *(os.fspath(argument) for argument in arguments)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=out,
            stderr=err,
            preexec_fn=fence,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "POCKETBERT_HOME": str(home), **environment},
        )
        late = threading.Timer(seconds, lambda: os.killpg(process.pid, signal.SIGKILL))
        late.start()
        _, status, used = os.wait4(process.pid, 0)
        timed_out = not late.is_alive()
        late.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        texts = [file.read().decode("utf-8", "replace") for file in (out, err)]
    return Ended(process.returncode, texts[0], texts[1], used.ru_maxrss * 1024, timed_out)
