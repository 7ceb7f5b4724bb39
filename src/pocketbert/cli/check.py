"""`pocketbert check`: what is in the data, before any training."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.arguments import Encoding, Hub, Label, LabelsAreReal, Text, Text2
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.errors import UserError, listed

if TYPE_CHECKING:
    from pocketbert.tasks import Check


@app.command()
def check(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="TASK|FILE…", help="A built-in task, a file, a folder, or files: train test, train dev test."
        ),
    ],
    text: Text = None,
    text2: Text2 = None,
    label: Label = None,
    model: Annotated[str | None, typer.Option(help="Count lengths in this model's tokens.")] = None,
    max_length: Annotated[int, typer.Option(min=3, help="Tokens a model will read.")] = 128,
    seed: Annotated[int, typer.Option(help="Cuts one file into train, dev and test.")] = 0,
    encoding: Encoding = "utf-8",
    labels_are_real: LabelsAreReal = False,
    hub: Hub = False,
    as_json: Json = False,
) -> None:
    """Look at the data: rows, balance, lengths, repeats, leaks, labels that are not real.

    Exit code 2 when something must be mended before training; warnings say what will happen and exit 0.
    """
    from pocketbert.tasks import Check, check_task, load_task

    try:
        task = load_task(
            source if len(source) > 1 else source[0],
            text=text,
            text2=text2,
            label=label,
            seed=seed,
            encoding=encoding,
            labels_are_real=labels_are_real,
            hub=hub,
        )
    except UserError as error:
        if not as_json:
            raise
        print_json(Check(task=", ".join(source), splits={}, errors=[str(error)]).to_dict())
        say(f"error: {error}")
        raise typer.Exit(2) from None
    found = check_task(task, _tokenizer(model), max_length)
    if as_json:
        print_json(found.to_dict())
    else:
        _show(found)
    for message in found.notes:
        say(message)
    for message in found.warnings:
        say(f"warning: {message}")
    for message in found.errors:
        say(f"error: {message}")
    if found.errors:
        raise typer.Exit(2)


def _tokenizer(model: str | None) -> Any:
    from pocketbert.catalog import usual_model
    from pocketbert.loading import load_tokenizer

    if model is not None:
        return load_tokenizer(model)
    try:
        name = usual_model()
    except UserError:
        say("lengths are words, for want of a tokenizer (name a model with --model)")
        return None
    say(f"lengths are tokens of {name} (another with --model)")
    return load_tokenizer(name)


def _show(found: "Check") -> None:
    rows = []
    for name, split in found.splits.items():
        balance = listed(f"{label}: {count:,}" for label, count in split.balance.items())
        length = split.tokens
        rows.append(
            [
                name,
                split.rows,
                balance if split.labelled else "no real labels",
                f"{length['p50']} / {length['p95']} / {length['max']}",
                f"{length['truncated_share']:.1%}",
                split.empty,
                split.duplicates,
            ]
        )
    unit = next(iter(found.splits.values())).tokens["unit"] if found.splits else "words"
    columns = ["split", "rows", "labels", f"{unit}: median / 95 % / longest", "cut", "empty", "repeats"]
    print_table(columns, rows, title=found.task)
