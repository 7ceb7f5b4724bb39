"""From a job to a trained network, and from its folder back: the same for every method that trains a BERT.

A method says what trains by a filter over the parameters (`network.Part`). Everything else follows from it: what is
saved is what trained; where something that is read did not train, the rest comes from the start, whose weights must
still be the ones it had; where nothing in the encoder trains, its sentence vectors are computed once.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pocketbert.checkpoints import read_config, read_encoder, read_tokenizer, write_tokenizer
from pocketbert.dropout import set_dropout
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.files import new_file, write_json
from pocketbert.metrics import softmax
from pocketbert.start import weights_fingerprint
from pocketbert.tasks import Split
from pocketbert.tokenizer import Encoded, Tokenizer
from pocketbert.training.features import split_features
from pocketbert.training.job import Fitted, Job, JobTask, Predictions, Saved, Trained
from pocketbert.training.learners import HeadBank, NetworkLearner, TaskTexts, fresh_head
from pocketbert.training.loop import Learner, Outcome, train
from pocketbert.training.network import Filter, Network, Part, read_all
from pocketbert.training.settings import TrainingSettings

TRAINED = "trained.safetensors"
HEAD, ENCODER = "head.safetensors", "encoder"  # what runs of format 1 have instead: a head, a whole model folder


class Recipe(Protocol):
    """What differs from method to method."""

    def prepare(self, job: Job) -> tuple[Encoder, Tokenizer]:
        """The encoder to start from, and the tokenizer it reads with."""

    def extend(self, encoder: Encoder, settings: TrainingSettings) -> None:
        """Put what the method adds into the encoder's slots."""

    def trains(self, part: Part) -> bool:
        """Does this parameter train?"""


class NetworkFitted(Fitted):
    """A trained network and its tokenizer."""

    def __init__(
        self, network: Network, tokenizer: Tokenizer, settings: TrainingSettings, trains: Filter, task: JobTask | Saved
    ) -> None:
        self.network, self.tokenizer, self.settings, self.trains = network.eval(), tokenizer, settings, trains
        self.task = task.name if isinstance(task, JobTask) else task.task
        self.labels = len(task.labels)
        self.trained_parameters = sum(parameter.numel() for parameter in network.chosen(trains).values())
        self.model_bytes = sum(parameter.nbytes for parameter in network.parameters())
        self.shared: str | None = None  # the fingerprint of a frozen encoder whose features other runs can use too

    def predict(self, split: Split, *, keep: bool = False) -> Predictions:
        if not len(split):
            return Predictions(np.zeros((0, self.labels)))
        encoded = split.encoded(self.tokenizer, self.settings.max_length)
        if keep and self.shared is not None:
            logits = self._from_features(split, self.shared)
        else:
            logits = read_all(lambda batch: self.network(batch, self.task), encoded, device=self.settings.device)
        return Predictions(softmax(logits), _truncated(encoded))

    def _from_features(self, split: Split, weights: str) -> np.ndarray:
        read = split_features(self.network, split, self.tokenizer, self.settings.max_length, weights=weights)
        with torch.inference_mode():
            return self.network.head(self.task)(torch.from_numpy(read).to(self.settings.device)).cpu().numpy()

    def save(self, folder: Path) -> None:
        """What trained; and, where that is everything that is read, what makes it a model by itself."""
        tensors = {name: p.detach().cpu().contiguous() for name, p in self.network.chosen(self.trains).items()}
        with new_file(folder / TRAINED) as part:
            save_file(tensors, part)
        if self.network.stands_alone(self.trains):
            config = self.network.encoder.config
            write_json(folder / "config.json", {"architectures": ["BertModel"], **config.to_hugging_face()})
            write_tokenizer(self.tokenizer, folder, config.positions)


def fit_network(method: Recipe, job: Job, seeds: tuple[int, ...]) -> list[Trained]:
    """Train a job for several seeds that share everything but their heads; most methods take one at a time."""
    settings = _training(job.settings)
    encoder, tokenizer = job.prepared or method.prepare(job)
    tasks = [read_task(task, tokenizer, settings.max_length) for task in job.tasks]
    labels = {task.name: len(task.labels) for task in job.tasks}
    network = make_network(method, encoder, settings, labels)
    outcome = train(
        _groups(method, job, network, tokenizer, tasks, seeds),
        epochs=settings.epochs or 1,
        patience=settings.patience,
        keep_last=settings.keep == "last",
        checkpoint=job.checkpoint,
        report=job.report,
    )
    trained = []
    for seed in seeds:
        own = replace(settings, seed=seed)
        fresh = make_network(method, encoder, own, labels)
        trained.append(_trained(method, job, outcome, fresh, tokenizer, own, len(seeds)))
    return trained


def make_network(method: Recipe, encoder: Encoder, settings: TrainingSettings, labels: Mapping[str, int]) -> Network:
    """The encoder with what the method adds to it, and a fresh head per task; `labels`: how many each task has."""
    heads = {
        task: fresh_head(settings, encoder.config.width, count, number)
        for number, (task, count) in enumerate(labels.items())
    }
    method.extend(encoder, settings)
    if settings.dropout is not None:
        set_dropout(encoder, settings.dropout)
    return Network(encoder, heads, settings.pooling or "pooler", only_cls=settings.only_cls)


def learns_from_features(method: Recipe, network: Network, settings: TrainingSettings) -> bool:
    """May the encoder's sentence vectors be computed once? Where none of it trains, and no head reads every token.

    They are kept under BERT's own fingerprint, so an encoder with anything added to it shares them with nobody.
    """
    parts = network.parts()
    plain = not any(part.of == "added" for part in parts.values())
    fixed = plain and all(parts[name].of == "heads" for name in network.chosen(method.trains))
    states = any(head.reads_states for head in network.heads.values())
    return fixed and not states and len(network.heads) == 1 and bool(getattr(settings, "cache_features", False))


def _training(settings: object) -> TrainingSettings:
    assert isinstance(settings, TrainingSettings)
    return settings


def read_task(task: JobTask, tokenizer: Tokenizer, max_length: int) -> TaskTexts:
    """A task as a learner reads it."""
    dev = None if task.dev is None else task.dev.encoded(tokenizer, max_length)
    dev_targets = None if task.dev is None else task.dev.labels
    return TaskTexts(
        task.name, len(task.labels), task.train.encoded(tokenizer, max_length), task.targets, dev, dev_targets
    )


def _weights(job: Job, network: Network) -> str:
    return job.fingerprint or weights_fingerprint(network.encoder)


def _truncated(encoded: Encoded) -> int:
    return int((encoded.cut > 0).sum())


def _groups(
    method: Recipe, job: Job, network: Network, tokenizer: Tokenizer, tasks: list[TaskTexts], seeds: tuple[int, ...]
) -> list[Callable[[], Learner]]:
    """One learner per rate, one after the other, each from the same start; or, on features, all rates and seeds at
    once."""
    settings = _training(job.settings)
    if learns_from_features(method, network, settings):
        return [lambda: _bank(network, job.task, tokenizer, settings, seeds, _weights(job, network))]

    def start(rate: float) -> Callable[[], Learner]:
        return lambda: NetworkLearner(copy.deepcopy(network), method.trains, tasks, settings, rate)

    return [start(rate) for rate in settings.rates]


def _bank(
    network: Network,
    task: JobTask,
    tokenizer: Tokenizer,
    settings: TrainingSettings,
    seeds: tuple[int, ...],
    weights: str,
) -> HeadBank:
    network = network.to(settings.device)

    def read(split: Split) -> np.ndarray:
        return split_features(network, split, tokenizer, settings.max_length, weights=weights)

    dev = None if task.dev is None or task.dev.labels is None else (read(task.dev), task.dev.labels)
    return HeadBank(task.name, (read(task.train), task.targets), dev, len(task.labels), settings, seeds)


def _trained(
    method: Recipe,
    job: Job,
    outcome: Outcome,
    network: Network,
    tokenizer: Tokenizer,
    settings: TrainingSettings,
    seeds: int,
) -> Trained:
    """One seed's part of what was trained; of the time that several seeds took together, its share."""
    dev = None if job.task.dev is None else job.task.dev.encoded(tokenizer, settings.max_length)
    put(network, outcome.weights[settings.seed])
    best = outcome.best[settings.seed]
    fitted = NetworkFitted(network.float().to(settings.device), tokenizer, settings, method.trains, job.task)
    if learns_from_features(method, network, settings):
        fitted.shared = _weights(job, network)
    logits = outcome.logits.get(settings.seed)
    history = [record for record in outcome.history if record.seed == settings.seed]
    return Trained(
        fitted,
        history,
        {"learning_rate": best.rate, "epoch": best.epoch, "dev_accuracy": best.score},
        outcome.elapsed / seeds,
        trials=len(history),
        dev=None if logits is None or dev is None else Predictions(softmax(logits), _truncated(dev)),
    )


def put(network: Network, weights: dict[str, Tensor]) -> None:
    """Copy weights into a network by name; every name must be there, in its shape."""
    parameters = dict(network.named_parameters())
    for name, tensor in weights.items():
        if name not in parameters or parameters[name].shape != tensor.shape:
            raise UserError(f"'{name}' is no weight of this network; the run's checkpoint is damaged: remove it")
        parameters[name].data.copy_(tensor)


# -- and back --------------------------------------------------------------------------------------------------------


def load_network(method: Recipe, saved: Saved) -> NetworkFitted:
    """What `NetworkFitted.save` wrote, on the start it was trained on where it does not stand alone."""
    settings = _training(saved.settings)
    old = (saved.folder / HEAD).is_file()
    if (saved.folder / "config.json").is_file():
        encoder, tokenizer = _own_encoder(saved.folder)
    elif old and (saved.folder / ENCODER).is_dir():
        encoder, tokenizer = _whole_encoder(saved.folder / ENCODER)
    else:
        encoder, tokenizer = _start_again(saved, settings)
    network = make_network(method, encoder, settings, {saved.task: len(saved.labels)})
    if old:
        head = network.head(saved.task)
        tensors = _tensors(saved.folder / HEAD, dict(head.named_parameters()))
        head.load_state_dict(tensors)
    else:
        put(network, _tensors(saved.folder / TRAINED, network.chosen(method.trains)))
    return NetworkFitted(network.to(settings.device), tokenizer, settings, method.trains, saved)


def _tensors(path: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A file's tensors: the expected names and shapes, numbers throughout."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: not a whole safetensors file: {error}") from error
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    if shapes != {name: tensor.shape for name, tensor in expected.items()}:
        raise UserError(f"{path}: damaged: does not hold what settings.json describes")
    if not all(tensor.is_floating_point() and tensor.isfinite().all() for tensor in tensors.values()):
        raise UserError(f"{path}: damaged: weights that are no numbers")
    return tensors


def _whole_encoder(folder: Path) -> tuple[Encoder, Tokenizer]:
    encoder, _ = read_encoder(folder)
    return encoder, _require(read_tokenizer(folder, encoder.config), folder)


def _require(tokenizer: Tokenizer | None, folder: Path) -> Tokenizer:
    if tokenizer is None:
        raise UserError(f"{folder}: no tokenizer in it")
    return tokenizer


def _own_encoder(folder: Path) -> tuple[Encoder, Tokenizer]:
    """An encoder of the saved shape; every number that is read will come from the trained ones."""
    config = read_config(folder)
    return Encoder(config, seed=0), _require(read_tokenizer(folder, config), folder)


def _start_again(saved: Saved, settings: TrainingSettings) -> tuple[Encoder, Tokenizer]:
    """The start is where it was; its weights must be those that were trained on."""
    assert saved.start is not None
    encoder = saved.start.encoder(seed=settings.seed)
    if weights_fingerprint(encoder) != saved.weights:
        raise UserError(
            f"{saved.folder}: was trained on other weights than '{saved.start.name}' has now; put those back, or train "
            f"again"
        )
    return encoder, saved.start.require_tokenizer()
