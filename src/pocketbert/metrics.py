"""How good predictions are, and how sure we are of it: for one run on one split.

Statistics over many runs (seeds, comparisons) belong to studies; this is what a single run can say.
"""

import math
from typing import Any

import numpy as np

Z = 1.959963984540054  # 97.5 % of a normal distribution lie below it


def wilson(right: int, rows: int) -> tuple[float, float]:
    """A 95 % interval for a share (Wilson 1927): honest also near 0 and 1, where ± fails."""
    if rows == 0:
        return 0.0, 1.0
    share = right / rows
    middle = (share + Z * Z / (2 * rows)) / (1 + Z * Z / rows)
    half = Z / (1 + Z * Z / rows) * math.sqrt(share * (1 - share) / rows + Z * Z / (4 * rows * rows))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))  # rounding aside, share is inside


def confusion(labels: np.ndarray, predicted: np.ndarray, count: int) -> np.ndarray:
    """(true, predicted) counts."""
    return np.bincount(labels * count + predicted, minlength=count * count).reshape(count, count)


def f1_scores(matrix: np.ndarray) -> np.ndarray:
    """One a class; 0 where a class is neither there nor predicted."""
    right = np.diag(matrix).astype(np.float64)
    total = matrix.sum(axis=0) + matrix.sum(axis=1)
    return np.divide(2 * right, total, out=np.zeros_like(right), where=total > 0)


def matthews(matrix: np.ndarray) -> float:
    """Correlation of truth and prediction, for any number of classes: 0 for guessing, 1 for perfect."""
    rows = matrix.sum()
    true, predicted = matrix.sum(axis=1).astype(np.float64), matrix.sum(axis=0).astype(np.float64)
    above = np.trace(matrix) * rows - true @ predicted
    below = math.sqrt(float(rows**2 - predicted @ predicted)) * math.sqrt(float(rows**2 - true @ true))
    return float(above / below) if below > 0 else 0.0


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error: how far, on average, the confidence is from the share that is right."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    error = 0.0
    for index in np.unique(which):
        inside = which == index
        error += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return float(error)


def measure(probabilities: np.ndarray, labels: np.ndarray, names: tuple[str, ...]) -> dict[str, Any]:
    """Everything one run says about one split."""
    predicted = probabilities.argmax(axis=1)
    matrix = confusion(labels, predicted, len(names))
    right = int(np.trace(matrix))
    low, high = wilson(right, len(labels))
    each = f1_scores(matrix)
    present = (matrix.sum(axis=0) + matrix.sum(axis=1)) > 0
    own = probabilities[np.arange(len(labels)), labels]
    return {
        "rows": len(labels),
        "accuracy": right / max(1, len(labels)),
        "low": low,
        "high": high,
        "macro_f1": float(each[present].mean()) if present.any() else 0.0,
        "mcc": matthews(matrix),
        "loss": float(-np.log(np.maximum(own, 1e-12)).mean()),
        "calibration_error": calibration_error(probabilities, labels),
        "f1": {name: float(score) for name, score in zip(names, each, strict=True)},
        "confusion": matrix.tolist(),
    }
