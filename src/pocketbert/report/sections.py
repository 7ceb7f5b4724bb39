"""The document, arranged for reading: grouped by task, best first, long lists cut with a word on what was left out.

One function per section of the report; what each gives is for the template of that section.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pocketbert.report import charts
from pocketbert.report.charts import Line, Lines, Ranked
from pocketbert.report.document import ComparisonResult, Document, RowResults, TaskSummary
from pocketbert.report.svg import around
from pocketbert.report.wording import count, duration, plain

MOST_COMPARISONS = 60  # in all; beyond it only those with the best row or a baseline are shown
MOST_KEPT = 200  # … and of these so many
REACH = 0.15  # how far drawn differences from one of these go: they may be 40 points away, and would squeeze all others
MOST_CHART_ROWS = 60
MOST_CLASSES = 12  # a wider confusion matrix is a list of its most common mistakes instead
MOST_LABELS = 30
OPEN_CARDS = 12  # further ones are folded away
MOST_MISTAKES = 12  # per row
MOST_MISTAKES_IN_ALL = 120
MOST_LINES = 200  # of a table of probes, of a published table, of failures

SPLITS = ("all", "train", "dev", "test")

View = dict[str, Any]  # what a template shows


@dataclass(frozen=True)
class Group:
    """A task and its rows, best first and numbered. Tables and charts refer to rows by these numbers."""

    task: TaskSummary
    rows: list[Ranked]

    @property
    def name(self) -> str:
        return self.task.name


def groups(document: Document) -> list[Group]:
    found = []
    for task in document.tasks:
        rows = sorted(document.rows_of(task.name), key=lambda row: -row.accuracy.mean)
        found.append(Group(task, list(enumerate(rows, start=1))))
    return found


def result_tables(groups: Sequence[Group]) -> Iterator[View]:
    for group in groups:
        rows = group.rows
        if not rows:
            continue
        shown = rows[:MOST_CHART_ROWS] + [ranked for ranked in rows[MOST_CHART_ROWS:] if ranked[1].baseline]
        label = f"accuracy of {len(shown)} rows on {group.name}, each with its 95 % interval"
        yield {
            "task": group.task,
            "rows": rows,
            "theirs": any(row.theirs for _, row in rows),
            "alone": not all(row.accuracy.counts_training_noise for _, row in rows),
            "chart": charts.dots(shown, label=label),
            "left_out": len(rows) - len(shown),
        }


def comparisons(document: Document, groups: Sequence[Group]) -> Iterator[View]:
    """Every pair while they can be read; of very many, those that decide: with the best row and with the baselines."""
    many = len(document.comparisons) > MOST_COMPARISONS
    shown = 0
    for group in groups:
        pairs = [pair for pair in document.comparisons if pair.task == group.name]
        if not pairs:
            continue
        kept = pairs
        if many:
            best = {row.name for _, row in group.rows[:1]}
            floor = {row.name for _, row in group.rows if row.baseline}
            named = [(pair, {pair.first, pair.second}) for pair in pairs]
            kept = [pair for pair, names in named if names & best]
            kept += [pair for pair, names in named if names & floor and not names & best]
            kept = kept[: max(10, MOST_KEPT - shown)]
        shown += len(kept)
        span = _span(kept, {row.name for _, row in group.rows if row.guesses})
        yield {
            "name": group.name,
            "pairs": [(pair, charts.strip(pair, span)) for pair in kept],
            "left_out": len(pairs) - len(kept),
        }


def _span(pairs: Sequence[ComparisonResult], floor: set[str]) -> tuple[float, float]:
    """The differences that are drawn: all between real rows, and of those from the floor what is not too far."""
    ends = [-0.01, 0.01]
    for pair in pairs:
        reach = REACH if {pair.first, pair.second} & floor else 1.0
        ends += [max(-reach, min(reach, end)) for end in (pair.low, pair.high)]
    return min(ends), max(ends)


def _lines(row: RowResults, *, dev: bool) -> Lines:
    picks = {pick.seed: pick for pick in row.chosen}
    chosen, others, marks = [], [], []
    for curve in row.curves:
        values = curve.dev_accuracy if dev else curve.loss
        line: Line = [(x, y) for x, y in zip(curve.epochs, values, strict=False) if y is not None]
        pick = picks.get(curve.seed)
        if not line:
            continue
        if pick is not None and pick.learning_rate not in (None, curve.learning_rate):
            others.append(line)
            continue
        chosen.append(line)
        if pick is not None and dev:
            marks += [(x, y) for x, y in line if x == pick.epoch]
    return Lines(chosen, others, marks) if chosen else Lines(others, [], [])


def learning(groups: Sequence[Group]) -> Iterator[View]:
    for group in groups:
        accuracy = {number: _lines(row, dev=True) for number, row in group.rows}
        loss = {number: _lines(row, dev=False) for number, row in group.rows}
        kinds = (
            ("dev accuracy, %", accuracy, _span_of(accuracy, 0.04, 1.0)),
            ("training loss", loss, _span_of(loss, 0.05, math.inf)),
        )
        cards = []
        for number, row in group.rows:
            drawn = []
            for title, lines, span in kinds:
                if (own := lines[number]).chosen:
                    label = f"{title} by epoch: {row.name}"
                    drawn.append((title, charts.curves(own, span=span, label=label, share=lines is accuracy)))
            if drawn:
                size = len(accuracy[number].chosen or loss[number].chosen)
                others = len(loss[number].others)
                cards.append({"number": number, "row": row, "charts": drawn, "lines": size, "others": others})
        if cards:
            yield {"name": group.name, "cards": cards}


def sizes(document: Document) -> Iterator[View]:
    """Scores over the number of training rows, and what more of them would bring."""
    for task in document.tasks:
        drawn = [curve for curve in document.learning_curves if curve.task == task.name]
        ends = [end for curve in drawn for point in curve.points for end in (point.score.low, point.score.high)]
        span = around(ends, least=0.04, inside=(0.0, 1.0), about=4)
        cards = [
            {"curve": curve, "chart": charts.sizes(curve, span=span, label=f"score by training rows: {curve.row}")}
            for curve in drawn
        ]
        if cards:
            yield {"name": task.name, "cards": cards}


def _span_of(lines: Mapping[int, Lines], least: float, most: float) -> tuple[float, float]:
    values = [y for one in lines.values() for line in one.chosen + one.others for _, y in line]
    return around(values, least=least, inside=(0.0, most), about=4)


def confusions(groups: Sequence[Group]) -> Iterator[View]:
    for group in groups:
        cards = [_confusion_card(number, row, group.task.labels) for number, row in group.rows]
        if cards:
            yield {"name": group.name, "cards": cards, "wide": len(group.task.labels)}


def _confusion_card(number: int, row: RowResults, labels: tuple[str, ...]) -> View:
    lines = [
        (name, [(cell, cell / (sum(line) or 1), down == right) for right, cell in enumerate(line)])
        for down, (name, line) in enumerate(zip(labels, row.confusion, strict=True))
    ]
    wrong = [
        (cell, true, predicted, share)
        for true, line in lines
        for predicted, (cell, share, right) in zip(labels, line, strict=True)
        if not right and cell > 0
    ]
    return {
        "number": number,
        "row": row,
        "labels": labels,
        "classes": [(label, row.per_class[label]) for label in labels[:MOST_LABELS]],
        "lines": lines if len(labels) <= MOST_CLASSES else None,
        "worst": sorted(wrong, key=lambda each: -each[0])[:MOST_CLASSES],
    }


def calibrations(groups: Sequence[Group]) -> Iterator[View]:
    for group in groups:
        cards = []
        for number, row in group.rows:
            label = f"how sure against how often right: {row.name}"
            cards.append({"number": number, "row": row, "chart": charts.reliability(row.reliability, label=label)})
        if cards:
            yield {"name": group.name, "cards": cards}


def costs(groups: Sequence[Group]) -> Iterator[View]:
    for group in groups:
        timed = [(number, row) for number, row in group.rows if row.cost.seconds > 0]
        label = f"accuracy against the time per run on {group.name}"
        chart = charts.cost(timed, label=label) if len(timed) > 1 else None
        if group.rows:
            yield {"name": group.name, "rows": group.rows, "chart": chart}


def mistakes(document: Document) -> View | None:
    """One list per row, in the order of the document, while there is room."""
    found: dict[tuple[str, str], View] = {}
    shown = 0
    for mistake in document.mistakes:
        if shown == MOST_MISTAKES_IN_ALL:
            break
        entry = found.setdefault(
            (mistake.task, mistake.row), {"task": mistake.task, "row": mistake.row, "mistakes": []}
        )
        if len(entry["mistakes"]) < MOST_MISTAKES:
            entry["mistakes"].append(mistake)
            shown += 1
    return {"rows": list(found.values()), "left_out": len(document.mistakes) - shown} if shown else None


def data(task: TaskSummary) -> View:
    balance = {split: counts for split in _in_order(task.balance) if (counts := task.balance[split])}
    lines = []
    for label in task.labels[:MOST_LABELS]:
        cells = [(counts.get(label, 0), sum(counts.values())) for counts in balance.values()]
        lines.append((label, [(rows, rows / total if total else 0.0) for rows, total in cells]))
    return {
        "task": task,
        "splits": [(split, task.rows[split]) for split in _in_order(task.rows)],
        "balance": list(balance),
        "labels": lines if balance else [],
        "left_out": len(task.labels) - MOST_LABELS if balance else 0,
    }


def _in_order(splits: dict[str, Any]) -> list[str]:
    """Splits in the order in which they are used; JSON keeps them in that of the alphabet."""
    return sorted(splits, key=lambda split: SPLITS.index(split) if split in SPLITS else len(SPLITS))


def settings(groups: Sequence[Group]) -> View:
    """What all rows share is said once; what is left of each row is how it differs."""
    trained = [(group.name, number, row) for group in groups for number, row in group.rows if row.settings]
    texts = [{key: plain(value) for key, value in row.settings.items()} for _, _, row in trained]
    shared = (
        {key: text for key, text in texts[0].items() if all(one.get(key) == text for one in texts)} if texts else {}
    )
    own = [{key: text for key, text in one.items() if key not in shared} for one in texts]
    return {"shared": shared, "rows": [(*ranked, left) for ranked, left in zip(trained, own, strict=True) if left]}


def facts(document: Document) -> list[str]:
    """The line under the title."""
    runs = sum(len(row.seeds) for row in document.rows)
    told = [_many(len(document.tasks), "task"), _many(len(document.rows), "row"), _many(runs, "run")]
    told.append(f"{duration(document.seconds)} of computing")
    if document.preset:
        told.append(f"preset {document.preset}")
    return [*told, f"pocketbert {document.pocketbert}"]


def _many(size: int, noun: str) -> str:
    return f"{count(size)} {noun}" if size == 1 else f"{count(size)} {noun}s"
