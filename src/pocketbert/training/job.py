"""What a method is given and what it gives back: a job, something trained, something that classifies."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketbert.training.settings import Settings

if TYPE_CHECKING:
    import numpy as np

    from pocketbert.encoder import Encoder
    from pocketbert.start import Start
    from pocketbert.tasks import Split
    from pocketbert.tokenizer import Tokenizer
    from pocketbert.training.loop import EpochRecord, Report


@dataclass(frozen=True, eq=False)
class JobTask:
    """One task to learn: its labels, what is learnt from, what rate and epoch are chosen on, what is scored."""

    name: str
    labels: tuple[str, ...]
    train: "Split"
    dev: "Split | None" = None
    scored: "Split | None" = None  # of one that is learnt beside another: the other's run scores it, too

    @property
    def targets(self) -> "np.ndarray":
        assert self.train.labels is not None
        return self.train.labels


@dataclass(frozen=True, eq=False)
class Job:
    """Everything a method is given."""

    tasks: tuple[JobTask, ...]  # mostly one; of several, the first is what the result predicts
    settings: Settings  # resolved
    start: "Start | None" = None  # None for a method that needs none
    prepared: "tuple[Encoder, Tokenizer] | None" = None  # what `Method.prepare` gave, where it was called before
    fingerprint: str | None = None  # of the prepared encoder's weights, where it was made before
    checkpoint: Path | None = None  # where to go on from, and to leave a way to go on
    report: "Report | None" = None

    @property
    def task(self) -> JobTask:
        return self.tasks[0]


@dataclass(frozen=True, eq=False)
class Predictions:
    """What was predicted for some texts."""

    probabilities: "np.ndarray"  # (texts, labels), rows sum to one
    truncated: int = 0  # texts that were longer than what is read


@dataclass(frozen=True)
class Matrix:
    """Shares, or differences of shares, by row and column, shown as a heat map: what a method says of itself."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]  # None: there is none
    note: str = ""


class Fitted(ABC):
    """Something that classifies, and can be written to a folder without pickle."""

    trained_parameters: int = 0
    model_bytes: int = 0  # in memory, when it predicts

    @abstractmethod
    def predict(self, split: "Split", *, keep: bool = False) -> Predictions:
        """A probability per text and label. `keep` what others will compute from the same texts, too."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write what the method trained."""

    def probabilities(self, texts: Sequence[str], second_texts: Sequence[str] | None = None) -> "np.ndarray":
        """(texts, labels), rows sum to one."""
        from pocketbert.tasks import Split

        return self.predict(
            Split(list(texts), None if second_texts is None else list(second_texts), None)
        ).probabilities


@dataclass
class Trained:
    """What came out of a job."""

    fitted: Fitted
    history: "list[EpochRecord]" = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)  # rate, epoch, dev_accuracy
    elapsed: float = 0.0
    trials: int = 1  # rates x epochs that dev chose from
    dev: Predictions | None = None  # for the dev split, where they were made on the way
    matrices: list[Matrix] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Saved:
    """What is loaded again: the files that `Fitted.save` wrote, and what the run's settings.json says about them."""

    folder: Path
    task: str
    labels: tuple[str, ...]
    settings: Settings
    start: "Start | None" = None  # found again, where the method needs more than it saved
    weights: str | None = None  # the fingerprint that the start's weights had
