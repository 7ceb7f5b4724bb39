"""Tasks from memory are the tasks that files would have given; pandas is for these tests, the package imports none."""

import csv
import os
import subprocess
import sys

import numpy as np
import pandas
import pytest

from pocketbert.errors import UserError
from pocketbert.study import Study
from pocketbert.tasks import load_task

TEXTS = [f'a {word} film, "number" {n}\nin two lines' for n in range(30) for word in ("fine", "dull")]
LABELS = ["good", "bad"] * 30
SECOND = [f"it is day {n}" for n in range(60)]


class Frame:
    """No DataFrame of any package, but it has what is asked for."""

    def __init__(self, **columns):
        self.columns, self._values = list(columns), columns

    def __getitem__(self, name):
        return self._values[name]


def of_a_file(path, columns: dict, **named):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return load_task(path, **named)


def same(one, other) -> bool:
    assert (one.labels, one.pair, list(one.splits)) == (other.labels, other.pair, list(other.splits))
    assert one.whole.texts == other.whole.texts
    return all(one.fingerprint(name) == other.fingerprint(name) for name in one.splits)


@pytest.mark.parametrize("make", [pandas.DataFrame, lambda columns: Frame(**columns)], ids=["pandas", "any"])
def test_a_frame_is_the_task_that_its_file_would_be(make, tmp_path):
    columns = {"id": list(range(60)), "text": TEXTS, "label": LABELS}
    task = load_task(make(columns))
    assert same(task, of_a_file(tmp_path / "films.csv", columns))
    assert task.name == "table"
    assert task.notes[0].startswith("table: reading the text from 'text' and the label from 'label'; not read: 'id'")
    assert task.about_splits[0].startswith("one table was given, so it was split")
    assert load_task(make(columns), name="films", text="text", label="label").name == "films"


def test_lists_are_a_task_and_so_are_arrays_and_columns(tmp_path):
    expected = of_a_file(tmp_path / "films.csv", {"text": TEXTS, "label": LABELS})
    frame = pandas.DataFrame({"text": TEXTS, "label": pandas.Categorical(LABELS)})
    for given in ((TEXTS, LABELS), (np.array(TEXTS), np.array(LABELS)), (frame["text"], frame["label"])):
        assert same(load_task(given), expected)
    pairs = of_a_file(tmp_path / "pairs.csv", {"a": TEXTS, "b": SECOND, "c": LABELS}, text="a", text2="b", label="c")
    assert same(load_task((TEXTS, LABELS, SECOND)), pairs)


def test_labels_may_be_numbers_and_some_may_be_missing():
    labels = [*[1, 0] * 29, None, float("nan")]
    for given in (labels, pandas.array(labels, dtype="Int64"), pandas.Series(labels)):
        task = load_task(pandas.DataFrame({"text": TEXTS, "label": given}), name="films")
        assert task.labels == ("0", "1")
        assert len(task.whole) == 58
        assert any(note.startswith("films: 2 of 60 rows have no label") for note in task.notes)


def test_three_frames_are_train_dev_and_test():
    frames = [pandas.DataFrame({"text": [f"{part} {t}" for t in TEXTS], "label": LABELS}) for part in "abc"]
    task = load_task(frames, name="films")
    assert {name: split.texts[0][0] for name, split in task.splits.items()} == {"train": "a", "dev": "b", "test": "c"}
    with pytest.raises(UserError, match="2 tables were given; give one, or three"):
        load_task(frames[:2])
    frames[2] = frames[2].rename(columns={"text": "txt"})
    with pytest.raises(UserError, match="column 'text' not in table, test; it has: 'txt'"):
        load_task(frames)


@pytest.mark.parametrize(
    ("source", "named", "says"),
    [
        (pandas.DataFrame({"a": ["x"] * 9, "b": ["y"] * 9}), {}, "^table: cannot tell which column is the"),
        (pandas.DataFrame({"text": TEXTS, "label": LABELS}), {"label": "lable"}, "'lable'.*it has: "),
        (pandas.DataFrame({"text": [], "label": []}), {}, "the table is empty"),
        (pandas.DataFrame([["x", "y", "z"]] * 9, columns=["text", "label", "text"]), {}, "two columns .* 'text'"),
        (Frame(text=TEXTS[:9], label=LABELS[:3]), {}, "columns of 9 and 3 rows"),
        ((TEXTS, LABELS[:5]), {}, "have 60, 5 entries"),
        ((TEXTS, LABELS), {"label": "label"}, "lists have none"),
        ((TEXTS, ["one"] * 60), {}, "one class only"),
        (([None, *TEXTS[1:]], LABELS), {}, "row 1 has no text"),
        (("a.csv", "b.csv", "c.csv"), {}, "a.csv: no such file"),
        ("movies", {"name": "films"}, "name 'films'"),
    ],
)
def test_what_is_no_task_is_refused_in_words_about_the_table(source, named, says):
    with pytest.raises(UserError, match=says) as refused:
        load_task(source, **named)
    assert "jsonl" not in str(refused.value)
    assert "/" not in str(refused.value)


def test_a_study_takes_a_frame_or_lists_alone_or_among_others(tmp_path):
    frame = pandas.DataFrame({"text": TEXTS, "label": LABELS})
    given = {"models": [], "methods": ["tfidf"], "folds": 2, "out": tmp_path / "study"}
    assert list(Study(frame, **given).tasks) == ["table"]
    assert list(Study((TEXTS, LABELS), **given).tasks) == ["table"]
    assert list(Study([frame, load_task((TEXTS, LABELS), name="lists")], **given).tasks) == ["table", "lists"]
    with pytest.raises(UserError, match="two tasks are called table; .*name="):
        Study([frame, frame], **given)
    plan = Study((TEXTS, LABELS), **given).plan()
    assert {run.task for run in plan.runs} == {"table"}
    assert len(plan.folds["table"].rows) == 60


def test_nothing_is_left_on_disk_and_pandas_is_not_imported(tmp_path):
    program = (
        "import os, sys, tempfile\n"
        "import pocketbert as pb\n"
        "from pocketbert.tasks import load_task\n"
        "load_task(([f'a film {n}' for n in range(40)], ['a', 'b'] * 20))\n"
        "print(os.listdir(tempfile.gettempdir()), 'pandas' in sys.modules)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[] False"
