"""The report in a real browser, with the network off: on a phone and on a wide screen, in light and in dark."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from pocketbert.pretraining.card import write_curve
from pocketbert.pretraining.settings import PretrainingSettings
from pocketbert.report import write_report

from .sample import bare, hostile, large, sample, wide

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("no chromium here: install it to test the report in a browser", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
WIDTHS = (360, 1400)

# Text that leaves its drawing is cut off; so is text of a box that hides what flows over. Half a pixel is rounding.
CUT_OFF = """() => {
  const wrong = [];
  for (const text of document.querySelectorAll('svg text')) {
    const inner = text.getBoundingClientRect(), outer = text.closest('svg').getBoundingClientRect();
    if (!inner.width) continue;
    if (inner.left < outer.left - .5 || inner.right > outer.right + .5 || inner.top < outer.top - .5 ||
        inner.bottom > outer.bottom + .5) wrong.push(text.textContent);
  }
  for (const box of document.querySelectorAll('body *')) {
    const style = getComputedStyle(box);
    if (box.closest('svg') || box.classList.contains('hidden') || !box.clientWidth) continue;
    const scrolls = style.overflowX === 'auto' || style.overflowX === 'scroll';
    if (style.overflowX === 'hidden' && box.scrollWidth > box.clientWidth + 1) wrong.push(box.outerHTML.slice(0, 80));
    if (!scrolls && !box.closest('.scroll') && box.getBoundingClientRect().right > innerWidth + .5)
      wrong.push(box.outerHTML.slice(0, 80));
  }
  return wrong;
}"""

# Two names or numbers of one drawing in one place cannot be read.
OVERLAPS = """() => {
  const wrong = [];
  for (const svg of document.querySelectorAll('svg')) {
    const all = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    all.forEach(([a, p], i) => all.slice(i + 1).forEach(([b, q]) => {
      const across = p.left < q.right - 1 && q.left < p.right - 1, down = p.top < q.bottom - 4 && q.top < p.bottom - 4;
      if (p.width && q.width && across && down) wrong.push([svg.getAttribute('aria-label').slice(0, 60), a, b]);
    }));
  }
  return wrong;
}"""

# The contrast of each text with the plain background behind it; WCAG asks for 4.5.
CONTRAST = """() => {
  const light = c => {
    const v = c.slice(0, 3).map(x => x / 255).map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const low = [];
  for (const box of document.querySelectorAll('p, li, th, td, h1, h2, h3, h4, a, figcaption, dt, dd, svg text')) {
    if (!box.textContent.trim()) continue;
    const style = getComputedStyle(box);
    const ink = parse(box.closest('svg') ? style.fill : style.color);
    let behind = box, paper = null;
    while (behind && !paper) {
      const c = parse(getComputedStyle(behind).backgroundColor);
      if (c.length === 3) paper = c;
      behind = behind.parentElement;
    }
    const [a, b] = [light(ink), light(paper || [255, 255, 255])].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) low.push([box.tagName, box.textContent.slice(0, 40), (a + .05) / (b + .05)]);
  }
  return low;
}"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser of its own with a fresh profile; the network is off from the start."""
    profile = tmp_path_factory.mktemp("profile")
    with sync_api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=CHROMIUM, args=ARGUMENTS, headless=True, viewport={"width": 1400, "height": 900}
        )
        context.set_offline(True)
        yield context
        context.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    made = {"sample": sample(), "hostile": hostile(), "large": large(40, 25), "wide": wide(), "empty": bare()}
    for name, document in made.items():
        write_report(document, folder / f"{name}.html")
    write_curve(folder / "pretraining.html", pretraining_metrics(), PretrainingSettings(size="tiny", steps=200_000))
    return {path.stem: path for path in folder.iterdir()}


def pretraining_metrics() -> dict[str, Any]:
    names = ("held_words", "cosine", "similarity", "states")
    shares = ("held_words_accuracy", "held_next_sentence_accuracy")
    curve = [
        {"step": step, **dict.fromkeys(names, 9.0 - step / 30000), **dict.fromkeys(shares, step / 400000)}
        for step in range(1_000, 200_001, 1_000)
    ]
    baseline = {"words": 6.6, "words_accuracy": 0.04, "next_sentence_accuracy": 0.5}
    return {"curve": curve, "baseline": baseline, "steps": 200_000}


@pytest.fixture
def page(browser):
    opened = browser.new_page()
    yield opened
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["sample", "hostile", "large", "wide", "empty", "pretraining"])
def test_the_report_opens_offline_fits_its_window_and_cuts_nothing_off(page, files, name, width, scheme):
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(files[name].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("window.innerWidth") == width
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(CUT_OFF) == []
    assert [url for url in asked if url != "data:,"] == [files[name].as_uri()]
    assert said == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["sample", "large", "pretraining"])
def test_no_two_texts_of_a_chart_are_in_one_place(page, files, name, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(files[name].as_uri())
    assert page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_background(page, files, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(files["sample"].as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert page.evaluate(CONTRAST) == []


def test_on_paper_what_is_folded_is_open_and_the_contents_are_gone(page, files):
    page.set_viewport_size({"width": 673, "height": 900})  # A4 inside its margins
    page.goto(files["sample"].as_uri())
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(
        "[...document.querySelectorAll('details dl')].every(list => list.getBoundingClientRect().height > 0)"
    )
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.pdf(format="A4").startswith(b"%PDF")
