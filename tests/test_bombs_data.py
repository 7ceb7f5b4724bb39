"""Small files that unpack to gigabytes, or hold one thing a million times: refused or read, always below a gigabyte."""

import gzip
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from limits import Ended, limited

from pocketbert.tasks import load_task
from pocketbert.train import train_run

MOST = 1_000_000_000
MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Bomb:
    """A file, how to make it, and what each command says of it; an empty word: it is read to its end."""

    file: str
    make: Callable[[Path], object]
    check: str | None = None  # None: not tried
    baseline: str | None = None
    frozen: str | None = None


def packed(*parts: tuple[bytes, int]) -> Callable[[Path], object]:
    """A gzip file of these pieces, each so many times."""

    def make(path: Path) -> None:
        with path.open("wb") as file:
            for piece, times in parts:
                unit = gzip.compress(piece, mtime=0)
                for _ in range(times):
                    file.write(unit)

    return make


def many(text: str, times: int, start: str = "", end: str = "") -> Callable[[Path], object]:
    return lambda path: path.write_text(start + text * times + end)


def table(columns: Callable[[], dict], **settings) -> Callable[[Path], object]:
    return lambda path: pq.write_table(pa.table(columns()), path, compression="zstd", **settings)


def repeated(text: str, rows: int):
    """One string for all rows, once in the file."""
    return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [text])


def halves(rows: int) -> list[str]:
    return ["yes", "no"] * (rows // 2)


def films(rows: int) -> list[str]:
    return [f"film {row}" for row in range(rows)]


def deep(levels: int):
    kind = pa.string()
    for _ in range(levels):
        kind = pa.struct([("a", kind)])
    return pa.nulls(1, kind)


def signs(path: Path) -> None:
    """Words that are all different, and each a hundred pieces to a tokenizer."""
    chance = random.Random(0)
    with path.open("w") as file:
        file.write("text,label\n")
        for row in range(1_500):
            words = ("".join(chance.choices("!#$%&()*+-./:;<=>?@[]^_`{|}~", k=99)) for _ in range(50))
            file.write(f"{' '.join(words)},{row % 2}\n")


def labels_apart(path: Path) -> None:
    with path.open("w") as file:
        file.write("text,label\n")
        file.writelines(f"film {row},label number {row % 50_000}\n" for row in range(150_000))


def packed_parquet(path: Path) -> None:
    """A Parquet file with a gigabyte of nothing in its middle."""
    whole = path.with_suffix(".tmp")
    pq.write_table(pa.table({"text": ["a", "b"], "label": [0, 1]}), whole)
    packed((whole.read_bytes()[:4], 1), (bytes(10 * MEGABYTE), 100), (whole.read_bytes()[4:], 1))(path)


LONG = "a film that goes on and on, " * 3_500  # 98 kB
BLANK = b"\n" * (10 * MEGABYTE)
BOMBS = {
    "a gigabyte of newlines": Bomb("it.csv.gz", packed((BLANK, 100)), check="blank lines", baseline="blank lines"),
    "newlines below a header": Bomb(
        "it.csv.gz", packed((b"text,label\n", 1), (BLANK, 100)), check="blank lines", baseline="blank lines"
    ),
    "newlines among objects": Bomb(
        "it.jsonl.gz", packed((b'{"text": "a", "label": 1}\n', 1), (BLANK, 100)), check="blank lines"
    ),
    "newlines among plain lines": Bomb("it.txt.gz", packed((b"a film\n", 1), (BLANK, 100)), baseline="blank lines"),
    "a quoted field of newlines": Bomb("it.csv.gz", packed((b'text,label\n"', 1), (BLANK, 100)), check="blank lines"),
    "lines of spaces": Bomb(
        "it.csv.gz", packed((b"text\na\n", 1), (b" " * 999_999 + b"\n", 1000)), baseline="blank lines"
    ),
    "a gigabyte of spaces": Bomb("it.csv.gz", packed((b"text\n", 1), (b" " * (10 * MEGABYTE), 100)), baseline="20 MB"),
    "a gigabyte of zeros": Bomb("it.csv.gz", packed((bytes(10 * MEGABYTE), 100)), check="20 MB"),
    "rows of 98 kB": Bomb(
        "it.csv.gz",
        packed((b"text,label\n", 1), (f'"{LONG}",1\n"{LONG}",0\n'.encode(), 200)),
        check="too few rows",
        frozen="",
    ),
    "rows of 98 kB, of which one letter is wide": Bomb(
        "it.csv.gz",
        packed((b"text,label\n", 1), (f'"{LONG}\U0001f600",1\n"{LONG}\U0001f600",0\n'.encode(), 1_500)),
        check="MB of text",
        baseline="",
    ),
    "texts of 5 MB": Bomb("it.csv", many(f'"{"!" * 5_000_000}",1\n', 10, "text,label\n"), baseline="", frozen=""),
    "words of a hundred pieces": Bomb("it.csv", signs, check=""),
    "fifty million tiny rows": Bomb(
        "it.csv.gz", packed((b"text,label\nb,0\n", 1), (b"a,1\n" * 2_500_000, 20)), check="MB of text"
    ),
    "a million columns": Bomb(
        "it.csv", lambda path: path.write_text(",".join(f"c{i}" for i in range(1_000_000))), check="fields"
    ),
    "twenty thousand columns": Bomb(
        "it.csv", lambda path: path.write_text(",".join(f"c{i}" for i in range(20_000))), baseline="20,000 columns"
    ),
    "a column's name of 9 MB": Bomb("it.csv", many("a", 9_000_000, "", ",label\nb,1\n"), check="a column is named"),
    "a row of fields without end": Bomb(
        "it.csv.gz", packed((b"text,label\n", 1), (b"ab," * 3_000_000 + b'"\n",', 100)), check="is a quote missing"
    ),
    "a quoted field without end": Bomb(
        "it.csv.gz", packed((b'text,label\n"', 1), (b"film,1\n" * 1_000_000, 100)), baseline="is a quote missing"
    ),
    "an object of a million fields": Bomb(
        "it.jsonl",
        lambda path: path.write_text(json.dumps({f"c{i}": 1 for i in range(1_000_000)})),
        check="500,000 values",
    ),
    "millions of objects in a row": Bomb(
        "it.jsonl", many('{"":0},', 2_800_000, '{"text": "a", "x": [', "0]}"), baseline="500,000 values"
    ),
    "rows of nested lists": Bomb(
        "it.jsonl", many('{"text": "a", "label": 1, "x": [' + "[]," * 100_000 + "0]}\n", 20), baseline=""
    ),
    "a list in a list in a list": Bomb(
        "it.jsonl", many("[", 900, '{"text": "a", "label": 1, "x": ', "]" * 900 + "}"), baseline="within one another"
    ),
    "a label of 9 MB": Bomb("it.csv", many("b", 9_000_000, "text,label\na,0\na,", "\n"), check="characters"),
    "fifty thousand labels": Bomb("it.csv", labels_apart, check="different labels"),
    "spaces between bars": Bomb(
        "it.txt", many(" ", 9_000_000, "1 ||| a", "b\n0 ||| c\n"), check="too few", baseline=""
    ),
    "Parquet: one string of 9 MB, a hundred thousand times": Bomb(
        "it.parquet",
        table(lambda: {"text": repeated("a" * 9_000_000, 100_000), "label": halves(100_000)}),
        check="MB of text",
    ),
    "Parquet: one string of 9 MB, sixty times": Bomb(
        "it.parquet", table(lambda: {"text": repeated("a " * 4_500_000, 60), "label": halves(60)}), baseline=""
    ),
    "Parquet: one string of 9 MB in a column nobody asked for": Bomb(
        "it.parquet",
        table(lambda: {"text": films(2_000), "x": repeated("a " * 4_500_000, 2_000), "label": halves(2_000)}),
        check="",
    ),
    "Parquet: a page of 300 MB": Bomb(
        "it.parquet",
        table(
            lambda: {"text": ["a" * 4_000_000] * 75, "label": ["yes"] * 75},
            use_dictionary=False,
            data_page_size=1 << 30,
        ),
        check="smaller pages",
        baseline="smaller pages",
    ),
    "Parquet: strings that repeat the one before": Bomb(
        "it.parquet",
        table(
            lambda: {"text": ["a" * 900_000] * 100, "label": halves(100)},
            use_dictionary=False,
            column_encoding={"text": "DELTA_BYTE_ARRAY"},
        ),
        check="too few rows",
        baseline="",
    ),
    "Parquet: a page of twenty million lengths": Bomb(
        "it.parquet",
        table(
            lambda: {"text": pa.array([""]).take(pa.array(np.zeros(20_000_000, np.int32)))},
            use_dictionary=False,
            column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"},
            write_batch_size=20_000_000,
            row_group_size=20_000_000,
            data_page_size=1 << 30,
            max_rows_per_page=20_000_000,
        ),
        baseline="20,000,000 values",
    ),
    "Parquet: twenty million rows": Bomb(
        "it.parquet",
        table(lambda: {"text": repeated("a film", 20_000_000), "label": repeated("yes", 20_000_000)}),
        check="MB of text",
    ),
    "Parquet: a list of thirty million numbers": Bomb(
        "it.parquet",
        table(
            lambda: {
                "text": ["a"],
                "x": pa.ListArray.from_arrays([0, 30_000_000], pa.array(np.zeros(30_000_000, np.int8))),
            }
        ),
        baseline="too many to copy",
    ),
    "Parquet: a list of one string of 9 MB": Bomb(
        "it.parquet",
        table(
            lambda: {
                "text": ["a"],
                "x": pa.ListArray.from_arrays([0, 1_000], repeated("a" * 9_000_000, 1_000)),
            }
        ),
        baseline="too many to copy",
    ),
    "Parquet: twenty thousand columns": Bomb(
        "it.parquet", table(lambda: {f"c{i}": [1] for i in range(20_000)}), check="its footer is"
    ),
    "Parquet: a structure of nine hundred levels": Bomb(
        "it.parquet", table(lambda: {"text": ["a"], "x": deep(900)}), baseline="deeply nested"
    ),
    "Parquet: gzipped, with a gigabyte of zeros": Bomb("it.parquet.gz", packed_parquet, check="unpack it first"),
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A run that looks at no text, to see what reading and writing take, and one with a tokenizer."""
    folder = tmp_path_factory.mktemp("runs")
    texts = folder / "films.csv"
    texts.write_text("text,label\n" + "".join(f"a {'good' if i % 2 else 'bad'} film {i},{i % 2}\n" for i in range(40)))
    task = load_task(texts)
    train_run(task, "majority", folder / "baseline")
    train_run(task, "frozen", folder / "frozen", model="pocket-tiny")
    return {"baseline": folder / "baseline", "frozen": folder / "frozen"}


TRIES = [
    (name, by)
    for name, bomb in BOMBS.items()
    for by in ("check", "baseline", "frozen")
    if getattr(bomb, by) is not None
]


# Each takes seconds: every third in the ordinary suite, the others with the slow tests.
SOME = [
    pytest.param(name, by, id=f"{name} ({by})", marks=[pytest.mark.slow] if number % 3 else [])
    for number, (name, by) in enumerate(TRIES)
]


@pytest.mark.parametrize(("name", "by"), SOME)
def test_a_bomb_is_read_or_refused_below_a_gigabyte(name: str, by: str, runs: dict[str, Path], tmp_path: Path) -> None:
    bomb = BOMBS[name]
    path = tmp_path / bomb.file
    bomb.make(path)
    out = tmp_path / "out.csv"
    command = ["check", path] if by == "check" else ["predict", runs[by], path, "--text", "text", "--out", out]
    ended = limited(*command, home=tmp_path)
    assert fine(ended), ended.err[-2_000:]
    assert ended.peak < MOST
    said = getattr(bomb, by)
    assert said in ended.err
    assert (ended.code == 2) == bool(said), ended.err[-2_000:]


def fine(ended: Ended) -> bool:
    """It read to the end, or refused; and said so in a few words."""
    return (ended.code == 0 or ended.refused()) and not ended.timed_out and len(ended.err) < 5_000


def test_a_pipe_is_refused_by_the_commands_and_with_json_in_one_document(runs: dict[str, Path], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    for command in (
        ["check", pipe],
        ["predict", runs["baseline"], pipe, "--out", tmp_path / "out.csv"],
        ["evaluate", runs["baseline"], pipe],
    ):
        ended = limited(*command, "--json", home=tmp_path, seconds=30)
        assert ended.refused(), ended.err
        assert "is a pipe" in json.dumps(ended.document)
