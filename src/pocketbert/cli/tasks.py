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
    say("A star marks a split without real labels: it is never scored. – means that the data are not here.")
    for task in listed:
        if "error" in task:
            say(f"{task['name']}: {task['error']}")


def _row(task: dict[str, Any]) -> list[str]:
    def rows(name: str) -> str:
        split = task["splits"].get(name)
        return "–" if split is None else f"{split['rows']:,}" + ("" if split["labelled"] else "*")

    labels = ", ".join(task["labels"])
    return [task["name"], rows("train"), rows("dev"), rows("test"), labels, task["licence"], task["description"]]
