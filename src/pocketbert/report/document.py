"""The results of a study, `study.json`, as dataclasses: with one writer and one reader.

What a field is called here is its key in the file. Tables, reports and presets are made from a `Document` and nothing
else, so a finished study can be shown again later, and elsewhere. A field that is added needs a default: then documents
that were written before it are still read.
"""

import os
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pocketbert.audits.result import AuditResult, BeforeAfter
from pocketbert.errors import UserError, quote
from pocketbert.files import write_json
from pocketbert.values import FORMAT, Count, read_object

UNREADABLE = re.compile("[\0\ud800-\udfff]")  # a NUL and half a character are no text: see `values.is_text`
Setting = bool | int | float | str | tuple[Any, ...] | None


@dataclass(frozen=True)
class Spread:
    """A figure over seeds, where no interval is known."""

    mean: float | None
    std: float | None = None  # one seed has none


@dataclass(frozen=True)
class Score:
    """A score over trainings, with its 95 % interval. docs/statistics.md explains the fields."""

    mean: float
    std: float | None
    low: float
    high: float
    draws: Count
    trainings: Count
    examples: Count
    clusters: Count
    degrees_of_freedom: float | None
    example_noise: float
    training_noise: float
    counts_training_noise: bool  # False: one training of a method that has seeds; another could be otherwise
    values: tuple[float, ...] = ()  # one per training


@dataclass(frozen=True)
class ClassScores:
    """One label: how well it is found."""

    precision: float
    recall: float
    f1: float
    support: float  # rows of the scored split that have it


@dataclass(frozen=True)
class Bin:
    """Predictions of about one confidence."""

    confidence: float
    accuracy: float
    share: float
    rows: Count


@dataclass(frozen=True)
class Curve:
    """One training: what it reached after each epoch."""

    seed: Count
    learning_rate: float
    epochs: tuple[int, ...]
    loss: tuple[float | None, ...]
    dev_accuracy: tuple[float | None, ...]


@dataclass(frozen=True)
class Chosen:
    """What dev chose for a seed; a method that has no epochs leaves nothing to choose."""

    seed: Count
    learning_rate: float | None = None
    epoch: Count | None = None
    dev_accuracy: float | None = None


@dataclass(frozen=True)
class Cost:
    """Of a run: means over seeds, except for memory, which is the largest."""

    seconds: float
    peak_memory_bytes: Count
    trained_parameters: Count
    examples_per_second: float | None
    model_bytes: Count = 0  # in memory, when it predicts
    seconds_per_1000_texts: float | None = None


@dataclass(frozen=True)
class RowResults:
    """One row of a task's table: a method, and a model where it needs one, over seeds."""

    task: str
    name: str
    model: str | None
    method: str
    baseline: bool
    guesses: bool  # it reads no texts
    deterministic: bool  # it has no seed
    seeds: tuple[Count, ...]  # of the trainings that are finished
    missing: int  # and how many are not
    split: str
    accuracy: Score
    macro_f1: Score
    mcc: Score
    calibration_error: Spread
    loss: Spread
    temperature: Spread
    dev: Score | None  # accuracy on the split that chose
    per_class: dict[str, ClassScores]
    confusion: tuple[tuple[Count, ...], ...]  # true label by predicted label, summed over seeds
    reliability: tuple[Bin, ...]
    curves: tuple[Curve, ...]
    chosen: tuple[Chosen, ...]
    trials: Count
    truncated: Count
    cost: Cost
    settings: dict[str, Setting]
    folders: tuple[str, ...]
    theirs: str | None
    note: str | None
    collapsed: Count  # trainings that learnt nothing, while others of the row did
    undertrained: Count  # trainings that predict one class only, or whose loss did not fall

    @property
    def all_undertrained(self) -> bool:
        """Did none of its trainings learn anything?"""
        return bool(self.seeds) and self.undertrained == len(self.seeds)

    def score(self, metric: str) -> Score:
        found: Score = getattr(self, metric)
        return found

    def __post_init__(self) -> None:
        seeds, labels = len(self.seeds), len(self.per_class)
        if {len(self.accuracy.values), len(self.chosen), len(self.folders)} != {seeds}:
            raise UserError(f"row {quote(self.name)}: its scores, choices and folders are not one per seed")
        if [len(line) for line in self.confusion] != [labels] * labels:
            raise UserError(
                f"row {quote(self.name)}: the confusion of {labels} labels is no table of {labels} x {labels}"
            )


@dataclass(frozen=True)
class ComparisonResult:
    """Two rows of a task, the better one first: first minus second. docs/statistics.md explains the fields."""

    task: str
    first: str
    second: str
    effect: float
    low: float
    high: float
    p_value: float
    corrected: float  # the p-value, corrected for the number of comparisons
    significant: bool  # what the corrected one says
    detectable: float  # the smallest difference that four studies of five like this one would have found
    degrees_of_freedom: float | None
    trainings: tuple[Count, ...]
    examples: Count
    counts_training_noise: bool
    mcnemar: float | None  # where both are single trainings
    sentence: str


@dataclass(frozen=True)
class Recommended:
    """What to use on a task, and what may be promised of it."""

    task: str
    row: str
    best: str  # the row with the highest score
    margin: float  # by how much a cheaper row may be worse
    p_value: float | None  # of "it is worse by the margin or more", where it is not the best itself
    promised: Score  # of choosing so: each part of the rows was scored by the choice that the others made
    chosen: tuple[str, ...]  # what these choices were
    final: str | None  # the folder of the model that was trained on all rows
    sentence: str


@dataclass(frozen=True)
class Suspect:
    """A row whose label is probably wrong."""

    task: str
    number: Count  # in the file, from 1
    text: str
    second_text: str | None
    label: str
    predicted: str
    self_confidence: float  # the mean probability of its label
    agreeing: str  # how many rows of the table predict the other


@dataclass(frozen=True)
class Mistake:
    """A text that a row was certain about, and wrong."""

    task: str
    row: str
    text: str
    second_text: str | None
    label: str
    prediction: str
    probability: float
    wrong: str  # in how many seeds


@dataclass(frozen=True)
class TaskSummary:
    """What was learnt from and scored on."""

    name: str
    labels: tuple[str, ...]
    pair: bool
    rows: dict[str, Count]  # by split, as the next three
    balance: dict[str, dict[str, Count]]
    tokens: dict[str, dict[str, Any]]
    refused: dict[str, str]  # why its labels are no labels
    scored: str
    licence: str
    origin: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    folds: Count = 0  # in which every row was tested once; 0: on a split
    clusters: Count = 0  # of near-duplicates
    suspects: Count = 0  # rows whose label is probably wrong


@dataclass(frozen=True)
class Failure:
    """A run that ended with an error."""

    run: str
    error: str

    @property
    def reason(self) -> str:
        return self.error.strip().rpartition("\n")[2]


@dataclass(frozen=True)
class Published:
    """A published table, theirs beside ours."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    differs: str  # what else differs


@dataclass(frozen=True)
class Probe:
    """Sentences made to ask one thing each, and what rows answered."""

    task: str
    row: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Predicted:
    """A file without labels, and where its predictions are."""

    task: str
    file: str
    out: str
    row: str
    rows: Count


@dataclass(frozen=True)
class CurvePoint:
    """What a row reaches with some of the training rows."""

    rows: Count
    score: Score


@dataclass(frozen=True)
class LearningCurve:
    """A row over sizes of its training set, and what twice the data would bring."""

    task: str
    row: str
    points: tuple[CurvePoint, ...]  # smallest first; the last is the row itself
    follows_power_law: bool  # else nothing is forecast
    gain: float | None  # of doubling the data
    low: float | None
    high: float | None
    sentence: str
    folders: tuple[str, ...] = ()  # of the runs on fewer rows


@dataclass(frozen=True)
class HeatMap:
    """What a row's method says of itself: shares or differences of shares by row and column, over trainings."""

    task: str
    row: str
    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    mean: tuple[tuple[float | None, ...], ...]  # None: there is none
    low: tuple[tuple[float | None, ...], ...]  # 95 % interval over trainings; None: one training has none
    high: tuple[tuple[float | None, ...], ...]
    trainings: Count
    note: str

    def __post_init__(self) -> None:
        shape = [len(self.columns)] * len(self.rows)
        if any([len(line) for line in values] != shape for values in (self.mean, self.low, self.high)):
            raise UserError(f"{quote(self.title)}: not a number for each row and column")

    @property
    def lines(self) -> list[tuple[str, list[tuple[float | None, float | None, float | None]]]]:
        """Each row's name, and (mean, low, high) by column."""
        return [
            (name, list(zip(self.mean[place], self.low[place], self.high[place], strict=True)))
            for place, name in enumerate(self.rows)
        ]


@dataclass(frozen=True)
class Machine:
    system: str
    processor: str
    cores: int | None


@dataclass(frozen=True)
class Document:
    """Everything that a study found."""

    pocketbert: str  # the version
    name: str
    preset: str | None
    again: str | None  # the command that repeats it
    workers: int | str
    seconds: float  # of computing, over all runs
    verdicts: tuple[str, ...]
    rule: str  # how settings were chosen
    metric: str  # the score that decides
    tasks: tuple[TaskSummary, ...]
    rows: tuple[RowResults, ...]
    comparisons: tuple[ComparisonResult, ...]
    mistakes: tuple[Mistake, ...]
    recommended: tuple[Recommended, ...]
    suspects: tuple[Suspect, ...]  # the most suspect of each task; suspect_labels.csv has all
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    versions: dict[str, str]
    machine: Machine
    published: tuple[Published, ...] = ()
    probes: tuple[Probe, ...] = ()
    predicted: tuple[Predicted, ...] = ()
    learning_curves: tuple[LearningCurve, ...] = ()
    heat_maps: tuple[HeatMap, ...] = ()
    advice: tuple[str, ...] = ()  # what to do next
    estimated_seconds: float | None = None  # until the verdict, where it was planned for some minutes
    audits: tuple[AuditResult, ...] = ()  # of each task's recommended row, with small suites
    augmented: tuple[BeforeAfter, ...] = ()  # rows that were also trained on both sides of each swap
    elapsed: float | None = None  # what it took: None where a study went on after a stop
    format: int = FORMAT

    def __post_init__(self) -> None:
        labels = {task.name: set(task.labels) for task in self.tasks}
        for task in {
            one.task
            for some in (
                self.rows,
                self.comparisons,
                self.mistakes,
                self.recommended,
                self.suspects,
                self.learning_curves,
                self.audits,
                self.augmented,
                self.heat_maps,
            )
            for one in some
        }:
            if task not in labels:
                raise UserError(f"{quote(task)} is not among its tasks")
        for row in self.rows:
            if set(row.per_class) != labels[row.task]:
                raise UserError(f"row {quote(row.name)}: its labels are not those of its task")

    def rows_of(self, task: str) -> list[RowResults]:
        """In the order of the plan."""
        return [row for row in self.rows if row.task == task]

    def row(self, task: str, name: str) -> RowResults | None:
        return next((row for row in self.rows_of(task) if row.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found: dict[str, Any] = _to_json(self)
        return found


def write_document(document: Document, path: str | os.PathLike[str]) -> None:
    write_json(path, document.to_dict())


def read_document(path: str | os.PathLike[str]) -> Document:
    """A study.json, if it is whole. One of an older version is not read: studies are cheap once their runs are done."""
    document: Document = read_object(path, Document, outdated="run the study again: its finished runs are kept")
    return document


def _to_json(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {_to_json(key): _to_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(one) for one in value]
    return UNREADABLE.sub("\ufffd", value) if isinstance(value, str) else value
