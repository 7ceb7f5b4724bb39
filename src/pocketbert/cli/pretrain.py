"""`pocketbert pretrain`: raw text to a model folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pocketbert.cli.app import Json, app
from pocketbert.cli.output import print_json, print_table, say, speaks
from pocketbert.cli.progress import duration, training_progress

if TYPE_CHECKING:
    from pocketbert.pretraining import PretrainedFolder


@app.command()
def pretrain(
    corpus: Annotated[list[Path], typer.Argument(metavar="CORPUS…", help=".txt, .jsonl, .gz of these, folders.")],
    out: Annotated[Path, typer.Option(help="Folder of the model. The same command again goes on with it.")],
    size: Annotated[str, typer.Option(help="A published shape (tiny, mini, …) or layers x width: 3x192.")] = "tiny",
    steps: Annotated[int | None, typer.Option(help="Budget: steps.")] = None,
    tokens: Annotated[int | None, typer.Option(help="Budget: tokens read.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Budget: minutes, measured once and kept as steps.")] = None,
    field: Annotated[
        str, typer.Option(help="JSON lines: the text's field; several, comma-separated: the first one found.")
    ] = "text",
    vocabulary: Annotated[str | None, typer.Option(help="A model's name or a vocab.txt; default: learn one.")] = None,
    vocabulary_size: Annotated[int, typer.Option(help="Tokens to learn.")] = 12_000,
    vocabulary_sample: Annotated[int, typer.Option(help="Characters to learn them from, at most.")] = 30_000_000,
    lowercase: Annotated[bool, typer.Option(help="An uncased vocabulary.")] = True,
    held_out: Annotated[float, typer.Option(help="Share of the documents that is only measured on.")] = 0.01,
    batch_size: Annotated[int, typer.Option(help="Rows per step, over all processes.")] = 64,
    max_length: Annotated[int, typer.Option(help="Tokens per row.")] = 128,
    positions: Annotated[int, typer.Option(help="Places the model has; untrained ones repeat.")] = 512,
    share: Annotated[float, typer.Option(help="Share of the tokens that is masked.")] = 0.15,
    whole_word: Annotated[bool, typer.Option("--whole-word", help="Mask all pieces of a word or none.")] = False,
    nsp: Annotated[bool, typer.Option(help="Next-sentence prediction.")] = True,
    causal: Annotated[bool, typer.Option("--causal", help="Left to right instead of masked words.")] = False,
    short: Annotated[float, typer.Option(help="Share of the batches that is cut shorter.")] = 0.1,
    learning_rate: Annotated[float | None, typer.Option(help="Default: by the width.")] = None,
    warmup: Annotated[float, typer.Option(help="Share of the steps over which the rate rises.")] = 0.05,
    weight_decay: Annotated[float, typer.Option(help="On matrices.")] = 0.01,
    clip: Annotated[float, typer.Option(help="Largest gradient norm; 0: no limit.")] = 1.0,
    dropout: Annotated[float, typer.Option(help="While pretraining.")] = 0.0,
    text_weight: Annotated[
        float, typer.Option(help="Of the losses of the text itself, words and next sentences; 0: a teacher alone.")
    ] = 1.0,
    teacher: Annotated[str | None, typer.Option(help="A model to agree with, such as minilm-l6.")] = None,
    teacher_words: Annotated[bool, typer.Option("--teacher-words", help="Start from its word vectors.")] = False,
    teacher_sentences: Annotated[int, typer.Option(help="Sentences it is asked about.")] = 200_000,
    teacher_batch: Annotated[int, typer.Option(help="Of them per step.")] = 64,
    teacher_length: Annotated[int, typer.Option(help="Tokens of a sentence, at most.")] = 64,
    teacher_pooling: Annotated[str, typer.Option(help="The student's sentence vector: mean or pooler.")] = "mean",
    teacher_layer: Annotated[
        int | None, typer.Option(help="Of the teacher (0: embeddings): learn its words' states, too.")
    ] = None,
    cosine_weight: Annotated[float, typer.Option(help="Of the distance to the teacher's vectors.")] = 3.0,
    similarity_weight: Annotated[float, typer.Option(help="Of the difference of similarities.")] = 10.0,
    states_weight: Annotated[float, typer.Option(help="Of the distance to the states of words.")] = 3.0,
    checkpoints: Annotated[int, typer.Option(help="Parts of the budget; after each it measures and saves.")] = 50,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, or cuda (untested).")] = "cpu",
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16; default: what pays here.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads per process; default: every core.")] = None,
    half: Annotated[bool, typer.Option("--half", help="Write the weights as float16.")] = False,
    cache: Annotated[Path | None, typer.Option(help="Where tokenised texts and teacher's vectors are kept.")] = None,
    as_json: Json = False,
) -> None:
    """Pretrain a BERT on raw text: masked words, next sentences, a teacher. Several processes: under torchrun."""
    from pocketbert.pretraining import PretrainingSettings
    from pocketbert.pretraining import pretrain as run
    from pocketbert.training.machine import keep_freed_memory

    keep_freed_memory()
    settings = PretrainingSettings(
        size=size,
        positions=positions,
        steps=steps,
        tokens=tokens,
        minutes=minutes,
        fields=tuple(part.strip() for part in field.split(",") if part.strip()),
        vocabulary=vocabulary,
        vocabulary_size=vocabulary_size,
        vocabulary_sample=vocabulary_sample,
        lowercase=lowercase,
        held_out=held_out,
        batch_size=batch_size,
        max_length=max_length,
        share=share,
        whole_word=whole_word,
        next_sentence=nsp and not causal,
        causal=causal,
        short=short,
        learning_rate=learning_rate,
        warmup=warmup,
        weight_decay=weight_decay,
        clip=clip,
        dropout=dropout,
        text_weight=text_weight,
        teacher=teacher,
        teacher_words=teacher_words,
        teacher_sentences=teacher_sentences,
        teacher_batch=teacher_batch,
        teacher_length=teacher_length,
        teacher_pooling=teacher_pooling,
        teacher_layer=teacher_layer,
        cosine_weight=cosine_weight,
        similarity_weight=similarity_weight,
        states_weight=states_weight,
        checkpoints=checkpoints,
        seed=seed,
        device=device,
        precision=precision,
        threads=threads,
        half=half,
    )
    with training_progress() as report:
        done = run(corpus, out, settings, cache=cache, report=report, say=say)
    if not speaks():
        return
    if as_json:
        print_json({"folder": str(done.folder), **done.metadata, "metrics": done.metrics})
    else:
        _show(done)


def _show(done: "PretrainedFolder") -> None:
    metrics = done.metrics
    held, baseline, cost = metrics["held_out"], metrics["baseline"], metrics["cost"]
    rows = [
        [name, *(_number(values.get(key), scale) for key, scale in _COLUMNS)]
        for name, values in (("held out", held), ("without reading", baseline))
    ]
    title = f"{metrics['steps']:,} steps, {metrics['tokens']:,} tokens in {duration(cost['training_seconds'])}"
    print_table(["", "words: loss", "right %", "next sentence: loss", "right %"], rows, title=title)
    say(f"{cost['parameters']:,} parameters, {cost['tokens_per_second']:,.0f} tokens per second; model: {done.folder}")


_COLUMNS = (("words", 1), ("words_accuracy", 100), ("next_sentence", 1), ("next_sentence_accuracy", 100))


def _number(value: float | None, scale: int) -> str:
    return "–" if value is None else f"{scale * value:.{1 if scale == 100 else 3}f}"
