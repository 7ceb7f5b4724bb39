"""Two columns of texts: pairs that everyone names alike are read as pairs, others are a question to the person."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pocketbert.cli.check  # noqa: F401 - importing adds the command
from pocketbert.cli.app import app
from pocketbert.errors import UserError
from pocketbert.tasks import load_task

Write = Callable[..., Path]
KNOWN = [
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("Sentence 1", "Sentence 2"),
    ("SENTENCE_A", "SENTENCE_B"),
    ("question", "sentence"),
    ("text_a", "text_b"),
    ("Text1", "Text2"),
    ("question1", "question2"),
    ("query", "passage"),
    ("claim", "evidence"),
    ("#1 String", "#2 String"),
]


def lines(*cells: Callable[[int], str], count: int = 40) -> str:
    return "".join(",".join(f'"{cell(row)}"' for cell in cells) + "\n" for row in range(count))


def first(row: int) -> str:
    return f"the first text of row {row} has some words"


def second(row: int) -> str:
    return f"another text, number {row}, has others"


def label(row: int) -> str:
    return "yn"[row % 2]


@pytest.mark.parametrize(("one", "other"), KNOWN)
@pytest.mark.parametrize("swapped", [False, True])
def test_a_well_known_pair_of_names_is_read_as_a_pair_and_said(
    write: Write, one: str, other: str, swapped: bool
) -> None:
    cells = [(one, first), (other, second), ("label", label)]
    if swapped:
        cells.reverse()
    path = write("it.csv", ",".join(name for name, _ in cells) + "\n" + lines(*(cell for _, cell in cells)))
    task = load_task(path)
    assert task.pair
    assert task.train.texts[0].startswith("the first text")
    assert task.train.second_texts[0].startswith("another text")
    assert f"reading pairs from {one!r} and {other!r}" in task.notes[0]
    assert f"one text alone: --text {shlex.quote(one)}" in task.notes[0]


def test_three_fields_between_bars_are_a_label_and_a_pair(write: Write) -> None:
    path = write("it.txt", "".join(f"{label(n)} ||| {first(n)} ||| {second(n)}\n" for n in range(40)))
    assert load_task(path).pair


def test_one_text_of_a_known_pair_can_be_asked_for(write: Write) -> None:
    path = write("it.csv", "premise,hypothesis,label\n" + lines(first, second, label))
    single = load_task(path, text="hypothesis")
    assert not single.pair
    assert single.train.texts[0].startswith("another text")


@pytest.mark.parametrize("names", [("title", "body"), ("subject", "text"), ("Betreff", "Nachricht"), ("one", "two")])
def test_two_other_columns_of_texts_are_a_question(write: Write, names: tuple[str, str]) -> None:
    path = write("it.csv", f"{names[0]},{names[1]},label\n" + lines(first, second, label))
    with pytest.raises(UserError) as raised:
        load_task(path)
    said = str(raised.value)
    assert f"{names[0]!r}, {names[1]!r}" in said
    assert f"--text {names[0]}" in said
    assert f"--text {names[1]}" in said
    assert f"--text {names[0]} --text2 {names[1]}" in said
    assert not load_task(path, text=names[1]).pair
    assert load_task(path, text=names[0], text2=names[1]).pair


def test_the_question_is_exit_code_2_and_one_document(write: Write) -> None:
    path = write("it.csv", "title,body,label\n" + lines(first, second, label))
    done = CliRunner().invoke(app, ["check", str(path), "--json"])
    assert done.exit_code == 2
    assert "--text title --text2 body" in json.loads(done.stdout)["errors"][0]


@pytest.mark.parametrize(
    "beside",
    [
        lambda row: f"user-{row:05}",
        lambda row: str(row),
        lambda row: f"2024-01-{1 + row % 28:02} 12:{row % 60:02}:00 +0100 CET",
        lambda row: ["customer service and returns", "billing and payment of all kinds"][row % 3 // 2],
        lambda row: f"https://example.org/reviews/{row}",
        lambda row: f"Anna {chr(65 + row % 26)}. Berg",
        lambda row: "12.5 3.25 8.75 1.0 -4",
        lambda row: "a rare remark of the editor" if row == 7 else "",
    ],
)
@pytest.mark.parametrize("text", ["text", "Nachricht"])
def test_an_identifier_a_date_a_category_or_a_name_is_no_second_text(
    write: Write, beside: Callable[[int], str], text: str
) -> None:
    path = write("it.csv", f"beside,{text},label\n" + lines(beside, first, label, count=80))
    task = load_task(path, label="label")
    assert not task.pair
    assert task.train.texts[0].startswith("the first text")


def test_a_pair_by_name_whose_second_column_holds_numbers_is_none(write: Write) -> None:
    path = write("it.csv", "question,sentence,label\n" + lines(lambda row: str(row), second, label))
    task = load_task(path)
    assert not task.pair
    assert task.train.texts[0].startswith("another text")


def test_a_pair_without_its_second_text_says_how_to_read_one_column(write: Write) -> None:
    path = write(
        "it.csv", "premise,hypothesis,label\n" + lines(first, lambda row: "" if row == 5 else second(row), label)
    )
    with pytest.raises(UserError, match=r"row 6 .*no second text.*--text premise"):
        load_task(path)
