"""What a person reads about a pretrained model: the card (README.md) and the curve (report.html)."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pocketbert.files import write_text
from pocketbert.pretraining.settings import PretrainingSettings
from pocketbert.report.charts import Line, Lines, curves
from pocketbert.report.page import page
from pocketbert.report.svg import around, tag

FLAGS = {"next_sentence": "nsp", "fields": "field"}  # where the command line says it in another word
NOT_FLAGS = ("device", "threads")  # the machine's, not the model's


def command(settings: PretrainingSettings, files: Sequence[str]) -> str:
    """The command that makes this model again: the files' names, and every setting that is not the usual one."""
    words = ["pocketbert pretrain", *map(shlex.quote, files)]
    for field in fields(settings):
        value = getattr(settings, field.name)
        if value == field.default or field.name in NOT_FLAGS:
            continue
        flag = FLAGS.get(field.name, field.name).replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words.append(f"--{flag} {','.join(value) if isinstance(value, tuple) else value}")
    return " ".join([*words, "--out DIR"])


def write_card(path: Path, metrics: dict[str, Any], settings: PretrainingSettings, files: Sequence[str]) -> None:
    """What it was made from, how, at what cost, and how well it tells words; limits that follow from that."""
    cost, corpus, shape = metrics["cost"], metrics["corpus"], settings.shape()
    lines = [
        f"# {path.parent.resolve().name}",
        "",
        f"A BERT of {shape.layers} layers, {shape.width} wide, {cost['parameters']:,} parameters, vocabulary "
        f"{corpus['vocabulary']:,} ({'uncased' if corpus['lowercase'] else 'cased'}), pretrained by pocketbert.",
        "",
        "## How it was made",
        f"- Text: {', '.join(files)}: {corpus['documents']:,} documents, {corpus['sentences']:,} sentences, "
        f"{corpus['tokens']:,} tokens; {corpus['held_out_documents']:,} documents held out whole.",
        f"- Task: {_task(settings)}",
        *_teacher(settings),
        f"- {metrics['steps']:,} steps of {settings.batch_size} rows of at most {settings.max_length} tokens, "
        f"{metrics['tokens']:,} tokens read; AdamW, rate {settings.learning_rate:g}, warm-up "
        f"{100 * settings.warmup:g} %, then down to zero in a line; weight decay {settings.weight_decay:g}; dropout "
        f"{settings.dropout:g}; {settings.precision}; seed {settings.seed}.",
        f"- Cost: {cost['training_seconds'] / 60:.1f} minutes with {cost['processes']} x {settings.threads} threads, "
        f"{cost['tokens_per_second']:,.0f} tokens per second.",
        "",
        "```",
        command(replace(settings, steps=metrics["steps"], tokens=None, minutes=None), files),
        "```",
        "",
        "## Held-out text",
        *_held_out(metrics),
        "",
        "## Limits",
        f"- Sequences in training had at most {settings.longest} tokens; the vectors of later positions repeat the "
        f"trained ones.",
        "- It knows the language of its texts, with their opinions and gaps, and nothing else.",
        "",
    ]
    write_text(path, "\n".join(lines))


def _task(settings: PretrainingSettings) -> str:
    parts = []
    if settings.causal:
        parts.append("the next word from those to its left (left-to-right attention while training)")
    elif settings.text_weight:
        whole = "whole words" if settings.whole_word else "word pieces"
        parts.append(f"masked words ({100 * settings.share:g} % of the {whole}; 80/10/10)")
    if settings.next_sentence:
        parts.append("next sentence (half true, half from another document)")
    started = "; the head's bias started from the words' frequencies" if settings.text_weight else ""
    return " and ".join(parts) + started + "." if parts else "none of its own."


def _teacher(settings: PretrainingSettings) -> list[str]:
    lines = []
    if settings.learns_sentences:
        lines.append(
            f"- Teacher: {settings.teacher}. Its normalised mean-pooled vectors of up to "
            f"{settings.teacher_sentences:,} training sentences; the student's {settings.teacher_pooling} vectors, "
            f"{settings.teacher_batch} a step, learn them: cosine distance after a linear projection (weight "
            f"{settings.cosine_weight:g}), squared difference of similarities (weight {settings.similarity_weight:g})."
        )
    if settings.learns_states:
        lines.append(
            f"- The states of the words in layer {settings.teacher_layer} of {settings.teacher}, standardised, are "
            f"learned by the student's last layer ({settings.teacher_batch} sentences per step, of up to "
            f"{settings.teacher_sentences:,}, where both tokenizers see the same words; both averaged over a word's "
            f"pieces): cosine distance after another projection (weight {settings.states_weight:g})."
        )
    if settings.distils:
        lines.append(f"- Beside the teacher's, the text's own losses have weight {settings.text_weight:g}.")
    if settings.teacher_words:
        lines.append(
            f"- The word table started from {settings.teacher}'s word vectors, averaged over its pieces and reduced by "
            f"principal components."
        )
    return lines


def _held_out(metrics: dict[str, Any]) -> list[str]:
    held, baseline = metrics["held_out"], metrics["baseline"]
    if held["words"] is None:
        return ["Not measured: the model was not trained to tell words, or too little text was held out."]
    rows = [
        "| | loss | accuracy | without reading |",
        "|---|---|---|---|",
        f"| words | {held['words']:.3f} | {100 * held['words_accuracy']:.1f} % | word frequencies: loss "
        f"{baseline['words']:.3f}, {100 * baseline['words_accuracy']:.1f} % |",
    ]
    if held["next_sentence"] is not None:
        rows.append(
            f"| next sentence | {held['next_sentence']:.3f} | {100 * held['next_sentence_accuracy']:.1f} % | 50 % |"
        )
    return rows


# -- the curve -------------------------------------------------------------------------------------------------------


def write_curve(path: Path, metrics: dict[str, Any], settings: PretrainingSettings) -> None:
    """One page: each measured loss over the steps, held-out words beside the baseline."""
    curve, baseline = metrics["curve"], metrics["baseline"]
    charts = [
        ("Held-out words: loss (dashed: word frequencies)", "held_words", baseline["words"]),
        ("Held-out words: share right, %", "held_words_accuracy", baseline["words_accuracy"]),
        ("Held-out next sentence: share right, %", "held_next_sentence_accuracy", baseline["next_sentence_accuracy"]),
        ("Teacher: cosine distance", "cosine", None),
        ("Teacher: squared difference of similarities", "similarity", None),
        ("Teacher: cosine distance of words' states", "states", None),
    ]
    drawn = [
        _card(title, [(row["step"], row[name]) for row in curve], reference, share=name.endswith("accuracy"))
        for title, name, reference in charts
        if curve and curve[-1][name]
    ]
    title = f"Pretraining {settings.size}: {metrics['steps']:,} steps"
    body = tag("header", tag("h1", title)) + tag("main", tag("div", *drawn, class_="cards"))
    write_text(path, page(title, body))


def _card(title: str, line: Line, reference: float | None, *, share: bool) -> Markup:
    values = [value for _, value in line] + ([] if reference is None else [reference])
    span = around(values, least=0.01, inside=(0.0, 1.0 if share else math.inf), about=4)
    chart = curves(Lines([line]), span=span, label=title, share=share, unit="step", reference=reference)
    return tag("article", tag("figure", tag("figcaption", title), chart), class_="card")
