"""`pocketbert bench`: how fast this machine is, beside the plain way."""

from typing import Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table, say


@app.command()
def bench(
    task: Annotated[str, typer.Option(help="A single-sentence task to take texts from.")] = "movies",
    sizes: Annotated[str, typer.Option(help="Shapes, comma-separated.")] = "tiny,mini",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; default: every core.")] = None,
    steps: Annotated[int, typer.Option(min=1, max=100_000, help="Batches per round.")] = 20,
    as_json: Json = False,
) -> None:
    """Measure training and predicting speed here, with and without the ideas of docs/performance.md."""
    from pocketbert.bench import bench as measure
    from pocketbert.config import SHAPES
    from pocketbert.errors import UserError
    from pocketbert.tasks import load_task

    wanted = tuple(sizes.split(","))
    for size in wanted:
        if size not in SHAPES:
            raise UserError(f"--sizes {size}: not a shape; shapes are {', '.join(SHAPES)}")
    loaded = load_task(task)
    if loaded.pair:
        raise UserError(f"--task {task}: a task of pairs; name one of single sentences")
    found = measure(loaded, wanted, threads=threads, steps=steps, say=say)
    if as_json:
        print_json(found)
        return
    columns = ["size", "precision", "train plain /s", "train /s", "times", "predict /s"]
    rows = [
        [
            it["size"],
            it["precision"],
            round(it["train_plain"]),
            round(it["train"]),
            f"{it['times']:.1f}",
            round(it["predict"]),
        ]
        for it in found["sizes"]
    ]
    print_table(columns, rows, title=f"{found['task']}, {found['threads']} threads, examples per second")
    say(
        "matrix products here: "
        + ", ".join(f"{name} {speed:,.0f} GFLOP/s" for name, speed in found["gigaflops"].items())
    )
