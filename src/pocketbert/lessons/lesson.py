"""What a lesson is: a claim, and a function that writes its page while it runs.

A page is written from top to bottom: what is said, the formula it follows from, the check that ran, the table, the
figure, the common mistake. A lesson holds when every check on its page does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Number = float | int


@dataclass(frozen=True)
class Check:
    """One thing that was computed, and whether it came out as the lesson says."""

    claim: str
    holds: bool


@dataclass(frozen=True)
class Block:
    """A piece of a page, as Markdown."""

    kind: str  # text, formula, check, table, mistake, figure
    markdown: str


@dataclass
class LessonPage:
    """What a lesson found: its checks, its numbers, and the page that shows them."""

    name: str
    title: str
    claim: str
    checks: list[Check] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    figure: str = ""  # SVG

    @property
    def holds(self) -> bool:
        return bool(self.checks) and all(check.holds for check in self.checks)

    def section(self, title: str) -> None:
        self._add("text", f"## {title}")

    def text(self, paragraph: str) -> None:
        """Prose. Line ends are spaces, so that code may be indented; an empty line begins a new paragraph."""
        for part in paragraph.strip().split("\n\n"):
            self._add("text", " ".join(part.split()))

    def formula(self, *lines: str) -> None:
        """Formulas, one per line, in characters that a terminal has too."""
        self._add("formula", "\n".join(["```text", *lines, "```"]))

    def check(self, claim: str, holds: bool, **values: Any) -> None:
        """Something that ran. `values` are kept under their names, in full; the claim shows them rounded."""
        claim, holds = " ".join(claim.split()), bool(holds)
        self.checks.append(Check(claim, holds))
        self.keep(**values)
        self._add("check", f"- {'✓' if holds else '✗ does not hold:'} {claim}")

    def keep(self, **values: Any) -> None:
        """Numbers for `values`, without a check of their own."""
        self.values.update({name: _plain(value) for name, value in values.items()})

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        lines = [f"| {' | '.join(map(_cell, columns))} |", "|" + "---|" * len(columns)]
        lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
        self._add("table", "\n".join(lines))

    def mistake(self, paragraph: str) -> None:
        """Where a common account is wrong."""
        self._add("mistake", f"> **A common mistake.** {' '.join(paragraph.split())}")

    def draw(self, svg: str, caption: str) -> None:
        """The figure of the lesson; the caption says what to see in it."""
        self.figure = svg
        self._add("figure", " ".join(caption.split()))

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "claim": self.claim,
            "holds": self.holds,
            "checks": [{"claim": check.claim, "holds": check.holds} for check in self.checks],
            "values": self.values,
        }

    def markdown(self, figure: str | None = None) -> str:
        """The page; `figure` is the address of the drawing, None leaves it out."""
        parts = [f"# {self.title}", f"**Claim.** {self.claim}"]
        before = ""
        for block in self.blocks:
            text = block.markdown
            if block.kind == "figure":
                text = f"*{text}*" if figure is None else f"![{text.replace(']', ')')}]({figure})\n\n*{text}*"
            if block.kind == before == "check":
                parts[-1] += f"\n{text}"  # one list
            else:
                parts.append(text)
            before = block.kind
        failed = sum(not check.holds for check in self.checks)
        ran = f"{len(self.checks)} checks ran"
        parts.append(
            f"**The claim holds:** {ran}." if self.holds else f"**The claim does not hold:** {ran}, {failed} failed."
        )
        return "\n\n".join(parts) + "\n"

    def _add(self, kind: str, markdown: str) -> None:
        self.blocks.append(Block(kind, markdown))


@dataclass(frozen=True)
class Lesson:
    """One piece of the theory, by name."""

    name: str
    title: str
    claim: str
    teach: Callable[[LessonPage], None]

    def run(self) -> LessonPage:
        page = LessonPage(self.name, self.title, self.claim)
        self.teach(page)
        return page


LESSONS: dict[str, Lesson] = {}


def lesson(name: str, title: str, claim: str) -> Callable[[Callable[[LessonPage], None]], Callable[[LessonPage], None]]:
    """A decorator: the function that follows is the lesson of this name."""

    def register(teach: Callable[[LessonPage], None]) -> Callable[[LessonPage], None]:
        LESSONS[name] = Lesson(name, title, " ".join(claim.split()), teach)
        return teach

    return register


def _plain(value: Any) -> Any:
    """Numbers of numpy and torch as Python's own; what is no number, such as an overflow, as None, which JSON has."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and value - value != 0:  # infinite, or not a number
        return None
    return value


def _cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value).replace("|", "\\|")
