"""Our side: pocketbert at its default settings, or with some of its ideas switched off."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.data import tokenizer
from pocketbert import Task
from pocketbert.config import SHAPES
from pocketbert.dropout import Dropout, seed_dropout
from pocketbert.encoder import Encoder
from pocketbert.loading import load_model
from pocketbert.methods import DataSize, NetworkMethod, get_method
from pocketbert.training.batches import epoch_batches
from pocketbert.training.fit import NetworkFitted, make_network
from pocketbert.training.job import JobTask
from pocketbert.training.learners import NetworkLearner, TaskTexts
from pocketbert.training.settings import TrainingSettings

Measured = dict[str, float]
RATES, SEEDS, EPOCHS = (1e-3, 3e-3, 1e-2), (0, 1, 2, 3, 4), 10  # the frozen comparison's grid


def resolved(name: str, model: str | Path, task: Task, told: dict[str, Any] | None = None) -> TrainingSettings:
    """A method's settings as it derives them."""
    method = get_method(name)
    size = DataSize(len(task.train), len(task.labels))
    settings = method.resolve(method.read(told or {}), load_model(model), size)
    assert isinstance(settings, TrainingSettings)
    return settings


class Training:
    """Fine-tuning a share of an epoch at a time.

    Batches of like length differ in cost, so a round takes batches spread evenly over the lengths of the epoch: each
    round is a fair sample of it, and no batch comes twice in one turn of the rounds.
    """

    def __init__(
        self,
        task: Task,
        *,
        shape: str,
        rounds: int,
        steps: int | None = None,
        settings: dict[str, Any] | None = None,
        flat: bool = True,
        short_masks: bool = True,
    ) -> None:
        config = SHAPES[shape]
        self.settings = resolved("finetune", shape, task, settings)
        method = get_method("finetune")
        assert isinstance(method, NetworkMethod)
        read, limit = tokenizer(), self.settings.max_length
        train, dev = (read(split.texts, max_length=limit) for split in (task.train, task.dev))
        assert task.train.labels is not None
        network = make_network(method, Encoder(config, seed=0), self.settings, {task.name: len(task.labels)})
        if not short_masks:
            use_torch_dropout(network)
        texts = TaskTexts(task.name, len(task.labels), train, task.train.labels, dev, task.dev.labels)
        self.learner = NetworkLearner(network, method.trains, [texts], self.settings, self.settings.rates[0])
        if not flat:
            self.learner.optimizer = PlainAdamW(self.learner)  # type: ignore[assignment]
        self.learner.network.train()
        seed_dropout(self.learner.network, 0)
        lengths = self.learner.tasks[0].train.lengths
        like = self.settings.group_by_length
        batches = epoch_batches(lengths, self.settings.batch_size, np.random.default_rng(0), group_by_length=like)
        self.batches = sorted(batches, key=lambda rows: int(lengths[rows].max()))
        self.rounds = rounds
        self.steps = min(steps or len(self.batches), max(1, len(self.batches) // rounds))
        self.done = 0
        for rows in (self.batches[-1], *self.share(0)[:3]):
            self.step(rows)

    def share(self, round_number: int) -> list[np.ndarray]:
        """This round's batches, in random order."""
        places = (np.arange(self.steps) + (round_number % self.rounds + 0.5) / self.rounds) * len(self.batches)
        chosen = (places / self.steps).astype(int)
        return [self.batches[i] for i in np.random.default_rng(round_number).permutation(chosen)]

    def step(self, rows: np.ndarray) -> int:
        self.learner.step(rows, self.learner.rate(self.done))
        self.done += 1
        return len(rows)

    def run(self, round_number: int) -> Measured:
        batches = self.share(round_number)
        started = time.perf_counter()
        examples = sum(self.step(rows) for rows in batches)
        return {"seconds": time.perf_counter() - started, "examples": examples}


class PlainAdamW:
    """What `FlatAdamW` replaces: torch's AdamW over the parameters one by one, and its clipping."""

    def __init__(self, learner: NetworkLearner) -> None:
        self.parameters = [p for _, p in learner.trainable]
        for parameter in self.parameters:  # out of the long vector, into memory of their own
            parameter.data, parameter.grad = parameter.data.clone(), None
        self.clip = learner.settings.clip
        decay = learner.settings.weight_decay
        self.adam = torch.optim.AdamW(
            [
                {"params": [p for p in self.parameters if p.ndim > 1], "weight_decay": decay},
                {"params": [p for p in self.parameters if p.ndim == 1], "weight_decay": 0.0},
            ]
        )

    def zero_grad(self) -> None:
        self.adam.zero_grad()

    def step(self, rate: float) -> None:
        nn.utils.clip_grad_norm_(self.parameters, self.clip)
        for group in self.adam.param_groups:
            group["lr"] = rate
        self.adam.step()


class TorchDropout(nn.Dropout):
    """torch's own dropout, with the method that the encoder calls."""

    def add(self, x: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        return x + self(change)


def use_torch_dropout(module: nn.Module) -> None:
    """Put torch's own dropout where ours is."""
    for name, part in list(module.named_children()):
        if isinstance(part, Dropout):
            setattr(module, name, TorchDropout(part.p))
        else:
            use_torch_dropout(part)


class FrozenGrid:
    """Every learning rate and seed of a frozen encoder, by the command that a person would give: from three files to
    the report, with an empty feature cache."""

    def __init__(self, folder: Path, task: Task, *, epochs: int = EPOCHS) -> None:
        self.folder, self.epochs, self.examples = folder, epochs, len(task.train)
        self.files = tempfile.TemporaryDirectory()
        self.names = [Path(self.files.name) / f"{split}.csv" for split in ("train", "dev", "test")]
        for path in self.names:
            split = task.split(path.stem)
            assert split.labels is not None
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["text", "label"])
                writer.writerows(
                    (text, task.labels[label]) for text, label in zip(split.texts, split.labels, strict=True)
                )

    def run(self, round_number: int) -> Measured:
        with tempfile.TemporaryDirectory() as empty:
            out = Path(empty) / "study"
            rates = ",".join(map(str, RATES))
            flags = ["--methods", "frozen", "--models", str(self.folder), "--learning-rate", rates]
            flags += ["--epochs", str(self.epochs), "--seeds", str(len(SEEDS)), "--out", str(out), "--json"]
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", "pocketbert", "study", ",".join(map(str, self.names)), *flags],
                env={**os.environ, "POCKETBERT_HOME": empty},
                capture_output=True,
                check=True,
            )
            seconds = time.perf_counter() - started
            runs = list((out / "runs").glob("*frozen*"))
            trials = [json.loads((run / "metrics.json").read_text())["trials"] for run in runs]
        assert trials == [len(RATES) * self.epochs] * len(SEEDS)
        return {"seconds": seconds, "examples": self.examples}


class Predicting:
    """Texts in, probabilities out."""

    def __init__(self, task: Task, *, shape: str = "tiny") -> None:
        config = SHAPES[shape]
        settings = resolved("finetune", shape, task)
        method = get_method("finetune")
        assert isinstance(method, NetworkMethod)
        network = make_network(method, Encoder(config, seed=0), settings, {task.name: len(task.labels)})
        of = JobTask(task.name, task.labels, task.train)
        self.fitted = NetworkFitted(network, tokenizer(), settings, method.trains, of)
        self.texts = list(task.test.texts)
        self.fitted.probabilities(self.texts[:64])

    def run(self, round_number: int) -> Measured:
        started = time.perf_counter()
        results = self.fitted.probabilities(self.texts)
        return {"seconds": time.perf_counter() - started, "examples": len(results)}


def make(kind: str, folder: Path, task: Task, spec: dict[str, Any]) -> Training | FrozenGrid | Predicting:
    """What a worker asks for by name."""
    if kind == "frozen":
        return FrozenGrid(folder, task, **spec)
    return Predicting(task, **spec) if kind == "predict" else Training(task, **spec)
