"""Which columns hold the text and the label: named by the person, or guessed and said aloud."""

import re
import shlex
from collections.abc import Mapping, Sequence
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
# Names that everyone gives to the two texts of a pair, as `_plain` writes them.
NUMBERED = ("text", "sentence", "sent", "question", "phrase", "string", "statement", "document", "passage", "s", "q")
PAIRS = (
    ("premise", "hypothesis"),
    *((f"{word}{one}", f"{word}{two}") for word in NUMBERED for one, two in ("12", "ab")),
    *(("#1string", "#2string"), ("question", "sentence"), ("question", "answer"), ("question", "passage")),
    *(("question", "context"), ("query", "passage"), ("query", "document"), ("claim", "evidence")),
    *(("text", "text2"), ("sentence", "sentence2"), ("context", "response")),
)
SAMPLE = 1000  # rows, from which columns are guessed
WORDS_OF_A_TEXT = 4  # on average: names of people, places and things have fewer
LETTERS_OF_A_TEXT = 8  # on average, in scripts without spaces


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
    guessed_texts, guessed_label = "", ""
    pair = None if text or second else _pair_by_name(free, label, sample)
    if pair is not None:
        text, second = pair
        free = [column for column in free if column not in pair]
        guessed_texts = f"pairs from {quote(text)} and {quote(second)}"
    # Names first, for both: a column named text is never taken for the label because its values repeat.
    for by_name in (True, False):
        if label is None:
            label = _by_name(free, LABEL_NAMES) if by_name else _by_content(free, sample, _label_like)
            if label is not None:
                free.remove(label)
                guessed_label = f"the label from {quote(label)}"
        if text is None:
            text = _text_by_name(free, sample) if by_name else _text_by_content(free, sample)
            if text is not None:
                free.remove(text)
                guessed_texts = f"the text from {quote(text)}"
    # A person who names the text has chosen; else a second column of texts is a question, never a guess.
    if pair is None and (guessed_texts or text is None):
        texts = [column for column in rows.columns if column == text or (column in free and _is_text(column, sample))]
        if len(texts) > 1:
            raise UserError(_which_texts(rows, texts))
    if text is None or label is None:
        raise UserError(_cannot_guess(rows, "label" if label is None else "text"))

    notes = []
    unread = [column for column in rows.columns if column not in (text, second, label)]
    if guessed_texts or guessed_label:
        rest = f"; not read: {listed(unread, quoted=True)}" if unread else ""
        what = " and ".join(filter(None, (guessed_texts, guessed_label)))
        others = f"one text alone: --text {shlex.quote(text)}" if pair else "name others with --text, --label"
        notes.append(f"{rows.path.name}: reading {what}{rest} ({others})")
    if second is None and (partner := _partner(text, unread)) is not None:
        notes.append(f"{rows.path.name}: only {quote(text)} is read; for pairs add --text2 {shlex.quote(partner)}")
    return Columns(text, second, label, tuple(notes))


def _pair_by_name(columns: Sequence[str], label: str | None, sample: Sequence[Record]) -> tuple[str, str] | None:
    """The columns of a pair, if they have such names and hold words."""
    label = label or _by_name(columns, LABEL_NAMES)
    found = known_pairs([column for column in columns if column != label])
    return next((pair for pair in found if all(_wordy(column, sample) for column in pair)), None)


def known_pairs(columns: Sequence[str]) -> list[tuple[str, str]]:
    """Columns that everyone names so when they are the two texts of a pair, the first text first."""
    named = {_plain(column): column for column in reversed(columns)}
    return [(named[one], named[two]) for one, two in PAIRS if one in named and two in named]


def _partner(text: str, columns: Sequence[str]) -> str | None:
    """The column that is known to be the other text of a pair."""
    return next((two for one, two in known_pairs([text, *columns]) if one == text), None)


def _plain(name: str) -> str:
    """Sentence_A, "sentence a" and sentenceA are one name."""
    return re.sub(r"[\s_-]+", "", name).lower()


def _which_texts(rows: Rows, texts: Sequence[str]) -> str:
    one, two = (shlex.quote(column) for column in texts[:2])
    return (
        f"{rows.path}: {len(texts)} columns hold texts: {listed(texts, quoted=True)}. To read one of them, say "
        f"--text {one} or --text {two}; to read both as a pair, --text {one} --text2 {two}"
    )


def _cannot_guess(rows: Rows, what: str) -> str:
    has = listed(rows.columns, quoted=True)
    hint = ""
    if rows.format in ("csv", "tsv", "plain-tsv"):
        hint = "; if the first line is data, put a header above it, such as text,label"
    elif rows.format == "lines":
        hint = "; it was read as lines of text. For labels write `label ||| text`, or a .csv with a header"
    return f"{rows.path}: cannot tell which column is the {what}; name it with --{what}. It has: {has}{hint}"


def _by_name(columns: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {_plain(column): column for column in reversed(columns)}
    return next((lower[name] for name in map(_plain, names) if name in lower), None)


def _text_by_name(columns: Sequence[str], sample: Sequence[Record]) -> str | None:
    """The first known name; one whose values have letters before one that has numbers."""
    wordy = [column for column in columns if _wordy(column, sample)]
    return _by_name(wordy, TEXT_NAMES) or _by_name(columns, TEXT_NAMES)


def _values(column: str, sample: Sequence[Record]) -> list[str]:
    return [label_text(row.get(column)) or "" for row in sample]


def _wordy(column: str, sample: Sequence[Record]) -> bool:
    """Does it hold words, not numbers?"""
    return any(letter.isalpha() for value in _values(column, sample) for letter in value)


def _is_text(column: str, sample: Sequence[Record]) -> bool:
    return _free_text(_values(column, sample))


def _text_by_content(columns: Sequence[str], sample: Sequence[Record]) -> str | None:
    """The one column of several words; of more than one, the one of sentences: names and dates have words, too."""
    return _by_content(columns, sample, _text_like) or _by_content(columns, sample, _free_text)


def _by_content(columns: Sequence[str], sample: Sequence[Record], fits: Any) -> str | None:
    """The one column whose values fit; None when none or several do."""
    found = [column for column in columns if fits(_values(column, sample))]
    return found[0] if len(found) == 1 else None


def _text_like(values: Sequence[str]) -> bool:
    return sum(len(value.split()) for value in values) >= 2 * len(values)


def _free_text(values: Sequence[str]) -> bool:
    """Sentences, nearly every time others: no identifier, date, category or name of somebody, and not mostly empty."""
    given = [value for value in values if value.strip()]
    if len(given) <= len(values) / 2 or len(set(given)) <= len(given) / 2:
        return False
    letters = sum(sum(map(str.isalpha, value)) for value in given)
    signs = sum(len(value) - value.count(" ") for value in given)
    spaced = sum(len(value.split()) for value in given) >= WORDS_OF_A_TEXT * len(given)
    unspaced = letters >= LETTERS_OF_A_TEXT * len(given) and not any(value.isascii() for value in given)
    return letters > signs / 2 and (spaced or unspaced)


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


def choose_texts(
    rows: Rows, text: str | None, second: str | None, *, pair: bool, learnt: Mapping[str, str | None] | None = None
) -> tuple[tuple[str, ...], list[str]]:
    """The text columns of a file that is to be predicted, and what to say about how they were chosen.

    `learnt`: the columns that a run learnt from, by what they hold. A file that has them has its texts there.
    """
    for column, flag in ((text, "--text"), (second, "--text2")):
        if column is not None:
            require(rows, column, flag)
    if not pair and second is not None:
        raise UserError(f"--text2 {second}: this run classifies single texts; leave --text2 out")
    before = [(learnt or {}).get(name) for name in (("text", "text2") if pair else ("text",))]
    if text is None and second is None and all(column in rows.columns for column in before):
        chosen = tuple(column for column in before if column is not None)
        return chosen, [_chosen(rows, chosen)]
    if pair and text is None and second is None and (known := known_pairs(rows.columns)):
        return known[0], [_chosen(rows, known[0])]
    if text is None:
        text = _by_name([column for column in rows.columns if column != second], TEXT_NAMES)
        if text is None and len(rows.columns) == 1:
            text = rows.columns[0]
        if text is None:
            raise UserError(f"{rows.path}: which column holds the text? It has: {listed(rows.columns)}; say --text")
    if not pair:
        return (text,), [_chosen(rows, (text,))]
    if second is None:
        second = _partner(text, rows.columns)
        if second is None:
            raise UserError(
                f"{rows.path}: this run classifies pairs; which column holds the second text? "
                f"It has: {listed(rows.columns)}; say --text2"
            )
    return (text, second), [_chosen(rows, (text, second))]


def _chosen(rows: Rows, columns: tuple[str, ...]) -> str:
    if len(columns) == 1:
        return f"{rows.path.name}: text is column '{columns[0]}'"
    return f"{rows.path.name}: the pair is columns '{columns[0]}' and '{columns[1]}'"
