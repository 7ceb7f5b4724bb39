"""`pocketbert tasks`: the built-in tasks, with rows, labels and licence."""

from typing import Any

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table, say


@app.command()
def tasks(as_json: Json = False) -> None:
    """List the built-in tasks: rows of each split, labels, licence."""
    from pocketbert.tasks import list_tasks

    listed = list_tasks()
    if as_json:
        print_json(listed)
        return
    columns = ["name", "train", "dev", "test", "labels", "licence", "what it is"]
    print_table(columns, [_row(task) for task in listed])
    say("A star marks a split without real labels: it is never scored.")
    if any("error" in task for task in listed):
        say("To get what is not here, add --hub to the command that uses it; `pocketbert check NAME` says which files.")


def _row(task: dict[str, Any]) -> list[str]:
    def rows(name: str) -> str:
        split = task["splits"].get(name)
        return "–" if split is None else f"{split['rows']:,}" + ("" if split["labelled"] else "*")

    if "error" in task:
        return [task["name"], "not here", "", "", ", ".join(task["labels"]), task["licence"], task["description"]]
    labels = ", ".join(task["labels"])
    return [task["name"], rows("train"), rows("dev"), rows("test"), labels, task["licence"], task["description"]]
