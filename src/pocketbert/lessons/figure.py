"""The figures of lessons: panels with labelled axes, lines told apart by dash and marker, areas by pattern.

A figure is one SVG with a ground of its own that follows light and dark. Nothing depends on colour alone: every series
has a dash, a marker or a pattern of its own, and is named beside the panel.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from pocketbert.report.svg import Scale, tag, ticks

STYLE = """
.ground{fill:#fff} text{font:13px system-ui,sans-serif;fill:#22262b} .small{font-size:11.5px} .title{font-weight:600}
.grid{stroke:#e3e3e3} .axis{stroke:#777} .reference{stroke:#777;stroke-dasharray:2 3}
.s{fill:none;stroke-width:2} .m{stroke-width:1.6} .s0{stroke:#1f5c8f} .s1{stroke:#b0501f} .s2{stroke:#2c6e49}
.s3{stroke:#7a4a8c} .s4{stroke:#555} .f{stroke:none} .f0{fill:#1f5c8f} .f1{fill:#d98a5b} .f2{fill:#c9d6c3}
.cell{fill:#1f5c8f} .empty{fill:#fff} .ink{fill:#22262b} text.on-f0{fill:#fff}
@media (prefers-color-scheme:dark){
.ground,.empty{fill:#17191c} text,.ink{fill:#e7e5e0} .grid{stroke:#33373c} .axis,.reference{stroke:#9a9fa6}
.s0{stroke:#7db4e3} .s1{stroke:#f0a07a} .s2{stroke:#86c79d} .s3{stroke:#cba3db} .s4{stroke:#b5b9be}
.f0{fill:#5f9ccf} .f1{fill:#b06a40} .f2{fill:#3d5244} .cell{fill:#7db4e3} text.on-f0{fill:#101214}}
"""
DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 4")
MARKERS = "osd^x"
Point = tuple[float, float]


@dataclass
class Panel:
    """One plot: what is along its axes, and the marks in it."""

    x_label: str
    y_label: str
    x: tuple[float, float]
    y: tuple[float, float]
    title: str = ""
    log_x: bool = False
    log_y: bool = False
    x_names: dict[float, str] = field(default_factory=dict)  # instead of numbers
    y_names: dict[float, str] = field(default_factory=dict)
    wide: float = 330
    high: float = 270
    left: float = 62
    series: list[str] = field(default_factory=list)
    _marks: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)

    def line(self, points: Sequence[Point], name: str, *, markers: int = 6, style: int | None = None) -> None:
        """A line with a dash and a marker of its own; `markers`: about how many of its points are marked."""
        index = self._named(name, style)
        self._marks.append(("line", (list(points), index, markers)))

    def dots(self, points: Sequence[Point], name: str, *, style: int | None = None) -> None:
        index = self._named(name, style)
        self._marks.append(("dots", (list(points), index)))

    def reference(self, *, x: float | None = None, y: float | None = None) -> None:
        self._marks.append(("reference", (x, y)))

    def box(self, corner: Point, opposite: Point, kind: str, opacity: float = 1.0) -> None:
        """A filled rectangle, in the units of the axes; `kind` is a class of the style: cell, f0, f1, f2."""
        self._marks.append(("box", (corner, opposite, kind, opacity)))

    def write(
        self, point: Point, text: str, *, anchor: str = "middle", shift: Point = (0, 4), on: str | None = None
    ) -> None:
        """Text at a point; `on`: the kind of box that it stands on."""
        self._marks.append(("text", (point, text, anchor, shift, on)))

    def _named(self, name: str, style: int | None) -> int:
        index = len(self.series) if style is None else style
        self.series += [""] * (index + 1 - len(self.series))
        self.series[index] = name
        return index

    # -- drawing ---------------------------------------------------------------------------------------------------

    def draw(self, left: float, top: float) -> list[Markup]:
        x = Scale(*self.x, left + self.left, left + self.wide - 14, log=self.log_x)
        y = Scale(*self.y, top + self.high - 48, top + 34, log=self.log_y)
        parts = self._axes(x, y)
        for kind, mark in self._marks:
            parts += getattr(self, f"_draw_{kind}")(x, y, *mark)
        return parts

    def _axes(self, x: Scale, y: Scale) -> list[Markup]:
        middle = (y.start + y.end) / 2
        parts = [tag("text", self.title, class_="title", x=(x.start + x.end) / 2, y=y.end - 14, text_anchor="middle")]
        for value, name in self.y_names.items() or _numbers(self.y, self.log_y):
            parts.append(tag("line", class_="grid", x1=x.start, x2=x.end, y1=y(value), y2=y(value)))
            parts.append(tag("text", name, class_="small", x=x.start - 6, y=y(value) + 4, text_anchor="end"))
        for value, name in self.x_names.items() or _numbers(self.x, self.log_x):
            parts.append(tag("line", class_="axis", x1=x(value), x2=x(value), y1=y.start, y2=y.start + 4))
            parts.append(tag("text", name, class_="small", x=x(value), y=y.start + 17, text_anchor="middle"))
        parts.append(tag("line", class_="axis", x1=x.start, x2=x.end, y1=y.start, y2=y.start))
        parts.append(tag("line", class_="axis", x1=x.start, x2=x.start, y1=y.start, y2=y.end))
        below = tag("text", self.x_label, x=(x.start + x.end) / 2, y=y.start + 36, text_anchor="middle")
        place = x.start - self.left + 14
        turned = f"rotate(-90 {place:.0f} {middle:.0f})"
        return [
            *parts,
            below,
            tag("text", self.y_label, x=place, y=middle, text_anchor="middle", transform=turned),
        ]

    def _draw_line(self, x: Scale, y: Scale, points: list[Point], index: int, markers: int) -> list[Markup]:
        places = [(x(a), y(b)) for a, b in points]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        dash = DASHES[index % len(DASHES)] or None
        parts = [tag("polyline", class_=f"s s{index % 5}", points=path, stroke_dasharray=dash)]
        step = max(1, round(len(places) / markers)) if markers else len(places) + 1
        first = (index * step // 5) % step  # so that markers of lines that lie on each other are all seen
        return parts + [marker(place, index) for place in places[first::step]] if markers else parts

    def _draw_dots(self, x: Scale, y: Scale, points: list[Point], index: int) -> list[Markup]:
        return [marker((x(a), y(b)), index) for a, b in points]

    def _draw_reference(self, x: Scale, y: Scale, at_x: float | None, at_y: float | None) -> list[Markup]:
        if at_x is not None:
            return [tag("line", class_="reference", x1=x(at_x), x2=x(at_x), y1=y.start, y2=y.end)]
        assert at_y is not None
        return [tag("line", class_="reference", x1=x.start, x2=x.end, y1=y(at_y), y2=y(at_y))]

    def _draw_box(self, x: Scale, y: Scale, corner: Point, opposite: Point, kind: str, opacity: float) -> list[Markup]:
        (left, right), (top, bottom) = sorted([x(corner[0]), x(opposite[0])]), sorted([y(corner[1]), y(opposite[1])])
        size = {"x": left, "y": top, "width": right - left, "height": bottom - top}
        return [tag("rect", class_=f"f {kind}", fill_opacity=None if opacity == 1 else round(opacity, 2), **size)]

    def _draw_text(
        self, x: Scale, y: Scale, at: Point, text: str, anchor: str, shift: Point, on: str | None
    ) -> list[Markup]:
        style = f"small on-{on}" if on else "small"
        return [tag("text", text, class_=style, x=x(at[0]) + shift[0], y=y(at[1]) + shift[1], text_anchor=anchor)]


def marker(place: Point, index: int) -> Markup:
    """A small shape; each series has another one. Open shapes let what is below them be seen."""
    x, y = place
    kind, style = MARKERS[index % len(MARKERS)], f"m s{index % 5} empty"
    if kind == "o":
        return tag("circle", class_=style, cx=x, cy=y, r=3.6)
    if kind == "s":
        return tag("rect", class_=style, x=x - 3.3, y=y - 3.3, width=6.6, height=6.6)
    shapes = {"d": [(0, -4.8), (4.8, 0), (0, 4.8), (-4.8, 0)], "^": [(0, -4.6), (4.4, 3.4), (-4.4, 3.4)]}
    if kind in shapes:
        return tag("polygon", class_=style, points=" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in shapes[kind]))
    cross = f"M{x - 3.5:.1f},{y - 3.5:.1f}l7,7m-7,0l7,-7"
    return tag("path", class_=style, d=cross)


def figure(panels: Sequence[Panel], label: str) -> str:
    """Panels side by side, the names of their series below them, as one SVG."""
    wide = sum(panel.wide for panel in panels) + 16
    names = [[(index, name) for index, name in enumerate(panel.series) if name] for panel in panels]
    shared = len(panels) > 1 and all(name == names[0] for name in names)
    columns = [names[0]] if shared else names
    high = max(panel.high for panel in panels)
    total = high + 20 * max((len(column) for column in columns), default=0) + 14
    parts: list[Markup] = []
    left = 8.0
    for number, panel in enumerate(panels):
        parts += panel.draw(left, 0)
        for row, (index, name) in enumerate(columns[number] if number < len(columns) else []):
            parts += _key(left + panel.left, high + 6 + 20 * row, index, name, panel)
        left += panel.wide
    ground = tag("rect", class_="ground", x=0, y=0, width=wide, height=total)
    style = tag("style", Markup(STYLE.strip()))
    sizes = {"viewBox": f"0 0 {wide:g} {total:g}", "width": f"{wide:g}", "height": f"{total:g}"}
    drawn = tag("svg", style, ground, *parts, xmlns="http://www.w3.org/2000/svg", role="img", aria_label=label, **sizes)
    return str(drawn).replace("><", ">\n<") + "\n"


def _key(left: float, top: float, index: int, name: str, panel: Panel) -> list[Markup]:
    parts = []
    marked = [
        kind == "dots" or mark[2] > 0 for kind, mark in panel._marks if kind in ("line", "dots") and mark[1] == index
    ]
    if any(kind == "line" and mark[1] == index for kind, mark in panel._marks):
        dash = DASHES[index % len(DASHES)] or None
        ends = {"x1": left, "x2": left + 34, "y1": top, "y2": top}
        parts.append(tag("line", class_=f"s s{index % 5}", stroke_dasharray=dash, **ends))
    if any(marked):
        parts.append(marker((left + 17, top), index))
    return [*parts, tag("text", name, x=left + 42, y=top + 4)]


def _numbers(limits: tuple[float, float], log: bool) -> list[tuple[float, str]]:
    low, high = limits
    if not log:
        return [(value, f"{value:.6g}".replace("-", "−")) for value in ticks(low, high, 5)]
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / 6))
    return [(10.0**power, _power(power)) for power in range(first, last + 1, step)]


def _power(exponent: int) -> str:
    if -2 <= exponent <= 3:
        return f"{10.0**exponent:g}"
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
