"""The two learners: a network that trains through and through, and a bank of heads on features that stay.

Both draw the order of batches and the dropout from (seed, epoch) alone: rates are compared on the same batches, and a
run that goes on after a kill needs no random state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pocketbert.dropout import Dropout, seed_dropout
from pocketbert.heads import Head, make_head
from pocketbert.tokenizer import Encoded
from pocketbert.training.batches import count_batches, epoch_batches
from pocketbert.training.loop import Candidate, Scores, class_weights, derived_seed
from pocketbert.training.lower import lower_states
from pocketbert.training.network import Filter, Network, Readable, module_name, read_all
from pocketbert.training.optimizer import BETAS, EPSILON, FlatAdamW, rate_schedule
from pocketbert.training.settings import TrainingSettings
from pocketbert.training.slice import take_slice

ORDER, DROPOUT = 1, 2  # what a derived seed is for
WORDS = "encoder.embeddings.word.weight"


@dataclass(frozen=True, eq=False)
class TaskTexts:
    """One task as a learner reads it: tokenised texts with their labels, and dev's where there is one."""

    name: str
    labels: int
    train: Readable
    targets: np.ndarray
    dev: Readable | None = None
    dev_targets: np.ndarray | None = None


class NetworkLearner:
    """One candidate: a network, trained where the method's filter says so, on one task or on several at once."""

    def __init__(
        self, network: Network, trains: Filter, tasks: Sequence[TaskTexts], settings: TrainingSettings, rate: float
    ) -> None:
        self.candidates: tuple[Candidate, ...] = (Candidate(settings.seed, rate),)
        self.settings = settings
        self.network = network.to(settings.device)
        self.tasks = list(tasks)
        self.examples = sum(len(task.train) for task in tasks)
        trainable = network.chosen(trains)
        parts = network.parts()
        self.trains_encoder = any(parts[name].of != "heads" for name in trainable)
        self.fixed = network.lowest_trained(trains) if self.trains_encoder else 0  # layers that stay as they are
        if settings.precision == "float64":
            network.double()
        self.slice = None
        if getattr(settings, "vocabulary_slice", False) and WORDS in trainable:
            texts = [encoded for task in tasks for encoded in (task.train, task.dev) if isinstance(encoded, Encoded)]
            self.slice = take_slice(network.encoder, texts)
            self.tasks = [_changed(task, self.slice.encoded) for task in tasks]
        if self.fixed and getattr(settings, "cache_features", False):
            network.begin = self.fixed
            self.tasks = [_changed(task, lambda texts: lower_states(network, texts)) for task in tasks]
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(name in trainable)
        self.trainable = [(name, p) for name, p in network.named_parameters() if name in trainable]
        self.optimizer = FlatAdamW(
            self.trainable,
            weight_decay=settings.weight_decay,
            clip=settings.clip,
            scales=layer_scales(network, getattr(settings, "layer_decay", 1.0)),
            only_decays=WORDS,
        )
        self.counts = batches_per_task(
            [count_batches(len(task.train), settings.texts_per_step) for task in tasks],
            getattr(settings, "sampling", PROPORTIONAL),
        )
        self.steps = sum(self.counts)
        self.rate = rate_schedule(
            rate, self.steps * (settings.epochs or 1), warmup=settings.warmup, schedule=settings.schedule
        )
        self.targets = [torch.from_numpy(task.targets).to(settings.device) for task in tasks]
        self.weights: list[Tensor | None] = [None for _ in tasks]
        if settings.class_weights:
            dtype = self.trainable[0][1].dtype
            weights = [class_weights(task.targets, task.labels) for task in tasks]
            self.weights = [weight.to(settings.device, dtype) for weight in weights]

    def epoch(self, number: int, tick: Callable[[int], None]) -> list[float]:
        settings = self.settings
        self.network.train()
        if not self.trains_encoder:
            self.network.encoder.eval()  # a frozen encoder says the same about a text every time
        elif self.fixed:
            for part in (self.network.encoder.embeddings, *self.network.encoder.layers[: self.fixed]):
                part.eval()  # and so do its lower layers, where only upper ones train
        seed_dropout(self.network, derived_seed(settings.seed, number, DROPOUT), settings.device)
        total, done = 0.0, 0
        for step, (task, rows) in enumerate(self.batches(number), start=number * self.steps):
            total += self.step(rows, self.rate(step), task) * len(rows)
            done += len(rows)
            tick(done)
        return [total / max(1, done)]

    def batches(self, number: int) -> list[tuple[int, np.ndarray]]:
        """(task, rows) of one epoch: each task's own batches; those of several tasks in one random order.

        A task that is to have more batches than it has rows for begins again.
        """
        settings = self.settings
        random = np.random.default_rng(derived_seed(settings.seed, number, ORDER))
        batches: list[tuple[int, np.ndarray]] = []
        for place, task in enumerate(self.tasks):
            own: list[np.ndarray] = []
            while len(own) < self.counts[place]:
                own += epoch_batches(
                    task.train.lengths, settings.texts_per_step, random, group_by_length=settings.group_by_length
                )
            batches += [(place, rows) for rows in own[: self.counts[place]]]
        return batches if len(self.tasks) == 1 else [batches[i] for i in random.permutation(len(batches))]

    def step(self, rows: np.ndarray, rate: float, task: int = 0) -> float:
        """One batch of one task: forward, loss, backward, update."""
        loss = self.loss(rows, task)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step(rate)
        return loss.item()

    def loss(self, rows: np.ndarray, task: int = 0) -> Tensor:
        """The forward pass of a batch."""
        settings = self.settings
        encoded, device = self.tasks[task].train, torch.device(settings.device)
        batch = {name: tensor.to(device) for name, tensor in encoded.tensors(rows).items()}
        targets = self.targets[task][torch.from_numpy(rows).to(device)]
        bfloat16 = settings.precision == "bfloat16"
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            logits = self.network(batch, self.tasks[task].name)
        return F.cross_entropy(logits.float() if bfloat16 else logits, targets, self.weights[task])

    def dev_logits(self, task: int = 0) -> np.ndarray | None:
        """(rows, labels); None where there is no dev."""
        of = self.tasks[task]
        if of.dev is None:
            return None
        self.network.eval()
        return read_all(lambda batch: self.network(batch, of.name), of.dev, device=self.settings.device)

    def evaluate(self) -> list[Scores]:
        """One task's scores by their plain names; of several, each by the task's. What chooses is the mean over all
        that have a dev split, or, where `selection` says so, the first task's own."""
        scores = [score(self.dev_logits(place), task.dev_targets) for place, task in enumerate(self.tasks)]
        if len(scores) == 1:
            return scores
        values = {
            f"{name} {task.name}": value
            for task, one in zip(self.tasks, scores, strict=True)
            for name, value in one.values.items()
        }
        for name in scores[0].values:
            which = scores[:1] if getattr(self.settings, "selection", "") == OWN else scores
            known = [one.values[name] for one in which if one.chooses is not None]
            whole = [value for value in known if value is not None]
            values[name] = sum(whole) / len(whole) if whole and len(whole) == len(known) else None
        return [Scores(values, next((one.chooses for one in scores if one.chooses), None), scores[0].logits)]

    def snapshot(self, candidate: int) -> dict[str, Tensor]:
        """The trained parameters, the word table whole again."""
        kept = {name: parameter.detach().cpu().clone() for name, parameter in self.trainable}
        if self.slice is not None:
            kept[WORDS] = self.slice.put_together(kept[WORDS], self.optimizer.decay)
        return kept

    def state(self) -> dict[str, Tensor]:
        return self.optimizer.state()

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        self.optimizer.load_state(tensors)


class HeadBank:
    """Many heads on the same features: every seed and every learning rate at once, as one product per step.

    The heads are independent; training them together changes nothing but the time it takes. Parameters have two axes
    in front: S seeds, R rates.
    """

    def __init__(
        self,
        task: str,
        features: tuple[np.ndarray, np.ndarray],
        dev: tuple[np.ndarray, np.ndarray] | None,
        labels: int,
        settings: TrainingSettings,
        seeds: tuple[int, ...],
    ) -> None:
        rates = settings.rates
        self.task = task
        self.settings = settings
        self.seeds = seeds
        self.candidates = tuple(Candidate(seed, rate) for seed in seeds for rate in rates)
        dtype = torch.float64 if settings.precision == "float64" else torch.float32
        self.features = torch.from_numpy(features[0]).to(dtype)
        self.targets = torch.from_numpy(features[1])
        self.dev = None if dev is None else torch.from_numpy(dev[0]).to(dtype)
        self.dev_targets = None if dev is None else dev[1]
        self.examples = len(self.features)
        width = self.features.shape[1]
        heads = [make_head(settings.head, width, labels, seed=derived_seed(seed)) for seed in seeds]
        self.kind = type(heads[0])
        self.parameters = {  # (S, R, …)
            name: torch.stack([dict(head.named_parameters())[name].detach().to(dtype) for head in heads])
            .unsqueeze(1)
            .repeat(1, len(rates), *([1] * parameter.ndim))
            for name, parameter in heads[0].named_parameters()
        }
        self.moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in self.parameters.items()}
        self.done = 0
        self.steps = count_batches(self.examples, settings.texts_per_step)
        self.schedules = [
            rate_schedule(rate, self.steps * (settings.epochs or 1), warmup=settings.warmup, schedule=settings.schedule)
            for rate in rates
        ]
        self.dropouts = [Dropout(settings.head_dropout) for _ in seeds]
        self.weights = class_weights(features[1], labels).to(dtype) if settings.class_weights else None

    def epoch(self, number: int, tick: Callable[[int], None]) -> list[float]:
        size = self.settings.texts_per_step
        lengths = np.zeros(self.examples, dtype=np.int64)
        orders = []
        for seed, dropout in zip(self.seeds, self.dropouts, strict=True):
            dropout.generator = torch.Generator().manual_seed(derived_seed(seed, number, DROPOUT))
            random = np.random.default_rng(derived_seed(seed, number, ORDER))
            orders.append(np.concatenate(epoch_batches(lengths, size, random, group_by_length=False)))
        rows = torch.from_numpy(np.stack(orders))  # (S, N)
        total = torch.zeros(len(self.seeds), len(self.schedules), dtype=self.features.dtype)
        for begin in range(0, self.examples, size):
            chosen = rows[:, begin : begin + size]
            total += self._step(chosen) * chosen.shape[1]
            tick(min(begin + size, self.examples))
        return (total / self.examples).flatten().tolist()

    def _step(self, rows: Tensor) -> Tensor:
        """One batch of every seed; the losses (S, R)."""
        for parameter in self.parameters.values():
            parameter.requires_grad_(True)
        logits = self._logits(self.features[rows], training=True)  # (S, R, B, K)
        targets = self.targets[rows][:, None].expand(logits.shape[:3])  # (S, R, B)
        each = F.cross_entropy(logits.flatten(0, 2), targets.flatten(), self.weights, reduction="none").view_as(targets)
        if self.weights is None:
            losses = each.mean(dim=2)  # (S, R)
        else:
            losses = each.sum(dim=2) / self.weights[targets].sum(dim=2)
        gradients = torch.autograd.grad(losses.sum(), list(self.parameters.values()))
        with torch.no_grad():
            self._update(dict(zip(self.parameters, gradients, strict=True)))
        return losses.detach()

    def _logits(self, x: Tensor, *, training: bool) -> Tensor:
        """(S or 1, B, H) → (S, R, B, K)."""
        return self.kind.logits_of_many(self.parameters, x, self._drop if training else lambda same: same)

    def _drop(self, x: Tensor) -> Tensor:
        """(S, B, H) or (S, R, B, H): a mask per seed, the same for all its rates."""
        if self.dropouts[0].p == 0.0:
            return x
        masks = torch.stack([dropout.mask(x[0] if x.ndim == 3 else x[0, 0]) for dropout in self.dropouts])
        return x * (masks if x.ndim == 3 else masks[:, None])

    def _update(self, gradients: dict[str, Tensor]) -> None:
        """AdamW, for each head with its own rate and its own clipping."""
        rates = torch.tensor([schedule(self.done) for schedule in self.schedules], dtype=self.features.dtype)  # (R)
        self.done += 1
        if self.settings.clip > 0:
            norms = sum(g.flatten(2).pow(2).sum(dim=2) for g in gradients.values()) ** 0.5
            scale = (self.settings.clip / (norms + 1e-6)).clamp(max=1.0)  # (S, R)
            for g in gradients.values():
                g.mul_(scale.view(*scale.shape, *([1] * (g.ndim - 2))))
        first, second = (1 - beta**self.done for beta in BETAS)
        for name, parameter in self.parameters.items():
            rate = rates.view(1, -1, *([1] * (parameter.ndim - 2)))
            mean, square = self.moments[name]
            g = gradients[name]
            mean.lerp_(g, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
            if parameter.ndim == 4:  # a matrix a head
                parameter.mul_(1 - rate * self.settings.weight_decay)
            parameter.sub_(rate * (mean / first) / ((square / second).sqrt() + EPSILON))

    def dev_logits(self) -> np.ndarray | None:
        """(S·R, rows, labels); None where there is no dev."""
        if self.dev is None:
            return None
        with torch.no_grad():
            logits = self._logits(self.dev[None], training=False)
        return logits.flatten(0, 1).numpy()  # (S·R, N, K)

    def evaluate(self) -> list[Scores]:
        logits = self.dev_logits()
        each = [None] * len(self.candidates) if logits is None else list(logits)
        return [score(one, self.dev_targets) for one in each]

    def snapshot(self, candidate: int) -> dict[str, Tensor]:
        seed, rate = divmod(candidate, len(self.schedules))
        return {
            f"heads.{module_name(self.task)}.{name}": p[seed, rate].detach().clone()
            for name, p in self.parameters.items()
        }

    def state(self) -> dict[str, Tensor]:
        tensors = {f"p.{name}": p.detach() for name, p in self.parameters.items()}
        for name, (mean, square) in self.moments.items():
            tensors[f"m.{name}"], tensors[f"s.{name}"] = mean, square
        return {**tensors, "done": torch.tensor(self.done)}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        self.parameters = {name: tensors[f"p.{name}"].clone() for name in self.parameters}
        self.moments = {name: (tensors[f"m.{name}"].clone(), tensors[f"s.{name}"].clone()) for name in self.moments}
        self.done = int(tensors["done"])


def fresh_head(settings: TrainingSettings, width: int, labels: int, number: int = 0) -> Head:
    """A run's head: drawn from its seed, before anything else is. `number`: which of several tasks' it is."""
    seed = derived_seed(settings.seed, *([number] if number else []))
    return make_head(settings.head, width, labels, dropout=settings.head_dropout, seed=seed)


def score(logits: np.ndarray | None, targets: np.ndarray | None) -> Scores:
    """Accuracy, which chooses, and loss on dev; without dev nothing, and where logits are no numbers, None."""
    if logits is None or targets is None:
        return Scores({"dev_accuracy": None, "dev_loss": None})
    if not np.isfinite(logits).all():
        return Scores({"dev_accuracy": None, "dev_loss": None}, "dev_accuracy")
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    loss = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(targets)), targets]
    accuracy = float((logits.argmax(axis=1) == targets).mean())
    return Scores({"dev_accuracy": accuracy, "dev_loss": float(loss.mean())}, "dev_accuracy", logits)


PROPORTIONAL, SQUARE_ROOT = "proportional", "square-root"  # how often each of several tasks is trained on
OWN, MEAN = "own", "mean"  # whose dev split chooses, of several tasks


def batches_per_task(batches: Sequence[int], sampling: str) -> list[int]:
    """Batches per epoch of each task, as many in all as they have; by the square root, small tasks have more."""
    if sampling == PROPORTIONAL or len(batches) == 1:
        return list(batches)
    roots = np.sqrt(batches)
    ends = np.rint(np.cumsum(roots) / roots.sum() * sum(batches)).astype(int)
    return [max(1, int(end - begin)) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def layer_scales(network: Network, decay: float) -> dict[str, float]:
    """What each parameter's rate is multiplied with: 1 in heads and pooler, and a factor less for each layer down."""
    if decay == 1.0:
        return {}
    layers = len(network.encoder.layers)
    scales = {}
    for name, part in network.parts().items():
        if name.startswith("encoder.layers."):
            scales[name] = decay ** (layers - int(name.split(".")[2]))
        elif part.of == "embeddings":
            scales[name] = decay ** (layers + 1)
    return scales


def _changed(task: TaskTexts, change: Callable[[Encoded], Readable]) -> TaskTexts:
    """The same task, its texts made into something else that batches are made of."""
    train = change(task.train) if isinstance(task.train, Encoded) else task.train
    return replace(task, train=train, dev=change(task.dev) if isinstance(task.dev, Encoded) else task.dev)
