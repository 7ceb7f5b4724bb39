"""study.json: what is written is read back the same, and what is not whole is refused in one line."""

import dataclasses
import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pocketbert.errors import UserError
from pocketbert.report import Document, read_document, render, write_document
from pocketbert.report import document as kinds
from pocketbert.values import Count, is_text

from .sample import bare, hostile, large, sample, wide

TEXT = st.text(max_size=20).filter(is_text)
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
SETTING = st.none() | st.booleans() | st.integers() | FLOAT | TEXT | st.lists(FLOAT | TEXT).map(tuple)
LEAVES = {
    str: TEXT,
    float: FLOAT,
    int: st.integers(),
    bool: st.booleans(),
    Count: st.integers(0, 2**62),
    kinds.Setting: SETTING,
    Any: st.none() | st.integers() | TEXT,
}


def anything(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a declared type."""
    if kind in LEAVES:
        return LEAVES[kind]
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        return st.fixed_dictionaries({name: anything(one) for name, one in hints.items()}).map(lambda it: kind(**it))
    inside = kind.__args__
    if getattr(kind, "__origin__", None) is tuple:
        return st.lists(anything(inside[0]), max_size=2).map(tuple)
    if getattr(kind, "__origin__", None) is dict:
        return st.dictionaries(TEXT, anything(inside[1]), max_size=2)
    return st.one_of(st.none() if one is type(None) else anything(one) for one in inside)


FIELDS = get_type_hints(Document, include_extras=True)
FREE = ("verdicts", "failures", "notes", "versions", "machine", "published", "probes", "predicted", "workers", "preset")


@pytest.mark.parametrize("make", [sample, hostile, wide, bare, lambda: large(5, 3)])
def test_what_is_written_is_read_back_the_same(make, tmp_path):
    document = make()
    write_document(document, tmp_path / "study.json")
    found = read_document(tmp_path / "study.json")
    assert found == document
    assert render(found) == render(document)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
def test_any_value_of_a_field_is_read_back_the_same(tmp_path, data):
    changed = {name: data.draw(anything(FIELDS[name]), name) for name in FREE}
    document = dataclasses.replace(sample(), **changed)
    task = document.tasks[0].name
    document = dataclasses.replace(
        document,
        comparisons=tuple(dataclasses.replace(data.draw(anything(kinds.ComparisonResult)), task=task) for _ in "ab"),
        mistakes=tuple(dataclasses.replace(data.draw(anything(kinds.Mistake)), task=task) for _ in "ab"),
        rows=tuple(_redrawn(row, data) for row in document.rows[:2]),
    )
    write_document(document, tmp_path / "study.json")
    assert read_document(tmp_path / "study.json") == document


def _redrawn(row: kinds.RowResults, data: st.DataObject) -> kinds.RowResults:
    hints = get_type_hints(kinds.RowResults, include_extras=True)
    tied = {"task", "seeds", "accuracy", "per_class", "confusion", "chosen", "folders"}  # these must fit each other
    return dataclasses.replace(
        row, **{name: data.draw(anything(hints[name]), name) for name in hints if name not in tied}
    )


def test_a_nul_and_half_a_character_are_written_as_the_sign_for_no_character(tmp_path):
    write_document(dataclasses.replace(sample(), name="a\0b\ud83dc"), tmp_path / "study.json")
    assert read_document(tmp_path / "study.json").name == "a\ufffdb\ufffdc"


def test_keys_of_the_file_are_those_that_scripts_read():
    content = sample().to_dict()
    assert content["format"] == 2
    assert content["rows"][0]["accuracy"]["mean"] == sample().rows[0].accuracy.mean
    assert content["rows"][0]["cost"]["seconds"] == 612.0
    assert content["comparisons"][0]["p_value"] == 0.0004
    assert content["mistakes"][1]["second_text"] == "a second text"
    assert content["tasks"][0]["notes"] == ["12 rows that are twice in train were taken once."]


def damage(content: dict[str, Any], place: str, value: Any) -> None:
    *path, last = [int(part) if part.isdigit() else part for part in place.split("/")]
    inside: Any = content
    for part in path:
        inside = inside[part]
    inside[last] = value


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        ("rows", None, "rows: None is not a list of objects"),
        ("rows/1/accuracy", {}, "rows, entry 2, accuracy, mean is missing"),
        ("rows/0/accuracy/mean", "much", "rows, entry 1, accuracy, mean: 'much' is not a number"),
        ("rows/0/cost/peak_memory_bytes", -1, "rows, entry 1, cost, peak_memory_bytes: -1 is not a whole number from"),
        ("rows/0/confusion", [[1]], "row 'finetune minilm-l6': the confusion of 2 labels is no table of 2 x 2"),
        ("rows/0/folders", [], "row 'finetune minilm-l6': its scores, choices and folders are not one per seed"),
        ("rows/0/per_class", {}, "row 'finetune minilm-l6': the confusion of 0 labels is no table of 0 x 0"),
        ("tasks/0/labels", ["good", "bad"], "row 'finetune minilm-l6': its labels are not those of its task"),
        ("comparisons/0/task", "films", "'films' is not among its tasks"),
        ("mistakes/0/text", 7, "mistakes, entry 1, text: 7 is not text"),
        ("machine", [], "machine: the list [] is not an object"),
    ],
)
def test_a_damaged_document_is_refused_in_one_line_that_says_where(place, value, told, tmp_path):
    content = sample().to_dict()
    damage(content, place, value)
    path = tmp_path / "study.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError) as refused:
        read_document(path)
    assert str(refused.value).startswith(f"{path}: damaged: {told}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("key", [field.name for field in dataclasses.fields(kinds.RowResults)])
def test_a_row_without_one_of_its_fields_is_refused(key, tmp_path):
    content = sample().to_dict()
    del content["rows"][0][key]
    (tmp_path / "study.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=f"damaged: rows, entry 1, {key} is missing"):
        read_document(tmp_path / "study.json")


def test_what_a_newer_version_added_beside_is_ignored(tmp_path):
    content = sample().to_dict()
    content["rows"][0]["mood"] = "calm"
    (tmp_path / "study.json").write_text(json.dumps(content))
    assert read_document(tmp_path / "study.json") == sample()


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (1, r"made by an older pocketbert \(format 1\); run the study again: its finished runs are kept"),
        (7, r"made by a newer pocketbert \(format 7\); update this one"),
        ("2", "damaged: format: '2' is not a whole number"),
    ],
)
def test_another_format_is_refused_with_what_to_do(number, told, tmp_path):
    content = {**sample().to_dict(), "format": number}
    (tmp_path / "study.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=told):
        read_document(tmp_path / "study.json")


def test_what_is_no_document_is_refused(tmp_path):
    path: Path = tmp_path / "study.json"
    for content in ("[]", "7", "{", "", '{"format": 2}'):
        path.write_text(content)
        with pytest.raises(UserError, match=r"study\.json: "):
            read_document(path)
