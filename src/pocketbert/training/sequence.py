"""Tasks one after the other on one encoder: after each, all that were learnt so far are scored on their own test split.

The forgetting of a task is what its accuracy lost since it was highest (Chaudhry et al. 2018). Forward transfer is what
a task's accuracy, when it has just been learnt, gained over learning it alone.
"""

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from torch import nn

from pocketbert.encoder import Encoder
from pocketbert.metrics import softmax
from pocketbert.tokenizer import Encoded, Tokenizer
from pocketbert.training.fit import NetworkFitted, Recipe, make_network, put, read_task
from pocketbert.training.job import Job, JobTask, Matrix, Predictions, Trained
from pocketbert.training.learners import NetworkLearner, TaskTexts, fresh_head
from pocketbert.training.loop import Learner, Outcome, derived_seed, train
from pocketbert.training.network import Network, module_name, read_all
from pocketbert.training.settings import TrainingSettings

REPLAY = 3  # what a derived seed is for

Line = tuple[float | None, ...]


@dataclass(eq=False)
class Learnt:
    """What is known after some tasks: the encoder as it is now, and each task's head and adapter."""

    encoder: Encoder
    heads: dict[str, nn.Module] = field(default_factory=dict)
    added: dict[str, dict[str, nn.Module]] = field(default_factory=dict)


def fit_sequence(recipe: Recipe, job: Job) -> Trained:
    """The job's other tasks in their order, then its own, whose run this is."""
    settings = job.settings
    assert isinstance(settings, TrainingSettings)
    order = (*job.tasks[1:], job.task)
    encoder, tokenizer = job.prepared or recipe.prepare(job)
    learnt, lines, files = Learnt(copy.deepcopy(encoder)), [], []
    outcome = Outcome()
    for place in range(len(order)):
        last = place == len(order) - 1
        path = _beside(job, None if last else f"{place}")
        files += [] if last else [path]
        outcome, network = _learn(recipe, job, settings, tokenizer, order[: place + 1], learnt, path)
        lines.append(_scores(network, learnt, order, place, tokenizer, settings))
    alone: list[float | None] = [lines[0][0]]
    for place in range(1, len(order)) if getattr(settings, "forward_transfer", False) else ():
        path = _beside(job, f"alone-{place}")
        files.append(path)
        fresh = Learnt(copy.deepcopy(encoder))
        task = order[place]
        _, other = _learn(recipe, job, settings, tokenizer, (task,), fresh, path)
        alone.append(_accuracy(other, task, tokenizer, settings))
    for path in files:
        if path is not None:
            path.unlink(missing_ok=True)
    return _trained(recipe, job, settings, network, tokenizer, outcome, _matrices(order, lines, alone))


def _beside(job: Job, name: str | None) -> Path | None:
    """The checkpoint of one of the trainings; the last one's is the run's own."""
    if job.checkpoint is None or name is None:
        return job.checkpoint
    return job.checkpoint.with_name(f"{job.checkpoint.stem}-{name}{job.checkpoint.suffix}")


def _learn(
    recipe: Recipe,
    job: Job,
    settings: TrainingSettings,
    tokenizer: Tokenizer,
    seen: tuple[JobTask, ...],
    learnt: Learnt,
    checkpoint: Path | None,
) -> tuple[Outcome, Network]:
    """Train the last of the tasks that are seen; the encoder, its head and its adapter are then the trained ones."""
    task, earlier = seen[-1], seen[:-1]
    encoder = learnt.encoder
    network = make_network(recipe, encoder, settings, {task.name: len(task.labels)})
    own = fresh_head(settings, encoder.config.width, len(task.labels), len(earlier))
    share = getattr(settings, "replay", 0.0)
    # Heads of tasks that are not replayed are not in the network: they would only decay.
    replayed = [_replayed(one, tokenizer, settings, share, len(earlier)) for one in earlier if share > 0]
    network.heads = nn.ModuleDict(
        {module_name(task.name): own, **{module_name(one.name): learnt.heads[one.name] for one in replayed}}
    )
    texts = [read_task(task, tokenizer, settings.max_length), *replayed]

    def start(rate: float) -> Learner:
        return NetworkLearner(copy.deepcopy(network), recipe.trains, texts, settings, rate)

    outcome = train(
        [lambda rate=rate: start(rate) for rate in settings.rates],  # type: ignore[misc]
        epochs=settings.epochs or 1,
        patience=settings.patience,
        keep_last=settings.keep == "last",
        checkpoint=checkpoint,
        report=job.report,
    )
    put(network, outcome.weights[settings.seed])
    network.float().to(settings.device).eval()
    for one in (task, *(earlier if replayed else ())):
        learnt.heads[one.name] = network.head(one.name)
    learnt.added[task.name] = encoder.added()
    return outcome, network


def _replayed(task: JobTask, tokenizer: Tokenizer, settings: TrainingSettings, share: float, place: int) -> TaskTexts:
    """Some rows of an earlier task, to be trained on again; no dev, so that it does not choose."""
    read = read_task(task, tokenizer, settings.max_length)
    assert isinstance(read.train, Encoded)
    random = np.random.default_rng(derived_seed(settings.seed, place, REPLAY))
    rows = np.sort(random.permutation(len(read.train))[: max(1, round(share * len(read.train)))])
    return TaskTexts(read.name, read.labels, read.train.take(rows), read.targets[rows])


def _scores(
    network: Network,
    learnt: Learnt,
    order: tuple[JobTask, ...],
    place: int,
    tokenizer: Tokenizer,
    settings: TrainingSettings,
) -> Line:
    """The accuracy on every task that was learnt so far, each with its own head and adapter; None for the others."""
    line: list[float | None] = []
    for task in order[: place + 1]:
        network.encoder.put_added(learnt.added[task.name])
        own = Network(
            network.encoder,
            {task.name: learnt.heads[task.name]},  # type: ignore[dict-item]
            network.pooling,
            only_cls=network.only_cls,
        )
        line.append(_accuracy(own.eval(), task, tokenizer, settings))
    network.encoder.put_added(learnt.added[order[place].name])
    return (*line, *[None] * (len(order) - place - 1))


def _accuracy(network: Network, task: JobTask, tokenizer: Tokenizer, settings: TrainingSettings) -> float | None:
    if task.scored is None or task.scored.labels is None:
        return None
    encoded = task.scored.encoded(tokenizer, settings.max_length)
    logits = read_all(lambda batch: network(batch, task.name), encoded, device=settings.device)
    return float((logits.argmax(axis=1) == task.scored.labels).mean())


def forgetting(lines: list[Line]) -> list[float | None]:
    """By task: its highest accuracy before the last task was learnt, less the last; None for the last itself."""
    lost: list[float | None] = []
    for place in range(len(lines) - 1):
        before = [value for line in lines[place:-1] if (value := line[place]) is not None]
        now = lines[-1][place]
        lost.append(None if now is None or not before else max(before) - now)
    return [*lost, None]


def _matrices(order: tuple[JobTask, ...], lines: list[Line], alone: list[float | None]) -> list[Matrix]:
    names = tuple(task.name for task in order)
    rows = [f"after {name}" for name in names]
    values = list(lines)
    gained: list[float | None] = []
    if len(alone) == len(order):
        rows.append("alone")
        values.append(tuple(alone))
        now = [lines[place][place] for place in range(len(order))]
        gained = [None if a is None or b is None else b - a for a, b in zip(alone, now, strict=True)]
        gained[0] = None
    note = "Accuracy on each task's test split (dev, where test has no labels), after each task was learnt."
    found = [Matrix("Forgetting: accuracy by task, after each", tuple(rows), names, tuple(values), note)]
    told = {"forgetting": forgetting(lines), **({"forward transfer": gained} if gained else {})}
    found.append(
        Matrix(
            "Forgetting and forward transfer",
            tuple(told),
            (*names, "average"),
            tuple((*line, _mean(line)) for line in told.values()),
            "Accuracy lost since it was highest; accuracy gained over learning the task alone.",
        )
    )
    return found


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _trained(
    recipe: Recipe,
    job: Job,
    settings: TrainingSettings,
    network: Network,
    tokenizer: Tokenizer,
    outcome: Outcome,
    matrices: list[Matrix],
) -> Trained:
    """The run's own task; history and time are its own training's, the last of them."""
    network.keep_head(job.task.name)
    best, logits = outcome.best[settings.seed], outcome.logits.get(settings.seed)
    dev = None
    if logits is not None and job.task.dev is not None:
        cut = job.task.dev.encoded(tokenizer, settings.max_length).cut
        dev = Predictions(softmax(logits), int((cut > 0).sum()))
    return Trained(
        NetworkFitted(network, tokenizer, replace(settings), recipe.trains, job.task),
        outcome.history,
        {"learning_rate": best.rate, "epoch": best.epoch, "dev_accuracy": best.score},
        outcome.elapsed,
        trials=len(outcome.history),
        dev=dev,
        matrices=matrices,
    )
