"""Many requests, one model, few large batches: what waits is computed together, up to a budget of tokens.

One thread computes. When it is free it takes what waits, from every request a share, so that a large one does not keep
small ones waiting; when nothing waited it gives others a moment to come. What waits is bounded by the time that it
would take, measured on the way; beyond that a request is refused at once, which costs nothing, and told when to return.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pocketbert.serve.loaded import Item, LoadedModel
from pocketbert.serve.metrics import Metrics
from pocketbert.training.machine import computing

BATCH_TOKENS = 2_048
BATCH_WAIT = 0.001  # seconds that the first request of a batch waits for others
QUEUE_SECONDS = 1.0  # of work that may wait
QUEUE_TOKENS = 200_000  # that may wait before the speed is known, or however fast it is
MEMORY = 0.2  # how much the newest batch changes the measured speed


class Overloaded(Exception):
    """More than can be done in good time; come again after so many seconds."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"too many requests are waiting; try again in {retry_after} s")
        self.retry_after = retry_after


@dataclass(eq=False)
class _Request:
    """Items of one request; those before `taken` are computed, or being so."""

    model: LoadedModel
    items: Sequence[Item]
    future: "asyncio.Future[np.ndarray]"
    results: np.ndarray
    taken: int = 0
    missing: int = field(init=False)

    def __post_init__(self) -> None:
        self.missing = len(self.items)


_Taken = list[tuple[_Request, int, int]]  # items from … to … of a request


class Batcher:
    """The queue before the models, and the thread behind it."""

    def __init__(
        self,
        *,
        batch_tokens: int = BATCH_TOKENS,
        batch_wait: float = BATCH_WAIT,
        queue_seconds: float = QUEUE_SECONDS,
        queue_tokens: int = QUEUE_TOKENS,
        threads: int | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.batch_tokens, self.batch_wait, self.threads = batch_tokens, batch_wait, threads
        self.queue_seconds, self.queue_tokens = queue_seconds, queue_tokens
        self.metrics = metrics or Metrics([])
        self.tokens_per_second: float | None = None
        self._waiting: deque[_Request] = deque()
        self._tokens = 0  # waiting, or being computed
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """In the event loop whose requests it serves."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, name="inference", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish what waits, then end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    # -- the event loop's side -----------------------------------------------------------------------------------

    @property
    def tokens(self) -> int:
        """Tokens that wait or are being computed."""
        return self._tokens

    def check(self, tokens: int = 0) -> None:
        """Refuse what would wait too long; but whatever comes when nothing waits is taken."""
        if not self._tokens:
            return
        waiting, speed = self._tokens + tokens, self.tokens_per_second
        seconds = 0.0 if speed is None else waiting / speed
        if waiting > self.queue_tokens or seconds > self.queue_seconds:
            raise Overloaded(max(1, math.ceil(seconds - self.queue_seconds)))

    async def probabilities(self, model: LoadedModel, items: Sequence[Item]) -> np.ndarray:
        """(items, labels), when their turn has come."""
        if not items:
            return np.zeros((0, len(model.labels)))
        tokens = sum(item.tokens for item in items)
        self.check(tokens)
        future: asyncio.Future[np.ndarray] = asyncio.get_running_loop().create_future()
        request = _Request(model, items, future, np.zeros((len(items), len(model.labels))))
        with self._changed:
            self._waiting.append(request)
            self._tokens += tokens
            self._changed.notify()
        return await future

    def _deliver(self, taken: _Taken, tokens: int, outcome: np.ndarray | BaseException) -> None:
        """What the thread has computed, into the requests' results."""
        with self._changed:
            self._tokens -= tokens
        done = 0
        for request, begin, end in taken:
            if isinstance(outcome, BaseException):
                if not request.future.done():
                    request.future.set_exception(outcome)
                continue
            request.results[begin:end] = outcome[done : done + end - begin]
            done += end - begin
            request.missing -= end - begin
            if not request.missing and not request.future.done():
                request.future.set_result(request.results)

    # -- the thread's side ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        assert self._loop is not None
        with computing(self.threads):
            while (taken := self._next()) is not None:
                items = [item for request, begin, end in taken for item in request.items[begin:end]]
                tokens = sum(item.tokens for item in items)
                began = time.perf_counter()
                outcome: np.ndarray | BaseException
                try:
                    outcome = taken[0][0].model.probabilities(items) if items else np.zeros((0, 0))
                except BaseException as error:
                    outcome = error
                self._measure(len(items), tokens, time.perf_counter() - began)
                self._loop.call_soon_threadsafe(self._deliver, taken, tokens, outcome)

    def _measure(self, items: int, tokens: int, seconds: float) -> None:
        if not items:
            return
        speed = tokens / max(seconds, 1e-6)
        old = self.tokens_per_second
        # A batch of one says what one costs, not how fast many are; where many wait, batches are full.
        if tokens >= self.batch_tokens // 2:
            self.tokens_per_second = speed if old is None else old + MEMORY * (speed - old)
        elif old is not None and speed > old:
            self.tokens_per_second = old + MEMORY * (speed - old)
        self.metrics.observe("pocketbert_batch_texts", items)
        self.metrics.observe("pocketbert_batch_seconds", seconds)

    def _next(self) -> _Taken | None:
        """What to compute next; None at the end."""
        with self._changed:
            if not self._waiting:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self.batch_wait and not self._closed:
                    self._changed.wait_for(lambda: self._tokens >= self.batch_tokens, timeout=self.batch_wait)
            return self._take() if self._waiting else None

    def _take(self) -> _Taken:
        """Of every request for the model whose turn it is a share of the budget; then what room is left, in order."""
        for request in [request for request in self._waiting if request.future.done()]:  # given up: nobody waits
            self._tokens -= sum(item.tokens for item in request.items[request.taken :])
            self._waiting.remove(request)
        if not self._waiting:
            return []
        model = self._waiting[0].model
        candidates = [request for request in self._waiting if request.model is model]
        share, room, taken = self.batch_tokens // len(candidates), self.batch_tokens, []
        for allowed in (share, self.batch_tokens):
            for request in candidates:
                begin, used = request.taken, 0
                while request.taken < len(request.items) and used < min(allowed, room):
                    used += request.items[request.taken].tokens
                    request.taken += 1
                room -= used
                if request.taken > begin:
                    taken.append((request, begin, request.taken))
                if room <= 0:
                    break
        first = self._waiting[0]
        self._waiting = deque(request for request in self._waiting if request.taken < len(request.items))
        if self._waiting and self._waiting[0] is first:
            self._waiting.rotate(-1)  # its rest after the others
        return taken
