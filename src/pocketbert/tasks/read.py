"""Rows of a file a person has: CSV, TSV, JSON lines, Parquet, `label ||| text`, `label text`, or plain lines.

`read_rows` looks at the beginning to learn the format and the columns; iterating then streams the rows as
dictionaries, in the file's order and with its columns, so that memory does not grow with the file.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pocketbert.errors import UserError
from pocketbert.tasks.lines import MOST_IN_A_FIELD, head, known_encoding, open_bytes, read_lines, reading

Row = dict[str, Any]
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
BARS = re.compile(r"\s*\|\|\|\s*")


@dataclass(frozen=True)
class Rows:
    """A file's rows: columns known, rows streamed each time it is iterated."""

    path: Path
    format: str  # one of FORMATS; "plain-tsv" is TSV whose quotes are ordinary characters, as GLUE writes it
    columns: tuple[str, ...]
    encoding: str = "utf-8"
    delimiter: str = ","

    def __iter__(self) -> Iterator[Row]:
        for _, row in self.places():
            yield row

    def places(self) -> Iterator[tuple[str, Row]]:
        """("row 3 (line 4)", row) for each row: the place is for messages."""
        for number, (line, row) in enumerate(_READERS[self.format](self), start=1):
            place = f"row {number}" + (f" (line {line})" if line and line != number else "")
            for column, value in row.items():
                if isinstance(value, str | bytes) and len(value) > MOST_IN_A_FIELD:
                    raise UserError(
                        f"{self.path}: {place}: column {column!r} holds {len(value):,} characters; at most "
                        f"{MOST_IN_A_FIELD:,} are read: shorten it, or check the file's quotes"
                    )
            yield place, row


def read_rows(path: str | Path, *, encoding: str = "utf-8", format: str | None = None) -> Rows:
    """Learn a file's format and columns; iterate the result for its rows."""
    path = Path(path)
    known_encoding(encoding)
    start = head(path)
    if not start.strip(b"\xef\xbb\xbf \t\r\n"):
        raise UserError(f"{path}: the file is empty")
    if format is not None and format not in FORMATS:
        raise UserError(f"unknown format {format!r}; there are: {', '.join(FORMATS)}")
    format = format or _format(path, start, encoding)
    if format == "parquet":
        return Rows(path, format, _parquet_columns(path))
    delimiter = ","
    if format == "csv":
        first = start.decode(encoding, "replace").split("\n", 1)[0]
        # Spreadsheets of many countries write semicolons, because their comma is the decimal point.
        delimiter = ";" if ";" in first and "," not in first else ","
    elif format in ("tsv", "plain-tsv"):
        delimiter = "\t"
        if format == "tsv" and not _quoted(start.decode(encoding, "replace")):
            format = "plain-tsv"
    rows = Rows(path, format, (), encoding, delimiter)
    return Rows(path, format, _COLUMNS[format](rows), encoding, delimiter)


def class_names(path: str | Path, column: str) -> tuple[str, ...] | None:
    """The label names that the `datasets` library writes into a Parquet file, by their numbers."""
    import pyarrow.parquet as pq

    with reading(Path(path)), open_bytes(Path(path)) as file:
        metadata = pq.read_schema(file).metadata or {}
    try:
        features = json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"]
        names = features[column].get("names")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return tuple(str(name) for name in names) if names else None


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
    if len(start) == 1 << 20 and len(lines) > 1:
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
    whole = len(sample) < 1 << 20
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
    lines = (line for _, line in read_lines(rows.path, rows.encoding))
    reader = csv.reader(lines, delimiter=rows.delimiter, quoting=quoting, strict=True)
    while True:
        begin = reader.line_num + 1
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
                f"{rows.path}: two columns are named {twice[0]!r}; the header is: {', '.join(columns)}. "
                "Rename one; "
                "if the file has no header row, put one at the top, such as text,label"
            )
        return columns
    raise UserError(f"{rows.path}: the file is empty")


def _delimited_rows(rows: Rows) -> Iterator[tuple[int, Row]]:
    width = len(rows.columns)
    for number, (line, record) in enumerate(islice(_delimited(rows), 1, None), start=1):
        if len(record) != width:
            few = "a field is missing" if len(record) < width else "a field too many: is a quote missing around a text?"
            raise UserError(
                f"{rows.path}: row {number} (line {line}) has {len(record)} fields, the header has {width} "
                f"({', '.join(rows.columns)}): {few}"
            )
        yield line, dict(zip(rows.columns, record, strict=True))


def _json_rows(rows: Rows) -> Iterator[tuple[int, Row]]:
    for number, line in read_lines(rows.path, rows.encoding):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or a number too long"
            raise UserError(f"{rows.path}: line {number} is not JSON ({why}); one object a line is expected") from None
        if not isinstance(row, dict):
            raise UserError(
                f"{rows.path}: line {number} holds {type(row).__name__}, not an object; one object a line "
                "is expected, "
                'such as {"text": "…", "label": "…"}'
            )
        yield number, row


def _json_columns(rows: Rows) -> tuple[str, ...]:
    for _, row in _json_rows(rows):
        return tuple(row)
    raise UserError(f"{rows.path}: the file is empty")


def _bars_columns(rows: Rows) -> tuple[str, ...]:
    names = ("label", "text", "text2")
    for number, line in read_lines(rows.path, rows.encoding):
        if line.strip():
            fields = len(BARS.split(line))
            if 2 <= fields <= len(names):
                return names[:fields]
            raise UserError(f"{rows.path}: line {number} has {fields} fields; `label ||| text` has two, a pair three")
    raise UserError(f"{rows.path}: the file is empty")


def _bars_rows(rows: Rows) -> Iterator[tuple[int, Row]]:
    for number, line in read_lines(rows.path, rows.encoding):
        if not line.strip():
            continue
        fields = BARS.split(line.strip("\r\n"))
        if len(fields) != len(rows.columns):
            raise UserError(
                f"{rows.path}: line {number} has {len(fields)} fields between |||, the first line has "
                f"{len(rows.columns)} ({' ||| '.join(rows.columns)}): pairs and single texts cannot be mixed"
            )
        yield number, dict(zip(rows.columns, fields, strict=True))


def _label_text_rows(rows: Rows) -> Iterator[tuple[int, Row]]:
    for number, line in read_lines(rows.path, rows.encoding):
        if not line.strip():
            continue
        label, _, text = line.strip("\r\n").partition(" ")
        if not text.strip():
            raise UserError(f"{rows.path}: line {number} has a label and no text; `label text` is expected")
        yield number, {"label": label.removeprefix("__label__"), "text": text}


def _plain_rows(rows: Rows) -> Iterator[tuple[int, Row]]:
    for number, line in read_lines(rows.path, rows.encoding):
        yield number, {"text": line.rstrip("\r\n")}


def _parquet_columns(path: Path) -> tuple[str, ...]:
    import pyarrow
    import pyarrow.parquet as pq

    with reading(path), open_bytes(path) as file:
        try:
            names = tuple(pq.read_schema(file).names)
        except (pyarrow.ArrowException, OSError) as error:
            raise UserError(f"{path}: not a Parquet file that can be read: {error}") from None
    if len(set(names)) < len(names):
        raise UserError(f"{path}: two columns have one name: {', '.join(names)}; rename one")
    return names


def _parquet_rows(rows: Rows) -> Iterator[tuple[int, Row]]:
    import pyarrow
    import pyarrow.parquet as pq

    with reading(rows.path), open_bytes(rows.path) as file:
        try:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    yield 0, row
        except (pyarrow.ArrowException, OSError) as error:
            raise UserError(f"{rows.path}: the Parquet data is damaged: {error}") from None


_READERS = {
    "csv": _delimited_rows,
    "tsv": _delimited_rows,
    "plain-tsv": _delimited_rows,
    "jsonl": _json_rows,
    "parquet": _parquet_rows,
    "bars": _bars_rows,
    "label-text": _label_text_rows,
    "lines": _plain_rows,
}
_COLUMNS = {
    "csv": _delimited_columns,
    "tsv": _delimited_columns,
    "plain-tsv": _delimited_columns,
    "jsonl": _json_columns,
    "bars": _bars_columns,
    "label-text": lambda rows: ("label", "text"),
    "lines": lambda rows: ("text",),
}
