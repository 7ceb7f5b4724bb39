"""`pocketbert methods`: how a model can learn a task, and what each method can be told."""

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table
from pocketbert.errors import UserError

if TYPE_CHECKING:
    from pocketbert.methods import Method


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="Only this one, with what it can be told.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="As docs/methods.md has it.")] = False,
    as_json: Json = False,
) -> None:
    """List the methods."""
    from pocketbert.methods import get_method, list_methods

    if markdown and as_json:
        raise UserError("--markdown and --json are two forms of one thing; give one of them")
    found = list_methods() if name is None else {name: get_method(name)}
    if as_json:
        print_json([describe(method) for method in found.values()])
    elif markdown:
        print(as_markdown(found))
    elif name is None:
        print_table(["name", "what it does"], [[one.name, one.description] for one in found.values()])
    else:
        rows = [[f"--{it['flag']}", it["default"], it["help"]] for it in settings_of(found[name])]
        print_table(["flag", "default", "what it is"], rows, title=f"{name}: {found[name].description}")


def describe(method: "Method") -> dict[str, Any]:
    return {
        "name": method.name,
        "about": method.description,
        "needs_model": method.needs_model,
        "seeded": method.seeded,
        "settings": settings_of(method),
    }


def settings_of(method: "Method") -> list[dict[str, Any]]:
    """What it reads, as it is declared; a default of None is derived."""
    return [
        {
            "name": field.name,
            "flag": field.metadata["flag"] or field.name.replace("_", "-"),
            "default": "derived" if field.default is None else field.default,
            "help": field.metadata["help"],
        }
        for field in fields(method.settings)
    ]


def as_markdown(found: "dict[str, Method]") -> str:
    """A table of the methods, and one of every setting with the methods that read it."""
    lines = ["| method | what it does | starts from |", "|---|---|---|"]
    lines += [f"| `{one.name}` | {one.description} | {one.starts_from or 'nothing'} |" for one in found.values()]
    lines += ["", "| setting | default | what it is | read by |", "|---|---|---|---|"]
    readers: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for one in found.values():
        for it in settings_of(one):
            readers.setdefault(it["name"], (it, []))[1].append(one.name)
    for it, names in readers.values():
        lines.append(f"| `--{it['flag']}` | {it['default']} | {it['help']} | {', '.join(names)} |")
    return "\n".join(lines)
