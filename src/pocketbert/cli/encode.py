"""`pocketbert encode`: a vector for every text of a file; needs only a model."""

from pathlib import Path
from typing import Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.arguments import Encoding, Text, Threads, output_path
from pocketbert.cli.output import print_json, say
from pocketbert.cli.progress import row_progress
from pocketbert.errors import UserError


@app.command()
def encode(
    places: Annotated[
        list[Path],
        typer.Argument(metavar="[RUN] FILE", help="A file of texts; before it, a run or a study, instead of --model."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="A .npy file; default: NAME.vectors.npy here; - is standard output.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A name from `pocketbert models`, a folder, a run, a Hub name.")
    ] = None,
    text: Text = None,
    pooling: Annotated[str | None, typer.Option(help="pooler, cls or mean; default: the model's own.")] = None,
    max_length: Annotated[int, typer.Option(min=2, help="Tokens per text.")] = 128,
    encoding: Encoding = "utf-8",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """One vector per text, into a .npy file (numpy.load reads it).

    RUN is the folder of a run, or of a study, whose recommended model is then used.
    """
    from pocketbert.embed import encode_file
    from pocketbert.study.final import recommended_run

    *run, file = places
    if len(run) > 1 or (run and model is not None):
        raise UserError(f"{places[1]}: one file of texts is encoded, by one model: pocketbert encode [RUN] FILE")
    if run or (model is not None and (Path(model) / "study.json").is_file()):
        model = str(recommended_run(run[0] if run else Path(str(model))).folder)
    target = output_path(out, file, ".vectors.npy", as_json)
    with row_progress("encoded") as tick:
        done = encode_file(
            file,
            target,
            model,
            text=text,
            pooling=pooling,
            max_length=max_length,
            encoding=encoding,
            threads=threads,
            tick=tick,
        )
    for message in done["said"]:
        say(message)
    if as_json:
        print_json(done)
    else:
        say(f"{done['rows']:,} vectors of {done['width']}: {done['out']}")
