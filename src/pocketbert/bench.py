"""How fast this machine trains and predicts, beside the plain way of doing the same: `pocketbert bench`.

The comparison with other libraries needs them installed and lives outside the package: `make bench`.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import torch

from pocketbert.config import SHAPES, Config
from pocketbert.encoder import Encoder
from pocketbert.loading import load_model
from pocketbert.methods import SHAPE, DataSize, list_methods
from pocketbert.tasks import Task
from pocketbert.tokenizer import Tokenizer
from pocketbert.training.batches import epoch_batches
from pocketbert.training.fit import NetworkFitted
from pocketbert.training.job import JobTask
from pocketbert.training.learners import NetworkLearner, TaskTexts, fresh_head
from pocketbert.training.machine import computing
from pocketbert.training.network import Network, Part
from pocketbert.training.settings import TrainingSettings, usable_cores

PLAIN = {"group_by_length": False, "only_cls": False, "vocabulary_slice": False, "precision": "float32"}
ROUNDS = 3  # of each side, alternating


def everything(part: Part) -> bool:
    """A filter that lets everything train."""
    return True


def bench(
    task: Task,
    sizes: tuple[str, ...] = ("tiny", "mini"),
    *,
    threads: int | None = None,
    steps: int = 20,
    say: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Examples per second for each size: training the plain way, training our way, predicting; and the matrix peak."""
    threads = threads or usable_cores()
    tokenizer = Tokenizer.learn(task.train.texts)
    rows = []
    with computing(threads):
        peak = {str(kind).removeprefix("torch."): _peak(kind) for kind in (torch.float32, torch.bfloat16)}
        for size in sizes:
            if say is not None:
                say(f"measuring {size}: fresh weights, {threads} threads, sentences of {task.name}")
            rows.append({"size": size, **_measure(size, task, tokenizer, threads, steps)})
    return {"task": task.name, "threads": threads, "gigaflops": peak, "sizes": rows}


def _measure(size: str, task: Task, tokenizer: Tokenizer, threads: int, steps: int) -> dict[str, Any]:
    config = Config(**{**vars(SHAPES[size]), "vocabulary": len(tokenizer), "padding_id": tokenizer.padding_id})
    method = next(method for method in list_methods().values() if method.starts_from == SHAPE)
    start = replace(load_model(size), config=config)
    ours = method.resolve(method.read({"threads": threads}), start, DataSize(len(task.train), len(task.labels)))
    assert isinstance(ours, TrainingSettings)
    sides = {
        name: _stepper(config, task, tokenizer, settings)
        for name, settings in (("plain", replace(ours, **PLAIN)), ("ours", ours))  # type: ignore[arg-type]
    }
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for step in sides.values():
        step(3)  # warm up
    for _ in range(ROUNDS):
        for name, step in sides.items():
            speeds[name].append(step(steps))
    heads = {task.name: fresh_head(ours, config.width, len(task.labels))}
    network = Network(Encoder(config), heads, ours.pooling or "pooler")
    fitted = NetworkFitted(network, tokenizer, ours, everything, JobTask(task.name, task.labels, task.train))
    texts = (task.dev.texts * (1 + 1_000 // len(task.dev)))[:1_000]
    fitted.probabilities(texts[:100], None)
    started = time.perf_counter()
    fitted.probabilities(texts, None)
    plain, quick = median(speeds["plain"]), median(speeds["ours"])
    return {
        "precision": ours.precision,
        "train_plain": plain,
        "train": quick,
        "times": quick / plain,
        "predict": len(texts) / (time.perf_counter() - started),
    }


def _stepper(config: Config, task: Task, tokenizer: Tokenizer, settings: TrainingSettings) -> Callable[[int], float]:
    """A function that trains so many batches and says how many examples per second that was."""
    heads = {task.name: fresh_head(settings, config.width, len(task.labels))}
    network = Network(Encoder(config), heads, settings.pooling or "pooler", only_cls=settings.only_cls)
    assert task.train.labels is not None
    encoded = tokenizer(task.train.texts, max_length=settings.max_length)
    rate = settings.rates[0]
    texts = TaskTexts(task.name, len(task.labels), encoded, task.train.labels)
    made = NetworkLearner(network, everything, [texts], settings, rate)
    network.train()
    random = np.random.default_rng(0)

    def batches() -> list[np.ndarray]:
        lengths = made.tasks[0].train.lengths
        return epoch_batches(lengths, settings.texts_per_step, random, group_by_length=settings.group_by_length)

    waiting = batches()

    def step(count: int) -> float:
        nonlocal waiting
        done, started = 0, time.perf_counter()
        for _ in range(count):
            waiting = waiting or batches()
            rows = waiting.pop()
            made.step(rows, rate)
            done += len(rows)
        return done / (time.perf_counter() - started)

    return step


def _peak(kind: torch.dtype, size: int = 1_024) -> float:
    """Billions of floating-point operations per second in one large matrix product."""
    a, b = (torch.ones(size, size, dtype=kind) for _ in range(2))
    times = []
    for _ in range(8):
        started = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - started)
    return 2 * size**3 / median(times) / 1e9
