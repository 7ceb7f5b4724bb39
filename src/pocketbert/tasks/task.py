"""What a Task is: labelled text in splits, with the names of its labels and what was guessed on the way."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pocketbert.errors import UserError
from pocketbert.tasks.normalise import hash_keys, normalise

if TYPE_CHECKING:
    from pocketbert.tokenizer import Encoded, Tokenizer

ALL = "all"  # the one split of a task that is cut into folds
KEPT = 4  # readings by different tokenizers that are kept


@dataclass(eq=False)
class Derived:
    """What was made of a split's texts so far."""

    hashes: np.ndarray | None = None
    encodings: "dict[tuple[str, int], Encoded]" = field(default_factory=dict)  # by tokenizer and length


@dataclass(frozen=True, eq=False)
class Split:
    """Texts, their second sentences when they are pairs, and their labels when these are real.

    What is made of the texts is made once, whoever asks: `hashes`, and `encoded` for a tokenizer and a length. A `view`
    of some rows has both from the split that it is a view of.
    """

    texts: list[str]
    second_texts: list[str] | None  # the second sentence of each pair; None when the task has single sentences
    labels: np.ndarray | None  # int64 indexes into Task.labels; None when there are no real labels
    reason: str = ""  # why `labels` is None
    numbers: np.ndarray | None = field(default=None, repr=False)  # of the rows in their file, from 1; None: not known
    part_of: "tuple[Split, np.ndarray] | None" = field(default=None, repr=False)  # a view: of which split, which rows
    derived: Derived = field(default_factory=Derived, repr=False)

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
        """These rows, in this order, as a split of its own."""
        return self._taken(np.asarray(rows, dtype=np.int64), None)

    def view(self, rows: np.ndarray) -> "Split":
        """These rows, in this order, for one of many trainings: tokenised with the whole, once for all of them."""
        return self._taken(rows, (self, rows))

    def _taken(self, index: np.ndarray, part_of: "tuple[Split, np.ndarray] | None") -> "Split":
        taken = Split(
            texts=[self.texts[row] for row in index],
            second_texts=None if self.second_texts is None else [self.second_texts[row] for row in index],
            labels=None if self.labels is None else self.labels[index],
            reason=self.reason,
            numbers=None if self.numbers is None else self.numbers[index],
            part_of=part_of,
        )
        if self.derived.hashes is not None:
            taken.derived.hashes = self.derived.hashes[index]
        return taken

    def normalised(self) -> list[str]:
        """Each row's text, normalised; of a pair both, a tab between them. The hashes come with them."""
        keys = [normalise(text) for text in self.texts]
        if self.second_texts is not None:
            keys = [f"{key}\t{normalise(second)}" for key, second in zip(keys, self.second_texts, strict=True)]
        self.derived.hashes = hash_keys(keys)
        return keys

    @property
    def hashes(self) -> np.ndarray:
        """One 64-bit number per row, of the text with case, spaces and punctuation left aside."""
        if self.derived.hashes is None:
            self.normalised()
        assert self.derived.hashes is not None
        return self.derived.hashes

    def encoded(self, tokenizer: "Tokenizer", max_length: int) -> "Encoded":
        """The rows as this tokenizer reads them, cut at `max_length` tokens."""
        if self.part_of is not None:
            whole, rows = self.part_of
            return whole.encoded(tokenizer, max_length).take(rows)
        key = (tokenizer.fingerprint, max_length)
        known = self.derived.encodings
        if key not in known:
            while len(known) >= KEPT:
                del known[next(iter(known))]
            known[key] = tokenizer(self.texts, self.second_texts, max_length=max_length)
        return known[key]


@dataclass(frozen=True)
class Source:
    """What a task was loaded from: enough to load it again, and to find its columns in another file."""

    paths: tuple[str, ...]  # absolute; of a built-in task, its name
    text: str | None = None  # columns of one's own files
    text2: str | None = None
    label: str | None = None
    seed: int = 0
    labels_are_real: bool = False
    encoding: str = "utf-8"


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
    about_splits: tuple[str, ...] = ()  # those of the notes that say how splits were cut
    whole: Split | None = None  # every labelled row, where nobody gave a test split: a study makes folds of them
    source: Source | None = None  # None: made by a program
    others: "tuple[Task, ...]" = ()  # tasks that are learnt with it, for a method that learns several

    @property
    def train(self) -> Split:
        return self.split("train")

    @property
    def dev(self) -> Split:
        return self.split("dev")

    @property
    def test(self) -> Split:
        return self.split("test")

    @property
    def scored_name(self) -> str:
        """Test, where it has real labels; else dev, which is said. Of a task that is cut into folds, all rows."""
        test = self.splits.get("test")
        if ALL in self.splits:
            return ALL
        return "test" if test is not None and test.labelled and len(test) else "dev"

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
