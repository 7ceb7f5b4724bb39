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

MINUTES = 8.0  # of a study that is told neither minutes nor seeds nor repeats

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
    models: Annotated[
        str | None, typer.Option(help="Comma-separated. Default: the bundled ones; name others, such as minilm-l6.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Comma-separated; baselines are always included.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="About how long until the verdict: decides seeds and repeats. Default, without these: 8."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Trainings per row, or per fold; 1,tfidf=4: by row or method.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option(help="Without a test split, every row is tested once, in so many. 0: one split.")
    ] = None,
    repeats: Annotated[
        str | None, typer.Option(help="So often the folds are drawn anew; 1,tfidf=4: by row or method.")
    ] = None,
    curves: Annotated[
        str | None, typer.Option(help="Rows or methods to draw a learning curve of, comma-separated.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="What decides: accuracy, macro_f1 or mcc.")] = None,
    margin: Annotated[
        float | None, typer.Option(help="Points that a cheaper row may be worse and still be recommended. Default: 1.")
    ] = None,
    audit: Annotated[
        bool | None,
        typer.Option("--audit/--no-audit", help="Ask the recommended row about pronouns and names. Default."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="A published table, theirs beside ours: utah, minbert, nyu.")
    ] = None,
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
    from pocketbert.study.store import Store
    from pocketbert.study.study import parse_workers
    from pocketbert.tasks.load import load_tasks

    parse_workers(workers)
    if preset and told:
        raise UserError(f"preset {preset} has its own settings; leave --{next(iter(told)).replace('_', '-')} out")
    columns: dict[str, Any] = {"text": text, "text2": text2, "label": label, "encoding": encoding}
    for name, value in columns.items():
        if not sources and value not in (None, "utf-8"):
            raise UserError(f"--{name} {value}: of which file? It is for files given here; name the file, too")
    arguments: dict[str, Any] = {
        "tasks": load_tasks(sources, hub=hub, **columns) if sources else None,
        "models": _listed(models, "--models"),
        "methods": _listed(methods, "--methods"),
        "minutes": minutes,
        "seeds": _counts(seeds, "--seeds"),
        "folds": folds,
        "repeats": _counts(repeats, "--repeats"),
        "curves": _listed(curves, "--curves"),
        "metric": metric,
        "margin": None if margin is None else margin / 100,
        "audit": audit,
        "preset": preset,
        "rows": rows,
        "out": out,
        "hub": hub or None,
        "again": "pocketbert " + shlex.join(sys.argv[1:]),
    }
    if config is None and preset is None and minutes is None and seeds is None and repeats is None:
        arguments["minutes"] = MINUTES
    if config is not None:
        made = from_config(config, told=told, **arguments)
    else:
        made = Study(**{name: value for name, value in arguments.items() if value is not None}, settings=told)
    plan = made.plan(workers, say=say)
    replaced = Store(made.folder).replaced_study(plan.runs)
    for message in [*_messages(made, plan), *([f"warning: {replaced}"] if replaced else [])]:
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
    """List the finished runs in a study's folder: those of the present study, left over ones, and damaged ones."""
    from pocketbert.study.store import Store

    store = Store(folder)
    if not store.runs.is_dir():
        raise UserError(f"{folder}: no study of pocketbert (it has no folder runs)")
    entries, studied = store.index(), store.in_study()
    if as_json:
        marked = {
            name: {**it, "in_study": None if studied is None else name in studied} for name, it in entries.items()
        }
        print_json({"folder": str(folder), "runs": marked})
        return
    table = []
    for name, entry in entries.items():
        if "damaged" in entry:
            table.append([name, "", "", "", "", "damaged", ""])
            say(f"damaged: {entry['damaged']}; remove the folder {store.runs / name}, and run the study again")
            continue
        scored = [entry["scores"].get(split, {}).get("accuracy") for split in ("test", "dev")]
        accuracy = next((f"{100 * score:.1f}" for score in scored if score is not None), "not scored")
        belongs = "" if studied is None else "yes" if name in studied else "left over"
        table.append([name, entry["task"], entry["method"], entry["model"] or "", entry["seed"], accuracy, belongs])
    print_table(["folder", "task", "method", "model", "seed", "accuracy %", "in the study"], table)
    if studied is not None and set(entries) - studied:
        say("Left over: of an earlier study in this folder; the present results do not count them.")


def _counts(given: str | None, flag: str) -> "int | dict[str, int] | None":
    """`3`, or `1,tfidf=4,frozen pocket-mini=2`."""
    if given is None:
        return None
    counts: dict[str, int] = {}
    for part in given.split(","):
        name, _, number = part.rpartition("=")
        try:
            counts[name.strip()] = int(number)
        except ValueError:
            raise UserError(f"{flag} {given!r}: expected a number, or several by row or method: 1,tfidf=4") from None
    return counts[""] if list(counts) == [""] else {"": 1, **counts}


def _listed(given: str | None, flag: str) -> list[str] | None:
    if given is None:
        return None
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise UserError(f"{flag} {given!r}: names none; name one, or several, comma-separated")
    return names


def _messages(study: "Study", plan: "Plan") -> list[str]:
    """What was guessed, left out or is wrong with the data, said before anything is trained."""
    messages: list[str] = []
    for task in plan.tasks.values():
        messages += task.notes
    for row, check in zip(plan.rows, plan.checks, strict=True):
        messages += [f"warning: {row.task}: {warning}" for warning in check.warnings]
    messages = [*dict.fromkeys(messages), *plan.notes]
    if study.budget is not None:
        took = f"planned for {study.budget.minutes:g} minutes, about {duration(study.budget.seconds)} until the verdict"
        messages.append(f"{took}: {study.budget.flags()}")
    return messages


def _show_plan(study: "Study", plan: "Plan", workers: str | None, as_json: bool) -> None:
    from pocketbert.study.store import Store
    from pocketbert.study.study import parse_workers
    from pocketbert.study.timing import elapsed
    from pocketbert.training.settings import usable_cores

    store = Store(study.folder)
    left = [run for run in plan.runs if not store.finished(run)]
    count = parse_workers(workers)
    names = {run.folder for run in left}
    jobs = [[run for run in job if run.folder in names] for job in plan.jobs()]
    seconds = elapsed(jobs, count if isinstance(count, int) else usable_cores()) if left else 0.0
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
    if document.advice:
        print("\n  What to do next:")
    for sentence in document.advice:
        print(f"  {sentence}")


def _show(study: "Study", as_json: bool, *, known: bool) -> None:
    """What is left to say; `known`: the results were shown before."""
    document = study.results
    if as_json:
        print_json(document.to_dict())
    elif not known:
        _show_results(document)
    for one in document.audits if not as_json else ():
        print(f"  Audit of {one.row}, {one.suite}: {' '.join(one.summary)}")
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
