"""The checks see what would spoil a result, say what will happen, and take linear time."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pocketbert.tasks import Split, Task, check_task, load_task
from pocketbert.tokenizer import Tokenizer
from pocketbert.vocabulary import SPECIAL_TOKENS

Write = Callable[..., Path]


def make(train: list[tuple[str, int]], test: list[tuple[str, int]] | None = None, names: str = "ab") -> Task:
    def split(rows: list[tuple[str, int]]) -> Split:
        return Split([text for text, _ in rows], None, np.array([label for _, label in rows], dtype=np.int64))

    splits = {"train": split(train)} | ({"test": split(test)} if test else {})
    return Task("made", tuple(names), splits, pair=False)


def fine(count: int = 40) -> list[tuple[str, int]]:
    return [(f"text number {row}", row % 2) for row in range(count)]


def test_a_fine_task_has_nothing_said_against_it() -> None:
    found = check_task(make(fine()))
    assert (found.errors, found.warnings) == ([], [])
    train = found.to_dict()["splits"]["train"]
    assert train["rows"] == 40
    assert train["labelled"] is True
    assert train["balance"] == {"a": 20, "b": 20}
    assert train["tokens"]["unit"] == "words"
    assert train["tokens"]["p50"] == train["tokens"]["max"] == 3


@pytest.mark.parametrize(
    ("train", "test", "says"),
    [
        ([*fine(), ("", 0)], None, "train: 1 row has an empty text"),
        ([*fine(), ("Text number 1!", 1)], None, "train: 1 row repeats an earlier text"),
        ([*fine(), ("text number 1", 0)], None, "1 text has two different labels"),
        (fine(), [("TEXT number 1.", 1), ("new", 0)], "1 text is in both train and test"),
        ([*fine(), ("cafÃ© au lait", 0)], None, "train: 1 row has signs of damaged encoding"),
        ([*fine(), ("caf\ufffd au lait", 0)], None, "train: 1 row has signs of damaged encoding"),
        ([*fine(), ("word " * 200, 0)], None, "train: 2.4% of texts are longer than 128 words"),
        ([*fine(), ("odd one", 2)], None, "train: labels with one example: too few to learn from: 'c'"),
        (
            [("a", 0), *((f"t {n}", 1) for n in range(30)), ("b", 0)],
            None,
            "always saying 'b' is right in 94%",
        ),
    ],
)
def test_what_would_spoil_a_result_is_a_warning(
    train: list[tuple[str, int]], test: list[tuple[str, int]] | None, says: str
) -> None:
    found = check_task(make(train, test, names="abc" if "'c'" in says else "ab"))
    assert found.errors == []
    assert any(says in warning for warning in found.warnings), found.warnings


def counted(prefix: str, counts: dict[int, int]) -> list[tuple[str, int]]:
    return [(f"{prefix} {label} {row}", label) for label, count in counts.items() for row in range(count)]


def test_classes_of_very_different_sizes_are_said() -> None:
    found = check_task(make(counted("text", {0: 192, 1: 38, 2: 65, 3: 25}), names="abcd"))
    (said,) = found.warnings
    assert "'a' has 192 examples, 'd' 25" in said
    assert "always saying 'a' is right in 60%" in said
    assert check_task(make(counted("text", {0: 60, 1: 40}))).warnings == []


def test_a_class_with_a_handful_of_scored_rows_is_said() -> None:
    train, test = counted("text", {0: 40, 1: 40, 2: 40}), counted("other", {0: 20, 1: 17, 2: 3})
    (said,) = check_task(make(train, test, names="abc")).warnings
    assert said.startswith("test: few rows to score: 'c' 3")
    (said,) = check_task(make(train, counted("other", {0: 20, 1: 17}), names="abc")).warnings
    assert "'c' 0" in said


def test_one_label_in_several_spellings_is_said() -> None:
    rows = [(f"text number {row}", row % 3) for row in range(60)]
    (said,) = check_task(Task("made", ("No", "Yes", "yes"), make(rows).splits, pair=False)).warnings
    assert "differ in spelling alone: 'Yes' 20, 'yes' 20" in said
    numbers = [(f"text number {row}", row % 2) for row in range(40)]
    assert check_task(Task("made", ("-1", "1"), make(numbers).splits, pair=False)).warnings == []


def test_real_accents_are_not_damage() -> None:
    found = check_task(make([*fine(), ("Ãlesund são ñandú café «â»", 0)]))
    assert found.splits["train"].damaged == 0


@pytest.mark.parametrize(
    ("rows", "names", "says"),
    [
        ([("a", 0), ("b", 0)], "ab", "one class only (a)"),
        ([(" ", 0), ("", 1)], "ab", "every text is empty"),
        (
            [(f"text {n}", n) for n in range(30)],
            "".join(map(chr, range(97, 127))),
            "30 different labels in 30 rows",
        ),
    ],
)
def test_what_stops_training_is_an_error(rows: list[tuple[str, int]], names: str, says: str) -> None:
    assert any(says in error for error in check_task(make(rows, names=names)).errors)


def test_an_identifier_taken_for_the_text_is_suspicious(write: Write) -> None:
    path = write("it.csv", "id,kind\n" + "".join(f"x{n:05},{'ab'[n % 2]}\n" for n in range(50)))
    found = check_task(load_task(path, text="id", label="kind"))
    assert any("is it an identifier?" in warning for warning in found.warnings)


def test_a_column_that_determines_the_label_is_suspicious(write: Write) -> None:
    lines = "".join(f"some text {n},{'ab'[n % 2]},{n % 4},{n % 3}\n" for n in range(60))
    found = check_task(load_task(write("it.csv", "text,label,code,other\n" + lines)))
    assert [warning for warning in found.warnings if "determines the label" in warning and "'code'" in warning]
    assert not any("'other'" in warning for warning in found.warnings)


def test_lengths_are_tokens_when_a_tokenizer_is_given() -> None:
    tokenizer = Tokenizer.from_tokens([*SPECIAL_TOKENS, "text", "number", *map(str, range(10)), "##1"])
    tokens = check_task(make(fine(12)), tokenizer, max_length=5).splits["train"].tokens
    assert tokens["unit"] == "tokens"
    assert tokens["p50"] == 5  # [CLS] text number 7 [SEP]
    assert tokens["max"] == 6  # [CLS] text number 1 ##1 [SEP]
    assert tokens["truncated_share"] == round(1 / 12, 4)


def test_checks_take_linear_time() -> None:
    def seconds(count: int) -> float:
        task = make([(f"text {row} of many words", row % 2) for row in range(count)], fine())
        best = []
        for _ in range(3):
            start = time.perf_counter()
            check_task(task)
            best.append(time.perf_counter() - start)
        return min(best)

    assert seconds(40_000) < 12 * seconds(10_000)  # four times the rows; quadratic would be sixteen times the time
