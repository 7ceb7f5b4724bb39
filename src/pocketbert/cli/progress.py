"""Progress for people: a bar on a terminal, plain lines elsewhere; always on standard error."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pocketbert.cli.output import say

if TYPE_CHECKING:
    from pathlib import Path

    from pocketbert.study.plan import Plan, PlannedRun
    from pocketbert.study.pool import Event, Watch
    from pocketbert.training.loop import Progress

EVERY = 10.0  # seconds between plain lines


@contextlib.contextmanager
def training_progress() -> Iterator[Callable[["Progress"], None]]:
    """A reporter for the training loop: a bar within the epoch, a line after each."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[speed]}")]
        with Bar(*columns, console=console, transient=True) as bar:
            shown = bar.add_task("starting", total=None, speed="")

            def report(now: "Progress") -> None:
                if now.record is not None:
                    console.print(_line(now), highlight=False)
                description = f"epoch {now.epoch}/{now.epochs}"
                speed = f"{now.speed:,.0f} examples/s, {duration(now.left)} left"
                bar.update(shown, description=description, total=now.examples, completed=now.done, speed=speed)

            yield report
        return
    last = time.monotonic()

    def plain(now: "Progress") -> None:
        nonlocal last
        if now.record is not None:
            say(_line(now))
        elif time.monotonic() - last > EVERY:
            share = now.done / max(1, now.examples)
            say(f"epoch {now.epoch}/{now.epochs} {share:.0%}, {now.speed:,.0f} examples/s, {duration(now.left)} left")
        else:
            return
        last = time.monotonic()

    yield plain


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


@contextlib.contextmanager
def study_progress(plan: "Plan", folder: "Path") -> Iterator["Watch"]:
    """A watcher for a study: a live table on a terminal, a line for each run that ends elsewhere."""
    began = time.monotonic()
    ended: dict[str, float] = {}  # about how many seconds each was
    running: dict[str, Event] = {}
    known = {run.key: run for run in plan.runs}  # two rows may share a run
    total = sum(run.estimated_seconds for run in known.values())

    def _name(run: "PlannedRun") -> str:
        row = plan.rows[run.row].name
        named = f"{run.task}: {row}" if len(plan.tasks) > 1 else row
        if run.key not in known:
            return f"{named}, on all rows"
        if run.part is None:
            return f"{named}, seed {run.settings.seed}"
        repeat = f"repeat {run.part.repeat + 1}, " if run.part.repeat else ""
        return f"{named}, {repeat}fold {run.part.fold + 1}{f', seed {run.number}' if run.number else ''}"

    def left() -> str:
        done = sum(ended.values()) + sum(e.share * e.run.estimated_seconds for e in running.values())
        worked = done - before
        if worked < 0.02 * total:
            return ""
        return f", about {duration((time.monotonic() - began) * max(0.0, total - done) / worked)} left"

    def note(event: "Event") -> str | None:
        """Keep count; a line where there is something to say."""
        run, name = event.run, _name(event.run)
        if event.kind in ("began", "progress"):
            running[run.key] = event
            return None
        running.pop(run.key, None)
        if event.kind == "again":
            return f"{name}: {event.message}; trying again"
        if run.key in known:
            ended[run.key] = run.estimated_seconds
        count = f"[{len(ended)}/{len(known)}]"
        if event.kind == "failed":
            return f"{count} {name}: FAILED: {event.message.strip().splitlines()[-1]}"
        return f"{count} {name}: done{left()}"

    from pocketbert.study.store import Store

    ended |= {run.key: run.estimated_seconds for run in plan.runs if Store(folder).finished(run)}
    before = sum(ended.values())
    if ended:
        say(f"{len(ended)} of {len(known)} runs are finished already in {folder}")
    if not sys.stderr.isatty():
        last = time.monotonic()

        def plain(event: "Event") -> None:
            nonlocal last
            line = note(event)
            if line is None and time.monotonic() - last > 3 * EVERY:
                now = ", ".join(f"{_name(one.run)} {one.share:.0%}" for one in running.values())
                line = f"[{len(ended)}/{len(known)}] running: {now}{left()}"
            if line is not None:
                last = time.monotonic()
                say(line)

        yield plain
        return
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    console = Console(stderr=True)

    def picture() -> Table:
        table = Table(box=None, pad_edge=False)
        for column in ("running", "", "examples/s", "left"):
            table.add_column(column, justify="left" if column in ("running", "") else "right")
        for event in running.values():
            bar = "━" * round(20 * event.share)
            speed = f"{event.speed:,.0f}" if event.speed else ""
            table.add_row(_name(event.run), f"{bar:<20}", speed, duration(event.left) if event.left else "")
        table.add_row(f"{len(ended)} of {len(known)} runs finished{left()}", "", "", "")
        return table

    with Live(picture(), console=console, transient=True, refresh_per_second=2) as live:

        def show(event: "Event") -> None:
            line = note(event)
            if line is not None:
                console.print(line, highlight=False, markup=False)
            live.update(picture())

        yield show
