"""Every lesson checks itself, is quick, names a common mistake and is drawn; its committed page is what it makes."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import REPOSITORY

from pocketbert.lessons import list_lessons
from pocketbert.lessons.lesson import LessonPage
from pocketbert.lessons.pages import page_files

NAMES = list(list_lessons())
ASKED = {"layernorm", "softmax", "attention", "heads", "positions", "xor", "linear-collapse", "vanishing", "decoding"}
ASKED |= {"parameters", "mlm", "forgetting", "bert-facts"}
SVG = "{http://www.w3.org/2000/svg}"
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


def test_the_lessons_of_the_theory_are_there():
    assert set(NAMES) >= ASKED


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_holds_and_shows_how(name, pages):
    page = pages[name]
    assert [check.claim for check in page.checks if not check.holds] == []
    assert page.holds
    assert len(page.checks) >= 4
    kinds = {block.kind for block in page.blocks}
    assert {"text", "formula", "check", "mistake", "figure"} <= kinds
    document = json.loads(json.dumps(page.to_dict(), allow_nan=False))
    assert document["holds"] is True
    assert document["claim"]
    assert document["values"]


def test_none_takes_15_seconds_and_all_take_less_than_90(timed_pages):
    times = {name: seconds for name, (_, seconds) in timed_pages.items()}
    assert max(times.values()) < 15, times
    assert sum(times.values()) < 90, times


def test_the_numbers_that_the_theory_is_known_by(pages):
    values = {name: page.values for name, page in pages.items()}
    assert values["softmax"]["softmax_2_1_0"] == pytest.approx([0.665, 0.245, 0.090], abs=5e-4)
    assert values["heads"]["head_size"] == 64
    assert values["heads"]["qkv_weights"] == 1_769_472
    assert values["parameters"]["base_with_two_layer_head"] == 110_074_370
    assert values["bert-facts"]["large_width"] == 1024
    assert values["bert-facts"]["large_parameters"] == 335_141_888
    assert values["layernorm"]["norm_at_beta_3"] == pytest.approx(math.sqrt(64) * math.sqrt(1 + 9))
    assert values["decoding"]["greedy_probability"] == pytest.approx(0.07)
    assert values["decoding"]["beam_probability"] == pytest.approx(0.27)
    assert values["mlm"]["loss"] == pytest.approx(sum(values["mlm"]["losses"]))


def test_a_page_without_checks_does_not_hold():
    assert not LessonPage("empty", "Nothing", "nothing").holds


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_has_labelled_axes_follows_light_and_dark_and_does_not_rely_on_colour(name, pages):
    drawing = ElementTree.fromstring(pages[name].figure)
    _, _, wide, high = map(float, drawing.attrib["viewBox"].split())
    assert drawing.attrib["aria-label"]
    assert "prefers-color-scheme:dark" in drawing.find(f"{SVG}style").text
    texts = drawing.findall(f"{SVG}text")
    assert any("rotate" in text.get("transform", "") and text.text for text in texts), "the vertical axis has a name"
    for text in texts:
        assert 0 <= float(text.attrib["x"]) <= wide, text.text
        assert 0 <= float(text.attrib["y"]) <= high, text.text
    colours = {}
    for line in drawing.findall(f"{SVG}polyline"):
        colours.setdefault(line.attrib["class"], set()).add(line.get("stroke-dasharray"))
    dashes = [dash for found in colours.values() for dash in found]
    assert len(set(dashes)) == len(dashes), "lines that differ in colour differ in dash"


def same_but_for_rounding(committed: str, made: str) -> bool:
    """The same words; numbers that differ by at most two units of their last digit, or by 3 % (powers: by half)."""
    if NUMBER.sub("#", committed) != NUMBER.sub("#", made):
        return False
    for old, new in zip(NUMBER.findall(committed), NUMBER.findall(made), strict=True):
        a, b = (float(text.replace(",", "")) for text in (old, new))
        digits = len(old.partition("e")[0].partition(".")[2])
        unit = 0.0 if "e" in old else 10.0**-digits if "." in old else 1.0 if a >= 10 else 0.0
        if abs(a - b) > max(2 * unit, (0.5 if "e" in old else 0.03) * abs(a)):
            return False
    return True


def test_the_committed_pages_are_what_the_command_makes(pages):
    folder = REPOSITORY / "docs" / "lessons"
    made = dict(page_files(pages.values()))
    assert {path.name for path in folder.iterdir()} == set(made)
    for name, content in made.items():
        committed = (folder / name).read_text(encoding="utf-8")
        if name.endswith(".svg"):  # places may differ by a hair; words and shapes may not
            assert NUMBER.sub("#", committed).count("<") == NUMBER.sub("#", content).count("<"), name
            words = [
                [text.text for text in ElementTree.fromstring(one).findall(f"{SVG}text")]
                for one in (committed, content)
            ]
            assert all(same_but_for_rounding(a or "", b or "") for a, b in zip(*words, strict=True)), name
        else:
            assert same_but_for_rounding(committed, content), (
                f"{name}: make it again: pocketbert lesson --pages docs/lessons"
            )


def test_a_row_of_a_table_has_as_many_cells_as_its_head(pages):
    for name, content in page_files(pages.values()):
        for block in re.findall(r"(?:^\|.*\n)+", content, re.MULTILINE):
            counts = {len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}
            assert len(counts) == 1, f"{name}: {block}"


@pytest.mark.parametrize(
    ("committed", "made", "same"),
    [
        ("norm 16.00 of 256", "norm 16.01 of 256", True),
        ("norm 16.00 of 256", "norm 17.00 of 256", False),
        ("24 layers", "12 layers", False),
        ("width 1,024", "width 768", False),
        ("share 0.66", "share 0.67", True),
        ("left 2e-26", "left 2e-13", False),
        ("✓ it holds", "✗ it holds", False),
    ],
)
def test_pages_are_compared_by_their_words_and_about_by_their_numbers(committed, made, same):
    assert same_but_for_rounding(committed, made) is same
