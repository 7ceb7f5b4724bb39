"""Which columns hold the text and the label: named by the person, or guessed and said aloud."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pocketbert.errors import UserError, listed, quote
from pocketbert.tasks.labels import label_text
from pocketbert.tasks.read import Record, Rows

TEXT_NAMES = (
    *("text", "sentence", "review", "content", "comment", "body", "message", "tweet", "document", "phrase"),
    *("utterance", "sentence1", "text1", "sentence_a", "text_a", "premise", "question", "question1", "title"),
)
LABEL_NAMES = (
    *("label", "labels", "class", "category", "target", "gold_label", "sentiment", "entailment_label"),
    *("intent", "topic", "rating", "stars", "y"),
)
SECOND_NAMES = {
    "sentence1": "sentence2",
    "text1": "text2",
    "sentence_a": "sentence_b",
    "text_a": "text_b",
    "premise": "hypothesis",
    "question": "sentence",
    "question1": "question2",
    "text": "text2",
    "sentence": "question",
}
SAMPLE = 1000  # rows, from which columns are guessed


@dataclass(frozen=True)
class Columns:
    """The columns that are read, and what to say about how they were chosen."""

    text: str
    second: str | None
    label: str | None
    notes: tuple[str, ...] = ()


def require(rows: Rows, column: str, flag: str) -> str:
    """The column, if the file has it; the error lists the ones it does have."""
    if column not in rows.columns:
        raise UserError(
            f"{flag} column {quote(column)} not in {rows.path}; it has: {listed(rows.columns, quoted=True)}"
        )
    return column


def choose_columns(rows: Rows, text: str | None, second: str | None, label: str | None) -> Columns:
    """Take the named columns, guess the others by name and then by content."""
    for column, flag in ((text, "--text"), (second, "--text2"), (label, "--label")):
        if column is not None:
            require(rows, column, flag)
    given = [column for column in (text, second, label) if column is not None]
    if len(set(given)) < len(given):
        raise UserError(f"{rows.path}: one column is named twice among --text, --text2 and --label: {', '.join(given)}")

    looked_at = rows.narrow(*given, beside=True)
    sample = [row for _, row in next(looked_at.chunks(SAMPLE), [])]
    if not sample:
        raise UserError(f"{rows.path}: there are no rows below the header ({listed(rows.columns)})")
    free = [column for column in rows.columns if column not in given]
    guessed = []
    # Names first, for both: a column named text is never taken for the label because its values repeat.
    for by_name in (True, False):
        if label is None:
            label = _by_name(free, LABEL_NAMES) if by_name else _by_content(free, sample, _label_like)
            if label is not None:
                free.remove(label)
                guessed.append(f"the label from {quote(label)}")
        if text is None:
            text = _by_name(free, TEXT_NAMES) if by_name else _by_content(free, sample, _text_like)
            if text is not None:
                free.remove(text)
                guessed.append(f"the text from {quote(text)}")
    if text is None or label is None:
        raise UserError(_cannot_guess(rows, "label" if label is None else "text"))

    notes = []
    unread = [column for column in rows.columns if column not in (text, second, label)]
    if guessed:
        rest = f"; not read: {listed(unread, quoted=True)}" if unread else ""
        what = " and ".join(sorted(guessed, reverse=True))
        notes.append(f"{rows.path.name}: reading {what}{rest} (name others with --text, --label)")
    partner = _by_name(unread, (SECOND_NAMES.get(text.lower(), ""),))
    if second is None and partner is not None:
        notes.append(
            f"{rows.path.name}: {text!r} and {partner!r} look like a pair; only {text!r} is read. "
            f"For pairs say --text {text} --text2 {partner}"
        )
    return Columns(text, second, label, tuple(notes))


def _cannot_guess(rows: Rows, what: str) -> str:
    has = listed(rows.columns, quoted=True)
    hint = ""
    if rows.format in ("csv", "tsv", "plain-tsv"):
        hint = "; if the first line is data, put a header above it, such as text,label"
    elif rows.format == "lines":
        hint = "; it was read as lines of text. For labels write `label ||| text`, or a .csv with a header"
    return f"{rows.path}: cannot tell which column is the {what}; name it with --{what}. It has: {has}{hint}"


def _by_name(columns: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {column.lower(): column for column in reversed(columns)}
    return next((lower[name] for name in names if name in lower), None)


def _by_content(columns: Sequence[str], sample: Sequence[Record], fits: Any) -> str | None:
    """The one column whose values fit; None when none or several do."""
    found = [column for column in columns if fits([label_text(row.get(column)) or "" for row in sample])]
    return found[0] if len(found) == 1 else None


def _text_like(values: Sequence[str]) -> bool:
    return sum(len(value.split()) for value in values) >= 2 * len(values)


def _label_like(values: Sequence[str]) -> bool:
    kinds = set(values) - {""}
    return 2 <= len(kinds) <= max(2, min(50, len(values) // 3)) and max(map(len, kinds)) <= 40


class ColumnChecker:
    """Looks along while rows are read, for columns that are not what they seem."""

    MOST_KINDS = 1000  # values remembered per column; a column with more is no code for the label
    MOST_COLUMNS = 100  # looked at, the first ones

    def __init__(self, rows: Rows, columns: Columns) -> None:
        self.path: Path = rows.path
        self.columns = columns
        used = (columns.text, columns.second, columns.label)
        others = [name for name in rows.columns if name not in used]
        # Values by their hashes: they may be long.
        self.meaning: dict[str, dict[int, str]] = {name: {} for name in others[: self.MOST_COLUMNS]}
        self.rows = 0
        self.one_word = 0
        self.texts: set[int] = set()
        self.kinds: set[str] = set()

    def see(self, row: Record, text: str, label: str | None) -> None:
        self.rows += 1
        self.one_word += len(text.split(maxsplit=1)) < 2
        if self.one_word == self.rows:
            self.texts.add(hash(text))
        if label is None:
            return
        self.kinds.add(label)
        for name in list(self.meaning):
            value = hash(label_text(row.get(name)) or "")
            known = self.meaning[name]
            if known.setdefault(value, label) != label or len(known) > self.MOST_KINDS:
                del self.meaning[name]

    def suspicions(self) -> tuple[str, ...]:
        found = []
        if self.rows >= 10 and self.one_word == self.rows and len(self.texts) > 0.9 * self.rows:
            found.append(
                f"{self.path.name}: every text in column {self.columns.text!r} is one word, nearly all different: is "
                "it an identifier? Name the text column with --text"
            )
        for name, known in self.meaning.items():
            if self.rows >= 20 and len(self.kinds) > 1 and 2 <= len(known) <= self.rows / 5:
                found.append(
                    f"{self.path.name}: column {name!r} alone determines the label in every row. It is not read; make "
                    "sure that the text does not repeat it, or scores will be too good to be true"
                )
        return tuple(found)


def choose_texts(rows: Rows, text: str | None, second: str | None, *, pair: bool) -> tuple[tuple[str, ...], list[str]]:
    """The text columns of a file that is to be predicted, and what to say about how they were chosen."""
    for column, flag in ((text, "--text"), (second, "--text2")):
        if column is not None:
            require(rows, column, flag)
    if not pair and second is not None:
        raise UserError(f"--text2 {second}: this run classifies single texts; leave --text2 out")
    names = {name.lower(): name for name in rows.columns}
    if text is None:
        known = [names[name] for name in TEXT_NAMES if name in names]
        if not known and len(rows.columns) == 1:
            known = list(rows.columns)
        if not known:
            raise UserError(f"{rows.path}: which column holds the text? It has: {listed(rows.columns)}; say --text")
        text = known[0]
    if not pair:
        return (text,), [f"{rows.path.name}: text is column '{text}'"]
    if second is None:
        second = names.get(SECOND_NAMES.get(text.lower(), ""))
        if second is None:
            raise UserError(
                f"{rows.path}: this run classifies pairs; which column holds the second text? "
                f"It has: {listed(rows.columns)}; say --text2"
            )
    return (text, second), [f"{rows.path.name}: the pair is columns '{text}' and '{second}'"]
