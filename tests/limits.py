"""A command of pocketbert in a child that may take so much memory and time and no more; what it took is measured."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

LIMIT = 1_500_000_000  # bytes of its own data that a child may have
SECONDS = 60.0

# A process begins with the peak of the one it was forked from. This one is small, where a test's is not.
LAUNCHER = """
import os, resource, sys
limit, report = int(sys.argv[1]), int(sys.argv[2])
child = os.fork()
if not child:
    os.close(report)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.execv(sys.argv[3], sys.argv[3:])
_, status, used = os.wait4(child, 0)
os.write(report, f"{os.waitstatus_to_exitcode(status)} {used.ru_maxrss}".encode())
"""


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
    command = [sys.executable, "-m", "pocketbert", *(os.fspath(argument) for argument in arguments)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as report:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", LAUNCHER, str(limit), str(report.fileno()), *command],
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=out,
            stderr=err,
            pass_fds=[report.fileno()],
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "POCKETBERT_HOME": str(home), **environment},
        )
        late = threading.Timer(seconds, lambda: os.killpg(process.pid, signal.SIGKILL))
        late.start()
        process.wait()
        timed_out = not late.is_alive()
        late.cancel()
        for file in (out, err, report):
            file.seek(0)
        texts = [file.read().decode("utf-8", "replace") for file in (out, err)]
        code, peak = map(int, report.read().split() or (-signal.SIGKILL, 0))  # nothing: it was late
    return Ended(code, texts[0], texts[1], peak * 1024, timed_out)
