"""The charts of the report, as SVG inside the page.

Two kinds: drawings that stretch with the page (places in per cent, text keeps its size) where only horizontal lines
and dots are needed, and small drawings with a view box, about as wide as a phone, where lines slope. In both, names
stand above the marks, not at their left: on a phone there is no room for a left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from pocketbert.report.document import Bin, ComparisonResult, LearningCurve, RowResults
from pocketbert.report.svg import Scale, across, around, tag, ticks
from pocketbert.report.wording import count, duration, fixed, interval, percent, points, shorten

WIDE, HIGH = 320, 200  # a small drawing; its plot is inside these margins:
LEFT, RIGHT, TOP, BOTTOM = 34, 12, 12, 34
ROW = 46  # height of a row of the dot chart
MOST_SEEDS = 100  # strokes in a row of it; many are drawn fainter, so that they show where they are dense
MOST_LINES = 20  # thin lines in a chart of learning curves; more are a blot
TIMES = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000, 360000)  # seconds, and between them:
MORE_TIMES = (0.003, 0.03, 0.3, 3, 30, 180, 1800, 10800, 108000)
MOST_PLACES = 60  # points along a line; more cannot be seen

Line = list[tuple[float, float]]
Ranked = tuple[int, RowResults]  # a row and its number in the table


@dataclass(frozen=True)
class Lines:
    """Learning curves: those of the chosen rates, those of the others, and the places of the chosen epochs."""

    chosen: list[Line]
    others: list[Line] = field(default_factory=list)
    marks: Line = field(default_factory=list)


def dots(rows: Sequence[Ranked], *, label: str) -> Markup:
    """One dot per row with its 95 % interval and a small mark for each seed; a line where the majority baseline is."""
    scores = [row.accuracy for _, row in rows]
    values = [value for score in scores for value in (score.mean, score.low, score.high, *score.values)]
    low, high = around(values, least=0.04, inside=(0.0, 1.0))
    place = Scale(low, high, 0.05, 0.95)
    top, bottom = 26, 26 + ROW * len(rows)
    parts = [tag("line", class_="between", x1=0, x2="100%", y1=y, y2=y) for y in range(top, bottom + 1, ROW)]
    for tick in ticks(low, high, 6):
        x = across(place(tick))
        parts.append(tag("line", class_="grid", x1=x, x2=x, y1=top, y2=bottom))
        parts.append(tag("text", percent(tick, _digits(low, high)), x=x, y=bottom + 17, text_anchor="middle"))
    parts.append(tag("text", "accuracy, %", x="50%", y=bottom + 36, text_anchor="middle"))
    majority = next((row.accuracy.mean for _, row in rows if row.guesses and row.deterministic), None)
    if majority is not None:
        share = place(majority)
        anchor = "start" if share < 0.5 else "end"
        parts.append(tag("line", class_="reference", x1=across(share), x2=across(share), y1=top - 6, y2=bottom))
        text = "always the commonest label"
        parts.append(tag("text", text, class_="reference", x=across(share), y=top - 11, text_anchor=anchor))
    for index, (number, row) in enumerate(rows):
        parts.append(_dot(number, row, place, top + ROW * index))
    return tag("svg", *parts, class_="chart wide", width="100%", height=bottom + 44, role="img", aria_label=label)


def _dot(number: int, row: RowResults, place: Scale, top: float) -> Markup:
    score, middle = row.accuracy, top + 32
    told = f"{number}. {row.name}: {percent(score.mean)} % (95 %: {interval(score.low, score.high)})"
    ends = [across(place(end)) for end in (score.low, score.high)]
    parts = [
        tag("title", told),
        tag("text", f"{number}. {shorten(row.name, 30)}", class_="name", x=0, y=top + 18),
        tag("text", percent(score.mean), class_="value", x="100%", y=top + 18, text_anchor="end"),
        tag("line", class_="interval", x1=ends[0], x2=ends[1], y1=middle, y2=middle),
    ]
    parts += [tag("line", class_="end", x1=x, x2=x, y1=middle - 4, y2=middle + 4) for x in ends]
    seeds = [across(place(value)) for value in score.values[:MOST_SEEDS]]
    parts += [tag("line", class_="seed", x1=x, x2=x, y1=middle - 8, y2=middle + 8) for x in seeds]
    parts.append(tag("circle", class_="mean", cx=across(place(score.mean)), cy=middle, r=5))
    kind = "baseline" if row.baseline else "ours"
    return tag("g", *parts, class_=f"{kind} many" if len(seeds) > MOST_LINES else kind)


def strip(pair: ComparisonResult, span: tuple[float, float]) -> Markup:
    """One comparison of rows, drawn."""
    return interval_strip(pair.effect, pair.low, pair.high, span, clear=pair.significant)


def interval_strip(effect: float, low: float, high: float, span: tuple[float, float], *, clear: bool) -> Markup:
    """An effect as an interval beside the line of none; an arrow where it goes on outside the drawing."""
    place = Scale(*span, 0.05, 0.95)
    zero, left, right = (across(place(end)) for end in (0, low, high))
    kind = " clear" if clear else ""
    parts = [
        tag("line", class_="zero", x1=zero, x2=zero, y1=0, y2=22),
        tag("line", class_=f"interval{kind}", x1=left, x2=right, y1=11, y2=11),
    ]
    if effect > span[1]:
        parts.append(tag("text", "▸", class_="arrow", x="100%", y=16, text_anchor="end"))
    elif effect < span[0]:
        parts.append(tag("text", "◂", class_="arrow", x=0, y=16))
    else:
        parts.append(tag("circle", class_=f"mean{kind}", cx=across(place(effect)), cy=11, r=4))
    told = f"{points(effect)} points, from {points(low)} to {points(high)}"
    return tag("svg", *parts, class_="chart strip", width="100%", height=22, role="img", aria_label=told)


def _digits(low: float, high: float) -> int:
    """Digits that a per cent axis needs for its ticks to differ."""
    return 0 if high - low > 0.03 else 1


def _frame(xs: list[tuple[float, str]], ys: list[tuple[float, str]], below: str, *, high: float = HIGH) -> list[Markup]:
    """Grid lines, the numbers along both axes, and what the lower one counts."""
    parts = []
    for y, text in ys:
        parts.append(tag("line", class_="grid", x1=LEFT, x2=WIDE - RIGHT, y1=y, y2=y))
        parts.append(tag("text", text, x=LEFT - 6, y=y + 4, text_anchor="end"))
    for x, text in xs:
        parts.append(tag("line", class_="tick", x1=x, x2=x, y1=high - BOTTOM, y2=high - BOTTOM + 4))
        half = 3.5 * len(text) + 2  # a long word under the last tick moves left rather than out of the drawing
        parts.append(tag("text", text, x=min(x, WIDE - half), y=high - BOTTOM + 16, text_anchor="middle"))
    parts.append(tag("text", below, x=(LEFT + WIDE - RIGHT) / 2, y=high - 4, text_anchor="middle"))
    return parts


def _small(parts: list[Markup], label: str, *, high: float = HIGH) -> Markup:
    return tag("svg", *parts, class_="chart small", viewBox=f"0 0 {WIDE} {high}", role="img", aria_label=label)


def _thinned(line: Line) -> Line:
    if len(line) <= MOST_PLACES:
        return line
    return [line[round(index * (len(line) - 1) / (MOST_PLACES - 1))] for index in range(MOST_PLACES)]


def _path(line: Line, x: Scale, y: Scale, kind: str) -> Markup:
    if len(line) == 1:
        return tag("circle", class_=f"{kind} single", cx=x(line[0][0]), cy=y(line[0][1]), r=2.5)
    return tag("polyline", class_=kind, points=" ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in _thinned(line)))


def mean_line(lines: list[Line]) -> Line:
    """The mean at each epoch that all lines reached. Later ones would be a mean of the survivors."""
    tables = [dict(line) for line in lines]
    shared = [epoch for epoch, _ in lines[0] if all(epoch in table for table in tables)] if lines else []
    return [(epoch, sum(table[epoch] for table in tables) / len(tables)) for epoch in shared]


def curves(
    lines: Lines,
    *,
    span: tuple[float, float],
    label: str,
    share: bool,
    unit: str = "epoch",
    reference: float | None = None,
) -> Markup:
    """A thin line per seed, a thick one for their mean; fainter ones for rates of a grid that were not chosen.

    `span` is shared by the charts of a task, so that they can be compared by eye; `reference` is a level to beat.
    """
    chosen, others = lines.chosen, lines.others
    times = [time for line in chosen + others for time, _ in line]
    first, last = min(times), max(times)
    x = Scale(first, last, LEFT + 4, WIDE - RIGHT - 4)
    y = Scale(*span, HIGH - BOTTOM, TOP)
    whole = [tick for tick in ticks(first, last, 6 if last < 1000 else 3) if tick == round(tick)] or [times[0]]
    shares = _digits(*span)
    digits = 0 if span[1] - span[0] >= 4 else 1 if span[1] - span[0] > 0.3 else 2
    parts = _frame(
        [(x(tick), count(tick)) for tick in whole],
        [(y(tick), percent(tick, shares) if share else fixed(tick, digits)) for tick in ticks(*span, 4)],
        unit,
    )
    if reference is not None:
        parts.append(tag("line", class_="reference", x1=LEFT, x2=WIDE - RIGHT, y1=y(reference), y2=y(reference)))
    parts += [_path(line, x, y, "other") for line in others[: max(0, MOST_LINES - len(chosen))] if line]
    parts += [_path(line, x, y, "seed") for line in chosen[:MOST_LINES] if line]
    if mean := mean_line(chosen):
        parts.append(_path(mean, x, y, "mean"))
    parts += [tag("circle", class_="chosen", cx=x(a), cy=y(b), r=3) for a, b in lines.marks[:MOST_LINES]]
    return _small(parts, label)


def sizes(curve: LearningCurve, *, span: tuple[float, float], label: str) -> Markup:
    """A row's score over the number of training rows, on a logarithmic axis, each with its 95 % interval."""
    points = curve.points
    x = Scale(points[0].rows / 1.15, points[-1].rows * 1.15, LEFT, WIDE - RIGHT, log=True)
    y = Scale(*span, HIGH - BOTTOM, TOP)
    parts = _frame(
        [(x(point.rows), count(point.rows)) for point in points],
        [(y(tick), percent(tick, _digits(*span))) for tick in ticks(*span, 4)],
        "training rows, on a logarithmic axis",
    )
    parts.append(_path([(point.rows, point.score.mean) for point in points], x, y, "mean"))
    for point in points:
        right, score = x(point.rows), point.score
        title = f"{count(point.rows)} rows: {percent(score.mean)} % ({interval(score.low, score.high)})"
        bar = tag("line", class_="interval", x1=right, x2=right, y1=y(score.low), y2=y(score.high))
        parts.append(tag("g", tag("title", title), bar, tag("circle", class_="mean", cx=right, cy=y(score.mean), r=4)))
    return _small(parts, label)


def reliability(bins: Sequence[Bin], *, label: str) -> Markup:
    """How sure the model was against how often it was right; on the diagonal both agree. Area is the share of rows."""
    high = 230
    x, y = Scale(0, 1, LEFT, WIDE - RIGHT), Scale(0, 1, high - BOTTOM, TOP)
    marked = [0, 0.25, 0.5, 0.75, 1]
    parts = _frame(
        [(x(tick), percent(tick, 0)) for tick in marked],
        [(y(tick), percent(tick, 0)) for tick in marked],
        "how sure, %",
        high=high,
    )
    parts.append(tag("line", class_="diagonal", x1=x(0), y1=y(0), x2=x(1), y2=y(1)))
    for each in bins:
        sure, right = each.confidence, each.accuracy
        title = f"{percent(sure)} % sure, {percent(right)} % right ({count(each.rows)} rows)"
        gap = tag("line", class_="gap", x1=x(sure), x2=x(sure), y1=y(sure), y2=y(right))
        dot = tag("circle", class_="mean", cx=x(sure), cy=y(right), r=2 + 8 * max(0.0, min(1.0, each.share)) ** 0.5)
        parts.append(tag("g", tag("title", title), gap, dot))
    return _small(parts, label, high=high)


def cost(rows: Sequence[Ranked], *, label: str) -> Markup:
    """Accuracy against the time of a run, on a logarithmic axis. Dots carry the numbers of the table's rows."""
    high = 250
    times = [row.cost.seconds for _, row in rows]
    x = Scale(min(times) / 1.6, max(times) * 1.6, LEFT, WIDE - RIGHT, log=True)
    scores = [row.accuracy for _, row in rows]
    ends = [end for score in scores for end in (score.mean, score.low, score.high)]
    span = around(ends, least=0.04, inside=(0.0, 1.0))
    y = Scale(*span, high - BOTTOM, TOP)
    parts = _frame(
        [(x(tick), _brief(tick)) for tick in time_ticks(x.low, x.high)],
        [(y(tick), percent(tick, _digits(*span))) for tick in ticks(*span, 6)],
        "time per run, on a logarithmic axis",
        high=high,
    )
    places = [(x(row.cost.seconds), y(row.accuracy.mean)) for _, row in rows]
    taken = [(right - 5, up - 5, right + 5, up + 5) for right, up in places]
    for (number, row), (right, up) in zip(rows, places, strict=True):
        score = row.accuracy
        inside = [
            tag("title", f"{number}. {row.name}: {percent(score.mean)} %, {duration(row.cost.seconds)}"),
            tag("line", class_="interval", x1=right, x2=right, y1=y(score.low), y2=y(score.high)),
            tag("circle", class_="mean", cx=right, cy=up, r=4),
        ]
        found = _free(right, up, 7 * len(str(number)), taken, high)
        if found is not None:
            taken.append(found)
            middle = (found[0] + found[2]) / 2
            inside.append(tag("text", str(number), class_="name", x=middle, y=found[3] - 2, text_anchor="middle"))
        parts.append(tag("g", *inside, class_="baseline" if row.baseline else "ours"))
    return _small(parts, label, high=high)


Box = tuple[float, float, float, float]


def _free(x: float, y: float, wide: float, taken: list[Box], high: float) -> Box | None:
    """A place for a label near a dot that no dot and no label has yet; None is better than two labels in one place."""
    for right, down in ((9, -4), (-9 - wide, -4), (9, 14), (-9 - wide, 14), (-wide / 2, -9), (-wide / 2, 20)):
        box = (x + right, y + down - 7, x + right + wide, y + down + 5)
        inside = box[0] >= LEFT and box[2] <= WIDE - 2 and box[1] >= 2 and box[3] <= high - BOTTOM
        if inside and not any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in taken
        ):
            return box
    return None


def time_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Times that people have words for, as many as there is room for."""
    found = [time for time in sorted(TIMES + MORE_TIMES) if low <= time <= high]
    if len(found) > most:
        found = [time for time in found if time in TIMES]
    return found[:: -(-len(found) // most) or 1]


def _brief(seconds: float) -> str:
    """A tick of a time axis: `0.1 s`, `30 s`, `3 min`, `10 h`."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:g} s"
