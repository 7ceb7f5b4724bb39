"""`pocketbert train`: one run, from labelled texts to a folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table, say
from pocketbert.cli.progress import duration, training_progress
from pocketbert.errors import UserError

Text = Annotated[str | None, typer.Option(help="Column of the text.")]
Text2 = Annotated[str | None, typer.Option(help="Column of the second text, for pairs.")]
Label = Annotated[str | None, typer.Option(help="Column of the label.")]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
Hub = Annotated[bool, typer.Option("--hub", help="Allow a download from the Hugging Face Hub.")]
Threads = Annotated[int | None, typer.Option(help="Threads; default: every core.")]


@app.command()
def train(
    source: Annotated[list[str], typer.Argument(metavar="TASK|FILE…", help="A built-in task, or one's own files.")],
    out: Annotated[Path, typer.Option(help="Folder of the run. The same command again goes on with it.")],
    model: Annotated[str | None, typer.Option(help="A name from `pocketbert models`, a folder, a Hub name.")] = None,
    method: Annotated[str, typer.Option(help="A name from `pocketbert methods`.")] = "finetune",
    text: Text = None,
    text2: Text2 = None,
    label: Label = None,
    learning_rate: Annotated[str | None, typer.Option(help="One, or several with commas: dev chooses.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training texts.")] = None,
    batch_size: Annotated[int, typer.Option(help="Texts a step.")] = 32,
    max_length: Annotated[int, typer.Option(help="Tokens a text; longer ones are cut.")] = 128,
    pooling: Annotated[str | None, typer.Option(help="pooler, cls or mean; default: the model's own.")] = None,
    head: Annotated[str, typer.Option(help="linear, two-layer or bilstm.")] = "linear",
    dropout: Annotated[float | None, typer.Option(help="In encoder and head; default: the model's own.")] = None,
    weight_decay: Annotated[float, typer.Option(help="On matrices.")] = 0.01,
    warmup: Annotated[float, typer.Option(help="Share of the steps over which the rate rises.")] = 0.1,
    schedule: Annotated[str, typer.Option(help="linear or constant.")] = "linear",
    clip: Annotated[float, typer.Option(help="Largest gradient norm; 0: no limit.")] = 1.0,
    class_weights: Annotated[bool, typer.Option("--class-weights", help="Weigh rare classes more.")] = False,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs without a better dev score; 0: never.")] = 0,
    vocabulary: Annotated[str | None, typer.Option(help="scratch: a model's name or a vocab.txt.")] = None,
    vocabulary_size: Annotated[int, typer.Option(help="scratch: tokens to learn.")] = 8_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    split_seed: Annotated[int, typer.Option(help="Cuts one file into train, dev and test; not changed by --seed.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, or cuda (untested).")] = "cpu",
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16; default: what pays here.")] = None,
    threads: Threads = None,
    like_length: Annotated[bool, typer.Option(help="Batches of like length.")] = True,
    only_cls: Annotated[bool, typer.Option(help="The last layer for [CLS] alone, where it can be.")] = True,
    vocabulary_slice: Annotated[bool, typer.Option(help="Train only the word rows that are used.")] = True,
    features: Annotated[bool, typer.Option(help="frozen: compute the encoder's features once.")] = True,
    labels_are_real: Annotated[
        bool, typer.Option("--labels-are-real", help="Keep what looks like placeholders.")
    ] = False,
    encoding: Encoding = "utf-8",
    hub: Hub = False,
    as_json: Json = False,
) -> None:
    """Train one model on one task. Dev chooses the rate and the epoch; the test split is scored once."""
    from pocketbert.runs import train_run
    from pocketbert.tasks import load_task
    from pocketbert.training.settings import Settings

    settings = Settings(
        learning_rate=rates(learning_rate),
        epochs=epochs,
        batch_size=batch_size,
        max_length=max_length,
        pooling=pooling,
        head=head,
        dropout=dropout,
        weight_decay=weight_decay,
        warmup=warmup,
        schedule=schedule,
        clip=clip,
        class_weights=class_weights,
        patience=patience,
        vocabulary=vocabulary,
        vocabulary_size=vocabulary_size,
        seed=seed,
        device=device,
        precision=precision,
        threads=threads,
        like_length=like_length,
        only_cls=only_cls,
        slice=vocabulary_slice,
        features=features,
    )
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
    for message in task.said:
        say(message)
    with training_progress() as report:
        run = train_run(task, method, out, model=model, settings=settings, report=report, say=say)
    if as_json:
        print_json({"folder": str(run.folder), **run.about, "metrics": run.metrics})
    else:
        _show(run.folder, run.about, run.metrics)


def rates(given: str | None) -> tuple[float, ...] | None:
    """Numbers with commas between them."""
    if given is None:
        return None
    try:
        return tuple(float(rate) for rate in given.split(","))
    except ValueError:
        raise UserError(f"--learning-rate {given[:60]}: expected a number, or several with commas: 1e-4,3e-4") from None


def _show(folder: Path, about: dict[str, Any], metrics: dict[str, Any]) -> None:
    best, cost = metrics["best"], metrics["cost"]
    if best:
        say(
            f"chosen on dev: rate {best['learning_rate']:g}, epoch {best['epoch']} (of {metrics['trials']} trials); "
            f"{cost['trained_parameters']:,} parameters trained in {duration(cost['seconds'])}, "
            f"peak memory {cost['peak_memory_bytes'] / 2**20:,.0f} MB"
        )
    chose = {"dev": "dev (chosen on)"} if best else {}
    rows = [score_row(chose.get(name, name), score) for name, score in metrics["scores"].items()]
    model = f" {about['model']}" if about["model"] else ""
    print_table(SCORES, rows, title=f"{about['task']}: {about['method']}{model}, seed {about['settings']['seed']}")
    say(f"run: {folder}")


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
