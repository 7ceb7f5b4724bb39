"""Suspect labels: the rows whose given label the models most agree is wrong.

Confident learning (Northcutt, Jiang and Chuang 2021) on probabilities from models that did not train on the row, as
folds give them. A row is confidently of a class if its probability is at least the mean that rows labelled so have.
Counts of given labels against confident classes estimate how many labels of each class are wrong, and what they should
be. So many rows are suspects, those with the largest margin first ("prune by noise rate"). They are ranked by the
probability of the given label ("self-confidence").
"""

from dataclasses import dataclass

import numpy as np

SLACK = 1e-6  # probabilities closer than this are equal


@dataclass(frozen=True)
class SuspectLabel:
    """A row whose label is probably wrong."""

    row: int
    label: int  # as given
    predicted: int  # the most probable class, on average over the models
    self_confidence: float  # the mean probability of the given label; the lowest is ranked first
    agreeing: int  # models that predict `predicted`


def suspect_labels(probabilities: np.ndarray, labels: np.ndarray) -> list[SuspectLabel]:
    """The rows whose labels are probably wrong, the most suspect first.

    Args:
        probabilities: out-of-fold, (rows, classes); or (models, rows, classes), of which the mean over models counts.
        labels: as given, (rows,), indexes of classes.
    """
    every = probabilities if probabilities.ndim == 3 else probabilities[None]
    if every.shape[1] != len(labels) or not np.isfinite(every).all():
        raise ValueError("every row needs probabilities: those of all folds, put together")
    mean = every.mean(axis=0)
    suspects = np.flatnonzero(_suspects(mean, labels))
    self_confidence = mean[suspects, labels[suspects]]
    votes = every.argmax(axis=2)
    return [
        SuspectLabel(
            row=int(row),
            label=int(labels[row]),
            predicted=int(mean[row].argmax()),
            self_confidence=float(mean[row, labels[row]]),
            agreeing=int((votes[:, row] == mean[row].argmax()).sum()),
        )
        for row in suspects[np.argsort(self_confidence, kind="stable")]
    ]


def confident_joint(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(classes, classes): estimated numbers of rows, by given label (the lines, which add up to it) and true class."""
    classes = probabilities.shape[1]
    # A class without rows has no threshold, so no row is confidently of it.
    thresholds = np.array(
        [
            probabilities[labels == label, label].mean() if (labels == label).any() else np.inf
            for label in range(classes)
        ]
    )
    confident = probabilities >= np.maximum(thresholds, 2 * SLACK) - SLACK
    # Of several confident classes the most probable one counts; a row without any does not count.
    guess = np.where(confident.sum(axis=1) > 1, probabilities.argmax(axis=1), confident.argmax(axis=1))
    counted = confident.any(axis=1)
    joint = np.zeros((classes, classes))
    np.add.at(joint, (labels[counted], guess[counted]), 1)
    np.fill_diagonal(joint, joint.diagonal().clip(min=1))
    totals = np.bincount(labels, minlength=classes)
    return np.stack([_rounded(line / line.sum() * total, total) for line, total in zip(joint, totals, strict=True)])


def _rounded(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers that add up to the total, each as near to its share as can be."""
    whole = np.rint(shares)
    missing = int(total - whole.sum())
    upwards = np.argsort(shares - whole, kind="stable")
    if missing > 0:
        whole[upwards[-missing:]] += 1
    else:
        whole[upwards[:-missing]] -= 1
    return whole.astype(np.int64)


def _suspects(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(rows,) bool: for each pair of given label and true class, as many rows as are estimated to be so."""
    classes = probabilities.shape[1]
    wrong = confident_joint(probabilities, labels)
    suspect = np.zeros(len(labels), dtype=bool)
    for label in range(classes):
        rows = np.flatnonzero(labels == label)
        if len(rows) and not wrong[label, label]:  # a class is never wrong throughout
            wrong[label, wrong[label].argmax()] -= 1
        for other in range(classes):
            if other != label:
                margin = probabilities[rows, other] - probabilities[rows, label]
                suspect[rows[np.argsort(-margin, kind="stable")[: wrong[label, other]]]] = True
    own = probabilities[np.arange(len(labels)), labels]
    return suspect & (probabilities.max(axis=1) > own + SLACK)  # where the models agree with the label, it stands
