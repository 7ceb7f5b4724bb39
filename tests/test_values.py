"""Values are held against declared types: what is wrong is named, and what is right comes back."""

import dataclasses
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketbert.errors import UserError
from pocketbert.files import write_json
from pocketbert.values import Between, Entries, OneOf, held, read_object

Epochs = Annotated[int, Between(1, 100_000)] | None
Rates = Annotated[float, Between(0, 10, above=True, below=True)]


@pytest.mark.parametrize(
    ("value", "kind", "says"),
    [
        (0, Epochs, "it: 0 is not a whole number from 1 to 100,000"),
        (True, Epochs, "it: True is not a whole number from 1 to 100,000"),
        (10**400, Epochs, "0… is not a whole number from 1 to 100,000"),
        (10**400, float, "0… is not a number"),
        (float("nan"), float, "it: nan is not a number"),
        (0.0, Rates, "it: 0.0 is not a number above 0 and below 10"),
        ([1.0, "a"], tuple[Rates, ...], "it, entry 2: 'a' is not a number above 0 and below 10"),
        ("cls ", Annotated[str, OneOf(("cls", "mean"))], "it: 'cls ' is not known; known are cls, mean"),
        (["a", "a"], Annotated[tuple[str, ...], Entries(2, 9, distinct=True)], "with 2 to 9 entries, none twice"),
        ("half a \ud83d", str, "it: 'half a \\ud83d' is not text"),
        ({"a": 1}, str | tuple[str, ...], "it: the object {'a': 1} is not text or a list of texts"),
        ("x" * 1_000, int, "…"),
    ],
)
def test_what_is_wrong_is_said_in_one_short_line(value, kind, says):
    with pytest.raises(UserError) as caught:
        held(value, kind, "it")
    assert says in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_number_too_long_to_be_written_is_still_refused():
    digits = "a number of thousands of digits"
    for value, says in ((10**5_000, digits), ([10**5_000], f"the list with {digits}")):
        with pytest.raises(UserError, match=f"epochs: {says}.* is not a whole number"):
            held(value, Epochs, "epochs")


def test_what_is_right_comes_back():
    assert held(None, Epochs, "it") is None
    assert held([0.5, 1], tuple[Rates, ...], "it") == (0.5, 1.0)
    assert type(held(1, Rates, "it")) is float
    assert held({"a": [True]}, dict[str, tuple[bool, ...]], "it") == {"a": (True,)}


class Thing(TypedDict):
    format: int
    files: dict[str, Annotated[int, Between(0, 10)]]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "damaged: it: the list [] is not an object"),
        ({"format": 1}, "damaged: files is missing"),
        ({"format": 3, "else": 3}, "made by a newer pocketbert (format 3); update this one"),
        ({"format": 1, "files": {"a": 11}}, "damaged: files, 'a': 11 is not a whole number from 0 to 10"),
    ],
)
def test_an_object_of_another_shape_is_damaged_and_one_of_a_later_format_is_newer(tmp_path, content, says):
    write_json(tmp_path / "it.json", content)
    with pytest.raises(UserError) as caught:
        read_object(tmp_path / "it.json", Thing)
    assert str(caught.value) == f"{tmp_path / 'it.json'}: {says}"


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(anything, st.sampled_from([Epochs, Rates, str, bool, tuple[str, ...], dict[str, int], Thing, str | int, Any]))
def test_any_value_is_held_or_refused_in_one_line(value, kind):
    said = ""
    try:
        held(value, kind, "it")
    except UserError as error:
        said = str(error)
    assert "\n" not in said


@dataclasses.dataclass(frozen=True)
class Point:
    x: float
    names: tuple[str, ...] = ()


def test_an_object_becomes_the_dataclass_it_describes_and_defaults_may_be_missing():
    assert held({"a": [{"x": 1, "names": ["b"]}, {"x": 2}]}, dict[str, tuple[Point, ...]], "it") == {
        "a": (Point(1.0, ("b",)), Point(2.0))
    }
    assert held(None, Point | None, "it") is None
    with pytest.raises(UserError, match="^points, entry 2, x is missing$"):
        held([{"x": 1}, {}], tuple[Point, ...], "points")
    with pytest.raises(UserError, match="^point, x: 'one' is not a number$"):
        held({"x": "one"}, Point, "point")
