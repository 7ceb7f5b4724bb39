"""The one training loop. Methods differ in what they hand it, never in a copy of it.

A learner trains one or more candidates (learning rates, seeds) side by side; groups of candidates follow one another.
After every epoch the learner scores each candidate, and says by which score they are chosen; the best of each seed is
kept: the higher score, then the earlier epoch, then the rate listed first. With a checkpoint, a killed run goes on from
its last whole epoch (of more than 80, from the last fortieth) and ends with the same bits.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from pocketbert.errors import UserError
from pocketbert.files import new_file
from pocketbert.values import Count, held

MOST_SAVES = 40  # checkpoints of a group: with hundreds of epochs, of a few texts each, writing would take longer


@dataclass(frozen=True)
class Candidate:
    """One thing that is tried: a learning rate, for a seed."""

    seed: int
    rate: float


@dataclass(frozen=True)
class Scores:
    """What a candidate is worth after an epoch: numbers by name (None: no number any more), and which of them, the
    higher the better, chooses. Where nothing chooses, the last epoch is kept."""

    values: dict[str, float | None] = field(default_factory=dict)
    chooses: str | None = None
    logits: np.ndarray | None = None  # what was scored, kept for the best


class Learner(Protocol):
    """What the loop trains: candidates side by side."""

    candidates: tuple[Candidate, ...]
    examples: int  # that one epoch reads, for each candidate

    def epoch(self, number: int, tick: Callable[[int], None]) -> list[float]:
        """Train one epoch; `tick` hears how many examples were done. The mean loss of each candidate."""

    def evaluate(self) -> list[Scores]:
        """The scores of each candidate as it is now."""

    def snapshot(self, candidate: int) -> dict[str, Tensor]:
        """What is kept of a candidate, in memory of its own."""

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on."""

    def load_state(self, tensors: dict[str, Tensor]) -> None: ...


@dataclass
class EpochRecord:
    """One candidate after one epoch."""

    seed: int
    rate: float
    epoch: int  # from 1
    loss: float | None  # mean over the training examples; None where it was no number any more
    scores: dict[str, float | None]
    seconds: float
    score: float | None = None  # the one that chooses

    @property
    def dev_accuracy(self) -> float | None:
        return self.scores.get("dev_accuracy")

    def to_dict(self) -> dict[str, Any]:
        """As metrics.json has it: the scores by their names, beside the rest."""
        told = asdict(self)
        del told["score"]
        return {**told.pop("scores"), **told}


@dataclass
class Best:
    seed: int
    rate: float
    epoch: int
    score: float | None
    order: tuple[int, int]  # (group, place in it): which was listed first


@dataclass
class Progress:
    """What a person is told: where it is, how fast, how long still."""

    group: int
    groups: int
    epoch: int
    epochs: int
    done: int  # examples of this epoch
    examples: int
    speed: float  # examples a second, over all candidates that train together
    left: float  # seconds, about
    record: EpochRecord | None = None  # when an epoch has just ended


Report = Callable[[Progress], None]


@dataclass
class Outcome:
    """What a training gave, for each seed."""

    best: dict[int, Best] = field(default_factory=dict)
    weights: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    logits: dict[int, np.ndarray] = field(default_factory=dict)  # of dev, by the best weights
    history: list[EpochRecord] = field(default_factory=list)
    elapsed: float = 0.0  # spent in epochs, also in earlier processes


def train(
    groups: Sequence[Callable[[], Learner]],
    *,
    epochs: int,
    patience: int = 0,
    keep_last: bool = False,
    checkpoint: Path | None = None,
    report: Report | None = None,
    save: bool = True,
    after_epoch: Callable[[Outcome], None] | None = None,
) -> Outcome:
    """Train every group of candidates, one after the other, and keep the best of each seed.

    `keep_last`: the last epoch alone counts; it does not go with `patience`, which stops before it. `save` False: go on
    from the checkpoint, but leave writing it to another process. `after_epoch` hears what is known.
    """
    outcome, first_group, first_epoch, state = _resume(checkpoint)
    every = max(1, epochs // MOST_SAVES)
    for number in range(first_group, len(groups)):
        learner = groups[number]()
        begin = 0
        if state is not None:
            _load_state(learner, state, checkpoint)
            begin, state = first_epoch, None
        for epoch in range(begin, epochs):
            started = time.perf_counter()
            tell = _teller(report, learner, number, len(groups), epoch, epochs, started)
            losses = learner.epoch(epoch, tell)
            scored = learner.evaluate()
            elapsed = time.perf_counter() - started
            outcome.elapsed += elapsed
            for index, (candidate, scores) in enumerate(zip(learner.candidates, scored, strict=True)):
                score = None if scores.chooses is None else scores.values[scores.chooses]
                loss = _finite(losses[index])
                record = EpochRecord(candidate.seed, candidate.rate, epoch + 1, loss, scores.values, elapsed, score)
                outcome.history.append(record)
                if loss is None or (scores.chooses is not None and score is None):
                    continue  # it diverged: no candidate any more
                found = Best(candidate.seed, candidate.rate, epoch + 1, score, (number, index))
                counts = epoch + 1 == epochs or not keep_last
                if counts and _better(found, outcome.best.get(candidate.seed)):
                    outcome.best[candidate.seed] = found
                    outcome.weights[candidate.seed] = learner.snapshot(index)
                    if scores.logits is not None:
                        outcome.logits[candidate.seed] = scores.logits
                if report is not None:
                    speed = learner.examples * len(learner.candidates) / max(elapsed, 1e-9)
                    left = elapsed * (epochs - epoch - 1 + (len(groups) - number - 1) * epochs)
                    done = learner.examples
                    report(Progress(number, len(groups), epoch + 1, epochs, done, done, speed, left, record))
            if after_epoch is not None:
                after_epoch(outcome)
            stop = epoch + 1 == epochs or _out_of_patience(outcome.history, learner.candidates, patience)
            if checkpoint is not None and save and (stop or (epoch + 1) % every == 0):
                _save(checkpoint, outcome, number, epochs if stop else epoch + 1, {} if stop else learner.state())
            if stop:
                break
        del learner  # before the next one takes its memory
    for record in outcome.history:
        if record.seed not in outcome.best:
            raise UserError(f"training diverged at learning rate {record.rate:g}: the loss is no number; lower it")
    return outcome


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _better(found: Best, best: Best | None) -> bool:
    if best is None or found.score is None or best.score is None:
        return True  # where nothing chooses, the last epoch is what is kept
    if found.score != best.score:
        return found.score > best.score
    return (found.epoch, found.order) < (best.epoch, best.order)


def _out_of_patience(history: list[EpochRecord], candidates: tuple[Candidate, ...], patience: int) -> bool:
    """No candidate of this group got better for so many epochs."""
    if not patience:
        return False
    for candidate in candidates:
        scores = [r.score for r in history if (r.seed, r.rate) == (candidate.seed, candidate.rate)]
        known = [-1.0 if score is None else score for score in scores]
        if len(known) - 1 - int(np.argmax(known)) < patience:
            return False
    return True


def _teller(
    report: Report | None, learner: Learner, group: int, groups: int, epoch: int, epochs: int, started: float
) -> Callable[[int], None]:
    def tell(done: int) -> None:
        if report is None:
            return
        spent = max(time.perf_counter() - started, 1e-9)
        whole_epochs = epochs - epoch - 1 + (groups - group - 1) * epochs
        speed = done * len(learner.candidates) / spent
        left = spent / max(done, 1) * (learner.examples - done + whole_epochs * learner.examples)
        report(Progress(group, groups, epoch + 1, epochs, done, learner.examples, speed, left))

    return tell


# -- going on after a kill -------------------------------------------------------------------------------------------


def _save(path: Path, outcome: Outcome, group: int, epoch: int, state: dict[str, Tensor]) -> None:
    """One file, whole or not at all: the learner's state, the best weights so far, and the history."""
    tensors = {f"state/{name}": tensor.detach().contiguous().clone() for name, tensor in state.items()}
    for seed, weights in outcome.weights.items():
        tensors.update({f"best/{seed}/{name}": tensor for name, tensor in weights.items()})
    for seed, logits in outcome.logits.items():
        tensors[f"logits/{seed}"] = torch.from_numpy(np.ascontiguousarray(logits))
    metadata: dict[str, Any] = {
        "group": group,
        "epoch": epoch,
        "seconds": outcome.elapsed,
        "history": [asdict(record) for record in outcome.history],
        "best": [asdict(best) for best in outcome.best.values()],
    }
    with new_file(path) as part:
        save_file(tensors, part, {"progress": json.dumps(metadata)})


class Saved(TypedDict):
    """How far a training was."""

    group: Count
    epoch: Count
    seconds: float
    history: tuple[dict[str, float | dict[str, float | None] | None], ...]
    best: tuple[dict[str, float | tuple[Count, ...] | None], ...]


def _damaged(path: Path | None, error: Exception) -> UserError:
    """It was written whole: whoever changed it may want to know, before hours of training are done again."""
    return UserError(f"{path}: damaged: {error}; remove it, and the same command begins anew")


def _load_state(learner: Learner, state: dict[str, Tensor], path: Path | None) -> None:
    """The state must be that of such a learner. What begins empty, as a curve does, may have become longer."""
    try:
        for name, tensor in learner.state().items():
            if tensor.numel() and state[name].shape != tensor.shape:
                raise UserError(f"'{name}' has the shape {tuple(state[name].shape)}")
        learner.load_state(state)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise _damaged(path, error) from error


def _resume(path: Path | None) -> tuple[Outcome, int, int, dict[str, Tensor] | None]:
    """(what is known, the group to go on with, epochs of it that are done, the learner's state)."""
    outcome = Outcome()
    if path is None or not path.is_file():
        return outcome, 0, 0, None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads(file.metadata()["progress"])
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a dict
        held(metadata, Saved, "progress")
        outcome.elapsed = metadata["seconds"]
        outcome.history = [EpochRecord(**record) for record in metadata["history"]]
        outcome.best = {best["seed"]: Best(**{**best, "order": tuple(best["order"])}) for best in metadata["best"]}
        for name, tensor in tensors.items():
            if name.startswith("best/"):
                _, seed, weight = name.split("/", 2)
                outcome.weights.setdefault(int(seed), {})[weight] = tensor
            elif name.startswith("logits/"):
                outcome.logits[int(name.removeprefix("logits/"))] = tensor.numpy()
        if outcome.weights.keys() != outcome.best.keys():
            raise UserError("the best weights are missing")
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    state = {name.removeprefix("state/"): tensor for name, tensor in tensors.items() if name.startswith("state/")}
    if not state:
        return outcome, metadata["group"] + 1, 0, None
    return outcome, metadata["group"], metadata["epoch"], state


def trained_seeds(path: Path) -> tuple[list[int], bool]:
    """The seeds that a checkpoint is about, and whether their training is done; none where it cannot be read."""
    try:
        with safe_open(path, framework="np") as file:
            history = json.loads(file.metadata()["progress"])["history"]
            done = not any(name.startswith("state/") for name in file.keys())  # noqa: SIM118 - not a dict
            return list(dict.fromkeys(int(record["seed"]) for record in history)), done
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError):
        return [], False


def derived_seed(*parts: int) -> int:
    """A seed that depends on all parts, and differs for each."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0]) & (2**63 - 1)


def class_weights(labels: np.ndarray, count: int) -> Tensor:
    """Inverse shares, scaled so that their mean over the examples is one; a class without examples weighs nothing."""
    counts = np.bincount(labels, minlength=count)
    weights = np.where(counts > 0, len(labels) / (np.maximum(counts, 1) * (counts > 0).sum()), 0.0)
    return torch.from_numpy(weights)
