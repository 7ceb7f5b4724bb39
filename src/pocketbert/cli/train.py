"""`pocketbert train`: one run, from labelled texts to a folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.arguments import Encoding, Hub, Label, LabelsAreReal, Text, Text2
from pocketbert.cli.options import with_settings
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.cli.progress import duration, training_progress
from pocketbert.errors import UserError
from pocketbert.methods import DEFAULT, get_method
from pocketbert.values import within

if TYPE_CHECKING:
    from pocketbert.runs import Run


@app.command()
@with_settings
def train(
    source: Annotated[list[str], typer.Argument(metavar="TASK|FILE…", help="A built-in task, or one's own files.")],
    out: Annotated[Path, typer.Option(help="Folder of the run. The same command again goes on with it.")],
    told: dict[str, Any],
    model: Annotated[str | None, typer.Option(help="A name from `pocketbert models`, a folder, a Hub name.")] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="RUN", help="A finished run, or a study, to start from, instead of a model."),
    ] = None,
    adapters: Annotated[
        str | None,
        typer.Option(metavar="NAME=RUN,…", help="fusion: finished runs on the same model whose adapters to fuse."),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option(metavar="TASK,…", help="multitask, sequential: other tasks to learn; mnli@10000: so many rows."),
    ] = None,
    method: Annotated[str, typer.Option(help="A name from `pocketbert methods`.")] = DEFAULT,
    text: Text = None,
    text2: Text2 = None,
    label: Label = None,
    split_seed: Annotated[int, typer.Option(help="Cuts one file into train, dev and test; not changed by --seed.")] = 0,
    labels_are_real: LabelsAreReal = False,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Score texts that the run to start from learnt from, all the same.")
    ] = False,
    encoding: Encoding = "utf-8",
    hub: Hub = False,
    as_json: Json = False,
) -> None:
    """Train one model on one task. Dev chooses the rate and the epoch; the test split is scored once."""
    from pocketbert.export import cannot_export
    from pocketbert.study.final import recommended_run
    from pocketbert.tasks import load_task
    from pocketbert.tasks.load import load_tasks
    from pocketbert.train import train_run
    from pocketbert.training.machine import keep_freed_memory

    keep_freed_memory()
    if model is not None and start is not None:
        raise UserError("--model and --from both say what to start from; give one of them")
    get_method(method).read(told)  # what is wrong is said before anything is read
    task = load_task(
        source if len(source) > 1 else source[0],
        text=text,
        text2=text2,
        label=label,
        seed=split_seed,
        labels_are_real=labels_are_real,
        hub=hub,
        encoding=encoding,
    )
    if tasks is not None:
        others = load_tasks([one.strip() for one in tasks.split(",")], hub=hub)
        task = replace(task, others=tuple(others), notes=(*task.notes, *(note for one in others for note in one.notes)))
    unfit = cannot_export(told.get("head"))
    for message in (*task.notes, *([unfit] if unfit else [])):
        say(message)
    began = None if start is None else recommended_run(Path(start)).start()
    with training_progress() as report:
        run = train_run(
            task,
            method,
            out,
            model=model,
            start=began,
            adapters=_named_runs(adapters),
            settings=told,
            report=report,
            say=say,
            allow_overlap=allow_overlap,
        )
    if as_json:
        print_json({"folder": str(run.folder), **run.metadata, "metrics": run.metrics})
    else:
        _show(run.folder, run.metadata, run.metrics)


def _named_runs(given: str | None) -> "dict[str, Run]":
    """`mnli=runs/mnli,rte=runs/rte`."""
    from pocketbert.runs import load_run

    found: dict[str, Run] = {}
    for part in [] if given is None else given.split(","):
        name, _, folder = (piece.strip() for piece in part.partition("="))
        if not name or not folder:
            raise UserError(f"--adapters {given!r}: expected a name and a run's folder for each: mnli=runs/mnli")
        if name in found:
            raise UserError(f"--adapters {given!r}: two are called '{name}'")
        with within(f"--adapters: '{name}'"):
            found[name] = load_run(Path(folder).expanduser())
    return found


def _show(folder: Path, metadata: dict[str, Any], metrics: dict[str, Any]) -> None:
    best, cost = metrics["best"], metrics["cost"]
    chosen = best and get_method(metadata["method"]).read(metadata["settings"]).choices > 1
    if best:
        how = f"chosen on dev (of {metrics['trials']} trials)" if chosen else "as planned"
        say(
            f"rate {best['learning_rate']:g}, epoch {best['epoch']}, {how}; "
            f"{cost['trained_parameters']:,} parameters trained in {duration(cost['seconds'])}, "
            f"peak memory {cost['peak_memory_bytes'] / 2**20:,.0f} MB"
        )
    chose = {"dev": "dev (chosen on)"} if chosen else {}
    rows = [score_row(chose.get(name, name), score) for name, score in metrics["scores"].items()]
    model = f" {metadata['model']}" if metadata["model"] else ""
    print_table(
        SCORES, rows, title=f"{metadata['task']}: {metadata['method']}{model}, seed {metadata['settings']['seed']}"
    )
    scored = [name for name in ("test", "dev") if "confusion" in metrics["scores"].get(name, {})]
    if scored:
        print_confusion(metadata["labels"], metrics["scores"][scored[0]]["confusion"], split=scored[0])
    say(f"run: {folder}")


MOST_IN_A_MATRIX = 10  # labels; of more, the commonest confusions are listed


def print_confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]], *, split: str | None = None) -> None:
    """Which label was taken for which: true ones below each other, predicted ones side by side."""
    where = f", {split}" if split else ""
    if len(labels) <= MOST_IN_A_MATRIX:
        rows = [[label, *counts, sum(counts)] for label, counts in zip(labels, matrix, strict=True)]
        print_table(["true label", *(f"as {label}" for label in labels), "rows"], rows, title=f"Predicted{where}")
        return
    wrong = [
        (count, true, predicted)
        for true, counts in zip(labels, matrix, strict=True)
        for predicted, count in zip(labels, counts, strict=True)
        if count and predicted != true
    ]
    commonest = sorted(wrong, key=lambda one: -one[0])[:MOST_IN_A_MATRIX]
    rows = [[true, predicted, count] for count, true, predicted in commonest]
    print_table(["true label", "predicted", "rows"], rows, title=f"The commonest confusions{where}")


SCORES = ["split", "rows", "accuracy %", "95 % interval", "macro-F1 %", "MCC", "calibration error %"]


def score_row(name: str, score: dict[str, Any]) -> list[Any]:
    """One split's scores as a table row; a refused split says why."""
    if "refused" in score:
        return [name, score["rows"], "not scored", score["refused"], "", "", ""]
    return [
        name,
        score["rows"],
        f"{100 * score['accuracy']:.1f}",
        f"{100 * score['low']:.1f} to {100 * score['high']:.1f}",
        f"{100 * score['macro_f1']:.1f}",
        f"{score['mcc']:.3f}",
        f"{100 * score['calibration_error']:.1f}",
    ]
