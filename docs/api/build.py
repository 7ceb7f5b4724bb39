"""`make docs`: the API reference as static pages that need no network, from docstrings and docs/api/examples.md.

Ends with an error where a name has no example, a link leads nowhere, or a page would fetch something.
"""

import re
import shutil
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote

EXAMPLES = Path(__file__).with_name("examples.md")
FETCHED = {"script": "src", "img": "src", "iframe": "src", "link": "href"}  # what a browser loads by itself


def read_examples() -> dict[str, str]:
    """What the page says under each public name, and its example."""
    parts = re.split(r"^## (\w+)\n", EXAMPLES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def public_names() -> dict[str, object]:
    package = import_module("pocketbert")
    return {name: getattr(package, name) for name in package.__all__}


def build(site: Path) -> list[Path]:
    """Write the pages; give those that were written."""
    import pdoc

    package, examples, names = import_module("pocketbert"), read_examples(), public_names()
    missing = sorted(set(names) ^ set(examples))
    if missing:
        raise SystemExit(f"{EXAMPLES}: has no example of {', '.join(missing)}, or one too many")
    for name, value in names.items():
        setattr(package, name, value)  # pdoc looks for names that were imported
        if not isinstance(value, str):
            value.__doc__ = f"{_dedented(value.__doc__)}\n\nExample:\n\n{examples[name]}"  # type: ignore[attr-defined]
    shutil.rmtree(site, ignore_errors=True)
    pdoc.render.configure(docformat="google", show_source=False, footer_text=f"pocketbert {package.__version__}")
    pdoc.pdoc("pocketbert", "!pocketbert.", output_directory=site)
    return sorted(site.rglob("*.html"))


def _dedented(text: str | None) -> str:
    import inspect

    return inspect.cleandoc(text or "")


class Page(HTMLParser):
    """The links, anchors and fetched files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in FETCHED and FETCHED[tag] in given:
            self.fetched.append(given[FETCHED[tag]])


def wrong_links(site: Path) -> list[str]:
    """Links to a page or an anchor that is not there, and what would be fetched from elsewhere."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    wrong = []
    for path, page in pages.items():
        wrong += [f"{path.name} fetches {what}" for what in page.fetched if not what.startswith(("data:", "./", "#"))]
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue  # for a person to follow, where there is a network
            file, _, anchor = unquote(link).partition("#")
            target = (path.parent / file).resolve() if file else path
            if target not in pages and not target.exists():
                wrong.append(f"{path.name} links to {link}, which is not there")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                wrong.append(f"{path.name} links to {link}, an anchor that is not there")
    return wrong


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    written = build(folder)
    found = wrong_links(folder)
    if found:
        raise SystemExit("\n".join(found))
    print(f"{folder / 'pocketbert.html'}: {len(public_names())} names, {len(written)} pages, every link was followed")
