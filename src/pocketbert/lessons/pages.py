"""The lessons as pages: one Markdown file and one SVG per lesson, and a list of them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pocketbert.files import write_text
from pocketbert.lessons.lesson import LessonPage
from pocketbert.lessons.registry import list_lessons

COMMAND = "pocketbert lesson --pages docs/lessons"


def page_files(pages: Iterable[LessonPage]) -> Iterator[tuple[str, str]]:
    """The name and the content of every file."""
    pages = list(pages)
    for page in pages:
        note = f"<!-- Made by `{COMMAND}`; change src/pocketbert/lessons/ instead. -->\n\n"
        again = f"\nRun it yourself: `pocketbert lesson {page.name}`. [All lessons](README.md)\n"
        yield f"{page.name}.md", note + page.markdown(f"{page.name}.svg") + again
        yield f"{page.name}.svg", page.figure
    rows = [f"| [{page.name}]({page.name}.md) | {_in_cell(page.title)} | {_in_cell(page.claim)} |" for page in pages]
    head = [
        "# Lessons",
        "",
        "Each states a claim, derives it, checks it by running it, draws it, and says where a common account of it is",
        "wrong. What checks, tables and figures show was computed when the pages were made; what is quoted from a",
        "paper is named as such.",
        "",
        "```bash",
        "pocketbert lesson                         # the list",
        "pocketbert lesson layernorm               # one of them, run here and now",
        "pocketbert lesson layernorm --json        # claim, holds, values; exit code 1 if the claim does not hold",
        "pocketbert lesson layernorm --figure layernorm.svg",
        f"{COMMAND}    # all of these pages, made again",
        "```",
        "",
        "| name | lesson | what it shows |",
        "|---|---|---|",
    ]
    yield "README.md", "\n".join([*head, *rows]) + "\n"


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")


def write_pages(folder: str | os.PathLike[str]) -> list[LessonPage]:
    """Run every lesson and write its page and figure into a folder."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    pages = [lesson.run() for lesson in list_lessons().values()]
    for name, content in page_files(pages):
        write_text(target / name, content)
    return pages
