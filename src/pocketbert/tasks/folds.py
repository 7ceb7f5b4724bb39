"""Folds: every row is tested once, by a model that saw neither it nor a near-duplicate of it.

Of a task without a test split of its own, all rows count (`Task.whole`). Near-duplicates are clustered, clusters are
dealt to folds (`make_folds`), and each fold is a task like any other (`Folds.task_of`): a view of the same rows, which
are tokenised once.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pocketbert.errors import UserError, listed
from pocketbert.tasks.near_duplicates import group_near_duplicates
from pocketbert.tasks.split import cut
from pocketbert.tasks.task import ALL, Split, Task

FOLDS = 5
DEV_SHARE = 0.1  # of the rows a fold does not test
LARGEST_CLUSTER = 0.5  # of all rows


@dataclass(frozen=True)
class Part:
    """One training's share of a task that is cut into folds."""

    repeat: int
    fold: int


@dataclass(frozen=True, eq=False)
class Folds:
    """A task whose every row is tested once in each repeat."""

    task: Task  # with all rows as its one split
    count: int
    clusters: np.ndarray  # of near-duplicates, one number per row
    assignments: tuple[np.ndarray, ...]  # per repeat: the fold that tests each row

    @property
    def rows(self) -> Split:
        return self.task.split(ALL)

    def parts(self, repeats: int) -> list[Part]:
        return [Part(repeat, fold) for repeat in range(repeats) for fold in range(self.count)]

    def tested(self, part: Part) -> np.ndarray:
        """The rows that this training is tested on."""
        return np.flatnonzero(self.assignments[part.repeat] == part.fold)

    def task_of(self, part: Part, *, dev: bool = True) -> Task:
        """The task of one training: its fold is test, and of the other rows a share is dev, if there is to be one."""
        return fold_task(self.task, self.assignments[part.repeat], self.clusters, part.fold, dev_share=DEV_SHARE * dev)


def cut_folds(task: Task, count: int, repeats: int) -> Folds:
    """Cut a task whose test split nobody gave; what cannot be cut is refused."""
    assert task.whole is not None
    assert task.whole.labels is not None
    whole = replace(task, splits={ALL: task.whole})
    clusters = group_near_duplicates(task.whole)
    assignments = tuple(
        make_folds(task.whole.labels, clusters, count, repeat=repeat, names=task.labels) for repeat in range(repeats)
    )
    kept = [note for note in task.notes if note not in task.about_splits]
    cut = f"no test split was given: every row is tested once, in {count} folds"
    notes = (*kept, cut, *fold_notes(clusters, count))
    return Folds(replace(whole, notes=notes, about_splits=()), count, clusters, assignments)


def make_folds(
    labels: np.ndarray,
    clusters: np.ndarray,
    folds: int = FOLDS,
    *,
    seed: int = 0,
    repeat: int = 0,
    names: Sequence[str] | None = None,
) -> np.ndarray:
    """The fold that tests each row: of equal sizes, stratified by label, no cluster in two of them.

    A function of labels, cluster numbers, `seed` and `repeat` alone; the order of the rows does not matter.

    Args:
        repeat: another number draws other folds.
        names: of the labels, for messages.
    """
    check_folds(labels, clusters, folds, names)
    numbers, members = np.unique(clusters, return_inverse=True)
    kinds, kind_of_row = np.unique(labels, return_inverse=True)
    counts = np.zeros((len(numbers), len(kinds)), dtype=np.int64)  # of each label in each cluster
    np.add.at(counts, (members, kind_of_row), 1)
    weights = counts / counts.sum(axis=0)
    # Large clusters first, while every fold has room. Single rows follow label by label, so that what is left over of a
    # label goes to the smallest folds.
    shuffled = np.random.default_rng([seed, repeat]).permutation(len(numbers))
    order = np.lexsort((shuffled, counts.argmax(axis=1), -counts.sum(axis=1)))
    fold_of_cluster = np.zeros(len(numbers), dtype=np.int64)
    sizes = [0] * folds
    filled = [[0.0] * len(kinds) for _ in range(folds)]  # the share of each label that a fold has
    for cluster in order.tolist():
        own = [(kind, float(weights[cluster, kind])) for kind in np.flatnonzero(counts[cluster]).tolist()]
        # Rounded: shares that are equal may differ in the last bit after different sums.
        fold = min(
            range(folds),
            key=lambda fold: (round(sum(weight * filled[fold][kind] for kind, weight in own), 12), sizes[fold]),
        )
        fold_of_cluster[cluster] = fold
        sizes[fold] += int(counts[cluster].sum())
        for kind, weight in own:
            filled[fold][kind] += weight
    return fold_of_cluster[members]


def check_folds(labels: np.ndarray, clusters: np.ndarray, folds: int, names: Sequence[str] | None = None) -> None:
    """Refuse what cannot be cut so that every class is learnt and tested in every fold."""
    rows = len(labels)
    if folds < 2:
        raise UserError(f"--folds {folds}: at least two are needed, one to train on while the other is tested")
    if rows < folds:
        raise UserError(f"{rows} labelled rows cannot make {folds} folds; give more rows, or fewer folds (--folds)")
    sizes = Counter(clusters.tolist())
    if len(sizes) == 1:
        raise UserError(
            f"all {rows:,} texts are near-duplicates of each other: no row could be tested by a model that has not "
            "seen it; is the text column the right one (--text)?"
        )
    largest = max(sizes.values())
    if largest > LARGEST_CLUSTER * rows:
        raise UserError(
            f"{largest:,} of {rows:,} texts are near-duplicates of each other and must be in one fold: less than half "
            "of the rows would be left to train on; remove repeats from the file, or give a test file of your own"
        )
    scarce = {}
    for label in np.unique(labels).tolist():
        of_label = clusters[labels == label]
        different = len(np.unique(of_label))
        if different < folds:
            name = str(label) if names is None else names[label]
            scarce[name] = len(of_label), different
    if scarce:
        each = [
            f"{name} has {count:,} {'row' if count == 1 else 'rows'}"
            + (f" ({different:,} without near-duplicates)" if different < count else "")
            for name, (count, different) in scarce.items()
        ]
        fewest = min(different for _, different in scarce.values())
        fewer = f"use --folds {fewest}, " if fewest >= 2 else ""
        raise UserError(
            f"{folds} folds need {folds} different texts of every class, one to test in each: {listed(each)}; {fewer}"
            "add rows, merge the class with another, or remove it"
        )


def fold_notes(clusters: np.ndarray, folds: int) -> tuple[str, ...]:
    """What to say about near-duplicates, in sentences."""
    _, sizes = np.unique(clusters, return_counts=True)
    several, rows = sizes[sizes > 1], len(clusters)
    if not len(several):
        return ()
    notes = [
        f"{int(several.sum()):,} of {rows:,} texts are near-duplicates of another; they make {len(several):,} "
        f"{'cluster' if len(several) == 1 else 'clusters'}, and no cluster is in two folds"
    ]
    if several.max() > rows / folds:
        notes.append(
            f"a cluster of {int(several.max()):,} near-duplicates is larger than a fold of {rows // folds:,} rows: "
            "the folds differ in size, and the model that is tested on this cluster has fewer rows to train on"
        )
    return tuple(notes)


def fold_task(
    task: Task, assignment: np.ndarray, clusters: np.ndarray, fold: int, *, dev_share: float = DEV_SHARE, seed: int = 0
) -> Task:
    """The task of one fold: its rows are test, and of the others a share (0: none) is dev, stratified and by cluster.

    Args:
        task: with all rows as its one split; `assignment` and `clusters` have an entry for each.
        seed: draws dev.
    """
    rows = task.split(ALL)
    assert rows.labels is not None
    others = np.flatnonzero(assignment != fold)
    test = rows.view(np.flatnonzero(assignment == fold))
    if not dev_share:
        return replace(task, splits={"train": rows.view(others), "test": test})
    # The fold is part of the name, or a cluster would be dev in all folds or in none.
    groups = [f"{fold} {cluster}" for cluster in clusters[others].tolist()]
    parts = cut(groups, rows.labels[others], {"dev": dev_share}, seed)
    if not len(parts["dev"]):
        raise UserError(
            f"{task.name}: the {len(others):,} rows that fold {fold} trains on are too few to cut dev from; "
            "give more rows"
        )
    splits = {
        "train": rows.view(others[parts["train"]]),
        "dev": rows.view(others[parts["dev"]]),
        "test": test,
    }
    return replace(task, splits=splits)


def with_share(task: Task, share: float) -> Task:
    """The task with the first so many of its training rows, in an order in which every class keeps its share.

    A smaller share is a part of a larger one.
    """
    if share >= 1.0:
        return task
    train = task.split("train")
    assert train.labels is not None
    random = np.random.default_rng(len(train))
    shuffled = random.permutation(len(train))
    rank = np.zeros(len(train))
    for label in np.unique(train.labels):
        own = shuffled[train.labels[shuffled] == label]
        rank[own] = (np.arange(len(own)) + 0.5) / len(own)
    kept = np.sort(np.argsort(rank, kind="stable")[: max(2, round(share * len(train)))])
    whole, rows = train.part_of or (train, np.arange(len(train)))
    return replace(task, splits={**task.splits, "train": whole.view(rows[kept])})
