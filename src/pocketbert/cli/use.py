"""What one does with a finished run: `predict`, `evaluate`, `export`; and `encode`, which needs only a model."""

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.cli.progress import row_progress
from pocketbert.cli.train import SCORES, Encoding, Hub, Label, Text, Text2, Threads, score_row
from pocketbert.errors import UserError
from pocketbert.files import is_standard_output

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]


def _stem(file: Path) -> str:
    return Path(file.name.removesuffix(".gz")).stem


def _target(out: Path | None, usual: str, as_json: bool) -> Path:
    target = out or Path(usual)
    if as_json and is_standard_output(target):
        raise UserError(f"--out {target}: with --json standard output is one document; name a file, or leave one out")
    return target


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
    from pocketbert.runs import load_run

    target = _target(out, f"{_stem(file)}.predicted.csv", as_json)
    with row_progress("predicted") as tick:
        done = predict_file(
            load_run(run),
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


@app.command()
def evaluate(
    run: RunFolder,
    source: Annotated[str, typer.Argument(metavar="TASK[:SPLIT]|FILE", help="sst2:test, or a file with labels.")],
    text: Text = None,
    text2: Text2 = None,
    label: Label = None,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Score texts that were learnt from, all the same.")
    ] = False,
    labels_are_real: Annotated[
        bool, typer.Option("--labels-are-real", help="Keep what looks like placeholders.")
    ] = False,
    encoding: Encoding = "utf-8",
    hub: Hub = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Score a finished run on a labelled split or file that it did not learn from."""
    from pocketbert.evaluate import evaluate_run
    from pocketbert.runs import load_run

    scores = evaluate_run(
        load_run(run),
        source,
        text=text,
        text2=text2,
        label=label,
        allow_overlap=allow_overlap,
        labels_are_real=labels_are_real,
        hub=hub,
        encoding=encoding,
        threads=threads,
        say=say,
    )
    if as_json:
        print_json(scores)
    else:
        print_table(SCORES, [score_row(scores["data"], scores)])


@app.command()
def encode(
    file: Annotated[Path, typer.Argument(help="A file of texts.")],
    out: Annotated[
        Path | None, typer.Option(help="A .npy file; default: NAME.vectors.npy here; - is standard output.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A name from `pocketbert models`, a folder, a Hub name.")] = None,
    text: Text = None,
    pooling: Annotated[str | None, typer.Option(help="pooler, cls or mean; default: the model's own.")] = None,
    max_length: Annotated[int, typer.Option(min=2, help="Tokens a text.")] = 128,
    encoding: Encoding = "utf-8",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """One vector a text, into a .npy file (numpy.load reads it)."""
    from pocketbert.embed import encode_file

    target = _target(out, f"{_stem(file)}.vectors.npy", as_json)
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


@app.command()
def export(
    run: RunFolder,
    folder: Annotated[Path, typer.Argument(help="Folder to write.")],
    as_json: Json = False,
) -> None:
    """Write a run as a folder that `transformers` opens as BertForSequenceClassification."""
    from pocketbert.export import export_run
    from pocketbert.runs import load_run

    export_run(load_run(run), folder)
    if as_json:
        print_json({"folder": str(folder)})
    else:
        say(f"exported to {folder}")
