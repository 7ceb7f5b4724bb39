"""The Typer application that every command file adds itself to."""

from typing import Annotated

import typer

from pocketbert import __version__

app = typer.Typer(
    name="pocketbert",
    help="Small BERTs, honest results: train and compare BERT text classifiers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print exactly one JSON document on standard output.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pocketbert {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Options that come before the command."""
