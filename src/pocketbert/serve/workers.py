"""Several processes that answer on one socket, and the one that looks after them.

The socket is the supervisor's: what waits to be accepted is lost with no worker. A worker that dies is replaced, at
once, then after growing pauses where it dies again and again. A worker whose standard input ends knows that its
supervisor is gone, and drains.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from pocketbert.errors import UserError
from pocketbert.serve.metrics import shared_size
from pocketbert.serve.options import ServeOptions
from pocketbert.serve.server import BACKLOG, GRACE

LOOK = 0.1  # seconds between two looks at the workers
LONGEST_PAUSE = 10.0  # seconds before a worker that keeps dying is started again
HEALTHY = 20.0  # seconds a worker lives to be forgiven its predecessor's death
BROKEN = 3  # starts of a first worker that may fail before the service is given up


class Worker:
    """One process; its successor takes its number, and so its row of counts."""

    def __init__(self, number: int) -> None:
        self.number, self.deaths, self.next_start, self.started = number, 0, 0.0, 0.0
        self.process: subprocess.Popen[str] | None = None
        self.ready = False

    def start(self, options: ServeOptions, listener: socket.socket, shared: int, heard: Callable[[str], None]) -> None:
        descriptors = (listener.fileno(), shared)
        self.started, self.ready = time.monotonic(), False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pocketbert.serve.workers", str(self.number), *map(str, descriptors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=descriptors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(options.threads or 1)} if options.workers > 1 else None,
        )
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(options.to_dict()) + "\n")
            self.process.stdin.flush()
        threading.Thread(target=self._listen, args=(self.process, heard), daemon=True).start()

    def _listen(self, process: "subprocess.Popen[str]", heard: Callable[[str], None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.ready = True
            heard(line.strip())

    def died(self) -> bool:
        return self.process is not None and self.process.poll() is not None


class Supervisor:
    """Keeps the workers of a service alive until it is told to stop."""

    def __init__(self, options: ServeOptions, listener: socket.socket, names: list[str]) -> None:
        if sys.platform == "win32":
            raise UserError("--workers: several processes on one socket need Linux or macOS; leave it out")
        self.options, self.listener = options, listener
        self.workers = [Worker(number) for number in range(options.workers)]
        self.stopping = False
        self.memory = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the service
        self.memory.truncate(shared_size(names, options.workers))

    def run(self, ready: Callable[[], None]) -> None:
        """Until SIGTERM or Ctrl-C; then until every accepted request has its answer."""
        self.listener.listen(BACKLOG)
        before = {sign: signal.signal(sign, self._stop) for sign in (signal.SIGTERM, signal.SIGINT)}
        told = False
        try:
            for worker in self.workers:
                self._start(worker)
            while not self.stopping:
                for worker in self.workers:
                    self._look(worker)
                if not told and any(worker.ready for worker in self.workers):
                    told = True
                    ready()
                time.sleep(LOOK)
        finally:
            self._end()
            for sign, handler in before.items():
                signal.signal(sign, handler)

    def _start(self, worker: Worker) -> None:
        worker.start(self.options, self.listener, self.memory.fileno(), lambda line: None)

    def _look(self, worker: Worker) -> None:
        now = time.monotonic()
        if not worker.died():
            return
        assert worker.process is not None
        if worker.next_start <= worker.started:  # seen for the first time
            worker.deaths = 0 if now - worker.started > HEALTHY else worker.deaths + 1
            if worker.deaths >= BROKEN and not any(one.ready for one in self.workers):
                raise UserError(f"the workers do not start: exit code {worker.process.returncode}; see above")
            worker.next_start = now + min(LONGEST_PAUSE, 0.0 if worker.deaths < 2 else 0.25 * 2**worker.deaths)
            print(f"worker {worker.number} ended ({worker.process.returncode}); starting another", file=sys.stderr)
        if now >= worker.next_start:
            worker.next_start = 0.0
            self._start(worker)

    def _stop(self, sign: int, frame: FrameType | None) -> None:
        self.stopping = True

    def _end(self) -> None:
        """Let every worker drain; what has not ended after that is killed."""
        alive = [worker.process for worker in self.workers if worker.process is not None and not worker.died()]
        for process in alive:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + GRACE + 5
        for process in alive:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.1, until - time.monotonic()))
            if process.poll() is None:
                process.kill()
                process.wait()
        self.listener.close()
        self.memory.close()


# -- what follows happens in a worker --------------------------------------------------------------------------------


def main(arguments: list[str]) -> None:
    """A worker: its number and its file descriptors as arguments, its options on standard input."""
    from pocketbert.serve.server import serve_process

    number, listening, shared = map(int, arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of a terminal; the supervisor says what to do
    options = ServeOptions.from_dict(json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    listener = socket.socket(fileno=listening)

    def ready(models: dict[str, Any]) -> None:
        print("ready", flush=True)

    try:
        serve_process(options, listener, worker=number, shared=shared, ready=ready)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _end_with_supervisor() -> None:
    while sys.stdin.readline():
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def run_names(options: ServeOptions) -> list[str]:
    """The names that the models will have, found without loading them."""
    from pocketbert.serve.loaded import find_runs

    return [name for name, _, _ in find_runs([Path(p) for p in options.runs], [Path(p) for p in options.adapters])]


if __name__ == "__main__":
    main(sys.argv[1:])
