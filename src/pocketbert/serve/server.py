"""One process that answers: the models loaded, the application made, uvicorn around it, drained at SIGTERM."""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from pocketbert.serve.app import create_app
from pocketbert.serve.batching import Batcher
from pocketbert.serve.limits import Guard
from pocketbert.serve.loaded import LoadedModel, load_models
from pocketbert.serve.metrics import Metrics
from pocketbert.serve.options import ServeOptions
from pocketbert.serve.protocol import BoundedProtocol
from pocketbert.serve.service import Service
from pocketbert.training.machine import keep_freed_memory
from pocketbert.training.settings import usable_cores

BACKLOG = 2_048  # connections that wait to be accepted
LINGER = 0.3  # seconds of a drain in which still to accept, with connections closed after each answer
GRACE = 30  # seconds for answers under way
SWITCH = 0.0005  # seconds after which a thread that computes lets the one that answers go on, and the other way round


def make_service(options: ServeOptions, models: dict[str, LoadedModel], metrics: Metrics | None = None) -> Service:
    """Models with a queue before them."""
    metrics = metrics or Metrics(list(models))
    threads = options.threads or max(1, usable_cores() // options.workers)
    batcher = Batcher(
        batch_tokens=options.batch_tokens,
        batch_wait=options.batch_wait,
        queue_seconds=options.queue_seconds,
        threads=threads,
        metrics=metrics,
    )
    return Service(models, batcher, metrics, options.limits)


def warm_up(models: dict[str, LoadedModel]) -> None:
    """The first batch of a process costs more than all others; nobody shall wait for it."""
    for model in models.values():
        texts = ["a film", "a film"][: 2 if model.pair else 1]
        for rows in (1, 4):
            model.probabilities(model.items([texts] * rows))


def serve_process(
    options: ServeOptions,
    listener: socket.socket,
    *,
    worker: int = 0,
    shared: int | None = None,
    ready: Callable[[dict[str, LoadedModel]], None] | None = None,
) -> None:
    """Load, answer until told to stop, finish what was accepted."""
    keep_freed_memory()
    sys.setswitchinterval(SWITCH)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    models = load_models([Path(run) for run in options.runs], [Path(run) for run in options.adapters])
    warm_up(models)
    metrics = Metrics(list(models), workers=options.workers, worker=worker, shared=shared)
    guard = create_app(make_service(options, models, metrics), token=options.token, hosts=options.hosts)
    config = uvicorn.Config(
        guard,
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE,
    )
    server = DrainingServer(config, guard)
    if ready is not None:
        server.on_started = lambda: ready(models)
    server.run(sockets=[listener])


class DrainingServer(uvicorn.Server):
    """At a signal: not ready any more, each answer ends its connection, a moment later no new ones, then the end."""

    on_started: Callable[[], None] | None = None

    def __init__(self, config: uvicorn.Config, guard: Guard) -> None:
        super().__init__(config)
        self.guard = guard
        self._running: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._running = asyncio.get_running_loop()
        await super().startup(sockets)
        if self.started and self.on_started is not None:
            self.on_started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.guard.draining or self._running is None:
            self.should_exit = True  # told twice
            return
        self.guard.draining = True
        self._running.call_soon_threadsafe(self._running.call_later, LINGER, self._stop)

    def _stop(self) -> None:
        self.should_exit = True
