"""Files are read as they are: every format, every odd character, and errors that say where."""

import csv
import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pocketbert.errors import UserError
from pocketbert.tasks import read_rows

Write = Callable[..., Path]
# Any text a CSV can hold: no NUL, and nothing that is not a character.
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
one_line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\n\r"), max_size=30)
several = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@several
@given(rows=st.lists(st.tuples(anything, anything.filter(bool)), min_size=1, max_size=8), packed=st.booleans())
def test_csv_comes_back_as_it_was_written(tmp_path: Path, rows: list[tuple[str, str]], packed: bool) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([("text", "label"), *rows])
    data = text.getvalue().encode()
    path = tmp_path / ("it.csv.gz" if packed else "it.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert [tuple(row.values()) for row in read_rows(path)] == rows


@several
@given(rows=st.lists(st.fixed_dictionaries({"text": anything, "label": st.integers()}), min_size=1, max_size=8))
def test_json_lines_come_back_as_they_were_written(tmp_path: Path, rows: list[dict[str, object]]) -> None:
    path = tmp_path / "it.jsonl"
    path.write_bytes("\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode())
    assert list(read_rows(path)) == rows


@several
@given(
    rows=st.lists(
        st.tuples(one_line.filter(lambda it: "\t" not in it), st.sampled_from(["0", "1"])),
        min_size=1,
        max_size=8,
    )
)
def test_a_tsv_without_quoting_keeps_its_quotes(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    path = tmp_path / "it.tsv"
    path.write_bytes("".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows]).encode())
    assert [tuple(row.values()) for row in read_rows(path, format="plain-tsv")] == rows


@several
@given(data=st.binary(max_size=200), ending=st.sampled_from(["csv", "tsv", "jsonl", "txt", "parquet", "csv.gz"]))
def test_any_bytes_are_rows_or_a_clear_error(tmp_path: Path, data: bytes, ending: str) -> None:
    path = tmp_path / f"it.{ending}"
    path.write_bytes(data)
    try:
        rows = list(read_rows(path))
    except UserError as error:
        said = str(error)
    else:
        said = f"{path}: {len(rows)} rows"
    assert str(path) in said


def test_a_tsv_is_read_with_quotes_only_where_the_rules_of_quotes_hold(write: Write) -> None:
    glue = write("glue.tsv", 'text\tlabel\n"Go," he said\t1\nand "so" on\t0\n')
    assert [row["text"] for row in read_rows(glue)] == ['"Go," he said', 'and "so" on']
    sheet = write("sheet.tsv", 'text\tlabel\n"a ""b""\tc"\t1\nplain\t0\n')
    assert [row["text"] for row in read_rows(sheet)] == ['a "b"\tc', "plain"]


def test_semicolons_of_a_spreadsheet_are_understood(write: Write) -> None:
    assert list(read_rows(write("it.csv", "text;label\ngood, really;1\n"))) == [{"text": "good, really", "label": "1"}]


def test_a_byte_order_mark_is_not_part_of_a_name(write: Write) -> None:
    assert read_rows(write("it.csv", b"\xef\xbb\xbftext,label\na,1\n")).columns == ("text", "label")


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("bars.txt", "3 ||| it 's | fine\n0 ||| no\n", [("3", "it 's | fine"), ("0", "no")]),
        (
            "numbers.txt",
            "1 fine film\n0 bad film\n1 ok then\n",
            [("1", "fine film"), ("0", "bad film"), ("1", "ok then")],
        ),
        ("fasttext.txt", "__label__a x y\n__label__b z z\n", [("a", "x y"), ("b", "z z")]),
        (
            "years.txt",
            "1999 was good\n2001 was not\n2010 neither\n",
            [("1999 was good",), ("2001 was not",), ("2010 neither",)],
        ),
        ("plain.txt", "one\u2028line\ntwo\x85lines\n", [("one\u2028line",), ("two\x85lines",)]),
    ],
)
def test_files_without_columns_are_understood(
    write: Write, name: str, content: str, rows: list[tuple[str, ...]]
) -> None:
    assert [tuple(row.values()) for row in read_rows(write(name, content))] == rows


def test_parquet_is_streamed_and_may_be_gzipped(tmp_path: Path) -> None:
    table = pa.table({"text": ["a b", "c"], "label": [1, 0]})
    pq.write_table(table, tmp_path / "it.parquet")
    (tmp_path / "it.parquet.gz").write_bytes(gzip.compress((tmp_path / "it.parquet").read_bytes()))
    for name in ("it.parquet", "it.parquet.gz"):
        assert list(read_rows(tmp_path / name)) == table.to_pylist()


def test_other_encodings_are_read_when_named(write: Write) -> None:
    for encoding in ("latin-1", "cp1252", "utf-16"):
        path = write(f"{encoding}.csv", "text,label\ncafé,1\n".encode(encoding))
        assert next(iter(read_rows(path, encoding=encoding)))["text"] == "café"


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.csv", b"", "empty"),
        ("blank.csv", b"\n \n", "empty"),
        ("latin.csv", "text,label\nok,1\ncafé,0\n".encode("latin-1"), "line 3, byte 4 is 0xE9"),
        ("wide.csv", "text,label\na,1\n".encode("utf-16"), "UTF-16"),
        ("nul.csv", b"text,label\na\0b,1\n", "line 2 has a NUL"),
        ("short.csv", b"text,label\na,1\nb\n", "row 2 (line 3) has 1 fields, the header has 2"),
        ("long.csv", b"text,label\na,b,1\n", "row 1 (line 2) has 3 fields"),
        ("twice.csv", b"text,text\na,1\n", "two columns are named 'text'"),
        ("open.csv", b'text,label\n"a,1\nb,0\n', "line 2: a quoted field opens here and never closes"),
        ("after.csv", b'text,label\n"a" b,1\n', "line 2: text follows a closing quote"),
        ("mac.csv", b"text,label\ra,1\rb,0\r", "carriage return"),
        ("list.json", b'[{"text": "a"}]', "line 1 holds list"),
        ("broken.jsonl", b'{"text": "a"}\n{"text": \n', "line 2 is not JSON"),
        ("not.parquet", b"text,label\n", "not a Parquet file"),
        ("cut.csv.gz", gzip.compress(b"text,label\na,1\n", mtime=0)[:-12], "gzip"),
        ("mixed.txt", b"1 ||| a\n0 ||| b ||| c\n", "line 2 has 3 fields"),
    ],
)
def test_a_bad_file_is_an_error_that_says_where(write: Write, name: str, content: bytes, says: str) -> None:
    with pytest.raises(UserError) as raised:
        list(read_rows(write(name, content)))
    assert says in str(raised.value)
    assert name in str(raised.value)


def test_a_missing_file_and_an_unknown_encoding_are_named(write: Write, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.csv: no such file"):
        read_rows(tmp_path / "gone.csv")
    with pytest.raises(UserError, match="unknown encoding 'klingon'"):
        read_rows(write("it.csv", "text\na\n"), encoding="klingon")


@pytest.mark.parametrize("start", ["text,label\n", 'text,label\n"', '{"text": "', "1 ||| "])
def test_a_line_of_200_mb_is_refused_in_bounded_memory(write: Write, start: str) -> None:
    packed = gzip.compress(start.encode()) + gzip.compress(b"a" * 1_000_000) * 200
    path = write("it.csv.gz" if start[0] == "t" else "it.txt.gz", packed)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="longer than 20 MB"):
            list(read_rows(path))
        assert tracemalloc.get_traced_memory()[1] < 150_000_000
    finally:
        tracemalloc.stop()


def test_a_field_over_10_mb_is_refused(write: Write) -> None:
    with pytest.raises(UserError, match="10,000,000"):
        list(read_rows(write("it.csv", "text,label\n" + "a" * 10_000_001 + ",1\n")))
    with pytest.raises(UserError, match="row 1: column 'text'"):
        list(read_rows(write("it.jsonl", json.dumps({"text": "a" * 10_000_001}))))


def test_memory_does_not_grow_with_the_file(write: Write) -> None:
    path = write("it.csv", "text,label\n" + "some words to read,1\n" * 50_000)
    rows = iter(read_rows(path))
    next(rows)
    tracemalloc.start()
    try:
        assert sum(1 for _ in rows) == 49_999
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
