"""What a study will do: rows (a method and a model on a task), and the runs they are made of, with nothing left open.

A run is known by a key made of everything that decides its numbers: the texts and labels, the method, the weights it
starts from, every setting and the seed. The same key is the same run, wherever it is computed; a changed setting is
another run.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import torch

from pocketbert.errors import UserError
from pocketbert.methods import get_method, list_methods
from pocketbert.models import CARRIED, Model, find, load_tokenizer, usual_model, weights_fingerprint
from pocketbert.runs import look_at, settle
from pocketbert.tasks import Check, Task
from pocketbert.training.machine import computing
from pocketbert.training.settings import Settings
from pocketbert.values import Between, hold_fields

THREADS = 1  # a run, on a CPU: runs side by side use the cores better than threads do
OVERHEAD = 4e-4  # seconds an example costs beside its matrix products
SHARE = 0.45  # of the machine's peak that training reaches
KEPT = "the rate was chosen on the first seed and kept"
START = 1.0  # seconds to begin and end a run
Seeds = Annotated[int, Between(1, 10_000)]


@dataclass(frozen=True)
class Row:
    """One line of a study's table: a method, a model where it needs one, a task; over seeds."""

    task: str
    method: str
    model: str | None = None
    settings: Settings = field(default_factory=Settings)
    name: str = ""  # how the table calls it
    seeds: Seeds = 3
    theirs: str | None = None  # a published figure, to stand beside ours
    note: str | None = None
    keep_rate: bool = False  # of several rates, the first seed's choice is every seed's

    def __post_init__(self) -> None:
        hold_fields(self)
        if not get_method(self.method).seeded:
            object.__setattr__(self, "seeds", 1)
        if self.keep_rate and KEPT not in (self.note or ""):
            object.__setattr__(self, "note", "; ".join(filter(None, [self.note, KEPT])))
        if not self.name:
            object.__setattr__(self, "name", f"{self.method} {short_name(self.model)}" if self.model else self.method)

    @property
    def baseline(self) -> bool:
        return not get_method(self.method).needs_model


@dataclass(frozen=True)
class PlannedRun:
    """One run, fully resolved."""

    key: str
    folder: str  # its name in the store
    row: int  # which of the plan's rows
    task: str
    method: str
    model: str | None
    settings: Settings
    seconds: float  # about how long
    waits_for: str | None = None  # the folder of the run that chooses its rate; until then, its key is preliminary


@dataclass(frozen=True, eq=False)
class Plan:
    """Rows, runs, and the tasks they are about."""

    rows: tuple[Row, ...]
    runs: tuple[PlannedRun, ...]
    tasks: dict[str, Task]
    checks: tuple[Check, ...]  # one a row
    identities: tuple[dict[str, Any], ...]  # one a row
    said: tuple[str, ...] = ()

    def of_row(self, row: int) -> list[PlannedRun]:
        return [run for run in self.runs if run.row == row]

    def settled(self, chosen_rate: Callable[[str], float | None]) -> "Plan":
        """This plan with the rates that are known by now; `chosen_rate` tells that of a run's folder, or None."""
        runs = []
        known = {folder: chosen_rate(folder) for folder in {run.waits_for for run in self.runs} if folder}
        for run in self.runs:
            rate = None if run.waits_for is None else known[run.waits_for]
            if rate is not None:
                settings = replace(run.settings, learning_rate=rate)
                run = _run(run.row, self.rows[run.row], self.identities[run.row], settings, run.seconds)
            runs.append(run)
        return replace(self, runs=tuple(runs))

    def jobs(self) -> list[list[PlannedRun]]:
        """What is handed to a worker in one piece, longest first. Runs that share frozen features stay together."""
        together: dict[Any, list[PlannedRun]] = {}
        ready = [run for run in self.runs if run.waits_for is None]
        for run in {run.key: run for run in ready}.values():  # two rows may share a run
            shares = run.method == "frozen" and run.settings.features
            together.setdefault((run.task, run.model) if shares else run.key, []).append(run)
        return sorted(together.values(), key=lambda runs: -sum(run.seconds for run in runs))


def short_name(model: str) -> str:
    """A model as a table calls it: of a folder its name, of a Hub name all of it."""
    return model.rstrip("/").rpartition("/")[2] if model.startswith(("/", ".")) else model


# -- which rows ------------------------------------------------------------------------------------------------------


def choose_rows(
    tasks: Sequence[str],
    models: Sequence[str] | None,
    methods: Sequence[str] | None,
    seeds: int,
    settings: Settings,
) -> tuple[list[Row], list[str]]:
    """Models x methods x tasks, baselines always among them; and what was left out, in sentences."""
    said: list[str] = []
    for method in methods or ():
        get_method(method)
    baselines = [name for name, method in list_methods().items() if not method.needs_model]
    neural = None if methods is None else [name for name in dict.fromkeys(methods) if name not in baselines]
    pairs = _pairs(list(dict.fromkeys(models)) if models else None, neural, said)
    rows = []
    for task in tasks:
        rows += [Row(task, method, None, Settings(seed=settings.seed), seeds=seeds) for method in baselines]
        rows += [Row(task, method, model, settings, seeds=seeds) for method, model in pairs]
    return rows, said


def _pairs(models: list[str] | None, methods: list[str] | None, said: list[str]) -> list[tuple[str, str]]:
    if methods == []:
        if models:
            raise UserError("models were named, but only baselines as methods: these need no model")
        return []
    if models is None:
        return _usual_pairs() if methods is None else [(method, usual_model(method)) for method in methods]
    pairs = []
    for model in models:
        pretrained = find(model).folder is not None
        for method in methods or (["frozen", "finetune"] if pretrained else ["scratch"]):
            if pretrained or method == "scratch":
                pairs.append((method, model))
            else:
                said.append(f"{method} {model} is left out: '{model}' is a shape without weights to start from")
    if not pairs:
        raise UserError(f"nothing to train: {said[0]}; use method scratch, or a pretrained model (pocketbert models)")
    return pairs


def _usual_pairs() -> list[tuple[str, str]]:
    """What is compared when nothing is named: what comes with the package, and what is installed beside it."""
    carried = [name for name in ("pocket-tiny", "pocket-mini") if (CARRIED / name / "config.json").is_file()]
    if carried:
        return [(method, model) for model in carried for method in ("frozen", "finetune")]
    pairs = [("scratch", "tiny"), ("scratch", "mini")]
    try:
        find("minilm-l6")
    except UserError:
        return pairs
    return [*pairs, ("frozen", "minilm-l6")]


# -- from rows to runs -----------------------------------------------------------------------------------------------


def make_plan(rows: Sequence[Row], tasks: dict[str, Task], said: Sequence[str] = ()) -> Plan:
    """Resolve every row, look at its data, and name its runs. Every mistake that can be seen now is said now."""
    if not rows:
        raise UserError("a study without rows: name a method")
    known: dict[Any, Any] = {}
    speed = _products_per_second()
    runs: list[PlannedRun] = []
    checks: list[Check] = []
    identities: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        asked = row.settings if row.settings.threads else replace(row.settings, threads=THREADS)
        model, settings = settle(row.method, row.model, asked)
        task = tasks[row.task]
        reads = "whole" if model is None else "words" if row.method == "scratch" else f"tokens of {model.name}"
        place = (row.task, reads, settings.max_length)
        if place not in known:
            known[place] = look_at(task, row.method, model, settings)
        _refuse(task, known[place], settings, baseline=model is None)
        checks.append(known[place])
        identities.append(_identity(task, row.method, model, settings.vocabulary, known))
        seconds = about_seconds(row.method, model, task, settings, speed)
        own = [
            _run(number, row, identities[-1], replace(settings, seed=settings.seed + seed), seconds)
            for seed in range(row.seeds)
        ]
        if row.keep_rate and not row.baseline and len(settings.rates) > 1:
            each = seconds / len(settings.rates)
            own[1:] = [replace(run, waits_for=own[0].folder, seconds=each) for run in own[1:]]
        runs += own
    return Plan(tuple(rows), tuple(runs), tasks, tuple(checks), tuple(identities), tuple(said))


def _refuse(task: Task, check: Check, settings: Settings, *, baseline: bool) -> None:
    """What would stop a run at its start stops the study before it."""
    train, dev = task.split("train"), task.splits.get("dev")
    if train.labels is None:
        raise UserError(f"{task.name}:train has no real labels: {train.reason}")
    if check.errors:
        raise UserError(f"{task.name}: {check.errors[0]}")
    scored = task.splits.get(scored_split(task))
    if scored is None or not scored.labelled or not len(scored):
        raise UserError(f"{task.name} has no labelled dev or test split: there is nothing to score a study on")
    choices = len(settings.rates) * (settings.epochs or 1)
    if not baseline and choices > 1 and (dev is None or not dev.labelled or not len(dev)):
        raise UserError(f"{task.name} has no labelled dev split to choose an epoch or a rate on; use one of each")


def scored_split(task: Task) -> str:
    """Test, where it has real labels; else dev, which is said."""
    test = task.splits.get("test")
    return "test" if test is not None and test.labelled and len(test) else "dev"


def _identity(
    task: Task, method: str, model: Model | None, vocabulary: str | None, known: dict[Any, Any]
) -> dict[str, Any]:
    """Everything but the settings that decides a run's numbers. From scratch that is a shape and a vocabulary."""
    texts, weights = ("texts", task.name), ("weights", model.name if model else "")
    if texts not in known:
        known[texts] = {name: task.fingerprint(name) for name in task.splits}
    starts: Any = None
    if model is not None and method == "scratch":
        shape = {name: value for name, value in vars(model.config).items() if name != "vocabulary"}
        starts = [shape, _vocabulary(vocabulary)]
    elif model is not None:
        if model.folder is None:
            raise UserError(
                f"'{model.name}' is a shape with fresh weights: nothing to {method}; use method scratch, "
                f"or a pretrained model (pocketbert models)"
            )
        if weights not in known:
            known[weights] = weights_fingerprint(model.encoder())
        tokenizer = "" if model.tokenizer is None else model.tokenizer.to_json()
        starts = [known[weights], hashlib.sha256(tokenizer.encode()).hexdigest()]
    return {"format": 1, "task": task.name, "texts": known[texts], "method": method, "starts": starts}


def _vocabulary(given: str | None) -> str | None:
    """What a vocabulary that was named holds; a file that is not there is the run's to complain about."""
    if given is None:
        return None
    if given.endswith(".txt"):
        path = Path(given)
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "missing"
    return hashlib.sha256(load_tokenizer(given).to_json().encode()).hexdigest()


def _run(number: int, row: Row, identity: dict[str, Any], settings: Settings, seconds: float) -> PlannedRun:
    content = json.dumps({**identity, "settings": settings.to_dict()}, sort_keys=True)
    key = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    parts = [row.task, row.method, *([short_name(row.model)] if row.model else []), f"seed{settings.seed}"]
    name = re.sub(r"[^A-Za-z0-9]+", "-", " ".join(parts)).strip("-")[:80]
    return PlannedRun(key, f"{name}-{key}", number, row.task, row.method, row.model, settings, seconds)


# -- about how long --------------------------------------------------------------------------------------------------


def about_seconds(method: str, model: Model | None, task: Task, settings: Settings, speed: float) -> float:
    """A guess from the number of products a run needs and this machine's speed; good to a factor of two."""
    rows = len(task.train)
    if model is None:
        return START + rows * (2e-4 if method == "tfidf" else 1e-6)
    config = model.config
    sample = task.train.texts[:: max(1, rows // 500)]
    seconds = task.train.seconds[:: max(1, rows // 500)] if task.train.seconds else []
    words = sum(len(text.split()) for text in (*sample, *seconds)) / max(1, len(sample))
    tokens = min(1.4 * words + 3, settings.max_length)
    layer = 4 * config.width**2 + 2 * config.width * config.inner
    forward = 2 * tokens * config.layers * (layer + tokens * config.width)
    evaluated = sum(len(split) for name, split in task.splits.items() if name != "train")
    passes = len(settings.rates) * (settings.epochs or 1)
    per_second = speed * SHARE * (1.8 if settings.precision == "bfloat16" else 1.0)
    if method == "frozen" and settings.features:
        heads = rows * passes * 4e-6 * config.width / 128
        return START + (rows + evaluated) * (forward / (speed * SHARE) + OVERHEAD) + heads
    trained = rows * passes * (3 * forward / per_second + OVERHEAD)
    return START + trained + evaluated * passes * forward / (speed * SHARE)


def _products_per_second() -> float:
    """Floating point operations a second in one thread: the best of some products of matrices."""
    matrix = torch.ones(256, 256)
    best = 1.0
    with computing(1):
        for _ in range(30):
            started = time.perf_counter()
            matrix @ matrix
            best = min(best, time.perf_counter() - started)
    return float(2 * 256**3 / best)
