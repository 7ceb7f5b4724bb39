"""`pocketbert export`: a finished run as a folder for `transformers`, or as ONNX."""

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
    format: Annotated[
        str, typer.Option(help="transformers, or onnx: one model.onnx (needs onnx and onnxscript).")
    ] = "transformers",
    as_json: Json = False,
) -> None:
    """Write a run for others: a folder that `transformers` opens, or ONNX. docs/export.md shows how to use either."""
    from pocketbert.export import export_run
    from pocketbert.study.final import recommended_run

    exported = export_run(recommended_run(run), folder, format=format)
    if as_json:
        print_json(exported.to_dict())
    else:
        more = f"; how to use it: {folder / 'README.md'}" if (folder / "README.md").is_file() else ""
        say(f"exported to {folder}, to be opened with {exported.opens_with}{more}")
