"""`pocketbert study`: many runs, statistics over them, one report. `pocketbert runs`: what a study's folder holds."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.arguments import Encoding, Hub, Label, Text, Text2
from pocketbert.cli.options import with_settings
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.cli.progress import duration
from pocketbert.errors import UserError

if TYPE_CHECKING:
    from pocketbert.report.document import Document
    from pocketbert.study import Plan, Study


@app.command()
@with_settings
def study(
    told: dict[str, Any],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TASK|FILE]…",
            help="Built-in tasks or one's own files, a task each (train.csv,dev.csv,test.csv is one). Default: movies.",
        ),
    ] = None,
    models: Annotated[str | None, typer.Option(help="With commas. Default: those at hand.")] = None,
    methods: Annotated[str | None, typer.Option(help="With commas; baselines are always included.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Trainings per row (default 5); under folds, per fold (1).")] = None,
    folds: Annotated[
        int | None, typer.Option(help="Without a test split, every row is tested once, in so many. 0: one split.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(help="So often the folds are drawn anew. Default: 1.")] = None,
    metric: Annotated[str | None, typer.Option(help="What decides: accuracy, macro_f1 or mcc.")] = None,
    margin: Annotated[
        float | None, typer.Option(help="Points that a cheaper row may be worse and still be recommended. Default: 1.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="A published table, theirs beside ours: utah, minbert.")] = None,
    config: Annotated[Path | None, typer.Option(help="A study.toml; what is given here overrides it.")] = None,
    rows: Annotated[int | None, typer.Option(help="At most so many texts of each split: a quick look.")] = None,
    workers: Annotated[str | None, typer.Option(help="Processes (default: one a core), or ray[://address].")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the study. Default: studies/NAME.")] = None,
    text: Text = None,
    text2: Text2 = None,
    label: Label = None,
    encoding: Encoding = "utf-8",
    hub: Hub = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run and how long; do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Which is better on my data, and am I sure? Trains everything on several seeds, compares, and writes a report.

    The same command again goes on where it stopped; finished runs are never repeated.
    """
    from pocketbert.study import Study, from_config
    from pocketbert.study.study import parse_workers
    from pocketbert.tasks import load_task

    parse_workers(workers)
    if preset and told:
        raise UserError(f"preset {preset} has its own settings; leave --{next(iter(told)).replace('_', '-')} out")
    columns: dict[str, Any] = {"text": text, "text2": text2, "label": label, "hub": hub, "encoding": encoding}
    arguments: dict[str, Any] = {
        "tasks": [load_task(source, **columns) for source in sources] if sources else None,
        "models": _listed(models, "--models"),
        "methods": _listed(methods, "--methods"),
        "seeds": seeds,
        "folds": folds,
        "repeats": repeats,
        "metric": metric,
        "margin": None if margin is None else margin / 100,
        "preset": preset,
        "rows": rows,
        "out": out,
        "hub": hub or None,
        "again": "pocketbert " + shlex.join(sys.argv[1:]),
    }
    if config is not None:
        made = from_config(config, told=told, **arguments)
    else:
        made = Study(**{name: value for name, value in arguments.items() if value is not None}, settings=told)
    plan = made.plan()
    for message in _messages(made, plan):
        say(message)
    if dry_run:
        _show_plan(made, plan, workers, as_json)
        return

    def decided(document: "Document") -> None:
        if not as_json:
            _show_results(document)
            say("The verdict stands; what follows is the recommended model, trained on all rows.")

    made.run(workers, progress=True, plan=plan, decided=decided if plan.folds else None)
    _show(made, as_json, known=bool(plan.folds))


@app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="The folder of a study.")],
    as_json: Json = False,
) -> None:
    """List the finished runs in a study's folder, and those that were damaged since."""
    from pocketbert.study.store import Store

    store = Store(folder)
    if not store.runs.is_dir():
        raise UserError(f"{folder}: no study of pocketbert (it has no folder runs)")
    entries = store.index()
    if as_json:
        print_json({"folder": str(folder), "runs": entries})
        return
    table = []
    for name, entry in entries.items():
        if "damaged" in entry:
            table.append([name, "", "", "", "", "damaged"])
            say(f"damaged: {entry['damaged']}; remove the folder {store.runs / name}, and run the study again")
            continue
        scored = [entry["scores"].get(split, {}).get("accuracy") for split in ("test", "dev")]
        accuracy = next((f"{100 * score:.1f}" for score in scored if score is not None), "not scored")
        table.append([name, entry["task"], entry["method"], entry["model"] or "", entry["seed"], accuracy])
    print_table(["folder", "task", "method", "model", "seed", "accuracy %"], table)


def _listed(given: str | None, flag: str) -> list[str] | None:
    if given is None:
        return None
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise UserError(f"{flag} {given!r}: names none; name one, or several with commas")
    return names


def _messages(study: "Study", plan: "Plan") -> list[str]:
    """What was guessed, left out or is wrong with the data, said before anything is trained."""
    messages: list[str] = []
    for task in plan.tasks.values():
        messages += task.notes
    for row, check in zip(plan.rows, plan.checks, strict=True):
        messages += [f"warning: {row.task}: {warning}" for warning in check.warnings]
    return [*dict.fromkeys(messages), *plan.notes]


def _show_plan(study: "Study", plan: "Plan", workers: str | None, as_json: bool) -> None:
    from pocketbert.study.store import Store
    from pocketbert.study.study import parse_workers

    store = Store(study.folder)
    left = [run for run in plan.runs if not store.finished(run)]
    count = parse_workers(workers)
    seconds = sum(run.estimated_seconds for run in left)
    if isinstance(count, int) and left:
        seconds = max(
            seconds / count, max(sum(run.estimated_seconds for run in job if run in left) for job in plan.jobs())
        )
    lines: list[dict[str, Any]] = []
    for number, row in enumerate(plan.rows):
        own = plan.of_row(number)
        waiting = [run for run in own if run in left]
        settings = own[0].settings.to_dict()
        rate = ", ".join(f"{rate:g}" for rate in getattr(own[0].settings, "rates", ()))
        lines.append(
            {
                "task": row.task,
                "row": row.name,
                "trainings": len(own),
                "finished": len(own) - len(waiting),
                "learning_rate": rate,
                "epochs": settings.get("epochs"),
                "precision": settings.get("precision"),
                "seconds_per_training": round(own[0].estimated_seconds, 1),
            }
        )
    if as_json:
        runs = [
            {"folder": run.folder, "settings": run.settings.to_dict(), "seconds": run.estimated_seconds}
            for run in plan.runs
        ]
        print_json({"folder": str(study.folder), "rows": lines, "runs": runs, "left": len(left), "seconds": seconds})
        return
    table = [["" if value is None else value for value in line.values()] for line in lines]
    for cells in table:
        cells[-1] = f"about {duration(float(cells[-1]))}"
    columns = ["task", "row", "trainings", "finished", "rate", "epochs", "precision", "each"]
    print_table(columns, table, title=f"{len(left)} of {len(plan.runs)} runs to do")
    many = "" if count == 1 else "s"
    say(f"about {duration(seconds)} with {count} worker{many}, into {study.folder}; nothing was run")


def _show_results(document: "Document") -> None:
    from pocketbert.study import tables

    for task in document.tasks:
        columns, lines = tables.table_rows(document, task.name)
        if lines:
            print_table(columns, lines, title=tables.title(task))
    for published in document.published:
        print_table(published.columns, published.rows, title=published.title)
        say(f"What differs: {published.differs}")
    for sentence in document.verdicts:
        print(f"  {sentence}")


def _show(study: "Study", as_json: bool, *, known: bool) -> None:
    """What is left to say; `known`: the results were shown before."""
    document = study.results
    if as_json:
        print_json(document.to_dict())
    elif not known:
        _show_results(document)
    for failure in document.failures:
        say(f"failed: {failure.run}: {failure.reason}")
    for task in document.tasks:
        if task.suspects:
            say(f"{task.suspects:,} labels look wrong: {study.folder / 'suspect_labels.csv'}")
    for one in document.recommended:
        if one.final is not None:
            whose = f" ({one.task})" if len(document.recommended) > 1 else ""
            say(f"model{whose}: {study.folder / one.final}; use it: pocketbert predict {study.folder} FILE")
    say(f"\nreport: {study.folder / 'report.html'}")
    if document.failures:
        say(f"error: {len(document.failures)} runs failed; the same command again tries them once more")
        raise typer.Exit(2)
