"""Do the intervals keep their word on real data? Reads the studies of benchmarks/real_studies.py, and counts.

`python -m benchmarks.coverage_real FOLDER …` takes folders of studies. The truth is what all trainings of all studies
did, on average, on the rows that their study never saw: the expected score over training sets of that size, seeds and
test examples. A study is a share of a finite set, so its distance from that truth is a little smaller than from that of
all texts of the kind; distances are divided by √(1 − share) before they are counted.
"""

import argparse
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.coverage import write_section
from pocketbert import metrics, statistics
from pocketbert.statistics import Outcomes

START, END = "<!-- coverage-real:start -->", "<!-- coverage-real:end -->"
LEAST, MOST = 0.92, 0.98  # coverage that is wanted; a cell fails if its Monte Carlo interval excludes all of it
AGAIN = "/again"  # the same row with other seeds
SCORE: dict[str, Callable[[np.ndarray], float]] = {
    "accuracy": lambda matrix: float(np.trace(matrix) / matrix.sum()),
    "macro_f1": metrics.macro_f1,
    "mcc": metrics.matthews,
}


@dataclass(frozen=True, eq=False)
class Study:
    """One study: its rows under folds and with one split, and how each training did on the rest."""

    folds: dict[str, Outcomes]
    split: dict[str, Outcomes]
    truth: dict[str, np.ndarray]  # (trainings, labels, labels): confusion matrices
    share: float  # of all rows, that the study drew


def read_study(path: Path, repeats: int | None = None) -> Study:
    """With `repeats`, only so many draws of the folds."""
    with np.load(path) as file:
        found = {name: file[name] for name in file.files}
    labels, clusters, folds = found["labels"], found["clusters"], found["folds"][:repeats]
    held = found["held"]
    rows, split, truth = {}, {}, {}
    for name, value in found.items():
        kind, _, row = name.partition("/")
        if kind == "folds" and row:
            rows[row] = Outcomes(value[: len(folds)], labels, folds, clusters, row != "tfidf")
        elif kind == "split":
            split[row] = Outcomes(value, labels[held], None, clusters[held], row != "tfidf")
        elif kind == "truth":
            truth[row] = value
    rest = int(next(matrix for name, matrix in truth.items() if name == "tfidf")[0].sum())
    return Study(rows, split, truth, len(labels) / (len(labels) + rest))


@dataclass(frozen=True)
class Cell:
    """One comparison over all studies of a folder."""

    first: str
    second: str
    studies: int
    truth: float
    bias: float
    half_width: float
    coverage: float
    plain_coverage: float  # without the correction for a finite set
    found: float  # how often the difference was significant

    @property
    def interval(self) -> tuple[float, float]:
        return metrics.wilson(round(self.coverage * self.studies), self.studies)

    @property
    def fails(self) -> bool:
        low, high = self.interval
        return high < LEAST or low > MOST


def true_scores(studies: list[Study], metric: str) -> dict[str, float]:
    """Per row, over all trainings of all studies."""
    return {
        row: float(np.mean([SCORE[metric](matrix) for study in studies for matrix in study.truth[row]]))
        for row in studies[0].truth
    }


def compared(
    studies: list[Study], tables: list[dict[str, Outcomes]], first: str, second: str, truth: float, metric: str
) -> Cell:
    found = [statistics.compare(table[first], table[second], metric) for table in tables]
    effects = np.array([one.effect for one in found])
    halves = np.array([(one.high - one.low) / 2 for one in found])
    distance = np.abs(effects - truth)
    finite = np.sqrt(1 - np.array([study.share for study in studies]))
    return Cell(
        first,
        second,
        len(studies),
        truth,
        float(effects.mean() - truth),
        float(halves.mean()),
        float((distance / finite <= halves).mean()),
        float((distance <= halves).mean()),
        float(np.mean([one.p_value < statistics.LEVEL for one in found])),
    )


def cells(studies: list[Study], metric: str) -> Iterator[tuple[Cell, Cell | None]]:
    """Every pair of rows under folds, and beside it with one split."""
    truth = true_scores(studies, metric)
    for first, second in itertools.combinations(truth, 2):
        if first.endswith(AGAIN) or (second.endswith(AGAIN) and second != first + AGAIN):
            continue
        wanted = 0.0 if second == first + AGAIN else truth[first] - truth[second]
        folds = compared(studies, [study.folds for study in studies], first, second, wanted, metric)
        tables = [_split_rows(study) for study in studies]
        known = {first, second} <= tables[0].keys()
        yield folds, compared(studies, tables, first, second, wanted, metric) if known else None


def _split_rows(study: Study) -> dict[str, Outcomes]:
    """Rows with one split, five seeds each; ten seeds are two rows."""
    found = {}
    for name, row in study.split.items():
        found[name] = Outcomes(row.predictions[:5], row.labels, None, row.clusters, row.seeded)
        if row.draws > 5:
            found[name + AGAIN] = Outcomes(row.predictions[5:], row.labels, None, row.clusters, row.seeded)
    return found


def promised(studies: list[Study], metric: str) -> dict[str, tuple[float, float, float]]:
    """Of "choose the best, then quote its score": (bias, its standard error, coverage), naive and nested.

    The truth is that of the row chosen on everything, over all trainings.
    """
    truth = true_scores(studies, metric)
    found: dict[str, list[tuple[float, bool]]] = {}

    def add(kind: str, outcomes: Outcomes, chosen: str) -> None:
        one = statistics.estimate(outcomes, metric)
        found.setdefault(kind, []).append((one.mean - truth[chosen], one.low <= truth[chosen] <= one.high))

    for number, study in enumerate(studies):
        for name, rows in (("folds", study.folds), ("split", _split_rows(study))):
            best = statistics.highest_score(rows, metric)
            add(f"{name}, naive", rows[best], best)
            nested, _ = statistics.nested_outcomes(
                rows, lambda some: statistics.highest_score(some, metric), seed=number
            )
            add(f"{name}, nested", nested, best)
    return {
        kind: (
            float(np.mean([bias for bias, _ in each])),
            float(np.std([bias for bias, _ in each], ddof=1) / math.sqrt(len(each))),
            float(np.mean([inside for _, inside in each])),
        )
        for kind, each in found.items()
    }


def tables(folder: Path, metric: str, repeats: int | None) -> list[str]:
    """Markdown about one folder."""
    studies = [read_study(path, repeats) for path in sorted(folder.glob("[0-9]*.npz")) if ".part" not in path.name]
    if not studies:
        raise SystemExit(f"{folder}: no studies; python -m benchmarks.real_studies makes them")
    example = next(iter(studies[0].folds.values()))
    title = f"{folder.name}, {metric}, {len(studies)} studies, {example.draws} x 5 folds"
    lines = [f"#### {title}", ""]
    head = [
        "rows",
        "true difference",
        "bias",
        "half width",
        "coverage (Monte Carlo interval)",
        "not corrected",
        "found",
    ]
    head += ["one split: half width", "coverage", "found"]
    lines += [_line(head), _line(["---"] * len(head))]
    for folds, split in cells(studies, metric):
        low, high = folds.interval
        row = [f"{folds.first} − {folds.second}", _points(folds.truth), _points(folds.bias), _points(folds.half_width)]
        row.append(f"{_percent(folds.coverage)} ({_percent(low)} to {_percent(high)}){' FAILS' if folds.fails else ''}")
        row += [_percent(folds.plain_coverage), _percent(folds.found)]
        row += (
            ["–"] * 3 if split is None else [_points(split.half_width), _percent(split.coverage), _percent(split.found)]
        )
        lines.append(_line(row))
    lines += ["", _line(["promised score", "bias", "standard error", "interval holds"]), _line(["---"] * 4)]
    for kind, (bias, error, inside) in promised(studies, metric).items():
        lines.append(_line([kind, _points(bias, 2), _points(error, 2), _percent(inside)]))
    return [*lines, ""]


def _line(cells: list[Any]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _points(share: float, digits: int = 2) -> str:
    return f"{100 * share:.{digits}f}".replace("-", "−")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage_real", description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, help="as benchmarks.real_studies writes them")
    parser.add_argument("--metric", choices=statistics.METRICS, default="accuracy")
    parser.add_argument("--repeats", type=int, help="use only so many draws of the folds")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="fill in the marked section of a page")
    options = parser.parse_args()
    text = "\n".join(line for folder in options.folders for line in tables(folder, options.metric, options.repeats))
    print(text)
    if options.write:
        write_section(options.write, text, START, END)


if __name__ == "__main__":
    main()
