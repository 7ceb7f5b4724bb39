"""Are wrong labels found? Labels of SST-2 flipped on purpose, searched for from out-of-fold probabilities.

`python -m benchmarks.label_errors` flips 5 % and 10 % of the training labels, cuts folds as a study does, trains each
row of the table on every fold, and counts how many of the first 100 suspects were flipped, beside cleanlab's on the
same probabilities. SST-2 has wrong labels of its own: a suspect that was not flipped may be one of them.
"""

import argparse
import importlib.util
import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.data import sst2
from benchmarks.report import align
from pocketbert import Classifier, UserError
from pocketbert.study.suspect_labels import suspect_labels
from pocketbert.tasks import Split, Task
from pocketbert.tasks.folds import FOLDS, fold_task, make_folds
from pocketbert.tasks.near_duplicates import group_near_duplicates

ROWS = "tfidf,frozen:pocket-mini"
SHARES = (0.05, 0.1)  # of the labels that are flipped
FIRST = 100  # suspects


def flip_labels(labels: np.ndarray, classes: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(the labels with a share of them changed to another class, which ones were)."""
    random = np.random.default_rng(seed)
    flipped = np.zeros(len(labels), dtype=bool)
    flipped[random.choice(len(labels), round(share * len(labels)), replace=False)] = True
    others = (labels + random.integers(1, classes, len(labels))) % classes
    return np.where(flipped, others, labels), flipped


def precision(ranked: list[int], flipped: np.ndarray) -> float:
    """The share of the first suspects that were flipped."""
    first = ranked[:FIRST]
    return float(flipped[first].mean()) if first else 0.0


def cleanlab_ranking(probabilities: np.ndarray, labels: np.ndarray) -> list[int]:
    from cleanlab.filter import find_label_issues

    return find_label_issues(labels, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1).tolist()


def out_of_fold(row: str, task: Task, assignment: np.ndarray, clusters: np.ndarray, seed: int) -> np.ndarray:
    """(rows, classes): each row's probabilities by the model of the fold that tests it."""
    method, _, model = row.partition(":")
    found = np.zeros((len(assignment), len(task.labels)))
    for fold in range(int(assignment.max()) + 1):
        part = fold_task(task, assignment, clusters, fold, seed=seed)
        classifier = Classifier(model or None, method, seed=seed + fold, threads=1)
        classifier.fit(part.train.texts, part.train.labels, dev=(part.dev.texts, part.dev.labels))
        found[assignment == fold] = classifier.predict_proba(part.test.texts)
    return found


def measure(task: Task, rows: list[str], share: float, folds: int, seed: int) -> Iterator[list[str]]:
    """A line per row, and one for all rows together."""
    train = task.train
    assert train.labels is not None
    labels, flipped = flip_labels(train.labels, len(task.labels), share, seed)
    texts = train.texts
    clusters = group_near_duplicates(train)
    assignment = make_folds(labels, clusters, folds, seed=seed)
    wrong = Task(task.name, task.labels, {"all": Split(texts, None, labels)}, task.pair)
    every: list[np.ndarray] = []
    total = 0.0
    for row in rows:
        begin = time.perf_counter()
        every.append(out_of_fold(row, wrong, assignment, clusters, seed))
        elapsed = time.perf_counter() - begin
        total += elapsed
        yield _line(row, share, every[-1:], labels, flipped, elapsed)
    if len(rows) > 1:
        yield _line("mean of all", share, every, labels, flipped, total)


def _line(
    name: str, share: float, every: list[np.ndarray], labels: np.ndarray, flipped: np.ndarray, elapsed: float
) -> list[str]:
    probabilities = np.stack(every)
    mean = probabilities.mean(axis=0)
    ours = [suspect.row for suspect in suspect_labels(probabilities, labels)]
    theirs = cleanlab_ranking(mean, labels)
    return [
        f"{100 * share:.0f} %",
        name,
        f"{100 * (mean.argmax(axis=1) == labels).mean():.1f}",
        f"{len(ours):,}",
        f"{100 * precision(ours, flipped):.0f} %",
        f"{100 * precision(theirs, flipped):.0f} %",
        f"{100 * flipped[ours].sum() / flipped.sum():.0f} %",
        f"{elapsed:.0f} s",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=ROWS, help="methods, comma-separated, each with its model after a colon")
    parser.add_argument("--sentences", type=int, help="of SST-2's training split; all if not given")
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    if importlib.util.find_spec("cleanlab") is None:
        print("benchmark skipped: cleanlab is not installed: pip install 'pocketbert[dev]'", file=sys.stderr)
        return
    try:
        task = sst2(told.sentences)
    except UserError as error:
        print(f"benchmark skipped: {error}", file=sys.stderr)
        return
    head = [
        "flipped",
        "row",
        "accuracy on given labels",
        "suspects",
        f"first {FIRST}",
        "cleanlab's",
        "of all flipped",
        "time",
    ]
    lines = [head]
    for share in SHARES:
        for line in measure(task, told.rows.split(","), share, told.folds, told.seed):
            print("  ".join(line), file=sys.stderr)
            lines.append(line)
    print(f"{len(task.train):,} sentences of SST-2, {told.folds} folds, seed {told.seed}")
    print("\n".join(align(lines)))


if __name__ == "__main__":
    main()
