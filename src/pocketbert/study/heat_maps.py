"""What methods say of themselves, over a row's trainings: fusion weights, forgetting, as heat maps with intervals."""

import math
from collections.abc import Sequence

import numpy as np

from pocketbert.report.document import HeatMap
from pocketbert.statistics.variance import LEVEL, critical_value
from pocketbert.study.scored import ScoredRow

Lines = tuple[tuple[float | None, ...], ...]


def heat_maps(scored: ScoredRow) -> list[HeatMap]:
    """One per title; a training whose matrix has other rows or columns than the first one's is left out."""
    found: dict[str, list[dict]] = {}
    for one in scored.results:
        for matrix in one.get("matrices", ()):
            found.setdefault(matrix["title"], []).append(matrix)
    maps = []
    for title, matrices in found.items():
        first = matrices[0]
        alike = [one for one in matrices if (one["rows"], one["columns"]) == (first["rows"], first["columns"])]
        mean, low, high = over_trainings([one["values"] for one in alike])
        names = scored.row.task, scored.row.name, title, tuple(first["rows"]), tuple(first["columns"])
        notes = "; ".join(dict.fromkeys(one["note"] for one in alike if one["note"]))
        maps.append(HeatMap(*names, mean, low, high, len(alike), notes))
    return maps


def over_trainings(values: Sequence[Sequence[Sequence[float | None]]]) -> tuple[Lines, Lines, Lines]:
    """(mean, low, high) of each cell: Student's interval over trainings, inside 0 and 1; -1, where some are below 0."""
    array = np.array([[[math.nan if cell is None else cell for cell in line] for line in one] for one in values])
    mean, count = array.mean(axis=0), len(array)
    if count == 1:
        return _lines(mean), _lines(np.full_like(mean, math.nan)), _lines(np.full_like(mean, math.nan))
    least = -1 if np.nanmin(array) < 0 else 0
    half = critical_value(count - 1, LEVEL / 2) * array.std(axis=0, ddof=1) / math.sqrt(count)
    return _lines(mean), _lines(np.maximum(mean - half, least)), _lines(np.minimum(mean + half, 1))


def _lines(array: np.ndarray) -> Lines:
    return tuple(tuple(None if math.isnan(cell) else float(cell) for cell in line) for line in array)
