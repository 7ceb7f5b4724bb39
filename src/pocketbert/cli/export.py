"""`pocketbert export`: a finished run as a folder for `transformers`."""

from pathlib import Path
from typing import Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.arguments import RunFolder
from pocketbert.cli.output import print_json, say


@app.command()
def export(
    run: RunFolder,
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    as_json: Json = False,
) -> None:
    """Write a run as a folder that `transformers` opens as BertForSequenceClassification."""
    from pocketbert.export import export_run
    from pocketbert.study.final import recommended_run

    export_run(recommended_run(run), folder)
    if as_json:
        print_json({"folder": str(folder)})
    else:
        say(f"exported to {folder}")
