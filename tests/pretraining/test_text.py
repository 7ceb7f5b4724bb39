"""Raw text to documents and sentences."""

import gzip
import json
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketbert.errors import UserError
from pocketbert.pretraining import text
from pocketbert.pretraining.text import find_files, read_documents, split_document, split_sentences


@pytest.mark.parametrize(
    "sentence",
    [
        "Mr. J. R. Smith met Dr. Brown in the U.S. Army.",
        "It cost 3.50 in No. 5 of the series, i.e. Not much.",
        "He said (see Fig. 3) that it was fine.",
        "3. First thing on a list.",
    ],
)
def test_titles_initials_and_numbers_do_not_end_a_sentence(sentence):
    assert split_sentences(sentence) == [sentence]


def test_sentences_end_at_stops_before_capitals_and_quotes():
    found = split_sentences('It was 1990. "No. I will not!" Why? (Because.) He left... Then it ended. And he')
    assert found == [
        "It was 1990.",
        '"No.',
        'I will not!"',
        "Why?",
        "(Because.)",
        "He left...",
        "Then it ended.",
        "And he",
    ]


def test_hard_wrapped_lines_are_joined_and_verses_are_not():
    page = "The old ship went down in\nthe storm that came from the\nnorth. Nobody saw it go, and\nnobody asked.\n"
    assert split_document(page) == [
        "The old ship went down in the storm that came from the north.",
        "Nobody saw it go, and nobody asked.",
    ]
    verse = "Roses are red\nSugar is sweet\nViolets are blue and this line is much longer than it should be"
    assert len(split_document(verse)) == 3


def test_markup_controls_and_ornaments_go():
    assert split_document("Good.<br /><br />Bad\x07ly\tdone \u00a0 here.\n\n* * *\n-----\n") == [
        "Good.",
        "Badly done here.",
    ]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_no_letter_is_lost_and_nothing_is_invented(raw):
    def letters(value: str) -> str:
        return "".join(char for char in value if char.isalpha() and not char.isspace())

    raw = raw.replace("<", " ").translate(text._NO_CONTROLS)
    assert letters("".join(split_document(raw))) == letters("".join(p for p in raw.split("\n")))


def test_every_kind_of_file_gives_the_same_documents(tmp_path):
    documents = ["One is here. Two is there.", "Three now. Four then."]
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("\n\n\n".join(documents))
    (tmp_path / "b" / "c.jsonl").write_text("\n".join(json.dumps({"text": d, "label": 1}) for d in documents))
    (tmp_path / "b" / "d.jsonl.gz").write_bytes(
        gzip.compress("\n".join(json.dumps({"body": d}) for d in documents).encode(), mtime=0)
    )
    (tmp_path / "b" / "ignored.csv").write_text("a,b")
    files = find_files([tmp_path])
    assert [path.name for path in files] == ["a.txt", "c.jsonl", "d.jsonl.gz"]
    found = list(read_documents(files, ("text", "body")))
    assert found == [["One is here.", "Two is there."], ["Three now.", "Four then."]] * 3


def test_bad_files_are_named_with_their_place(tmp_path):
    def refused(name: str, content: bytes, fields=("text",)) -> str:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UserError, match=name) as caught:
            list(read_documents(find_files([path]), fields))
        return str(caught.value)

    assert "line 2, byte 4 is 0xE9" in refused("latin.txt", b"good line\ncaf\xe9\n")
    assert "NUL" in refused("binary.txt", b"\x7fELF\0\0\0")
    assert "line 2 is not JSON" in refused("bad.jsonl", b'{"text": "a"}\n{"text"\n')
    assert "it has: body" in refused("other.jsonl", b'{"body": "a"}\n')
    assert "no text but int" in refused("number.jsonl", b'{"text": 3}\n')
    assert "gzip data is damaged" in refused("cut.txt.gz", gzip.compress(b"some text " * 999, mtime=0)[:60])
    assert ".csv" in refused("table.csv", b"a,b")
    with pytest.raises(UserError, match="no such file"):
        find_files([tmp_path / "nothing.txt"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no .txt"):
        find_files([tmp_path / "empty"])


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "long.txt"
    with path.open("w") as file:
        for number in range(25_000):
            file.write(f"This is sentence number {number} of a long book.\n" + ("\n" if number % 7 == 0 else ""))
    tracemalloc.start()
    count = sum(len(document) for document in read_documents([path]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 25_000
    assert peak < 1_000_000 < path.stat().st_size


def test_texts_without_capitals_and_without_spaces_have_sentences_too():
    assert split_sentences("it was late. nobody came! why?") == ["it was late.", "nobody came!", "why?"]
    assert split_sentences("It was e.g. late. nobody came") == ["It was e.g. late. nobody came"]
    assert split_sentences("Было поздно. Никто не пришёл.") == ["Было поздно.", "Никто не пришёл."]
    assert split_sentences("天色已晚。没有人来！为什么？") == ["天色已晚。", "没有人来！", "为什么？"]


def test_what_is_too_long_for_a_sentence_is_cut_and_nothing_of_it_lost():
    words = "word " * 1_000
    pieces = split_sentences(words.strip())
    assert max(map(len, pieces)) <= 600
    assert " ".join(pieces) == words.strip()
    assert "".join(split_sentences("字" * 2_000)) == "字" * 2_000


def test_odd_runs_of_signs_take_no_longer_than_their_length():
    started = time.perf_counter()
    split_document("." * 200_000 + "A")
    split_document("<p" + " " * 200_000)
    split_document("\n" * 200_000)
    assert time.perf_counter() - started < 5
