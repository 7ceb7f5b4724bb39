"""`pocketbert fill`: words for the gaps in a sentence."""

from dataclasses import asdict
from typing import Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table


@app.command()
def fill(
    text: Annotated[str, typer.Argument(help="A sentence with [MASK] in it.")],
    model: Annotated[str | None, typer.Option(help="A model with a masked-word head: a name or a folder.")] = None,
    top: Annotated[int, typer.Option(help="Words a gap.")] = 5,
    as_json: Json = False,
) -> None:
    """The most probable words for each [MASK]."""
    from pocketbert.fill_mask import fill as fill_gaps

    gaps = fill_gaps(text, model, top=top)
    if as_json:
        print_json({"text": text, "gaps": [[asdict(guess) for guess in gap] for gap in gaps]})
        return
    for number, gap in enumerate(gaps, start=1):
        title = f"gap {number}" if len(gaps) > 1 else None
        print_table(["word", "probability %"], [[g.word, f"{100 * g.probability:.1f}"] for g in gap], title=title)
