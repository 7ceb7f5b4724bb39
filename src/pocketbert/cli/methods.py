"""`pocketbert methods`: how a model can learn a task."""

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table


@app.command()
def methods(as_json: Json = False) -> None:
    """List the methods."""
    from pocketbert.methods import list_methods

    listed = [
        {"name": name, "about": method.about, "needs_model": method.needs_model}
        for name, method in list_methods().items()
    ]
    if as_json:
        print_json(listed)
    else:
        print_table(["name", "what it does"], [[it["name"], it["about"]] for it in listed])
