"""Arguments that several commands share, declared once."""

from pathlib import Path
from typing import Annotated

import typer

from pocketbert.errors import UserError
from pocketbert.paths import is_standard_output

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or of a study.")]
Text = Annotated[str | None, typer.Option(help="Column of the text.")]
Text2 = Annotated[str | None, typer.Option(help="Column of the second text, for pairs.")]
Label = Annotated[str | None, typer.Option(help="Column of the label.")]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
Hub = Annotated[bool, typer.Option("--hub", help="Allow a download from the Hugging Face Hub.")]
Threads = Annotated[int | None, typer.Option(help="Threads; default: every core.")]
LabelsAreReal = Annotated[bool, typer.Option("--labels-are-real", help="Keep labels that look like placeholders.")]


def output_path(out: Path | None, file: Path, ending: str, as_json: bool) -> Path:
    """Where the rows made of a file go: where the person says, else here, under the file's own name."""
    target = out or Path(f"{Path(file.name.removesuffix('.gz')).stem}{ending}")
    if as_json and is_standard_output(target):
        raise UserError(f"--out {target}: with --json standard output is one document; name a file, or leave one out")
    return target
