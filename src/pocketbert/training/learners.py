"""The two learners: a network that trains through and through, and a bank of heads on features that stay.

Both draw the order of batches and the dropout from (seed, epoch) alone: rates are compared on the same batches, and a
run that goes on after a kill needs no random state.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pocketbert.dropout import Dropout, seed_dropout
from pocketbert.heads import make_head
from pocketbert.tokenizer import Encoded
from pocketbert.training.batches import count_batches, epoch_batches
from pocketbert.training.loop import Candidate, class_weights, derived_seed
from pocketbert.training.network import Network, read_all
from pocketbert.training.optimizer import BETAS, EPSILON, FlatAdamW, rate_schedule
from pocketbert.training.settings import Settings
from pocketbert.training.slice import take_slice

ORDER, DROPOUT = 1, 2  # what a derived seed is for


class NetworkLearner:
    """One candidate: a network, trained where the method's predicate says so."""

    def __init__(
        self,
        network: Network,
        trains: Callable[[str], bool],
        train: tuple[Encoded, np.ndarray],
        dev: Encoded | None,
        labels: int,
        settings: Settings,
        rate: float,
    ) -> None:
        self.candidates: tuple[Candidate, ...] = (Candidate(settings.seed, rate),)
        self.settings = settings
        self.network = network.to(settings.device)
        self.encoded, self.targets = train[0], torch.from_numpy(train[1]).to(settings.device)
        self.dev = dev
        self.examples = len(self.encoded)
        trainable = {name for name, _ in network.named_parameters() if trains(name)}
        self.trains_encoder = any(name.startswith("encoder.") for name in trainable)
        if settings.precision == "float64":
            network.double()
        self.slice = None
        if settings.slice and "encoder.embeddings.word.weight" in trainable:
            self.slice = take_slice(network.encoder, [self.encoded] + ([dev] if dev is not None else []))
            self.encoded = self.slice.encoded(self.encoded)
            self.dev = self.slice.encoded(dev) if dev is not None else None
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(name in trainable)
        self.trainable = [(name, p) for name, p in network.named_parameters() if name in trainable]
        self.optimizer = FlatAdamW(self.trainable, weight_decay=settings.weight_decay, clip=settings.clip)
        self.steps = count_batches(self.examples, settings.batch_size)
        self.rate = rate_schedule(
            rate, self.steps * (settings.epochs or 1), warmup=settings.warmup, schedule=settings.schedule
        )
        self.weights = class_weights(train[1], labels) if settings.class_weights else None
        if self.weights is not None:
            self.weights = self.weights.to(settings.device, self.trainable[0][1].dtype)

    def epoch(self, number: int, tick: Callable[[int], None]) -> list[float]:
        settings = self.settings
        self.network.train()
        if not self.trains_encoder:
            self.network.encoder.eval()  # a frozen encoder says the same about a text every time
        seed_dropout(self.network, derived_seed(settings.seed, number, DROPOUT), settings.device)
        random = np.random.default_rng(derived_seed(settings.seed, number, ORDER))
        batches = epoch_batches(self.encoded.lengths, settings.batch_size, random, like_length=settings.like_length)
        total, done = 0.0, 0
        for step, rows in enumerate(batches, start=number * self.steps):
            total += self.step(rows, self.rate(step)) * len(rows)
            done += len(rows)
            tick(done)
        return [total / max(1, done)]

    def step(self, rows: np.ndarray, rate: float) -> float:
        """One batch: forward, loss, backward, update."""
        settings = self.settings
        batch = {name: tensor.to(settings.device) for name, tensor in self.encoded.tensors(rows).items()}
        targets = self.targets[torch.from_numpy(rows)]
        bfloat16 = settings.precision == "bfloat16"
        with torch.autocast(torch.device(settings.device).type, torch.bfloat16, enabled=bfloat16):
            logits = self.network(batch)
        loss = F.cross_entropy(logits.float() if bfloat16 else logits, targets, self.weights)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step(rate)
        return loss.item()

    def dev_logits(self) -> np.ndarray | None:
        if self.dev is None:
            return None
        self.network.eval()
        return read_all(self.network, self.dev, device=self.settings.device)[None]

    def snapshot(self, candidate: int) -> dict[str, Tensor]:
        """The trained parameters, the word table whole again."""
        kept = {name: parameter.detach().cpu().clone() for name, parameter in self.trainable}
        if self.slice is not None:
            name = "encoder.embeddings.word.weight"
            kept[name] = self.slice.put_together(kept[name], self.optimizer.decay)
        return kept

    def state(self) -> dict[str, Tensor]:
        return self.optimizer.state()

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        self.optimizer.load_state(tensors)


class HeadBank:
    """Many heads on the same features: every seed and every learning rate at once, as one product a step.

    The heads are independent; training them together changes nothing but the time it takes. Parameters have two axes
    in front: S seeds, R rates.
    """

    def __init__(
        self,
        features: tuple[np.ndarray, np.ndarray],
        dev: np.ndarray | None,
        labels: int,
        settings: Settings,
        seeds: tuple[int, ...],
    ) -> None:
        rates = settings.rates
        self.settings = settings
        self.seeds = seeds
        self.candidates = tuple(Candidate(seed, rate) for seed in seeds for rate in rates)
        dtype = torch.float64 if settings.precision == "float64" else torch.float32
        self.features = torch.from_numpy(features[0]).to(dtype)
        self.targets = torch.from_numpy(features[1])
        self.dev = None if dev is None else torch.from_numpy(dev).to(dtype)
        self.examples = len(self.features)
        width = self.features.shape[1]
        heads = [make_head(settings.head, width, labels, seed=derived_seed(seed)) for seed in seeds]
        self.parameters = {  # (S, R, …)
            name: torch.stack([dict(head.named_parameters())[name].detach().to(dtype) for head in heads])
            .unsqueeze(1)
            .repeat(1, len(rates), *([1] * parameter.ndim))
            for name, parameter in heads[0].named_parameters()
        }
        self.moments = {name: (torch.zeros_like(p), torch.zeros_like(p)) for name, p in self.parameters.items()}
        self.done = 0
        self.steps = count_batches(self.examples, settings.batch_size)
        self.schedules = [
            rate_schedule(rate, self.steps * (settings.epochs or 1), warmup=settings.warmup, schedule=settings.schedule)
            for rate in rates
        ]
        self.dropouts = [Dropout(settings.head_dropout) for _ in seeds]
        self.weights = class_weights(features[1], labels).to(dtype) if settings.class_weights else None

    def epoch(self, number: int, tick: Callable[[int], None]) -> list[float]:
        size = self.settings.batch_size
        lengths = np.zeros(self.examples, dtype=np.int64)
        orders = []
        for seed, dropout in zip(self.seeds, self.dropouts, strict=True):
            dropout.generator = torch.Generator().manual_seed(derived_seed(seed, number, DROPOUT))
            random = np.random.default_rng(derived_seed(seed, number, ORDER))
            orders.append(np.concatenate(epoch_batches(lengths, size, random, like_length=False)))
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
        p = self.parameters
        if "dense.weight" in p:
            x = torch.tanh(
                x[:, None] @ p["dense.weight"].transpose(-2, -1) + p["dense.bias"][:, :, None]
            )  # (S, R, B, H)
        if training and self.dropouts[0].p > 0:  # the same mask for every rate of a seed
            masks = torch.stack([dropout.mask(x[0] if x.ndim == 3 else x[0, 0]) for dropout in self.dropouts])
            x = x * (masks if x.ndim == 3 else masks[:, None])
        if x.ndim == 3:
            x = x[:, None]
        return x @ p["output.weight"].transpose(-2, -1) + p["output.bias"][:, :, None]

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
        if self.dev is None:
            return None
        with torch.no_grad():
            logits = self._logits(self.dev[None], training=False)
        return logits.flatten(0, 1).numpy()  # (S·R, N, K)

    def snapshot(self, candidate: int) -> dict[str, Tensor]:
        seed, rate = divmod(candidate, len(self.schedules))
        return {f"head.{name}": p[seed, rate].detach().clone() for name, p in self.parameters.items()}

    def state(self) -> dict[str, Tensor]:
        tensors = {f"p.{name}": p.detach() for name, p in self.parameters.items()}
        for name, (mean, square) in self.moments.items():
            tensors[f"m.{name}"], tensors[f"s.{name}"] = mean, square
        return {**tensors, "done": torch.tensor(self.done)}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        self.parameters = {name: tensors[f"p.{name}"].clone() for name in self.parameters}
        self.moments = {name: (tensors[f"m.{name}"].clone(), tensors[f"s.{name}"].clone()) for name in self.moments}
        self.done = int(tensors["done"])


def fresh_head(settings: Settings, width: int, labels: int) -> nn.Module:
    """A run's head: drawn from its seed, before anything else is."""
    return make_head(settings.head, width, labels, dropout=settings.head_dropout, seed=derived_seed(settings.seed))
