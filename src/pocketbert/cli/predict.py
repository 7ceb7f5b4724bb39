"""`pocketbert predict`: a finished run on every row of a file."""

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.arguments import Encoding, RunFolder, Text, Text2, Threads, output_path
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.cli.progress import row_progress
from pocketbert.paths import is_standard_output


@app.command()
def predict(
    run: RunFolder,
    file: Annotated[Path, typer.Argument(help="CSV, TSV, JSON lines, Parquet, plain lines; also gzipped.")],
    out: Annotated[
        Path | None, typer.Option(help="CSV to write; default: NAME.predicted.csv here; - is standard output.")
    ] = None,
    text: Text = None,
    text2: Text2 = None,
    numbers: Annotated[bool, typer.Option("--numbers", help="Write the label's number, not its name.")] = False,
    safe_for_spreadsheets: Annotated[
        bool,
        typer.Option("--safe-for-spreadsheets", help="Put ' before texts that begin with = + - @, tab or line end."),
    ] = False,
    encoding: Encoding = "utf-8",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Predict every row of a file: its columns, and prediction, probab_0, probab_1, …"""
    from pocketbert.predict import predict_file
    from pocketbert.study.final import recommended_run

    target = output_path(out, file, ".predicted.csv", as_json)
    with row_progress("predicted") as tick:
        done = predict_file(
            recommended_run(run),
            file,
            target,
            text=text,
            text2=text2,
            numbers=numbers,
            safe_for_spreadsheets=safe_for_spreadsheets,
            encoding=encoding,
            threads=threads,
            tick=tick,
        )
    for message in done["said"]:
        say(message)
    if done["truncated"]:
        say(f"warning: {done['truncated']:,} of {done['rows']:,} texts were longer than the model reads, and cut")
    if as_json:
        print_json(done)
    else:
        with redirect_stdout(sys.stderr) if is_standard_output(target) else nullcontext():
            print_table(["label", "predicted"], list(done["predicted"].items()))
        say(f"{done['rows']:,} rows: {done['out']}")
