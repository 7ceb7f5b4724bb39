"""Cutting texts into splits so that no text, nor a respelling of it, is on both sides.

Everything here is a function of the texts and a seed: the same on every machine, whatever the order of the rows.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pocketbert.tasks.task import Split, Task


def connected(split: Split) -> list[str]:
    """One string a row, the same for rows that share a normalised text, directly or through other rows."""
    keys = split.normalised()
    if split.second_texts is None:
        return keys
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        parent.setdefault(key, key)
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    pairs = [key.split("\t") for key in keys]
    for first, second in pairs:
        one, other = sorted((root(first), root(second)))
        parent[other] = one  # the alphabetically first text names the group, whatever the order of the rows
    return [root(first) for first, _ in pairs]


def hash_fraction(key: str, seed: int = 0) -> float:
    """Where a key lies between 0 and 1: the same on every machine."""
    data = f"{seed}\0{key}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") / 2**64


def cut(
    groups: Sequence[str],
    labels: Sequence[int] | np.ndarray | None,
    shares: Mapping[str, float],
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Rows of each part of `shares`, and of "train" for the rest: stratified by label, groups kept together.

    A label with three groups or more is in every part.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    strata: dict[int, list[str]] = defaultdict(list)
    for group, rows in members.items():
        counts = Counter(0 if labels is None else int(labels[row]) for row in rows)
        strata[min(counts, key=lambda label: (-counts[label], label))].append(group)

    parts: dict[str, list[int]] = {name: [] for name in ("train", *shares)}
    for label in sorted(strata):
        waiting = sorted(strata[label], key=lambda group: (hash_fraction(group, seed), group))
        total, scarce = sum(len(members[group]) for group in waiting), len(waiting) < 3
        for name, share in shares.items():
            chosen = _fill(waiting, members, share * total, at_least_one=not scarce)
            parts[name] += [row for group in chosen for row in members[group]]
            taken = set(chosen)
            waiting = [group for group in waiting if group not in taken]
        parts["train"] += [row for group in waiting for row in members[group]]
    return {name: np.array(sorted(rows), dtype=np.int64) for name, rows in parts.items()}


def _fill(waiting: list[str], members: Mapping[str, list[int]], target: float, *, at_least_one: bool) -> list[str]:
    """Groups in order, each taken if it brings the count closer to the target."""
    chosen: list[str] = []
    count = 0
    for group in waiting:
        size = len(members[group])
        if abs(count + size - target) <= abs(count - target):
            chosen.append(group)
            count += size
        if count >= target:
            break
    if not chosen and at_least_one and target > 0:
        chosen = [min(waiting, key=lambda group: len(members[group]))]
    return chosen


def cut_split(
    split: Split, shares: Mapping[str, float], *, seed: int = 0, groups: Sequence[str] | None = None
) -> dict[str, Split]:
    """A split in parts, no normalised text in two of them (or no group, when groups are given)."""
    rows = cut(connected(split) if groups is None else groups, split.labels, shares, seed)
    return {name: split.take(index) for name, index in rows.items()}


def sample(task: Task, rows: int) -> Task:
    """At most so many texts of each split, every label in its share: the same ones on every machine."""
    splits = {name: _sample(split, rows) for name, split in task.splits.items()}
    whole = None if task.whole is None else _sample(task.whole, rows)
    notes = (*task.notes, f"only about {rows:,} texts of each split are used")
    return replace(task, splits=splits, whole=whole, notes=notes)


def _sample(split: Split, rows: int) -> Split:
    if len(split) <= rows:
        return split
    labels = np.zeros(len(split), dtype=np.int64) if split.labels is None else split.labels
    order = np.array([hash_fraction(key) for key in split.normalised()])
    chosen: list[int] = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = max(1, round(rows * len(members) / len(split)))
        chosen += members[np.argsort(order[members], kind="stable")][:count].tolist()
    return split.take(sorted(chosen))
