"""Runs side by side on this machine: one process a core, one thread each, long runs first.

Each worker has a thread here that hands it a run, listens until the run ends, and hands it the next. A worker that
dies is started again, and its run tried again; numbers do not depend on which worker did what. Nor does the memory that
a run is said to need: a process keeps what its largest run took, so the runs of another row begin in a new one.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pocketbert.errors import CannotWrite
from pocketbert.study.plan import Plan, PlannedRun
from pocketbert.study.worker import task_to_json

TRIES = 3  # of one run, when workers die under it


@dataclass(frozen=True)
class Event:
    """Something to show: a run began, got on, ended or failed."""

    run: PlannedRun
    kind: str  # began, progress, done, failed, again
    share: float = 0.0
    speed: float = 0.0  # examples a second
    left: float = 0.0  # seconds
    message: str = ""


Watch = Callable[[Event], None]


class Worker:
    """A process, and the line to it."""

    def __init__(self, plan: Plan, threads: int) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pocketbert.study.worker"],  # -P: never from the folder one happens to be in
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env={**os.environ, **limits},
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C is ours to answer
        )
        self.plan = plan
        self.known: set[str] = set()
        self.row: int | None = None  # whose runs it has done; baselines, which need next to nothing, do not count

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def do(self, run: PlannedRun, folder: Path, heard: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
        """Do a run; its last message, or None where the process died."""
        assert self.process.stdout is not None
        if run.model is not None:
            self.row = run.row
        try:
            if run.task not in self.known:
                self.send({"add": task_to_json(self.plan.tasks[run.task])})
                self.known.add(run.task)
            self.send({**message_of(run, self.plan), "folder": str(folder)})
        except BrokenPipeError:
            return None
        for line in self.process.stdout:
            message = json.loads(line)
            if "share" not in message:
                return message
            heard(message)
        return None

    def suits(self, run: PlannedRun) -> bool:
        return run.model is None or self.row in (None, run.row)

    def last_words(self) -> str:
        self.process.wait()
        self.errors.seek(0)
        lines = self.errors.read().decode("utf-8", "replace").strip().splitlines()
        why = f": {lines[-1]}" if lines else "; was there enough memory?"
        return f"the worker ended with code {self.process.returncode}{why}"

    def end(self) -> None:
        """It ends by itself when its input does; what it was doing is on disk as far as it got."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with _ignoring_broken_pipes():
                    stream.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


class _ignoring_broken_pipes:
    def __enter__(self) -> None: ...
    def __exit__(self, kind: Any, *_: Any) -> bool:
        return kind is not None and issubclass(kind, BrokenPipeError)


def message_of(run: PlannedRun, plan: Plan) -> dict[str, Any]:
    """A run as a worker is told of it."""
    about = {"task": run.task, "method": run.method, "model": run.model, "settings": asdict(run.settings)}
    return {**about, "warnings": plan.checks[run.row].warnings}


class Pool:
    """A number of workers, and the jobs that are left."""

    def __init__(self, plan: Plan, folder: Path, workers: int, watch: Watch) -> None:
        self.plan, self.folder, self.workers = plan, folder, workers
        self.failures: list[tuple[PlannedRun, str]] = []
        self._jobs: deque[list[PlannedRun]] = deque()
        self._lock = threading.Lock()
        self._watch = watch
        self._stop: str | None = None
        self._broken: BaseException | None = None

    def run(self, jobs: list[list[PlannedRun]]) -> list[tuple[PlannedRun, str]]:
        """Do all jobs; the runs that failed, with the reason. A disk that is full stops everything."""
        self._jobs.extend(jobs)
        threads = [
            threading.Thread(target=self._serve, daemon=True) for _ in range(max(1, min(self.workers, len(jobs))))
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        except BaseException:
            self._jobs.clear()
            self._stop = "stopped"
            raise  # the workers' inputs close with this process
        if self._broken is not None:
            raise self._broken
        if self._stop is not None:
            raise CannotWrite(f"{self._stop}. What is finished is kept: make room, and give the same command again")
        return self.failures

    def _serve(self) -> None:
        worker: Worker | None = None
        try:
            while self._stop is None and self._broken is None:
                try:
                    job = self._jobs.popleft()
                except IndexError:
                    return
                for run in job:
                    worker = self._one(run, worker)
        except BaseException as error:  # ours: said by `run`, not swallowed with this thread
            self._broken = error
        finally:
            if worker is not None:
                worker.end()

    def _one(self, run: PlannedRun, worker: Worker | None) -> Worker | None:
        """One run, tried again where its worker dies. Gives back the worker, if it lives."""
        for attempt in range(1, TRIES + 1):
            if self._stop is not None:
                return worker
            if worker is not None and not worker.suits(run):
                worker.end()
                worker = None
            if worker is None:
                worker = Worker(self.plan, run.settings.threads or 1)
            self._tell(Event(run, "began"))
            last = worker.do(run, self.folder / run.folder, lambda heard: self._tell(Event(run, "progress", **heard)))
            if last is None:
                why = worker.last_words()
                worker.end()
                worker = None
                if attempt < TRIES and self._stop is None:
                    self._tell(Event(run, "again", message=why))
                    continue
                last = {"failed": why}
            if "done" in last:
                self._tell(Event(run, "done"))
            elif "stop" in last:
                self._stop = last["stop"]
            else:
                with self._lock:
                    self.failures.append((run, last["failed"]))
                self._tell(Event(run, "failed", message=last["failed"]))
            return worker
        return worker

    def _tell(self, event: Event) -> None:
        with self._lock:
            self._watch(event)
