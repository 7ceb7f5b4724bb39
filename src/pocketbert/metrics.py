"""How good predictions are: scores, intervals and calibration of one run on one split. Numbers in, numbers out.

Statistics over many trainings (comparisons, recommendations) belong to studies; this is what a single run can say.
"""

import math
from typing import Any

import numpy as np

Z = 1.959963984540054  # 97.5 % of a normal distribution lie below it
TINY = 1e-12  # a probability of 0 has no logarithm
COLDEST, HOTTEST = 0.05, 20.0  # temperatures beyond these say "all right" or "all wrong", not how much


def wilson_bounds(share: Any, width: Any) -> tuple[np.ndarray, np.ndarray]:
    """The shares that an observed one is compatible with (Wilson 1927): all p with (share − p)² ≤ width · p (1 − p).

    Noise is smaller near 0 and 1, so the interval reaches further to the middle than to the end. `width` is the squared
    half of the plain interval, divided by share (1 − share).
    """
    half = np.sqrt(width**2 + 4 * width * share * (1 - share))
    low, high = ((2 * share + width + sign * half) / (2 * (1 + width)) for sign in (-1, 1))
    return np.clip(np.minimum(share, low), 0.0, 1.0), np.clip(np.maximum(share, high), 0.0, 1.0)  # rounding aside


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities, in float64: the last digit does not depend on how rows were batched."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def wilson(right: int, rows: int) -> tuple[float, float]:
    """A 95 % interval for a share: honest also near 0 and 1, where ± fails."""
    if rows == 0:
        return 0.0, 1.0
    low, high = wilson_bounds(right / rows, Z * Z / rows)
    return float(low), float(high)


def confusion(labels: np.ndarray, predicted: np.ndarray, count: int) -> np.ndarray:
    """(true, predicted) counts."""
    return np.bincount(labels * count + predicted, minlength=count * count).reshape(count, count)


def f1_scores(matrix: np.ndarray) -> np.ndarray:
    """One per class; 0 where a class is neither there nor predicted."""
    right = np.diag(matrix).astype(np.float64)
    return _quotient(2 * right, matrix.sum(axis=0) + matrix.sum(axis=1))


def macro_f1(matrix: np.ndarray) -> float:
    """The mean F1 of the classes that are there or predicted."""
    present = (matrix.sum(axis=0) + matrix.sum(axis=1)) > 0
    return float(f1_scores(matrix)[present].mean()) if present.any() else 0.0


def matthews(matrix: np.ndarray) -> float:
    """Correlation of truth and prediction, for any number of classes: 0 for guessing, 1 for perfect."""
    rows = matrix.sum()
    true, predicted = matrix.sum(axis=1).astype(np.float64), matrix.sum(axis=0).astype(np.float64)
    above = np.trace(matrix) * rows - true @ predicted
    below = math.sqrt(float(rows**2 - predicted @ predicted)) * math.sqrt(float(rows**2 - true @ true))
    return float(above / below) if below > 0 else 0.0


def per_class(matrix: np.ndarray) -> list[dict[str, float]]:
    """Precision, recall, F1 and rows of each class of a (true, predicted) table; 0 where there is nothing to divide."""
    matrix = np.asarray(matrix)
    right, predicted, true = np.diag(matrix).astype(np.float64), matrix.sum(axis=0), matrix.sum(axis=1)
    columns = zip(_quotient(right, predicted), _quotient(right, true), f1_scores(matrix), true, strict=True)
    return [
        {"precision": float(precision), "recall": float(recall), "f1": float(f1), "support": int(rows)}
        for precision, recall, f1, rows in columns
    ]


def reliability(probabilities: np.ndarray, labels: np.ndarray, bins: int = 10) -> list[dict[str, float]]:
    """How often predictions of each confidence are right, in bins of equal width; empty ones are left out."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    return [
        {
            "confidence": float(confidence[which == index].mean()),
            "accuracy": float(right[which == index].mean()),
            "share": float((which == index).mean()),
            "rows": int((which == index).sum()),
        }
        for index in np.unique(which)
    ]


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error: how far, on average, the confidence is from the share that is right."""
    each = reliability(probabilities, labels, bins)
    return sum(one["share"] * abs(one["accuracy"] - one["confidence"]) for one in each)


def temperature(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The one number to divide log-probabilities by so that confidence fits these labels best (Guo and others 2017).

    Above 1: too sure of itself. The log loss is convex in its inverse, so the one place where the slope is zero is it.
    """
    from scipy import optimize  # not at the top: most who need a score need no temperature

    logs = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), TINY))
    labels = np.asarray(labels)
    if len(labels) == 0:
        return 1.0
    own = logs[np.arange(len(labels)), labels]

    def slope(inverse: float) -> float:
        return float(((softmax(logs * inverse) * logs).sum(axis=1) - own).mean())

    if abs(slope(1.0)) < TINY:  # all classes alike in every row: no temperature changes anything
        return 1.0
    if slope(1 / COLDEST) <= 0:
        return COLDEST
    if slope(1 / HOTTEST) >= 0:
        return HOTTEST
    return 1 / float(optimize.brentq(slope, 1 / HOTTEST, 1 / COLDEST))


def rescale(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities at another temperature; which class is likeliest does not change."""
    return softmax(np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), TINY)) / temperature)


def measure(probabilities: np.ndarray, labels: np.ndarray, names: tuple[str, ...]) -> dict[str, Any]:
    """Everything one run says about one split."""
    predicted = probabilities.argmax(axis=1)
    matrix = confusion(labels, predicted, len(names))
    right = int(np.trace(matrix))
    low, high = wilson(right, len(labels))
    own = probabilities[np.arange(len(labels)), labels]
    return {
        "rows": len(labels),
        "accuracy": right / max(1, len(labels)),
        "low": low,
        "high": high,
        "macro_f1": macro_f1(matrix),
        "mcc": matthews(matrix),
        "loss": float(-np.log(np.maximum(own, TINY)).mean()),
        "calibration_error": calibration_error(probabilities, labels),
        "f1": {name: float(score) for name, score in zip(names, f1_scores(matrix), strict=True)},
        "confusion": matrix.tolist(),
    }


def _quotient(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """0 where there is nothing to divide."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
