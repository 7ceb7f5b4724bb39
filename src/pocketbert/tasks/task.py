"""What a Task is: labelled text in splits, with the names of its labels and what was guessed on the way."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pocketbert.errors import UserError


@dataclass(frozen=True, eq=False)
class Split:
    """Texts, their second sentences when they are pairs, and their labels when these are real."""

    texts: list[str]
    second_texts: list[str] | None  # the second sentence of each pair; None when the task has single sentences
    labels: np.ndarray | None  # int64 indexes into Task.labels; None when there are no real labels
    reason: str = ""  # why `labels` is None

    def __post_init__(self) -> None:
        for what in (self.second_texts, self.labels):
            if what is not None and len(what) != len(self.texts):
                raise ValueError(f"{len(self.texts)} texts, but {len(what)} second sentences or labels")

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def labelled(self) -> bool:
        return self.labels is not None

    def take(self, rows: Sequence[int] | np.ndarray) -> "Split":
        """These rows, in this order."""
        index = np.asarray(rows, dtype=np.int64)
        return Split(
            texts=[self.texts[row] for row in index],
            second_texts=None if self.second_texts is None else [self.second_texts[row] for row in index],
            labels=None if self.labels is None else self.labels[index],
            reason=self.reason,
        )


@dataclass(frozen=True, eq=False)
class Task:
    """Labelled text: splits, label names, single sentences or pairs."""

    name: str
    labels: tuple[str, ...]
    splits: dict[str, Split]  # "train", "dev", and mostly "test"
    pair: bool
    licence: str = ""
    origin: str = ""
    notes: tuple[str, ...] = ()  # what was guessed, cut or left out, in sentences to say aloud
    suspicions: tuple[str, ...] = ()  # what looked wrong while reading; `check` shows these as warnings

    @property
    def train(self) -> Split:
        return self.split("train")

    @property
    def dev(self) -> Split:
        return self.split("dev")

    @property
    def test(self) -> Split:
        return self.split("test")

    def split(self, name: str) -> Split:
        if name not in self.splits:
            raise UserError(f"{self.name} has no split {name!r}; it has: {', '.join(self.splits)}")
        return self.splits[name]

    def scored(self, name: str) -> Split:
        """The split, if its labels are real. A split without real labels is never scored."""
        split = self.split(name)
        if not split.labelled:
            others = [other for other, it in self.splits.items() if it.labelled and other != "train"]
            advice = f"; splits that can be scored: {', '.join(others)}" if others else ""
            raise UserError(f"{self.name}:{name} cannot be scored: {split.reason}{advice}")
        if not len(split):
            raise UserError(f"{self.name}:{name} cannot be scored: it has no rows")
        return split

    def fingerprint(self, name: str) -> str:
        """A hash of a split's texts, second sentences and labels (by name): the same on every machine."""
        split = self.split(name)
        digest = hashlib.blake2b(digest_size=16)

        def add(text: str) -> None:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))  # lengths keep ("ab", "c") and ("a", "bc") apart
            digest.update(data)

        add(f"{len(split)} {'pair' if split.second_texts is not None else 'single'} {' | '.join(self.labels)}")
        for text in split.texts:
            add(text)
        for second in split.second_texts or ():
            add(second)
        digest.update(b"none" if split.labels is None else split.labels.astype("<i8").tobytes())
        return digest.hexdigest()
