"""What is in a task, before any training: the same checks for `pocketbert check` and for the trainer.

Everything is linear in the number of rows: texts are compared by a hash of their normalised form.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pocketbert.errors import listed, quote
from pocketbert.tasks.language import language_fit
from pocketbert.tasks.task import ALL, Split, Task
from pocketbert.tasks.texts import is_blank
from pocketbert.tokenizer import Tokenizer, spans

# UTF-8 read as Latin-1 or Windows text: Ã or Â and a sign of the upper half; or a character that was already lost.
DAMAGE = re.compile("[ÃÂ][\u0080-\u00bf]|â€[\u0080-\u00ff™œ˜]|\ufffd|ï»¿")
MANY_TIMES = 3  # a class this many times larger than another is said aloud
FEW_SCORED = 10  # rows of a class: with fewer, the score of the class is mostly chance


@dataclass(frozen=True)
class SplitCheck:
    """What one split holds."""

    rows: int
    labelled: bool
    reason: str
    balance: dict[str, int]
    tokens: dict[str, Any]  # percentiles of the length, in the unit it names
    empty: int
    duplicates: int
    damaged: int

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Check:
    """What a task holds, what is wrong with it, and what will happen because of it."""

    task: str
    splits: dict[str, SplitCheck]
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "labels": self.labels,
            "splits": {name: split.to_dict() for name, split in self.splits.items()},
            "errors": self.errors,
            "warnings": self.warnings,
            "said": self.notes,
        }


def check_task(task: Task, tokenizer: Tokenizer | None = None, max_length: int = 128, *, keep: bool = False) -> Check:
    """Look at every split. Errors stop training; warnings say what will happen.

    Without a tokenizer, lengths are words between spaces. `keep` the tokens where a training follows: it reads them.
    """
    errors: list[str] = []
    warnings: list[str] = list(task.suspicions)
    hashes = {name: split.hashes for name, split in task.splits.items()}
    splits = {
        name: _look(split, task.labels, hashes[name], _lengths(split, tokenizer, max_length, keep))
        for name, split in task.splits.items()
    }
    for name, seen in splits.items():
        _warn(name, seen, max_length, errors, warnings)
    _balance(splits, errors, warnings)
    _scored(task, splits, warnings)
    if tokenizer is not None:
        _language(task, tokenizer, warnings)
    _between(task, hashes, warnings)
    return Check(task.name, splits, errors, warnings, list(task.notes), list(task.labels))


def _lengths(split: Split, tokenizer: Tokenizer | None, max_length: int, keep: bool) -> dict[str, Any]:
    if tokenizer is not None and keep:
        encoded = split.encoded(tokenizer, max_length)
        lengths = encoded.lengths + encoded.cut
    elif tokenizer is not None and len(split):
        lengths = np.concatenate(
            [
                tokenizer(split.texts[begin:end], split.second_texts and split.second_texts[begin:end]).lengths
                for begin, end in spans(split.texts, split.second_texts)
            ]
        )
    else:
        words = (len(text.split()) for text in split.texts)
        more = (len(text.split()) for text in split.second_texts) if split.second_texts is not None else None
        both = words if more is None else (one + two for one, two in zip(words, more, strict=True))
        lengths = np.fromiter(both, dtype=np.int64, count=len(split))
    if not len(lengths):
        lengths = np.zeros(1, dtype=np.int64)
    return {
        "unit": "words" if tokenizer is None else "tokens",
        "p50": int(np.percentile(lengths, 50)),
        "p95": int(np.percentile(lengths, 95)),
        "max": int(lengths.max()),
        "max_length": max_length,
        "truncated_share": round(float((lengths > max_length).mean()), 4),
    }


def _look(split: Split, labels: tuple[str, ...], hashes: np.ndarray, tokens: dict[str, Any]) -> SplitCheck:
    counts = np.zeros(len(labels), int) if split.labels is None else np.bincount(split.labels, minlength=len(labels))
    texts: list[Iterable[str]] = [split.texts] if split.second_texts is None else [split.texts, split.second_texts]
    return SplitCheck(
        rows=len(split),
        labelled=split.labelled,
        reason=split.reason,
        balance={} if split.labels is None else {name: int(n) for name, n in zip(labels, counts, strict=True)},
        tokens=tokens,
        empty=sum(any(map(is_blank, row)) for row in zip(*texts, strict=True)),
        duplicates=len(hashes) - len(np.unique(hashes)),
        damaged=sum(any(DAMAGE.search(text) for text in row) for row in zip(*texts, strict=True)),
    )


def _warn(name: str, seen: SplitCheck, max_length: int, errors: list[str], warnings: list[str]) -> None:
    if not seen.rows:
        errors.append(f"{name}: there are no rows")
        return
    if not seen.labelled and name in ("train", ALL):
        errors.append(f"{name}: {seen.reason}; there is nothing to learn from")
    elif not seen.labelled:
        warnings.append(f"{name}: {seen.reason}; it can be predicted, and will never be scored")
    if seen.empty == seen.rows:
        errors.append(f"{name}: every text is empty; is the text column the right one?")
    elif seen.empty:
        warnings.append(f"{name}: {_rows(seen.empty)} an empty text; a model can only guess there")
    if seen.duplicates and seen.labelled:
        weigh = "count more than others in training" if name == "train" else "count more than others in the score"
        warnings.append(f"{name}: {_rows(seen.duplicates, 'repeats', 'repeat')} an earlier text: repeats {weigh}")
    if seen.damaged:
        warnings.append(
            f"{name}: {_rows(seen.damaged)} signs of damaged encoding (such as Ã© for é): "
            "these words will be read as pieces of nonsense; read the file with its true encoding"
        )
    share, unit = seen.tokens["truncated_share"], seen.tokens["unit"]
    if share > 0:
        least = " (at least: tokens are more than words)" if unit == "words" else ""
        warnings.append(
            f"{name}: {share:.1%} of texts are longer than {max_length} {unit}{least}; their ends will be cut off. "
            "Raise --max-length if the end matters"
        )


def _rows(count: int, one: str = "has", many: str = "have") -> str:
    return f"1 row {one}" if count == 1 else f"{count:,} rows {many}"


def _balance(splits: dict[str, SplitCheck], errors: list[str], warnings: list[str]) -> None:
    train = splits.get("train") or splits.get(ALL)
    if train is None:
        errors.append("train: there is no such split")
        return
    if not train.labelled or not train.rows:
        return
    present = {label: count for label, count in train.balance.items() if count}
    if len(present) < 2:
        errors.append(f"train: one class only ({listed(present)}); a classifier needs two or more")
        return
    if train.rows >= 20 and len(present) > train.rows / 2:
        errors.append(
            f"train: {len(present):,} different labels in {train.rows:,} rows: is the label column an identifier, or a "
            "number to predict? Name the right one with --label"
        )
        return
    spelt: dict[str, list[str]] = {}
    for label in present:
        spelt.setdefault(_without_spelling(label), []).append(label)
    for labels in spelt.values():
        if len(labels) > 1:
            counts = listed(f"{quote(label)} {present[label]:,}" for label in labels)
            warnings.append(f"train: labels that differ in spelling alone: {counts}; if they are one, spell them alike")
    too_few = ("no example: they will never be predicted", "one example: too few to learn from")
    for count, what in enumerate(too_few):
        few = [label for label, n in train.balance.items() if n == count]
        if few:
            more = f" and {len(few) - 5:,} more" if len(few) > 5 else ""
            warnings.append(f"train: labels with {what}: {listed(few[:5], quoted=True)}{more}")
    largest, smallest = max(present, key=lambda it: present[it]), min(present, key=lambda it: present[it])
    if present[largest] >= MANY_TIMES * present[smallest]:
        share = present[largest] / train.rows
        warnings.append(
            f"train: {quote(largest)} has {present[largest]:,} examples, {quote(smallest)} {present[smallest]:,}: "
            f"always saying {quote(largest)} is right in {share:.0%}; look at each class's score, and at class weights"
        )


def _without_spelling(label: str) -> str:
    """Words alone: what is no word, as -1 and 1 or + and -, differs by its signs."""
    return re.sub(r"[\s_-]+", "", label.casefold()) if any(map(str.isalpha, label)) else label


def _scored(task: Task, splits: dict[str, SplitCheck], warnings: list[str]) -> None:
    """Classes of which there are too few rows to say how well they are found."""
    scored = splits.get(task.scored_name)
    if scored is None or not scored.labelled or not scored.rows:
        return
    few = {label: count for label, count in scored.balance.items() if count < FEW_SCORED}
    if few:
        counts = listed(f"{quote(label)} {count}" for label, count in few.items())
        warnings.append(
            f"{task.scored_name}: few rows to score: {counts}; how well these labels are found is mostly chance"
        )


def _language(task: Task, tokenizer: Tokenizer, warnings: list[str]) -> None:
    """Texts that the model's vocabulary does not know."""
    name = "train" if "train" in task.splits else ALL
    if name not in task.splits:
        return
    fit = language_fit(task.splits[name], tokenizer)
    if fit.is_foreign:
        many = f"in {fit.foreign:.0%} of the texts most words" if fit.foreign else f"{fit.broken:.0%} of the words"
        warnings.append(
            f"{name}: {many} are not in the model's vocabulary, and fall into tiny pieces: is it another language? "
            "Name a model that knows it, such as a multilingual BERT of the Hub (--model; in a study --models), or "
            "learn from these texts alone: method scratch, or tfidf"
        )


def _between(task: Task, hashes: dict[str, np.ndarray], warnings: list[str]) -> None:
    """Texts in two splits, and one text with two labels."""
    distinct = {name: np.unique(them) for name, them in hashes.items()}
    names = list(distinct)
    for position, one in enumerate(names):
        for other in names[position + 1 :]:
            shared = len(np.intersect1d(distinct[one], distinct[other], assume_unique=True))
            if shared:
                are = "text is" if shared == 1 else "texts are"
                then = f": {other} will look easier than new text is" if task.splits[other].labelled else ""
                warnings.append(f"{shared:,} {are} in both {one} and {other} (spelling aside){then}")
    rows = [np.stack([hashes[name], it.labels], axis=1) for name, it in task.splits.items() if it.labels is not None]
    if not rows:
        return
    labels_of = np.unique(np.concatenate(rows), axis=0)  # each text with each of its labels
    _, times = np.unique(labels_of[:, 0], return_counts=True)
    two = int((times > 1).sum())
    if two:
        have = "text has" if two == 1 else "texts have"
        warnings.append(f"{two:,} {have} two different labels: no model can be right on all of them")
