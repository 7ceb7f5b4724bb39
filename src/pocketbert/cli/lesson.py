"""`pocketbert lesson`: pieces of the theory, each checked by running it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.errors import UserError
from pocketbert.paths import is_standard_output

if TYPE_CHECKING:
    from pocketbert.lessons import LessonPage


@app.command()
def lesson(
    name: Annotated[str | None, typer.Argument(help="Which one; without a name they are listed.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Write the lesson's figure to this SVG file.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As docs/lessons has it.")] = False,
    pages: Annotated[Path | None, typer.Option(help="Run all, and write a page and a figure for each here.")] = None,
    as_json: Json = False,
) -> None:
    """Theory, checked by running it: list the lessons, or run one. Exit code 1: its claim does not hold."""
    _check_options(name, figure, markdown, pages, as_json)
    from pocketbert.lessons import list_lessons, run_lesson, write_pages

    if pages is not None:
        made = write_pages(pages)
        if as_json:
            print_json([page.to_dict() for page in made])
        say(f"{len(made)} lessons: {pages / 'README.md'}")
        _end(made)
    elif name is None:
        found = list_lessons().values()
        if as_json:
            print_json([{"name": one.name, "title": one.title, "claim": one.claim} for one in found])
        else:
            print_table(["name", "lesson"], [[one.name, one.title] for one in found])
            say("run one: pocketbert lesson NAME")
    else:
        page = run_lesson(name)
        if figure is not None:
            _write_figure(page, figure)
        if as_json:
            print_json(page.to_dict())
        elif figure is None or not is_standard_output(figure):
            _print_page(page, markdown, figure)
        _end([page])


def _check_options(name: str | None, figure: Path | None, markdown: bool, pages: Path | None, as_json: bool) -> None:
    if markdown and as_json:
        raise UserError("--markdown and --json are two forms of one thing; give one of them")
    if figure is not None and as_json and is_standard_output(figure):
        raise UserError(f"--figure {figure}: with --json standard output is one document; name a file")
    if pages is not None and (name is not None or figure is not None or markdown):
        raise UserError("--pages writes all lessons, with their figures; give it no name, --figure or --markdown")
    if name is None and (figure is not None or markdown):
        raise UserError("--figure and --markdown are of one lesson; name it: pocketbert lesson NAME")


def _write_figure(page: "LessonPage", figure: Path) -> None:
    from pocketbert.files import new_output

    with new_output(figure) as file:
        file.write(page.figure)


def _print_page(page: "LessonPage", markdown: bool, figure: Path | None) -> None:
    if markdown:
        print(page.markdown(f"{page.name}.svg" if figure is None else figure.as_posix()), end="")
        return
    text = page.markdown()
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print(text, end="")
    if figure is None:
        say(f"to see it drawn: pocketbert lesson {page.name} --figure {page.name}.svg")


def _end(pages: "list[LessonPage]") -> None:
    failed = [page.name for page in pages if not page.holds]
    if failed:
        say(f"the claim does not hold: {', '.join(failed)}")
        raise typer.Exit(1)
