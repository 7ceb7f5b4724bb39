"""The report as text: well-formed, whole, safe with hostile names, small, and drawn where the numbers say."""

import dataclasses
import re
import time
from html.parser import HTMLParser

import pytest

from pocketbert.report import charts, render, wording, write_report
from pocketbert.report.document import Spread
from pocketbert.report.svg import Scale, around, ticks

from .sample import HOSTILE, bare, hostile, large, of_movies, pair, row, sample, task_summary

EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
SECTIONS = {
    "results": "rows",
    "published": "published",
    "comparisons": "comparisons",
    "learning": "rows",
    "confusions": "rows",
    "calibrations": "rows",
    "mistakes": "mistakes",
    "suspects": "suspects",
    "costs": "rows",
    "probes": "probes",
    "predicted": "predicted",
    "failures": "failures",
    "again": "again",
    "verdict": "verdicts",
}
ALWAYS = ("data", "settings")


class Page(HTMLParser):
    """Reads a page as a browser would and remembers its elements; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open[-1:] == [tag], f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())

    def ids(self) -> set[str]:
        return {attributes["id"] for _, attributes in self.elements if attributes.get("id")}

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.elements if name in (attributes.get("class") or "").split()]


def test_the_page_is_well_formed_and_has_every_section():
    page = Page(render(sample()))
    assert page.ids() == {*SECTIONS, *ALWAYS}
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert {link[1:] for link in links} == page.ids() - {"verdict"}, "the contents name each section once"
    assert "88.2 ± 0.7" in page.words
    assert "all 488 labels are 0 while train has 5 classes: placeholders" in page.words
    assert "pocketbert study movies stars --seeds 3" in page.words


@pytest.mark.parametrize(("section", "key"), SECTIONS.items())
def test_a_section_without_data_is_left_out_and_the_others_stay(section, key):
    found = Page(render(dataclasses.replace(sample(), **{key: None if key == "again" else ()}))).ids()
    gone = {name for name, source in SECTIONS.items() if source == key}
    assert section not in found
    assert {*SECTIONS, *ALWAYS} - gone == found


def test_a_study_of_which_nothing_is_finished_is_a_page_still():
    assert Page(render(bare())).ids() == {"settings"}


def test_what_is_not_known_becomes_a_dash():
    text = render(sample())
    assert not re.search(r"\b(nan|inf|None|undefined)\b", Page(text).words, re.IGNORECASE)
    assert '<td class="n" data-label="examples/s">–</td>' in text


def test_hostile_texts_stay_text():
    text = render(hostile())
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "img", "iframe", "object", "form", "base"}
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert sum(tag == "h1" for tag, _ in page.elements) == 1
    assert "{{ 7 * 7 }}" in page.words
    assert HOSTILE[0] in page.words


def test_lone_surrogates_and_control_characters_do_not_stop_the_report(tmp_path):
    document = dataclasses.replace(sample(), name="half \ud83d and \x00 nothing \x1b[31m")
    write_report(document, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "\x00" not in text
    assert "\x1b" not in text


@pytest.mark.parametrize("make", [sample, hostile])
def test_nothing_is_fetched_from_anywhere(make):
    text = render(make())
    page = Page(text)
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value == "data:," or value.startswith("#"), (tag, value)
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(styles) == 1
    assert not re.search(r"url\(|@import|https?:", styles[0])
    assert "http:" not in text
    assert "https:" not in text
    policy = [attributes["content"] for tag, attributes in page.elements if attributes.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_an_address_in_a_text_is_shown_and_is_not_a_link():
    task = dataclasses.replace(sample().tasks[0], origin="https://example.org/data.csv")
    page = Page(render(of_movies(tasks=(task,))))
    assert "https://example.org/data.csv" in page.words
    assert not [attributes for _, attributes in page.elements if "example" in (attributes.get("href") or "")]


def test_the_file_appears_whole_and_twice_the_same(tmp_path):
    write_report(sample(), tmp_path / "new" / "report.html")
    first = (tmp_path / "new" / "report.html").read_bytes()
    write_report(sample(), tmp_path / "new" / "report.html")
    assert (tmp_path / "new" / "report.html").read_bytes() == first
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]


def _places(page: Page, kind: str, key: str) -> list[float]:
    return [float((attributes[key] or "").rstrip("%")) for attributes in page.of_class(kind)]


def test_dots_intervals_and_seeds_are_where_their_numbers_say():
    rows = [(index, row("t", f"row {index}", 0.6 + 0.05 * index)) for index in range(5)]
    page = Page(charts.dots(rows, label="accuracy"))
    means, lows, highs = _places(page, "mean", "cx"), _places(page, "interval", "x1"), _places(page, "interval", "x2")
    assert means == sorted(means)
    assert all(low < mean < high for low, mean, high in zip(lows, means, highs, strict=True))
    assert all(0 <= place <= 100 for place in lows + highs)
    assert len(page.of_class("seed")) == 15
    accuracy = [one.accuracy.mean for _, one in rows]
    slopes = [(means[i + 1] - means[i]) / (accuracy[i + 1] - accuracy[i]) for i in range(4)]
    assert slopes == pytest.approx([slopes[0]] * 4, rel=0.02), "the axis is linear"


def test_the_line_of_the_majority_goes_through_its_dot():
    rows = [row("t", "ours", 0.8), row("t", "majority", 0.55, seeds=1, method="majority", baseline=True)]
    page = Page(charts.dots(list(enumerate(rows)), label="accuracy"))
    line = next(attributes for tag, attributes in page.elements if tag == "line" and attributes["class"] == "reference")
    assert line["x1"] == page.of_class("mean")[1]["cx"]


def test_rows_are_numbered_best_first_and_charts_use_the_same_numbers():
    page = Page(render(sample()))
    assert re.search(r"1\. finetune minilm-l6 .* 2\. tfidf baseline .* 5\. majority", page.words)
    titles = re.findall(r"<title>(\d)\. ([^:<]+): [\d.]+ %, ", render(sample()))
    assert titles[:2] == [("1", "finetune minilm-l6"), ("2", "tfidf")]


def test_the_mean_line_stops_where_the_first_seed_stopped():
    lines = [[(1, 0.5), (2, 0.6), (3, 0.9)], [(1, 0.7), (2, 0.8)]]
    assert charts.mean_line(lines) == [(1, pytest.approx(0.6)), (2, pytest.approx(0.7))]


def test_rates_that_were_not_chosen_are_drawn_apart():
    page = Page(render(of_movies(rows=sample().rows[:1])))
    assert len(page.of_class("other")) == 6, "three seeds, two charts"
    assert "Faint: learning rates that were tried and not chosen." in page.words


def test_a_difference_is_drawn_as_clear_where_it_is_significant():
    span = (-0.1, 0.1)
    unsure, clear, far = (Page(charts.strip(pair("a", "b", effect), span)) for effect in (0.01, 0.05, 0.4))
    corrected = Page(charts.strip(pair("a", "b", 0.05, significant=False), span))
    assert not unsure.of_class("clear")
    assert not corrected.of_class("clear"), "among many comparisons, one that looks clear alone is not"
    assert clear.of_class("clear")
    assert far.of_class("arrow")
    assert not far.of_class("mean")


def test_mistakes_are_listed_by_row_and_of_very_many_the_rest_is_counted():
    one = sample().mistakes[0]
    many = [dataclasses.replace(one, row=f"row {index // 20}", text=f"text {index}") for index in range(400)]
    page = Page(render(of_movies(mistakes=tuple(many))))
    assert sum(tag == "blockquote" for tag, _ in page.elements) == 120
    assert "280 more mistakes are not shown here" in page.words


def test_splits_are_in_the_order_of_their_use():
    task = sample().tasks[0]
    ordered = {key: dict(sorted(getattr(task, key).items())) for key in ("rows", "balance")}
    words = Page(render(of_movies(tasks=(dataclasses.replace(task, **ordered),)))).words
    assert "train 6,824 rows dev 853 rows test 853 rows" in words.replace("rowsdev", "rows dev").replace(
        "rowstest", "rows test"
    )
    assert "label train dev test" in words or "labeltraindevtest" in words


def test_more_labels_than_a_matrix_can_show_become_the_most_common_mistakes():
    labels = tuple(f"label {index}" for index in range(40))
    task = task_summary("movies", (280, 40, 40), labels)
    page = Page(render(of_movies(tasks=(task,), rows=(row("movies", "ours", 0.6, labels=labels),))))
    assert "The most common mistakes of 40 labels" in page.words
    assert "10 more labels are not shown here" in page.words


@pytest.mark.parametrize(("rows", "seeds"), [(20, 100), (200, 10)])
def test_two_thousand_runs_are_shown_quickly_and_in_a_file_that_opens(rows, seeds):
    document = large(rows, seeds)
    render(sample())  # what is made once is made
    start = time.process_time()
    text = render(document)
    assert time.process_time() - start < 2
    assert len(text.encode()) < 3_000_000
    page = Page(text)
    kept = min(200, 2 * rows - 1)  # with the best row, and with the majority
    assert f"{(rows + 1) * rows // 2 - kept:,} more comparisons are not shown here" in page.words
    if seeds > 20:
        assert "20 of 100 lines are drawn; the mean is of all." in page.words


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (wording.percent(0.8094), "80.9"),
        (wording.points(0.0712), "+7.1"),
        (wording.points(-0.0712), "−7.1"),
        (wording.points(0.0001), "0.0"),
        (wording.points(-0.0001), "0.0"),
        (wording.probability(0.0004), "< 0.001"),
        (wording.probability(0.0414), "0.041"),
        (wording.spread(Spread(0.8)), "80.0"),
        (wording.spread(Spread(0.8, 0.01)), "80.0 ± 1.0"),
        (wording.duration(0.044), "0.04 s"),
        (wording.duration(214), "3 min 34 s"),
        (wording.duration(59.7), "1 min 00 s"),
        (wording.duration(7500), "2 h 05 min"),
        (wording.size(2_848_000_000), "2.8 GB"),
        (wording.short_count(4_386_178), "4.39 M"),
        (wording.short_count(770), "770"),
        (wording.plain(True), "yes"),
        (wording.percent(None), "–"),
        (wording.listing(["a"]), "a"),
        (wording.listing(list("abc")), "a, b and c"),
        (wording.listing(list("abcdef")), "a, b, c, d and 2 more"),
        (wording.shorten("finetune minilm-l6", 30), "finetune minilm-l6"),
    ],
)
def test_numbers_are_written_as_people_write_them(made, expected):
    assert made == expected


@pytest.mark.parametrize("text", [*HOSTILE, "a" * 31, "e" + "\u0301" * 400])
def test_a_name_in_a_drawing_has_a_known_width(text):
    short = wording.shorten(text, 30)
    assert sum(map(wording.width, short)) <= 32
    assert len(short) <= 70


def test_scales_and_ticks():
    assert Scale(0.5, 1, 0, 100)(0.75) == pytest.approx(50)
    assert Scale(0.5, 1, 0, 100)(7) == 100
    assert Scale(1, 100, 0, 100, log=True)(10) == pytest.approx(50)
    assert Scale(3, 3, 0, 100)(3) == 50
    assert ticks(0.4, 1.0, 6) == pytest.approx([0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    low, high = around([0.8, 0.8], least=0.04, inside=(0, 1))
    assert low < 0.8 < high
    assert around([0.999, 1.0], least=0.04, inside=(0, 1))[1] == 1
    assert charts.time_ticks(0.02, 700) == [0.1, 1, 10, 60, 600]
