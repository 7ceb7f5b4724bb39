"""What a person reads about a pretrained model: the card (README.md) and the curve (report.html)."""

import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pocketbert.files import write_text
from pocketbert.pretraining.settings import PretrainingSettings
from pocketbert.report.svg import Scale, tag, ticks

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

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem }
:root { color-scheme: light dark }
svg { width: 100%; height: auto } .line { fill: none; stroke: currentColor; stroke-width: 2 }
.grid { stroke: currentColor; opacity: .2 } .base { stroke: currentColor; stroke-dasharray: 5 4; opacity: .7 }
text { fill: currentColor; font-size: 13px }
"""


def write_curve(path: Path, metrics: dict[str, Any], settings: PretrainingSettings) -> None:
    """One page: each measured loss over the steps, held-out words beside the baseline."""
    curve, baseline = metrics["curve"], metrics["baseline"]
    charts = [
        ("Held-out words: loss (dashed: word frequencies)", "held_words", baseline["words"]),
        ("Held-out words: share right", "held_words_accuracy", baseline["words_accuracy"]),
        ("Held-out next sentence: share right", "held_next_sentence_accuracy", baseline["next_sentence_accuracy"]),
        ("Teacher: cosine distance", "cosine", None),
        ("Teacher: squared difference of similarities", "similarity", None),
        ("Teacher: cosine distance of words' states", "states", None),
    ]
    drawn = [
        Markup("{}{}").format(tag("h2", title), _chart([(row["step"], row[name]) for row in curve], level))
        for title, name, level in charts
        if curve and curve[-1][name]
    ]
    title = f"Pretraining {settings.size}: {metrics['steps']:,} steps"
    page = Markup(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        "<title>{0}</title><style>{1}</style><h1>{0}</h1>{2}</html>\n"
    ).format(title, Markup(STYLE), Markup("").join(drawn))
    write_text(path, str(page))


def _chart(points: list[tuple[float, float]], level: float | None) -> Markup:
    values = [value for _, value in points] + ([] if level is None else [level])
    spare = 0.05 * (max(values) - min(values)) or 0.01
    low, high = min(values) - spare, max(values) + spare
    x = Scale(0.0, points[-1][0], 60.0, 700.0)
    y = Scale(low, high, 230.0, 10.0)
    marks = []
    for value in ticks(low, high):
        marks.append(tag("line", class_="grid", x1=60, x2=700, y1=y(value), y2=y(value)))
        marks.append(tag("text", f"{value:.3g}", x=54, y=y(value) + 4, text_anchor="end"))
    for step in ticks(0.0, points[-1][0]):
        marks.append(tag("text", f"{step:,.0f}", x=x(step), y=250, text_anchor="middle"))
    if level is not None:
        marks.append(tag("line", class_="base", x1=60, x2=700, y1=y(level), y2=y(level)))
    places = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in points)
    marks.append(tag("polyline", class_="line", points=places))
    return tag("svg", *marks, viewBox="0 0 710 260", role="img")
