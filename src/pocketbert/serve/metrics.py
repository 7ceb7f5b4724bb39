"""What a service counts, as Prometheus reads it. Several workers count side by side in shared memory, a row each.

Every series is known when the service starts, so a count is a number in an array: no lock, no message, and a worker
that is replaced goes on where its predecessor was killed.
"""

import mmap
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from pocketbert.training.machine import kernel_says

ROUTES = ("/v1/predict", "/v1/explain", "/v1/attention", "/v1/swap", "/v1/models", "/metrics", "/", "other")
STATUSES = (200, 304, 400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 431, 500, 503, 504)
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

HELP = {
    "pocketbert_requests_total": ("counter", "Requests by route and status."),
    "pocketbert_request_seconds": ("histogram", "Time from a request's headers to the end of its answer."),
    "pocketbert_texts_total": ("counter", "Texts that were classified, by model."),
    "pocketbert_tokens_total": ("counter", "Tokens of these texts, by model."),
    "pocketbert_truncated_total": ("counter", "Texts that were longer than their model reads, by model."),
    "pocketbert_batch_texts": ("histogram", "Texts that were computed together."),
    "pocketbert_batch_seconds": ("histogram", "Time to compute a batch."),
    "pocketbert_queue_tokens": ("gauge", "Tokens that wait or are being computed."),
    "pocketbert_requests_in_progress": ("gauge", "Requests that have no answer yet."),
    "pocketbert_memory_bytes": ("gauge", "Resident memory of the workers."),
    "pocketbert_worker_starts_total": ("counter", "Workers that were started; more than workers: some were replaced."),
}
GAUGES = tuple(name for name, (kind, _) in HELP.items() if kind == "gauge")
HISTOGRAMS: dict[str, tuple[tuple[float, ...], Sequence[str]]] = {
    "pocketbert_request_seconds": (SECONDS, [f'route="{route}"' for route in ROUTES]),
    "pocketbert_batch_texts": (TEXTS, [""]),
    "pocketbert_batch_seconds": (SECONDS, [""]),
}


def series_names(models: Sequence[str]) -> list[str]:
    """Every series, in the order of its numbers in the array."""
    names = [
        f'pocketbert_requests_total{{route="{route}",status="{status}"}}' for route in ROUTES for status in STATUSES
    ]
    for model in models:
        names += [f'pocketbert_{what}_total{{model="{model}"}}' for what in ("texts", "tokens", "truncated")]
    names += [*GAUGES, "pocketbert_worker_starts_total"]
    for histogram, (bounds, labels) in HISTOGRAMS.items():
        for label in labels:
            comma = f"{label}," if label else ""
            names += [f'{histogram}_bucket{{{comma}le="{bound:g}"}}' for bound in bounds]
            names += [f'{histogram}_bucket{{{comma}le="+Inf"}}']
            names += [f"{histogram}_{part}{{{label}}}" if label else f"{histogram}_{part}" for part in ("sum", "count")]
    return names


class Metrics:
    """The counts of one worker among several.

    Args:
        models: their names.
        workers, worker: how many there are, and which this is.
        shared: a file descriptor of `shared_size` bytes that all workers have; None: a service of one.
    """

    def __init__(self, models: Sequence[str], *, workers: int = 1, worker: int = 0, shared: int | None = None) -> None:
        self.names = series_names(models)
        size = shared_size(models, workers)
        memory: mmap.mmap | bytearray = bytearray(size) if shared is None else mmap.mmap(shared, size)
        self.all = np.frombuffer(memory, dtype=np.float64).reshape(workers, len(self.names))
        self._own = self.all[worker]
        self._index = {name: number for number, name in enumerate(self.names)}
        for name in GAUGES:
            self.set(name, 0.0)
        self.add("pocketbert_worker_starts_total")

    def add(self, name: str, amount: float = 1.0) -> None:
        self._own[self._index[name]] += amount

    def set(self, name: str, value: float) -> None:
        self._own[self._index[name]] = value

    def observe(self, histogram: str, value: float, label: str = "") -> None:
        """Into its bucket alone; buckets are summed up when they are read."""
        bounds, _ = HISTOGRAMS[histogram]
        place = bisect_left(bounds, value)
        bound = f"{bounds[place]:g}" if place < len(bounds) else "+Inf"
        self.add(f'{histogram}_bucket{{{label + "," if label else ""}le="{bound}"}}')
        self.add(f"{histogram}_sum{{{label}}}" if label else f"{histogram}_sum", value)
        self.add(f"{histogram}_count{{{label}}}" if label else f"{histogram}_count")

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request has its answer."""
        route = route if route in ROUTES else "other"
        known = status if status in STATUSES else 500
        self.add(f'pocketbert_requests_total{{route="{route}",status="{known}"}}')
        self.observe("pocketbert_request_seconds", seconds, f'route="{route}"')

    def text(self) -> str:
        """Prometheus' text format, all workers together. Series of requests that never came are left out."""
        self.set("pocketbert_memory_bytes", float(kernel_says("VmRSS") or 0))
        values = dict(zip(self.names, self.all.sum(axis=0).tolist(), strict=True))
        lines = []
        for metric, (kind, meaning) in HELP.items():
            lines += [f"# HELP {metric} {meaning}", f"# TYPE {metric} {kind}"]
            running, counts = 0.0, kind == "histogram"
            for name, value in values.items():
                plain = name.partition("{")[0]
                if plain != metric and not (counts and plain.rpartition("_")[0] == metric):
                    continue
                if plain.endswith("_bucket"):
                    running = value = running + value
                    if 'le="+Inf"' in name:
                        running = 0.0
                if value or metric != "pocketbert_requests_total":
                    lines.append(f"{name} {value:.10g}")
        return "\n".join(lines) + "\n"


def shared_size(models: Sequence[str], workers: int) -> int:
    """Bytes that the counts of all workers take."""
    return 8 * workers * len(series_names(models))
