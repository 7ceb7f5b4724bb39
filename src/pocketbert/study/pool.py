"""Runs side by side on this machine: one process a core, one thread each, long runs first.

Each worker has a thread here that hands it a run whose needs are met, listens until the run ends, and hands it the
next; where none is ready yet, it waits for one that is running. A worker that
dies is started again, and its run tried again; numbers do not depend on which worker did what. Nor does the memory that
a run is said to need: a process keeps what its largest run took, so the runs of another row begin in a new one.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pocketbert.errors import CannotWrite
from pocketbert.methods import get_method
from pocketbert.study.messages import bank_message, task_to_json
from pocketbert.study.plan import Plan, PlannedRun, banks
from pocketbert.study.store import Store

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

    def __init__(self, plan: Plan, store: Store | None, threads: int) -> None:
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
        self.plan, self.store = plan, store
        self.known: set[str] = set()
        self.row: int | None = None  # whose runs it has done; baselines, which need next to nothing, do not count

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def do(self, bank: list[PlannedRun], heard: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
        """Do runs that differ in their seeds alone; the last message, or None where the process died."""
        assert self.store is not None
        run = bank[0]
        if get_method(run.method).needs_model:
            self.row = run.row
        message = {**bank_message(bank, self.plan, self.store), "runs": str(self.store.runs)}
        return self.ask(message, run.task, heard)

    def time(self, run: PlannedRun) -> dict[str, Any] | None:
        """Measure what a run of this kind costs."""
        return self.ask({"time": bank_message([run], self.plan, None)}, run.task)

    def ask(
        self, message: dict[str, Any], task: str | None = None, heard: Callable[[dict[str, Any]], None] | None = None
    ) -> dict[str, Any] | None:
        """Send a message, with the task it is about where the process does not know it; its last answer."""
        assert self.process.stdout is not None
        try:
            if task is not None and task not in self.known:
                self.send({"add": task_to_json(self.plan, task)})
                self.known.add(task)
            self.send(message)
        except BrokenPipeError:
            return None
        for line in self.process.stdout:
            answer: dict[str, Any] = json.loads(line)
            if "share" not in answer:
                return answer
            if heard is not None:
                heard(answer)
        return None

    def suits(self, run: PlannedRun) -> bool:
        return not get_method(run.method).needs_model or self.row in (None, run.row)

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


class Queue:
    """The jobs that are left, each handed out when what its runs need is finished. Not safe from two threads."""

    def __init__(self, jobs: list[list[PlannedRun]], finished: Iterable[str]) -> None:
        self.waiting = list(jobs)
        self.failures: list[tuple[PlannedRun, str]] = []
        self._finished = set(finished)

    def take(self) -> list[PlannedRun] | None:
        """The first job that is ready; None where there is none now."""
        for job in self.waiting:
            if all(need in self._finished for run in job for need in run.needs):
                self.waiting.remove(job)
                return job
        return None

    def done(self, run: PlannedRun) -> None:
        self._finished.add(run.folder)

    def failed(self, run: PlannedRun, why: str) -> list[tuple[PlannedRun, str]]:
        """This run is lost, and so is every run that needs it; all of them, with the reason."""
        lost, reasons = {run.folder}, [(run, why)]
        while more := [
            one for job in self.waiting for one in job if one.folder not in lost and lost.intersection(one.needs)
        ]:
            lost.update(one.folder for one in more)
            reasons += [(one, f"the run that it needs failed: {run.folder}") for one in more]
        jobs = [[one for one in job if one.folder not in lost] for job in self.waiting]
        self.waiting = [job for job in jobs if job]
        self.failures += reasons
        return reasons


class Pool:
    """A number of workers, and the jobs that are left."""

    def __init__(self, plan: Plan, store: Store, workers: int, watch: Watch) -> None:
        self.plan, self.store, self.workers = plan, store, workers
        self._queue = Queue([], [])
        self._changed = threading.Condition()
        self._running = 0
        self._watch = watch
        self._stop: str | None = None
        self._broken: BaseException | None = None

    def run(self, jobs: list[list[PlannedRun]]) -> list[tuple[PlannedRun, str]]:
        """Do all jobs; the runs that failed, with the reason. A disk that is full stops everything."""
        self._queue = Queue(jobs, [run.folder for run in self.plan.runs if self.store.finished(run)])
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
            self._stop = "stopped"
            raise  # the workers' inputs close with this process
        if self._broken is not None:
            raise self._broken
        if self._stop is not None:
            raise CannotWrite(f"{self._stop}. What is finished is kept: make room, and give the same command again")
        return self._queue.failures

    def _serve(self) -> None:
        worker: Worker | None = None
        try:
            while (job := self._next()) is not None:
                try:
                    for bank in banks(job):
                        worker = self._bank(bank, worker)
                finally:
                    with self._changed:
                        self._running -= 1
                        self._changed.notify_all()
        except BaseException as error:  # ours: said by `run`, not swallowed with this thread
            self._broken = error
        finally:
            with self._changed:
                self._changed.notify_all()
            if worker is not None:
                worker.end()

    def _next(self) -> list[PlannedRun] | None:
        """A job that is ready, waiting for one where something is still running; None where there is nothing left."""
        with self._changed:
            while self._stop is None and self._broken is None:
                job = self._queue.take()
                if job is not None:
                    self._running += 1
                    return job
                if not self._running:
                    return None
                self._changed.wait()
        return None

    def _bank(self, bank: list[PlannedRun], worker: Worker | None) -> Worker | None:
        """Runs that train together, tried again where their worker dies. Gives back the worker, if it lives."""
        run = bank[0]
        for attempt in range(1, TRIES + 1):
            if self._stop is not None:
                return worker
            if worker is not None and not worker.suits(run):
                worker.end()
                worker = None
            if worker is None:
                worker = Worker(self.plan, self.store, run.settings.threads or 1)
            self._tell(bank, "began")
            last = worker.do(bank, lambda heard: self._tell(bank, "progress", **heard))
            if last is None:
                why = worker.last_words()
                worker.end()
                worker = None
                if attempt < TRIES and self._stop is None:
                    self._tell(bank, "again", message=why)
                    continue
                last = {"failed": why}
            if "stop" in last:
                self._stop = last["stop"]
            else:
                self._ended(bank, last.get("failed", ""))
            return worker
        return worker

    def _ended(self, bank: list[PlannedRun], why: str) -> None:
        """Of runs that trained together, some may be finished where others failed."""
        with self._changed:
            for run in bank:
                if self.store.finished(run):
                    self._queue.done(run)
                    self._watch(Event(run, "done"))
                else:
                    for lost, reason in self._queue.failed(run, why):
                        self._watch(Event(lost, "failed", message=reason))
            self._changed.notify_all()

    def _tell(self, bank: list[PlannedRun], kind: str, **what: Any) -> None:
        with self._changed:
            for run in bank:
                self._watch(Event(run, kind, **what))
