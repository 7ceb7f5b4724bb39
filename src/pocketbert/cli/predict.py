"""`pocketbert predict`: a finished run on every row of a file, on some texts, or on standard input."""

import glob
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.arguments import Encoding, RunFolder, Threads, output_path
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.cli.progress import row_progress
from pocketbert.errors import UserError
from pocketbert.paths import is_standard_output

if TYPE_CHECKING:
    from pocketbert.runs import Run

MOST_SHOWN = 6  # labels whose probabilities fit beside a text


@app.command()
def predict(
    run: RunFolder,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="CSV, TSV, JSON lines, Parquet, plain lines; also gzipped; - is standard input. Many files: "
            "'folder/*.parquet', in quotes."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="CSV to write; default: NAME.predicted.csv here; - is standard output. Of many files: a folder."
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="With FILE: its column of the text. Without: a text to predict; as often as you like."),
    ] = None,
    text2: Annotated[
        list[str] | None, typer.Option(help="The same for the second text, where the run classifies pairs.")
    ] = None,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Write the label's number, not its name, and probab_0, probab_1, …")
    ] = False,
    safe_for_spreadsheets: Annotated[
        bool,
        typer.Option("--safe-for-spreadsheets", help="Put ' before texts that begin with = + - @, tab or line end."),
    ] = False,
    workers: Annotated[
        str | None,
        typer.Option(help="Of many files: ray, or ray://HOST:PORT, for a Ray cluster; default: one after the other."),
    ] = None,
    encoding: Encoding = "utf-8",
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Predict every row of a file: its columns, and prediction, p_LABEL, … for every label; or some texts.

    RUN is the folder of a run, or of a study, whose recommended model is then used.
    """
    from pocketbert.predict import predict_file, predict_texts
    from pocketbert.study.final import recommended_run

    options: dict[str, Any] = {
        "numbers": numbers,
        "safe_for_spreadsheets": safe_for_spreadsheets,
        "threads": threads,
    }
    if workers is not None and (file is None or not glob.has_magic(str(file))):
        raise UserError("--workers: for many files, as 'folder/*.parquet', in quotes")
    if file is None:
        if not text:
            raise UserError('what shall be predicted? Name a file, or give texts: --text "…"; - is standard input')
        if as_json and out is not None and is_standard_output(out):
            raise UserError(f"--out {out}: with --json standard output is one document; leave one out")
        done = predict_texts(recommended_run(run), text, text2, out=out, **options)
        _show(done, as_json)
        return
    columns: dict[str, Any] = {"text": _one(text, "--text"), "text2": _one(text2, "--text2"), "encoding": encoding}
    with row_progress("predicted") as tick:
        if glob.has_magic(str(file)) and not file.exists():
            from pocketbert.shards import predict_shards

            folder = out or Path(f"{file.parent.resolve().name or 'shards'}.predicted")
            done = predict_shards(recommended_run(run), file, folder, workers=workers, tick=tick, **columns, **options)
        elif str(file) == "-":
            target = out if out is not None or as_json else Path("-")
            if target is not None:
                target = output_path(target, file, "", as_json)
            done = _standard_input(recommended_run(run), target, {**columns, **options, "tick": tick})
        else:
            target = output_path(out, file, ".predicted.csv", as_json)
            done = predict_file(recommended_run(run), file, target, tick=tick, **columns, **options)
    if "files" in done:
        _show_shards(done, as_json)
    else:
        _show(done, as_json)


def _show_shards(done: dict[str, Any], as_json: bool) -> None:
    if done["truncated"]:
        say(f"warning: {done['truncated']:,} of {done['rows']:,} texts were longer than the model reads, and cut")
    if done["empty"]:
        say(f"warning: {done['empty']:,} rows have no text: nothing is predicted there")
    if as_json:
        print_json(done)
        return
    print_table(["label", "predicted"], list(done["predicted"].items()))
    before = f" ({done['files_done_before']} were done before)" if done["files_done_before"] else ""
    say(f"{done['rows']:,} rows of {done['files']} files{before}: {done['out']}")


def _one(given: list[str] | None, flag: str) -> str | None:
    if given and len(given) > 1:
        raise UserError(f"{flag} {given[1]}: with a file, {flag} names its column, once; without a file, texts")
    return given[0] if given else None


def _standard_input(run: "Run", target: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """What comes in is kept in a file first: a format is found out from its beginning, and a file can be read again."""
    import shutil
    import tempfile

    from pocketbert.predict import format_of_lines, predict_file

    if sys.stdin is None:
        raise UserError("standard input is closed; name a file")
    if sys.stdin.isatty():
        say("a text per line; Ctrl-D ends")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as kept:
            shutil.copyfileobj(sys.stdin.buffer, kept)
        with path.open("rb") as kept:
            format = format_of_lines(kept.read(10_000).decode(options["encoding"], "replace"), run)
        return predict_file(run, path, target, format=format, **options)


def _show(done: dict[str, Any], as_json: bool) -> None:
    for message in done["said"] if done["out"] is not None else ():
        say(message)
    for message in done["warnings"]:
        say(f"warning: {message}")
    if as_json:
        print_json(done)
    elif done["out"] is None:
        shown = done["labels"] if len(done["labels"]) <= MOST_SHOWN else []
        rows = [
            [
                " | ".join(row[name] for name in ("text", "text2") if name in row),
                "" if row["prediction"] is None else str(row["prediction"]),
                *("" if row["probabilities"] is None else f"{row['probabilities'][name]:.3f}" for name in shown),
            ]
            for row in done["predictions"]
        ]
        print_table(["text", "prediction", *(f"p_{label}" for label in shown)], rows)
    else:
        with redirect_stdout(sys.stderr) if is_standard_output(done["out"]) else nullcontext():
            print_table(["label", "predicted"], list(done["predicted"].items()))
        say(f"{done['rows']:,} rows: {done['out']}")
