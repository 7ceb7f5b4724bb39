"""Progress for people, always on standard error: a bar in a terminal and in a notebook, plain lines elsewhere.

Commands always show it. In Python it is shown where a person looks on, a terminal or a notebook, unless they say so.
"""

import contextlib
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from pocketbert.training.loop import Progress, Report

EVERY = 10.0  # seconds between plain lines
MOST_LINES = 40  # about epochs


def is_shown(wanted: bool | None) -> bool:
    """As the person says; where they say nothing (None), in a terminal and in a notebook.

    Not in the processes that scikit-learn starts (`n_jobs=2`): they would all draw on one terminal.
    """
    if wanted is not None:
        return wanted
    return multiprocessing.parent_process() is None and (_is_terminal() or _is_notebook())


def live_console() -> "Console | None":
    """What can be drawn on again and again: a terminal, or a notebook with ipywidgets. None: print lines."""
    from rich.console import Console

    drawn = find_spec("ipywidgets") is not None if _is_notebook() else _is_terminal()
    return Console(stderr=True) if drawn else None


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _is_notebook() -> bool:
    """As rich sees it: Jupyter, Colab, Databricks."""
    if "IPython" not in sys.modules:  # rich takes a moment to import
        return False
    from rich.console import Console

    return Console().is_jupyter


def say(message: str) -> None:
    """A line for the person; standard output stays for the result."""
    print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def training_progress(wanted: bool | None = True) -> Iterator["Report | None"]:
    """A reporter for the training loop: a bar within the epoch, lines after epochs. None where nothing is shown."""
    if not is_shown(wanted):
        yield None
        return
    console = live_console()
    if console is not None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[speed]}")]
        with Bar(*columns, console=console, transient=True) as bar:
            shown = bar.add_task("starting", total=None, speed="")

            def report(now: "Progress") -> None:
                if _has_line(now):
                    console.print(_line(now), highlight=False)
                description = f"epoch {now.epoch}/{now.epochs}"
                speed = f"{now.speed:,.0f} examples/s, {duration(now.left)} left"
                bar.update(shown, description=description, total=now.examples, completed=now.done, speed=speed)

            yield report
        return
    last = time.monotonic()

    def plain(now: "Progress") -> None:
        nonlocal last
        if _has_line(now):
            say(_line(now))
        elif now.record is None and time.monotonic() - last > EVERY:
            share = now.done / max(1, now.examples)
            say(f"epoch {now.epoch}/{now.epochs} {share:.0%}, {now.speed:,.0f} examples/s, {duration(now.left)} left")
        else:
            return
        last = time.monotonic()

    yield plain


def _has_line(now: "Progress") -> bool:
    """After every epoch, and of hundreds after some."""
    return now.record is not None and (now.epoch == now.epochs or now.epoch % max(1, now.epochs // MOST_LINES) == 0)


def _line(now: "Progress") -> str:
    record = now.record
    assert record is not None
    loss = "it diverged" if record.loss is None else f"loss {record.loss:.4f}"
    dev = "" if record.dev_accuracy is None else f", dev accuracy {100 * record.dev_accuracy:.1f} %"
    return (
        f"rate {record.rate:g}, epoch {record.epoch}/{now.epochs}: {loss}{dev} "
        f"({now.speed:,.0f} examples/s, {duration(now.left)} left)"
    )


@contextlib.contextmanager
def row_progress(what: str) -> Iterator[Callable[[int], None]]:
    """Hears how many rows are done; says so now and then, with the speed."""
    begun = last = time.monotonic()

    def tick(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= (0.5 if sys.stderr.isatty() else EVERY):
            last = now
            line = f"{what}: {done:,} rows, {done / max(now - begun, 1e-9):,.0f} a second"
            print(line, end="\r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)

    yield tick
    if sys.stderr.isatty() and last != begun:
        print(" " * 79, end="\r", file=sys.stderr)


def duration(seconds: float) -> str:
    """5 s, 3 min, 2 h: as exact as a guess deserves."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
