"""What the trainings of one row predicted, and what each prediction adds to the score.

Accuracy is a mean over examples. Macro-F1 and the Matthews correlation are not, but nearly: to first order each is a
mean of influence values, one per example (Hampel 1974). With them, intervals and comparisons of all three metrics are
one formula.
"""

from dataclasses import dataclass

import numpy as np

from pocketbert import metrics

METRICS = ("accuracy", "macro_f1", "mcc")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What the trainings of one row predicted for every test example.

    A draw tests every example once. With a fixed test split it is one training (a seed); under cross-validation it is
    one training per fold, and draws differ in their seeds, in their folds (repeats), or both.
    """

    predictions: np.ndarray  # (draws, examples) of int
    labels: np.ndarray  # (examples,) of int
    folds: np.ndarray | None = (
        None  # (draws, examples) of int: which training of the draw tested it; None: a fixed split
    )
    clusters: np.ndarray | None = None  # (examples,) of int: near-equal texts share a number; None: all independent
    seeded: bool = True  # False: the method has no seed; under folds its trainings still differ by training set

    def __post_init__(self) -> None:
        shape = np.shape(self.predictions)
        if len(shape) != 2 or 0 in shape:
            raise ValueError(f"predictions: expected (draws, examples), at least one of each; got the shape {shape}")
        expected = {"labels": shape[1:], "folds": shape, "clusters": shape[1:]}
        for name, value in (("labels", self.labels), ("folds", self.folds), ("clusters", self.clusters)):
            if value is not None and np.shape(value) != expected[name]:
                raise ValueError(f"{name}: expected the shape {expected[name]}, got {np.shape(value)}")
        for name in ("predictions", "labels"):
            value = np.asarray(getattr(self, name))
            if value.dtype.kind not in "iu" or value.min() < 0:
                raise ValueError(f"{name}: expected label numbers, 0 or more")

    @classmethod
    def from_correct(
        cls,
        correct: np.ndarray,
        folds: np.ndarray | None = None,
        clusters: np.ndarray | None = None,
        *,
        seeded: bool = True,
    ) -> "Outcomes":
        """Where only (draws, examples) of right and wrong is known: enough for accuracy."""
        predictions = np.asarray(correct).astype(np.int64)
        return cls(predictions, np.ones(predictions.shape[-1], dtype=np.int64), folds, clusters, seeded)

    @property
    def draws(self) -> int:
        return len(self.predictions)

    @property
    def examples(self) -> int:
        return len(self.labels)

    @property
    def trainings(self) -> int:
        """How many models were trained."""
        return self.draws if self.folds is None else sum(len(np.unique(row)) for row in self.folds)

    @property
    def correct(self) -> np.ndarray:
        """(draws, examples) of bool."""
        return np.asarray(self.predictions) == np.asarray(self.labels)

    def take(self, examples: np.ndarray) -> "Outcomes":
        """The same trainings on these examples alone."""
        return Outcomes(
            self.predictions[:, examples],
            self.labels[examples],
            None if self.folds is None else self.folds[:, examples],
            None if self.clusters is None else self.clusters[examples],
            self.seeded,
        )


def influence_values(outcomes: Outcomes, metric: str) -> np.ndarray:
    """(draws, examples): what each prediction adds. The mean over examples is the draw's score, exactly."""
    if metric not in METRICS:
        raise ValueError(f"metric: {metric!r} is not known; known are {', '.join(METRICS)}")
    if metric == "accuracy":
        return outcomes.correct.astype(np.float64)
    predictions, labels = np.asarray(outcomes.predictions), np.asarray(outcomes.labels)
    classes = int(max(predictions.max(), labels.max())) + 1
    influence = _macro_f1_influence if metric == "macro_f1" else _matthews_influence
    return np.stack([influence(metrics.confusion(labels, row, classes))[labels, row] for row in predictions])


def _macro_f1_influence(matrix: np.ndarray) -> np.ndarray:
    """(true, predicted): the influence value of an example in that cell of the confusion matrix."""
    total = (matrix.sum(axis=0) + matrix.sum(axis=1)) / matrix.sum()
    inverse = np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
    per_total = metrics.f1_scores(matrix) * inverse
    slopes = 2 * np.diag(inverse) - per_total[:, None] - per_total
    return metrics.macro_f1(matrix) + slopes / (total > 0).sum()


def _matthews_influence(matrix: np.ndarray) -> np.ndarray:
    """The same for the Matthews correlation; where only one class is there or predicted it is 0, whatever the rest."""
    score = metrics.matthews(matrix)
    shares = matrix / matrix.sum()
    true, predicted = shares.sum(axis=1), shares.sum(axis=0)
    of_true, of_predicted = 1 - true @ true, 1 - predicted @ predicted
    if min(of_true, of_predicted) < 1e-12:
        return np.zeros(matrix.shape)
    slopes = (np.eye(len(matrix)) - predicted[:, None] - true) / np.sqrt(of_true * of_predicted)
    slopes = slopes + score * (true[:, None] / of_true + predicted / of_predicted)
    return score + slopes - (shares * slopes).sum()
