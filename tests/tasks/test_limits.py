"""What a file may hold has limits in bytes; what it holds beside the text does no harm; nothing waits on a pipe."""

import csv
import decimal
import gzip
import json
import os
import random
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pocketbert.embed import encode_file
from pocketbert.errors import UserError, listed, quote
from pocketbert.predict import predict_file
from pocketbert.runs import Run, train_run
from pocketbert.tasks import check_task, load_task, read_rows
from pocketbert.tasks.pages import look_at_pages, read_footer
from pocketbert.tasks.parquet import _unpacked

Write = Callable[..., Path]


@pytest.fixture
def run(reviews: Path, tmp_path: Path) -> Run:
    return train_run(load_task(reviews), "majority", tmp_path / "run")


def written(path: Path) -> list[list[str]]:
    csv.field_size_limit(10_000_000)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def films(rows: int = 40) -> dict[str, list]:
    return {"text": [f"film {row}" for row in range(rows)], "label": [row % 2 for row in range(rows)]}


# ------------------------------------------------------------ chunks, texts and what is held


def test_a_chunk_ends_at_so_many_rows_or_so_many_bytes(write: Write) -> None:
    small = write("small.csv", "text\n" + "a film\n" * 10_000)
    assert [len(chunk) for chunk in read_rows(small).chunks()] == [4_096, 4_096, 1_808]
    large = write("large.csv", "text\n" + ("b" * 3_000_000 + "\n") * 12)
    assert [len(chunk) for chunk in read_rows(large).chunks()] == [6, 6]
    nested = write("nested.jsonl", (json.dumps({"text": "a", "more": [[]] * 50_000}) + "\n") * 12)
    assert max(len(chunk) for chunk in read_rows(nested).chunks()) < 12


def test_predict_reads_the_beginning_of_a_long_text_and_writes_back_all_of_it(
    write: Write, run: Run, tmp_path: Path
) -> None:
    long = "long " * 40_000
    done = predict_file(run, write("it.csv", f"text\na film\n{long}\n"), tmp_path / "out.csv")
    assert written(tmp_path / "out.csv")[2][0] == long
    assert any("1 text is longer than 100,000 characters" in said for said in done["said"])


def test_a_method_sees_a_long_text_cut_and_check_says_so(write: Write) -> None:
    rows = "".join(f"film {row} {'and on ' * 20_000 if row < 3 else ''},{row % 2}\n" for row in range(40))
    task = load_task(write("it.csv", f"text,label\n{rows}"))
    assert max(len(text) for split in task.splits.values() for text in split.texts) == 100_000
    assert any("3 texts are longer than 100,000 characters" in said for said in check_task(task).warnings)


def test_more_text_than_memory_is_refused_and_the_row_is_named(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pocketbert.tasks.texts.MOST_HELD", 5_000_000)
    path = write("it.csv", "text,label\n" + "".join(f"film {row},{row % 2}\n" for row in range(40_000)))
    with pytest.raises(UserError, match=r"it\.csv: row \d+ .*more than 5 MB of text.*give a part"):
        load_task(path)


@pytest.mark.parametrize("name", ["it.csv", "it.jsonl", "it.txt"])
def test_blank_lines_without_end_are_refused(write: Write, name: str) -> None:
    first = b'{"text": "a"}' if name == "it.jsonl" else b"text"
    path = write(f"{name}.gz", gzip.compress(first + b"\n" * 2_000_000))
    with pytest.raises(UserError, match="blank lines for too long"):
        sum(1 for _ in read_rows(path))


def test_a_thousand_blank_lines_are_passed_over(write: Write) -> None:
    path = write("it.csv", "text\na" + "\n" * 1_000 + "b\n")
    assert [row["text"] for row in read_rows(path)] == ["a", "b"]


def test_a_row_over_several_lines_has_the_limits_of_one_line(write: Write) -> None:
    path = write("it.csv", "text,label\n" + ("ab," * 300_000 + '"\n",') * 3)
    with pytest.raises(UserError, match="line 2: the row that begins here has more than 500,000 fields"):
        list(read_rows(path))


def test_bars_with_a_million_spaces_between_them_are_split_at_once(write: Write) -> None:
    path = write("it.txt", f"1 ||| a{' ' * 1_000_000}b\n0 |||{' ' * 1_000_000}c\n")
    assert [row["text"] for row in read_rows(path)] == [f"a{' ' * 1_000_000}b", "c"]


def test_columns_have_a_number_and_names_have_a_length(write: Write) -> None:
    wide = write("it.jsonl", json.dumps({f"column {number}": 1 for number in range(10_001)}))
    with pytest.raises(UserError, match="10,001 columns; at most 10,000"):
        read_rows(wide)
    with pytest.raises(UserError, match=r"a column is named 'aaa.*\(1,001 characters\)"):
        read_rows(write("it.csv", "a" * 1_001 + ",label\n"))


def test_what_a_message_quotes_is_cut(write: Write) -> None:
    assert len(quote("a" * 10_000_000)) < 200
    assert len(listed(f"column {number}" * 100 for number in range(1_000))) < 5_000
    path = write("it.csv", "text,label\n" + "".join(f"film {row},{'no' * 5_000}{row % 2}\n" for row in range(9)))
    with pytest.raises(UserError, match="name the column of the labels") as raised:
        load_task(path)
    assert len(str(raised.value)) < 500


# ------------------------------------------------------------ what is no file, no text encoding, no character


def test_a_pipe_is_refused_and_never_waited_for(tmp_path: Path, run: Run) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for read in (
        lambda: load_task(pipe),
        lambda: predict_file(run, pipe, tmp_path / "out.csv"),
        lambda: encode_file(pipe, tmp_path / "out.npy", "pocket-tiny"),
    ):
        with pytest.raises(UserError, match=r"pipe\.csv: is a pipe, not a file"):
            read()


@pytest.mark.parametrize(
    "name",
    [
        *("utf-7", "UTF7", "idna", "punycode", "undefined", "unicode_escape", "raw-unicode-escape", "base64", "hex"),
        *("rot13", "zlib", "quopri", "mbcs", "", "utf-8\0", "\ud800", "../utf_8", "é" * 100_000),
    ],
)
def test_only_encodings_of_text_files_are_known(write: Write, name: str) -> None:
    with pytest.raises(UserError, match="unknown encoding") as raised:
        read_rows(write("it.csv", "text\na\n"), encoding=name)
    assert len(str(raised.value)) < 300


def test_half_a_character_is_read_as_a_lost_one_and_said(write: Write, run: Run, tmp_path: Path) -> None:
    path = write("it.jsonl", '{"text": "cut \\ud83d", "x": ["\\uDE00"]}\n{"text": "whole \\ud83d\\ude00", "x": 1}\n')
    assert [row["text"] for row in read_rows(path)] == ["cut \ufffd", "whole \U0001f600"]
    done = predict_file(run, path, tmp_path / "out.csv")
    assert written(tmp_path / "out.csv")[1][:2] == ["cut \ufffd", "['\ufffd']"]
    assert any("1 text has the sign \ufffd" in said for said in done["said"])


def test_a_file_name_that_is_not_utf8_names_a_task_that_can_be_written(reviews: Path, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv"))
    path.write_bytes(reviews.read_bytes())
    task = load_task(path)
    assert task.name == "caf\ufffd"
    task.origin.encode()
    assert train_run(task, "majority", tmp_path / "run").metadata["task"] == "caf\ufffd"


# ------------------------------------------------------------ Parquet


def not_utf8(rows: int = 40) -> pa.Array:
    return pa.array([b"caf\xe9 %d" % row for row in range(rows)]).view(pa.string())


def odd_columns() -> dict[str, pa.Array]:
    """Columns that Python cannot hold, or that hold no UTF-8."""
    return {
        "latin": not_utf8(),
        "when": pa.array(np.full(40, 2**62), pa.timestamp("ms")),
        "nanoseconds": pa.array(np.arange(40) + 1, pa.timestamp("ns")),
        "where": pa.array(np.arange(40), pa.timestamp("us", tz="Nowhere/Atall")),
        "day": pa.array(np.full(40, 2**30, np.int32), pa.date32()),
        "sum": pa.array([decimal.Decimal("1.50")] * 40),
        "tags": pa.array([["a", "b"]] * 40),
    }


@pytest.mark.parametrize("name", list(odd_columns()))
def test_columns_nobody_asked_for_do_no_harm(tmp_path: Path, name: str) -> None:
    path = tmp_path / "it.parquet"
    pq.write_table(pa.table({**films(), name: odd_columns()[name]}), path)
    assert len(load_task(path).train) == 32
    assert encode_file(path, tmp_path / "out.npy", "pocket-tiny")["rows"] == 40


def test_text_that_is_not_utf8_is_an_error_that_names_the_row(tmp_path: Path) -> None:
    path = tmp_path / "it.parquet"
    pq.write_table(pa.table({**films(), "latin": not_utf8()}), path)
    with pytest.raises(UserError, match="row 1: column 'latin', byte 4 is 0xE9, which is not UTF-8"):
        load_task(path, text="latin")


def test_predict_copies_the_columns_that_can_be_written(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "it.parquet"
    kept = {name: odd_columns()[name] for name in ("nanoseconds", "sum", "tags")}
    day = pa.array([datetime(2020, 5, 17)] * 40)
    pq.write_table(pa.table({**films(), **kept, "day": day, "none": pa.nulls(40)}), path)
    predict_file(run, path, tmp_path / "out.csv")
    first = written(tmp_path / "out.csv")[1]
    assert first[2:7] == ["1970-01-01 00:00:00.000000001", "1.50", "['a', 'b']", "2020-05-17 00:00:00", ""]


@pytest.mark.parametrize("name", ["latin", "where"])
def test_predict_names_a_column_that_cannot_be_written(tmp_path: Path, run: Run, name: str) -> None:
    path = tmp_path / "it.parquet"
    pq.write_table(pa.table({**films(), name: odd_columns()[name]}), path)
    with pytest.raises(UserError, match=f"column '{name}'.*write the file again"):
        predict_file(run, path, tmp_path / "out.csv")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_dictionary": False},
        {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY", "label": "DELTA_BINARY_PACKED"}},
        {"use_dictionary": False, "column_encoding": {"text": "DELTA_LENGTH_BYTE_ARRAY"}},
        {"data_page_version": "2.0", "data_page_size": 500, "write_batch_size": 10, "row_group_size": 1_000},
        {"compression": "none", "dictionary_pagesize_limit": 500, "write_batch_size": 10},
        {"compression": "lz4"},
        {"compression": "brotli"},
    ],
)
def test_the_headers_of_pages_are_those_that_were_written(tmp_path: Path, settings: dict) -> None:
    path = tmp_path / "it.parquet"
    texts = [f"film {row:04} {'é' * 20}" if row % 7 else None for row in range(5_000)]
    written = pa.table({"text": texts, "label": [row % 3 for row in range(5_000)]})
    pq.write_table(written, path, **settings)
    values = 0
    with path.open("rb") as file:
        for text, _ in read_footer(path, file):
            pages = look_at_pages(file, "it", text, _unpacked)
            values += pages.values
            assert pages.largest >= 40
            assert pages.largest < 60 or settings.get("column_encoding", {}).get("text") == "DELTA_BYTE_ARRAY"
    assert values == 5_000
    assert list(read_rows(path)) == written.to_pylist()


def test_a_page_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketbert.tasks.pages.MOST_IN_A_PAGE", 100_000)
    path = tmp_path / "it.parquet"
    pq.write_table(pa.table({"text": ["a" * 200_000], "label": [1]}), path)
    with pytest.raises(UserError, match="column 'text' has a page of 200,004 bytes; at most 100,000"):
        list(read_rows(path))
    assert list(read_rows(path).narrow("label")) == [{"label": 1}]


def test_memory_does_not_grow_with_a_group_of_rows_whose_dictionary_was_given_up(tmp_path: Path) -> None:
    path = tmp_path / "it.parquet"
    with pq.ParquetWriter(path, pa.schema([("text", pa.string())]), dictionary_pagesize_limit=1_000) as writer:
        writer.write_table(pa.table({"text": [f"{row:01000}" for row in range(60_000)]}), row_group_size=60_000)
    before = pa.total_allocated_bytes()
    most = max(pa.total_allocated_bytes() - before for _ in read_rows(path))
    assert most < 45_000_000


def test_any_damage_to_a_parquet_file_is_rows_or_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "it.parquet"
    chance = random.Random(0)
    for encoding in ("PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", None):
        coding = {"use_dictionary": True} if encoding is None else {"column_encoding": {"text": encoding}}
        pq.write_table(pa.table({**films(), "tags": [["a"]] * 40}), path, **{"use_dictionary": False, **coding})
        whole = path.read_bytes()
        for _ in range(150):
            damaged = bytearray(whole)
            for _ in range(chance.choice((1, 1, 4))):
                damaged[chance.randrange(len(damaged))] = chance.choice((0, 127, 128, 255, chance.randrange(256)))
            path.write_bytes(damaged)
            try:
                list(read_rows(path))
            except UserError as error:
                assert str(path) in str(error)  # noqa: PT017
