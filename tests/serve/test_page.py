"""The page in a real browser: every part of it, by mouse and by keyboard, on a phone, in light and dark; and nothing
that it loads comes from elsewhere."""

import csv
import shutil
from pathlib import Path

import pytest

from pocketbert.predict import predict_file
from pocketbert.runs import load_run

from .conftest import Served

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("no chromium here: install it to test the page in a browser", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
expect = sync_api.expect

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TOKEN = "a-token-of-enough-length"

# What reaches beyond the window's right side, or is cut off, though nothing there scrolls.
TOO_WIDE = """() => [...document.querySelectorAll('body *')]
  .filter((box) => box.clientWidth && !box.closest('.scroll, .skip')
    && box.getBoundingClientRect().right > innerWidth + .5).map((box) => box.outerHTML.slice(0, 80))"""

# Texts whose contrast with what lies behind them is below WCAG's 4.5.
LOW_CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const linear = (x) => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
  const light = (c) => { const v = c.slice(0, 3).map((x) => linear(x / 255));
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const low = [];
  const texts = 'h1, h2, h3, p, label, a, button, select, textarea, blockquote, .name, .share';
  for (const box of document.querySelectorAll(texts)) {
    if (!box.clientWidth || !box.textContent.trim() || box.closest('.skip')) continue;
    let behind = box, paper = null;
    while (behind && !paper) {
      const colour = parse(getComputedStyle(behind).backgroundColor);
      if (colour.length === 3) paper = colour;
      behind = behind.parentElement;
    }
    const [a, b] = [light(parse(getComputedStyle(box).color)), light(paper || [255, 255, 255])].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) low.push([box.tagName, box.textContent.slice(0, 40), (a + .05) / (b + .05)]);
  }
  return low;
}"""


@pytest.fixture(scope="module")
def service(runs, study):
    served = Served(runs["single"], runs["words"], runs["pairs"], study, "--adapters", runs["frozen"])
    yield served
    assert served.end() == 0
    assert not [line for line in served.errors if "rror" in line]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with sync_api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=CHROMIUM,
            args=ARGUMENTS,
            headless=True,
            viewport={"width": 1100, "height": 900},
            accept_downloads=True,
        )
        context.set_default_timeout(30_000)
        expect.set_options(timeout=30_000)
        yield context
        context.close()


@pytest.fixture
def page(browser, service):
    """The page, loaded; at the end nothing was complained about, and nothing fetched from elsewhere."""
    opened = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("dialog", lambda dialog: said.append(f"dialog {dialog.message}"))
    opened.goto(service.url)
    expect(opened.locator("#prediction .best.name")).to_have_count(1)
    yield opened
    opened.close()
    assert said == []
    assert [url for url in asked if not url.startswith((service.url, "data:", "blob:"))] == []


def shares(page, place: str = "#prediction") -> dict[str, str]:
    names, values = (page.locator(f"{place} .{kind}").all_text_contents() for kind in ("name", "share"))
    return dict(zip(names, values, strict=True))


def expected(service, text, model: str) -> dict[str, str]:
    prediction = service.predict(text, model=model)[1]["predictions"][0]
    return {label: f"{100 * share:.1f} %" for label, share in prediction["probabilities"].items()}


def test_probabilities_follow_what_is_typed(page, service):
    page.locator("#text").fill("")
    expect(page.locator("#read")).to_have_text("Nothing to read yet.")
    page.locator("#text").press_sequentially("a lovely warm film")
    for number, share in enumerate(expected(service, "a lovely warm film", "single").values()):
        expect(page.locator("#prediction .share").nth(number)).to_have_text(share)
    expect(page.locator("#read")).to_contain_text("6 tokens read")
    page.locator("#text").fill("film " * 300)
    expect(page.locator("#read")).to_contain_text("longer than the model reads")


def test_the_words_that_mattered_are_shown_and_told(page, service):
    page.locator("#text").fill("the film was lovely")
    expect(page.locator("#pieces .word")).to_have_count(4)
    assert page.locator("#pieces").text_content() == "the film was lovely"
    page.locator("#pieces .word", has_text="lovely").hover()
    expect(page.locator("#piece")).to_contain_text("Without “lovely” the probability of")
    assert "Occlusion" in page.locator("#words").text_content()


def test_attention_can_be_pointed_at(page, service):
    page.locator("#text").fill("good film")
    page.get_by_role("tab", name="Attention").click()
    expect(page.locator("#heads button")).to_have_count(3)
    page.locator("#layer").select_option("1")
    page.locator("#heads button").nth(2).click()
    maps = service.ask("POST", "/v1/attention", {"text": "good film", "layer": 1})[1]["maps"]
    expect(page.locator("#heads button").nth(2)).to_have_attribute("aria-pressed", "true")
    canvas = page.locator("#map")
    margin, size = (float(canvas.get_attribute(f"data-{name}")) for name in ("margin", "size"))
    canvas.hover(position={"x": margin + 2.5 * size, "y": margin + 1.5 * size})
    expect(page.locator("#cell")).to_have_text(f"Head 3: “good” attends to “film” with {100 * maps[2][1][2]:.1f} %.")
    page.locator("#model").select_option("words")
    expect(page.locator("#attention-message")).to_contain_text("has no attention")
    page.locator("#model").select_option("single")
    page.locator("#text").fill("film " * 100)
    expect(page.locator("#attention-message")).to_contain_text("drawn for up to 64")


def test_the_pronoun_is_swapped_and_both_are_side_by_side(page, service):
    page.locator("#text").fill("She was good, and her film was great")
    page.get_by_role("tab", name="Swap the pronoun").click()
    sides = page.locator("#swap-sides .side")
    expect(sides).to_have_count(2)
    expect(sides.nth(1).locator("blockquote")).to_have_text("He was good, and his film was great")
    assert sides.nth(1).locator("mark").all_text_contents() == ["He", "his"]
    assert shares(page, "#swap-sides .side:nth-of-type(2)") == expected(
        service, "He was good, and his film was great", "single"
    )
    first, second = (sides.nth(number).bounding_box() for number in (0, 1))
    assert first["y"] == second["y"]
    page.locator("#text").fill("the film was great")
    expect(page.locator("#swap-sides")).to_contain_text("no he, she")


def test_two_models_are_compared(page, service):
    page.locator("#text").fill("a lovely film")
    page.get_by_role("tab", name="Compare").click()
    page.locator("#other").select_option("words")
    sides = page.locator("#compare-sides .side")
    expect(sides).to_have_count(2)
    expect(sides.nth(1).locator("h3")).to_have_text("words")
    assert shares(page, "#compare-sides .side:nth-of-type(1)") == expected(service, "a lovely film", "single")
    assert shares(page, "#compare-sides .side:nth-of-type(2)") == expected(service, "a lovely film", "words")
    assert page.locator("#other option").all_text_contents() == ["words", "reviews", "frozen"]  # none of pairs


def test_a_model_of_pairs_reads_two_texts(page, service):
    page.locator("#model").select_option("pairs")
    page.locator("#text").fill("good film")
    page.locator("#text2").fill("dull plot")
    for number, share in enumerate(expected(service, ["good film", "dull plot"], "pairs").values()):
        expect(page.locator("#prediction .share").nth(number)).to_have_text(share)
    expect(page.locator("#read")).to_contain_text("7 tokens")
    page.get_by_role("tab", name="Compare").click()
    expect(page.locator("#compare-sides")).to_contain_text("No other model of this kind")


@pytest.mark.parametrize("name", ["single", "pairs"])
def test_a_csv_comes_back_as_predict_writes_it(page, runs, tmp_path, name):
    path = tmp_path / "new.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["number", "text", "text2"])
        writer.writerow([0, 'he said "good",\nand =more', "x"])
        writer.writerow([1, "", "a"])
        writer.writerow([2, "lovely — שלום <b>film</b>", "=1+1"])
        writer.writerows([number, f"a dull film {number}", "some plot"] for number in range(3, 640))
    page.locator("#model").select_option(name)
    page.get_by_role("tab", name="File").click()
    page.locator("#csv").set_input_files(path)
    expect(page.locator("#file-message")).to_have_text("640 rows.")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#file-message")).to_contain_text(f"All 640 rows, by {name}. 1 without a text", timeout=60_000)
    assert page.locator("#progress").evaluate("bar => bar.value") == 1
    with page.expect_download() as download:
        page.locator("#download").click()
    assert download.value.suggested_filename == "new.predicted.csv"
    ours = Path(download.value.path()).read_text(encoding="utf-8")
    second = {"text2": "text2"} if name == "pairs" else {}
    predict_file(load_run(runs[name]), path, tmp_path / "offline.csv", text="text", **second)
    theirs = (tmp_path / "offline.csv").read_text(encoding="utf-8")
    rows, offline = (list(csv.reader(text.splitlines(keepends=True))) for text in (ours, theirs))
    assert rows[0] == offline[0]
    assert [row[:4] for row in rows] == [row[:4] for row in offline]
    different = [
        (one, other)
        for row, like in zip(rows[1:], offline[1:], strict=True)
        for one, other in zip(row[4:], like[4:], strict=True)
        if one != other and abs(float(one) - float(other)) > 2e-6
    ]
    assert different == []


def test_files_that_are_no_csv_are_said(page, tmp_path):
    page.get_by_role("tab", name="File").click()
    for content, said in (
        (b"text\n\xff\xfe", "not UTF-8"),
        (b"", "nothing in it"),
        (b'text\n"open', "does not end"),
        (b"text\na,b,c", "row 2 has 3 cells"),
    ):
        path = tmp_path / f"{said.split()[0]}.csv"
        path.write_bytes(content)
        page.locator("#csv").set_input_files(path)
        expect(page.locator("#file-message")).to_contain_text(said)
    (tmp_path / "had.csv").write_text("text;prediction\na;b\n")
    page.locator("#csv").set_input_files(tmp_path / "had.csv")
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#file-message")).to_contain_text("already has a column “prediction”")


def test_html_in_a_text_is_shown_as_text_everywhere(page):
    text = "<img src=x onerror=alert(1)> she <script>alert(1)</script><b>her</b>"
    page.locator("#text").fill(text)
    expect(page.locator("#pieces")).to_have_text(text)
    page.get_by_role("tab", name="Attention").click()
    expect(page.locator("#map")).to_be_visible()
    page.get_by_role("tab", name="Swap the pronoun").click()
    expect(page.locator("#swap-sides blockquote").first).to_have_text(text)
    assert page.locator("main img, main b, main script").count() == 0


def test_everything_can_be_done_with_the_keyboard_alone(page):
    press = page.keyboard.press
    focused = "() => document.activeElement.id || document.activeElement.textContent"
    press("Tab")
    press("Enter")  # "To the text"
    assert page.evaluate(focused) == "text"
    press("ControlOrMeta+a")
    page.keyboard.type("she was lovely")
    expect(page.locator("#pieces")).to_have_text("she was lovely")
    press("Tab")
    assert page.evaluate(focused) == "tab-words"
    press("Tab")
    assert page.evaluate(focused) == "she"
    expect(page.locator("#piece")).to_contain_text("Without “she”")
    press("Shift+Tab")
    press("ArrowRight")
    expect(page.locator("#attention")).to_be_visible()
    expect(page.locator("#heads button")).to_have_count(3)
    for _ in range(3):
        press("Tab")  # layer, head 1, head 2
    press("Enter")
    expect(page.locator("#cell")).to_contain_text("Head 2: “[CLS]” attends to “[CLS]”")
    for _ in range(2):
        press("Tab")
    assert page.evaluate(focused) == "map"
    press("ArrowDown")
    press("ArrowRight")
    press("ArrowRight")
    expect(page.locator("#cell")).to_contain_text("“s” attends to “##he”")
    page.locator("#tab-attention").focus()
    press("End")
    expect(page.locator("#file")).to_be_visible()
    press("ArrowLeft")
    press("ArrowLeft")
    expect(page.locator("#swap-sides .side")).to_have_count(2)


def test_the_report_of_a_study_is_one_click_away(page, browser, service):
    expect(page.locator("#report")).to_be_hidden()
    page.locator("#model").select_option("reviews")
    with browser.expect_page() as opened:
        page.get_by_role("link", name="Report of its study").click()
    report = opened.value
    report.wait_for_load_state()
    assert report.url == f"{service.url}/reports/reviews"
    assert "tfidf" in report.locator("body").text_content()
    assert report.evaluate("getComputedStyle(document.body).maxWidth") == "1148px"  # its own style is applied
    report.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1100])
def test_it_fits_a_phone_and_a_wide_screen_and_can_be_read_in_light_and_dark(page, width, scheme, tmp_path):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.locator("#text").fill("She was lovely and her performance was quite extraordinary, unforgettable, warm")
    for tab in ("Words", "Attention", "Swap the pronoun", "Compare", "File"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(TOO_WIDE) == []
        assert page.evaluate(LOW_CONTRAST) == []
        page.screenshot(path=tmp_path / f"{width}-{scheme}-{tab.split()[0]}.png", full_page=True)


def test_a_token_is_asked_for_once_and_used(browser, runs, study):
    served = Served(runs["words"], study, POCKETBERT_TOKEN=TOKEN)
    page = browser.new_page()
    try:
        page.goto(served.url)
        page.locator("#token").fill("wrong-and-long-enough")
        page.keyboard.press("Enter")
        expect(page.locator("#try")).to_be_hidden()
        page.locator("#token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#prediction .best.name")).to_have_count(1)
        expect(page.locator("#token-form")).to_be_hidden()
        page.locator("#model").select_option("reviews")
        with page.expect_download() as download:
            page.get_by_role("link", name="Report of its study").click()
        assert b"tfidf" in Path(download.value.path()).read_bytes()
    finally:
        page.close()
        assert served.end() == 0


def test_a_service_that_is_gone_is_said(browser, runs):
    served = Served(runs["words"])
    page = browser.new_page()
    try:
        page.goto(served.url)
        expect(page.locator("#prediction .best.name")).to_have_count(1)
        assert served.end() == 0
        page.locator("#text").fill("good")
        expect(page.locator("#message")).to_be_visible()
    finally:
        page.close()
