"""What an audit found, as dataclasses: the keys of `to_dict`, of `audit --json` and of study.json."""

from dataclasses import asdict, dataclass
from typing import Any

from pocketbert.values import Count


@dataclass(frozen=True)
class ChangeResult:
    """One comparison: what happens when the second word of `pair` is replaced by the first."""

    pair: str
    n: Count  # pairs of texts
    templates: Count
    mean_change: float  # of the probability of the label that is asked about; the next two are its 95 % interval
    low: float
    high: float
    absolute_change: float  # the mean without signs
    flip_rate: float  # the share of changed decisions, and its interval
    flip_low: float
    flip_high: float
    p: float
    p_permutation: float
    p_corrected: float  # for the number of comparisons
    flagged: bool  # what the corrected one says
    p_equivalence: float  # of "as large as the margin, or larger"
    equivalent: bool  # shown to be smaller than the margin
    detectable: float  # the smallest mean change that four audits of five like this one would have found
    changes_by_label: dict[str, float]
    accuracy: dict[str, float]  # by group, where right labels are known; else empty
    accuracy_change: float | None = None  # first minus second, and its interval
    accuracy_low: float | None = None
    accuracy_high: float | None = None
    control: str | None = None  # the control swap to read it beside
    p_control: float | None = None  # of "it moves probabilities no more than its control does"
    exceeds_control: bool | None = None
    sentence: str = ""


@dataclass(frozen=True)
class Breakdown:
    """A comparison for the items with one tag: an occupation, a verb that changes or stays."""

    tag: str
    value: str
    pair: str
    n: Count
    templates: Count
    mean_change: float
    low: float
    high: float
    flip_rate: float
    p: float
    p_corrected: float  # for the number of values of this tag
    flagged: bool


@dataclass(frozen=True)
class WorstPair:
    """Two texts that differ in the swap alone, and are judged most differently."""

    pair: str
    first_text: tuple[str, ...]
    second_text: tuple[str, ...]
    first_probability: float  # mean over trainings
    second_probability: float
    change: float
    flips: str  # in how many trainings the decision changes


@dataclass(frozen=True)
class BeforeAfter:
    """One comparison of two classifiers: before, and after training on both sides of each swap."""

    task: str
    row: str  # the one before
    after_row: str
    suite: str
    pair: str
    n: Count
    before: float  # mean changes
    after: float
    difference: float  # after minus before; the next two are its 95 % interval
    low: float
    high: float
    p: float
    p_corrected: float  # for the number of comparisons
    flips_before: float
    flips_after: float
    sentence: str


@dataclass(frozen=True)
class AuditResult:
    """An audit of one classifier, or of several trainings of it, with one suite."""

    suite: str
    label: str  # whose probability the changes are of: the highest one, where nobody says otherwise
    labels: tuple[str, ...]
    trainings: Count
    items: Count
    pairs: Count
    margin: float  # changes shown to be smaller are equivalent
    comparisons: tuple[ChangeResult, ...]
    controls: tuple[ChangeResult, ...]
    breakdowns: tuple[Breakdown, ...]
    worst: tuple[WorstPair, ...]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    elapsed: float
    task: str = ""  # in a study
    row: str = ""

    @property
    def summary(self) -> tuple[str, ...]:
        """The first sentences: all comparisons together. One on each follows them."""
        return self.sentences[: len(self.sentences) - len(self.comparisons)]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)
