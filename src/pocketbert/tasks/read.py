"""Rows of a file a person has: CSV, TSV, JSON lines, Parquet, `label ||| text`, `label text`, or plain lines.

`read_rows` looks at the beginning to learn the format and the columns; iterating then streams the rows as
dictionaries, in the file's order and with its columns, so that memory does not grow with the file. It does not grow
with the rows either: what a row may hold is bounded, and `chunks` are bounded in bytes.
"""

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pocketbert.errors import UserError, listed, quote
from pocketbert.tasks.lines import HEAD, MOST_IN_A_FIELD, MOST_IN_A_LINE, SharedFile, head, known_encoding, read_lines

Record = dict[str, Any]
FORMATS = ("csv", "tsv", "plain-tsv", "jsonl", "parquet", "bars", "label-text", "lines")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
CHUNK = 4_096  # rows in memory at a time,
CHUNK_BYTES = 16_000_000  # or fewer, when they are large
NAME_BYTES = 100  # that the name of a field takes, or its place
MOST_COLUMNS = 10_000
MOST_IN_A_NAME = 1_000  # characters of a column's name
MOST_VALUES = 500_000  # of one row: small ones take far more memory than they do in the file
MOST_DEEP = 100  # objects and lists within one another
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_VALUES = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[,\[{]', re.DOTALL)  # strings are passed over in one go


@dataclass(frozen=True)
class Rows:
    """A file's rows: columns known, rows streamed each time it is iterated."""

    path: Path
    format: str  # one of FORMATS; "plain-tsv" is TSV whose quotes are ordinary characters, as GLUE writes it
    columns: tuple[str, ...]
    encoding: str = "utf-8"
    delimiter: str = ","
    needed: tuple[str, ...] | None = None  # the columns that a Parquet file is read for; None: all
    beside: bool = False  # and its other plain ones, to look along
    file: SharedFile | None = field(default=None, repr=False, compare=False)

    def lines(self) -> Iterator[tuple[int, str]]:
        """(line number, line with its end) for each line of the file."""
        return read_lines(self.file or self.path, self.encoding)

    def narrow(self, *needed: str | None, beside: bool = False) -> "Rows":
        """The same rows for one who needs only these columns; a format that can leaves out the others."""
        return replace(self, needed=tuple(name for name in needed if name is not None), beside=beside)

    def __iter__(self) -> Iterator[Record]:
        for _, row in self.places():
            yield row

    def places(self) -> Iterator[tuple[str, Record]]:
        """("row 3 (line 4)", row) for each row: the place is for messages."""
        for number, (line, row) in enumerate(_READERS[self.format][1](self), start=1):
            place = f"row {number}" + (f" (line {line})" if line and line != number else "")
            for column, value in row.items():
                if isinstance(value, str | bytes) and len(value) > MOST_IN_A_FIELD:
                    raise UserError(
                        f"{self.path}: {place}: column {quote(column)} holds {len(value):,} characters; at most "
                        f"{MOST_IN_A_FIELD:,} are read: shorten it, or check the file's quotes"
                    )
            yield place, row

    def chunks(self, most_rows: int | None = None) -> Iterator[list[tuple[str, Record]]]:
        """The places and rows, some at a time: so many rows, or so many bytes of them, whichever is less."""
        most_rows = most_rows or CHUNK
        chunk: list[tuple[str, Record]] = []
        held = 0
        for place, row in self.places():
            chunk.append((place, row))
            held += NAME_BYTES * len(row) + sum(map(size_of, row.values()))
            if len(chunk) >= most_rows or held >= CHUNK_BYTES:
                yield chunk
                chunk, held = [], 0
        if chunk:
            yield chunk


def size_of(value: Any) -> int:
    """Bytes of memory that a value takes, and what it holds."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        size += NAME_BYTES * len(value) + sum(map(size_of, value.values()))
    elif isinstance(value, list):
        size += sum(map(size_of, value))
    return size


def read_rows(path: str | Path, *, encoding: str = "utf-8", format: str | None = None) -> Rows:
    """Learn a file's format and columns; iterate the result for its rows."""
    path = Path(path)
    known_encoding(encoding)
    file = SharedFile(path)
    start = head(file)
    if not start.strip(b"\xef\xbb\xbf \t\r\n"):
        what = "is empty" if len(start) < HEAD else "begins with a megabyte of blank lines; is it the right one?"
        raise UserError(f"{path}: the file {what}")
    if format is not None and format not in FORMATS:
        raise UserError(f"unknown format {format!r}; there are: {', '.join(FORMATS)}")
    format = format or _format(path, start, encoding)
    delimiter = ","
    if format == "csv":
        first = start.decode(encoding, "replace").split("\n", 1)[0]
        # Spreadsheets of many countries write semicolons, because their comma is the decimal point.
        delimiter = ";" if ";" in first and "," not in first else ","
    elif format in ("tsv", "plain-tsv"):
        delimiter = "\t"
        if format == "tsv" and not _quoted(start.decode(encoding, "replace")):
            format = "plain-tsv"
    rows = Rows(path, format, (), encoding, delimiter, file=file)
    columns = _READERS[format][0](rows)
    if len(columns) > MOST_COLUMNS:
        raise UserError(
            f"{path}: {len(columns):,} columns; at most {MOST_COLUMNS:,} are read: keep those that you need"
        )
    if (longest := max(columns, key=len, default="")) and len(longest) > MOST_IN_A_NAME:
        raise UserError(f"{path}: a column is named {quote(longest)}: is the first line the names of the columns?")
    return replace(rows, columns=columns)


# ------------------------------------------------------------ what format is it?


def _format(path: Path, start: bytes, encoding: str) -> str:
    if start.startswith(b"PAR1"):
        return "parquet"
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if suffixes and suffixes[-1] in SUFFIXES:
        return SUFFIXES[suffixes[-1]]
    lines = start.decode(encoding, "replace").split("\n")
    if len(start) == HEAD and len(lines) > 1:
        lines.pop()  # the last one is cut
    lines = [line.rstrip("\r") for line in lines if line.strip()]
    if all("|||" in line for line in lines):
        return "bars"
    if lines[0].lstrip().startswith("{"):
        return "jsonl"
    if "\t" in lines[0] and len({line.count("\t") for line in lines}) == 1:
        return "tsv"
    words = [line.split(None, 1) for line in lines]
    if all(len(pair) == 2 and re.fullmatch(r"-?\d{1,3}|__label__\S+", pair[0]) for pair in words):
        # Every line opening with one of a few numbers is a label; page numbers or years would not repeat so.
        kinds = Counter(pair[0] for pair in words)
        if len(kinds) <= max(2, min(100, len(words) // 2)):
            return "label-text"
    return "lines"


def _quoted(sample: str) -> bool:
    """Does a TSV use CSV's quotes? Only if a field opens with one and the strict rules then hold."""
    if not re.search(r'(^|\t|\n)"', sample):
        return False
    whole = len(sample) < HEAD
    lines = re.split(r"(?<=\n)", sample)
    widths = set()
    try:
        for record in csv.reader(lines, delimiter="\t", strict=True):
            if record:
                widths.add(len(record))
    except csv.Error as error:
        if whole or "unexpected end" not in str(error):
            return False
    return len(widths) == 1


# ------------------------------------------------------------ the readers


def _delimited(rows: Rows) -> Iterator[tuple[int, list[str]]]:
    """(first line, fields) of each record of a CSV or TSV, the header included."""
    if csv.field_size_limit() < MOST_IN_A_FIELD:
        csv.field_size_limit(MOST_IN_A_FIELD)  # the module's own limit is 131,072 characters, for the whole process
    quoting: Literal[0, 3] = csv.QUOTE_NONE if rows.format == "plain-tsv" else csv.QUOTE_MINIMAL
    length = commas = 0  # of the record so far

    def lines() -> Iterator[str]:
        """Line by line; a record of several lines has the limits of one."""
        nonlocal length, commas
        for _, line in rows.lines():
            length += len(line)
            if length > MOST_VALUES:
                commas += line.count(rows.delimiter)
                if commas > MOST_VALUES or length > MOST_IN_A_LINE:
                    raise UserError(
                        f"{rows.path}: line {begin}: the row that begins here has more than {MOST_VALUES:,} fields, or "
                        f"{MOST_IN_A_LINE // 1_000_000} MB; is a quote missing, or a line end?"
                    )
            yield line

    reader = csv.reader(lines(), delimiter=rows.delimiter, quoting=quoting, strict=True)
    while True:
        begin = reader.line_num + 1
        length = commas = 0
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise UserError(f"{rows.path}: line {begin}: {_csv_trouble(str(error))}") from None
        if record is None:
            return
        if record:
            yield begin, record


def _csv_trouble(message: str) -> str:
    if "expected after" in message:
        return 'text follows a closing quote; a quote inside a quoted field is written twice ("")'
    if "unexpected end" in message:
        return "a quoted field opens here and never closes; close it, or write quotes inside a field twice"
    if "field limit" in message:
        return f"a field is longer than {MOST_IN_A_FIELD:,} characters; is a closing quote missing?"
    if "new-line" in message:
        return "lines end in a bare carriage return (old Macintosh style); save the file with ordinary line ends"
    return message


def _delimited_columns(rows: Rows) -> tuple[str, ...]:
    for _, names in _delimited(rows):
        columns = tuple(name.strip() for name in names)
        twice = [name for name, count in Counter(columns).items() if count > 1]
        if twice:
            raise UserError(
                f"{rows.path}: two columns are named {quote(twice[0])}; the header is: {listed(columns)}. Rename one; "
                "if the file has no header row, put one at the top, such as text,label"
            )
        return columns
    raise UserError(f"{rows.path}: the file is empty")


def _delimited_rows(rows: Rows) -> Iterator[tuple[int, Record]]:
    width = len(rows.columns)
    for number, (line, record) in enumerate(islice(_delimited(rows), 1, None), start=1):
        if len(record) != width:
            few = "a field is missing" if len(record) < width else "a field too many: is a quote missing around a text?"
            raise UserError(
                f"{rows.path}: row {number} (line {line}) has {len(record)} fields, the header has {width} "
                f"({listed(rows.columns)}): {few}"
            )
        yield line, dict(zip(rows.columns, record, strict=True))


def _json_rows(rows: Rows) -> Iterator[tuple[int, Record]]:
    for number, line in rows.lines():
        if not line.strip():
            continue
        if len(line) > MOST_VALUES:
            _count_values(rows, number, line)
        try:
            row = json.loads(line)
            if "\\ud" in line or "\\uD" in line:
                # Halves of characters, which JSON can write and nothing else can: the sign for a lost character.
                row = json.loads(_LONE_SURROGATE.sub("\ufffd", json.dumps(row, ensure_ascii=False)))
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or a number too long"
            raise UserError(
                f"{rows.path}: line {number} is not JSON ({why}); one object per line is expected"
            ) from None
        if not isinstance(row, dict):
            raise UserError(
                f"{rows.path}: line {number} holds {type(row).__name__}, not an object; one object per line "
                "is expected, "
                'such as {"text": "…", "label": "…"}'
            )
        if _is_deep(row):
            raise UserError(f"{rows.path}: line {number}: more than {MOST_DEEP} objects or lists within one another")
        yield number, row


def _count_values(rows: Rows, number: int, line: str) -> None:
    """A line of twenty megabytes may hold a thousand megabytes of empty objects."""
    found = sum(1 for match in islice(_VALUES.finditer(line), 3 * MOST_VALUES) if match[0][0] != '"')
    if found > MOST_VALUES:
        raise UserError(f"{rows.path}: line {number} holds more than {MOST_VALUES:,} values; is it one row per line?")


def _is_deep(row: Record) -> bool:
    level: list[Any] = [row]
    for _ in range(MOST_DEEP):
        inner = (it for value in level for it in (value.values() if isinstance(value, dict) else value))
        level = [it for it in inner if isinstance(it, dict | list)]
        if not level:
            return False
    return True


def _json_columns(rows: Rows) -> tuple[str, ...]:
    for _, row in _json_rows(rows):
        return tuple(row)
    raise UserError(f"{rows.path}: the file is empty")


def _bars_columns(rows: Rows) -> tuple[str, ...]:
    names = ("label", "text", "text2")
    for number, line in rows.lines():
        if line.strip():
            fields = line.count("|||") + 1
            if 2 <= fields <= len(names):
                return names[:fields]
            raise UserError(f"{rows.path}: line {number} has {fields} fields; `label ||| text` has two, a pair three")
    raise UserError(f"{rows.path}: the file is empty")


def _bars_rows(rows: Rows) -> Iterator[tuple[int, Record]]:
    for number, line in rows.lines():
        if not line.strip():
            continue
        count = line.count("|||") + 1
        if count != len(rows.columns):
            raise UserError(
                f"{rows.path}: line {number} has {count} fields between |||, the first line has "
                f"{len(rows.columns)} ({' ||| '.join(rows.columns)}): pairs and single texts cannot be mixed"
            )
        label, *texts = line.strip("\r\n").split("|||")
        fields = [label.rstrip(), *(text.strip() for text in texts[:-1]), texts[-1].lstrip()]
        yield number, dict(zip(rows.columns, fields, strict=True))


def _label_text_rows(rows: Rows) -> Iterator[tuple[int, Record]]:
    for number, line in rows.lines():
        if not line.strip():
            continue
        label, _, text = line.strip("\r\n").partition(" ")
        if not text.strip():
            raise UserError(f"{rows.path}: line {number} has a label and no text; `label text` is expected")
        yield number, {"label": label.removeprefix("__label__"), "text": text}


def _plain_rows(rows: Rows) -> Iterator[tuple[int, Record]]:
    for number, line in rows.lines():
        yield number, {"text": line.rstrip("\r\n")}


def _parquet_rows(rows: Rows) -> Iterator[tuple[int, Record]]:
    from pocketbert.tasks.parquet import parquet_rows

    for row in parquet_rows(rows.path, rows.needed, beside=rows.beside):
        yield 0, row


def _parquet_columns(rows: Rows) -> tuple[str, ...]:
    from pocketbert.tasks.parquet import parquet_columns

    return parquet_columns(rows.path)


_READERS: dict[str, tuple[Callable[[Rows], tuple[str, ...]], Callable[[Rows], Iterator[tuple[int, Record]]]]] = {
    "csv": (_delimited_columns, _delimited_rows),
    "tsv": (_delimited_columns, _delimited_rows),
    "plain-tsv": (_delimited_columns, _delimited_rows),
    "jsonl": (_json_columns, _json_rows),
    "parquet": (_parquet_columns, _parquet_rows),
    "bars": (_bars_columns, _bars_rows),
    "label-text": (lambda rows: ("label", "text"), _label_text_rows),
    "lines": (lambda rows: ("text",), _plain_rows),
}  # format → its columns, its rows with their lines
