"""`pocketbert evaluate`: a finished run scored on a labelled split or file."""

from typing import Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.arguments import Encoding, Hub, Label, LabelsAreReal, RunFolder, Text, Text2, Threads
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.cli.train import SCORES, print_confusion, score_row


@app.command()
def evaluate(
    run: RunFolder,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[TASK[:SPLIT]|FILE]", help="sst2:test, or a file with labels. Default: the run's own test split."
        ),
    ] = None,
    text: Text = None,
    text2: Text2 = None,
    label: Label = None,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Score texts that were learnt from, all the same.")
    ] = False,
    labels_are_real: LabelsAreReal = False,
    encoding: Encoding = "utf-8",
    hub: Hub = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Score a finished run on a labelled split or file that it did not learn from.

    RUN is the folder of a run, or of a study, whose recommended model is then used.
    """
    from pocketbert.evaluate import evaluate_run
    from pocketbert.study.final import recommended_run

    scores = evaluate_run(
        recommended_run(run),
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
        print_confusion(scores["labels"], scores["confusion"])
