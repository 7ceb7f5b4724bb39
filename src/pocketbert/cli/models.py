"""`pocketbert models`: what is at hand; `models show`: one of them; `models import`: convert an old one."""

from pathlib import Path
from typing import Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.errors import UserError

group = typer.Typer(help="The models at hand: list, show, import.", no_args_is_help=False)
app.add_typer(group, name="models")


@group.callback(invoke_without_command=True)
def models(context: typer.Context, as_json: Json = False) -> None:
    """List the models at hand: layers, width, heads, parameters, licence, where from."""
    if context.invoked_subcommand is not None:
        if as_json:
            raise UserError(f"--json goes behind the command: pocketbert models {context.invoked_subcommand} --json")
        return
    from pocketbert.catalog import list_models

    listed = list_models()
    if as_json:
        print_json(listed)
        return
    columns = ["name", "layers", "width", "heads", "parameters", "licence", "from"]
    print_table(columns, [[model.get(column, "–") for column in columns] for model in listed])
    for model in listed:
        if "install" in model:
            say(f"{model['name']} is not installed; install it with: {model['install']}")
        if "error" in model:
            say(f"{model['name']} cannot be read: {model['error']}")


@group.command()
def show(
    name: Annotated[str, typer.Argument(help="A name from `pocketbert models`, a folder, or owner/model on the Hub.")],
    head: Annotated[str | None, typer.Option(help="Count a head too: linear, two-layer or bilstm.")] = None,
    labels: Annotated[int, typer.Option(help="Labels that head tells apart.")] = 2,
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit on the Hub.")] = None,
    as_json: Json = False,
) -> None:
    """Show one model: its shape and its exact parameter counts. A folder is checked whole."""
    from pocketbert.catalog import show_model

    shown = show_model(name, revision=revision, head=head, labels=labels)
    if as_json:
        print_json(shown)
        return
    loaded = shown.pop("loaded", [])
    print_table(["", shown.pop("name")], shown.items())
    for line in loaded:
        say(line)


@group.command("import")
def import_(
    source: Annotated[str, typer.Argument(metavar="FOLDER|HUB-NAME", help="What holds the pytorch_model.bin.")],
    allow_pickle: Annotated[bool, typer.Option(help="You trust where the file comes from.")] = False,
    out: Annotated[Path | None, typer.Option(help="Folder to write; default: pocketbert's own.")] = None,
    revision: Annotated[str | None, typer.Option(help="A branch, tag or commit on the Hub.")] = None,
    as_json: Json = False,
) -> None:
    """Convert a model that exists only as pytorch_model.bin, in a separate process, tensors only."""
    from pocketbert.catalog import import_model

    target = import_model(source, out, allow_pickle=allow_pickle, revision=revision)
    if as_json:
        print_json({"folder": str(target)})
    else:
        say(f"imported to {target}")
