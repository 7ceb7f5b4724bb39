"""The three methods that train a BERT: frozen, finetune, scratch. They share the loop, and differ in what trains."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from pocketbert.checkpoints import read_config, read_encoder, read_tokenizer, save_model
from pocketbert.config import Config
from pocketbert.dropout import set_dropout
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.files import new_file
from pocketbert.methods.base import Fitted, Job, Method, Trained, register
from pocketbert.models import load_model, load_tokenizer, weights_fingerprint
from pocketbert.tokenizer import Encoded, Tokenizer
from pocketbert.training.features import features
from pocketbert.training.learners import HeadBank, NetworkLearner, fresh_head
from pocketbert.training.loop import Learner, Outcome, train
from pocketbert.training.network import Network, read_all, softmax
from pocketbert.training.settings import Settings

HEAD = "head.safetensors"
READING = 32  # rows a batch when predicting


class NetworkFitted(Fitted):
    """A trained network and its tokenizer."""

    def __init__(self, network: Network, tokenizer: Tokenizer, settings: Settings, *, whole: bool) -> None:
        self.network, self.tokenizer, self.settings, self.whole = network.eval(), tokenizer, settings, whole
        self.labels = int(dict(network.head.named_parameters())["output.bias"].shape[0])
        self.shared: str | None = None  # the fingerprint of a frozen encoder whose features other runs can use too

    def probabilities(self, texts: Sequence[str], seconds: Sequence[str] | None = None) -> np.ndarray:
        encoded = self.tokenizer(texts, seconds, max_length=self.settings.max_length)
        self.cut = int((encoded.cut > 0).sum())
        if not len(encoded):
            return np.zeros((0, self.labels))
        if self.shared is None:
            return softmax(read_all(self.network, encoded, batch_size=READING, device=self.settings.device))
        with torch.inference_mode():
            read = torch.from_numpy(features(self.network, encoded, weights=self.shared)).to(self.settings.device)
            return softmax(self.network.head(read).cpu().numpy())

    def save(self, folder: Path) -> None:
        """The head, and the encoder too where the method trained it."""
        with new_file(folder / HEAD) as part:
            save_file({name: p.detach().cpu().contiguous() for name, p in self.network.head.named_parameters()}, part)
        if self.whole:
            save_model(self.network.encoder, folder / "encoder", self.tokenizer)


class Neural(Method):
    """What the three have in common."""

    def trains(self, parameter: str, *, pooler: bool) -> bool:
        """Everything that is read."""
        return pooler or not parameter.startswith("encoder.pooler.")

    def prepare(self, job: Job) -> tuple[Encoder, Tokenizer]:
        """The encoder to start from, and the tokenizer it reads with."""
        assert job.model is not None
        if job.model.folder is None:
            raise UserError(
                f"'{job.model.name}' is a shape with fresh weights: nothing to {self.name}; "
                f"use method scratch, or a pretrained model (pocketbert models)"
            )
        if job.model.tokenizer is None:
            raise UserError(f"{job.model.folder}: the model has no tokenizer.json and no vocab.txt")
        if self.name == "frozen" and job.settings.pooling == "pooler" and not job.model.has_pooler:
            raise UserError(f"model '{job.model.name}' has no pooler; use pooling cls or mean")
        return job.model.encoder(seed=job.settings.seed), job.model.tokenizer

    def fit(self, job: Job) -> Trained:
        return self.fit_together(job, (job.settings.seed,))[0]

    def fit_together(self, job: Job, seeds: tuple[int, ...]) -> list[Trained]:
        """Seeds that share everything but their heads, in one training; most methods take one at a time."""
        settings = job.settings
        encoder, tokenizer = job.start or self.prepare(job)
        texts = tokenizer(job.train.texts, job.train.seconds, max_length=settings.max_length)
        dev = None
        if job.dev is not None:
            dev = tokenizer(job.dev.texts, job.dev.seconds, max_length=settings.max_length)
        outcome = train(
            self.groups(job, self.network(encoder, settings, len(job.labels)), texts, dev, seeds),
            None if job.dev is None else job.dev.labels,
            epochs=settings.epochs or 1,
            patience=settings.patience,
            checkpoint=job.checkpoint,
            report=job.report,
        )
        trained = []
        for seed in seeds:
            own = replace(settings, seed=seed)
            trained.append(self.trained(outcome, self.network(encoder, own, len(job.labels)), tokenizer, own))
        return trained

    def trained(self, outcome: Outcome, network: Network, tokenizer: Tokenizer, settings: Settings) -> Trained:
        weights = outcome.weights[settings.seed]
        put(network, weights)
        best = outcome.best[settings.seed]
        fitted = NetworkFitted(network.float().to(settings.device), tokenizer, settings, whole=self.saves_encoder)
        fitted.trained_parameters = sum(tensor.numel() for tensor in weights.values())
        return Trained(
            fitted,
            [record for record in outcome.history if record.seed == settings.seed],
            {"learning_rate": best.rate, "epoch": best.epoch, "dev_accuracy": best.dev_accuracy},
            outcome.seconds,
            trials=len(outcome.history),
        )

    saves_encoder: ClassVar[bool] = True

    def network(self, encoder: Encoder, settings: Settings, labels: int) -> Network:
        head = fresh_head(settings, encoder.config.width, labels)
        if settings.dropout is not None:
            set_dropout(encoder, settings.dropout)
        return Network(encoder, head, settings.pooling or "pooler", only_cls=settings.only_cls)

    def groups(
        self, job: Job, network: Network, texts: Encoded, dev: Encoded | None, seeds: tuple[int, ...]
    ) -> list[Callable[[], Learner]]:
        """One learner a rate, one after the other, each from the same start."""

        def start(rate: float) -> Callable[[], Learner]:
            def make() -> Learner:
                own = copy.deepcopy(network)
                trains = self.predicate(own)
                return NetworkLearner(own, trains, (texts, job.targets), dev, len(job.labels), job.settings, rate)

            return make

        return [start(rate) for rate in job.settings.rates]

    def predicate(self, network: Network) -> Callable[[str], bool]:
        pooler = network.uses_pooler()
        return lambda name: self.trains(name, pooler=pooler)

    def load(self, folder: Path, labels: tuple[str, ...], settings: Settings, about: dict[str, Any]) -> Fitted:
        encoder, tokenizer = self.load_encoder(folder, about)
        network = self.network(encoder, settings, len(labels))
        path = folder / HEAD
        try:
            head = load_file(path)
        except (OSError, SafetensorError) as error:
            raise UserError(f"{path}: not a whole safetensors file: {error}") from error
        expected = {name: p.shape for name, p in network.head.named_parameters()}
        if {name: tensor.shape for name, tensor in head.items()} != expected:
            raise UserError(f"{path}: not the head that settings.json describes")
        if not all(tensor.is_floating_point() and tensor.isfinite().all() for tensor in head.values()):
            raise UserError(f"{path}: damaged: weights that are no numbers")
        put(network, {f"head.{name}": tensor for name, tensor in head.items()})
        return NetworkFitted(network.to(settings.device), tokenizer, settings, whole=self.saves_encoder)

    def load_encoder(self, folder: Path, about: dict[str, Any]) -> tuple[Encoder, Tokenizer]:
        encoder, _ = read_encoder(folder / "encoder")
        tokenizer = read_tokenizer(folder / "encoder", read_config(folder / "encoder"))
        if tokenizer is None:
            raise UserError(f"{folder / 'encoder'}: no tokenizer in it")
        return encoder, tokenizer


def put(network: Network, weights: dict[str, Tensor]) -> None:
    """Copy weights into a network by name; every name must be there, in its shape."""
    parameters = dict(network.named_parameters())
    for name, tensor in weights.items():
        if name not in parameters or parameters[name].shape != tensor.shape:
            raise UserError(f"'{name}' is no weight of this network; the run's checkpoint is damaged: remove it")
        parameters[name].data.copy_(tensor)


@register
class Finetune(Neural):
    name: ClassVar[str] = "finetune"
    about: ClassVar[str] = "all parameters of a pretrained encoder, and a new head"


@register
class Scratch(Neural):
    name: ClassVar[str] = "scratch"
    about: ClassVar[str] = "the same shape with fresh weights, and a vocabulary learned from the training texts"

    def prepare(self, job: Job) -> tuple[Encoder, Tokenizer]:
        assert job.model is not None
        settings = job.settings
        if settings.vocabulary is None:
            texts = [*job.train.texts, *(job.train.seconds or ())]
            tokenizer = Tokenizer.learn(texts, settings.vocabulary_size)
        elif settings.vocabulary.endswith(".txt"):
            tokenizer = Tokenizer.from_vocabulary_file(Path(settings.vocabulary))
        else:
            tokenizer = load_tokenizer(settings.vocabulary)
        shape = job.model.config
        config = Config(**{**vars(shape), "vocabulary": len(tokenizer), "padding_id": tokenizer.padding_id})
        return Encoder(config, seed=settings.seed), tokenizer


def shares_features(settings: Settings) -> bool:
    """May a frozen encoder's vectors be computed once? Not for a head that reads every token."""
    return settings.features and settings.head != "bilstm"


@register
class Frozen(Neural):
    name: ClassVar[str] = "frozen"
    about: ClassVar[str] = "a new head on a pretrained encoder that stays as it is"
    saves_encoder: ClassVar[bool] = False

    def trains(self, parameter: str, *, pooler: bool) -> bool:
        return parameter.startswith("head.")

    def groups(
        self, job: Job, network: Network, texts: Encoded, dev: Encoded | None, seeds: tuple[int, ...]
    ) -> list[Callable[[], Learner]]:
        """All rates and seeds at once on features that are computed once; or through the encoder, for token heads."""
        if not shares_features(job.settings):
            return super().groups(job, network, texts, dev, seeds)
        return [lambda: self.bank(job, network, texts, dev, seeds)]

    def trained(self, outcome: Outcome, network: Network, tokenizer: Tokenizer, settings: Settings) -> Trained:
        trained = super().trained(outcome, network, tokenizer, settings)
        if shares_features(settings):
            assert isinstance(trained.fitted, NetworkFitted)
            trained.fitted.shared = weights_fingerprint(network.encoder)
        return trained

    def bank(self, job: Job, network: Network, texts: Encoded, dev: Encoded | None, seeds: tuple[int, ...]) -> HeadBank:
        weights = weights_fingerprint(network.encoder)
        network = network.to(job.settings.device)
        read = features(network, texts, weights=weights)
        read_dev = None if dev is None else features(network, dev, weights=weights)
        return HeadBank((read, job.targets), read_dev, len(job.labels), job.settings, seeds)

    def fit_seeds(self, job: Job, seeds: Sequence[int]) -> list[Trained]:
        """Several seeds at once, each with the result it has alone: one pass of the encoder, one bank of heads."""
        if job.settings.patience or not shares_features(job.settings):
            return [self.fit(replace(job, settings=replace(job.settings, seed=seed))) for seed in seeds]
        return self.fit_together(job, tuple(seeds))

    def load_encoder(self, folder: Path, about: dict[str, Any]) -> tuple[Encoder, Tokenizer]:
        """The encoder is where it was; its weights must be those the head was trained on."""
        if about["model"] is None:
            raise UserError(f"{folder.parent / 'settings.json'}: damaged: it names no model")
        model = load_model(about["model"])
        if model.tokenizer is None:
            raise UserError(f"model '{about['model']}' has no tokenizer any more")
        encoder = model.encoder(seed=about["settings"]["seed"])
        if weights_fingerprint(encoder) != about["weights"]:
            raise UserError(
                f"{folder}: this run's head was trained on other weights than model '{about['model']}' has now; "
                f"put those back, or train again"
            )
        return encoder, model.tokenizer
