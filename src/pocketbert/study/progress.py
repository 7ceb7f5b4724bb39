"""What a person sees of a study while it runs: which runs, how far, how long still."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from pocketbert.progress import EVERY, duration, is_shown, live_console, say
from pocketbert.study.plan import Plan, PlannedRun
from pocketbert.study.pool import Event, Watch
from pocketbert.study.store import Store


@contextlib.contextmanager
def study_progress(plan: Plan, folder: Path, wanted: bool | None = True) -> Iterator[Watch]:
    """A watcher for a study: a live table, or a line for each run that ends; `wanted` as in `progress.is_shown`."""
    if not is_shown(wanted):
        yield lambda event: None
        return
    began = time.monotonic()
    ended: dict[str, float] = {}  # about how many seconds each was
    running: dict[str, Event] = {}
    known = {run.key: run for run in plan.runs}  # two rows may share a run
    total = sum(run.estimated_seconds for run in known.values())

    def _name(run: PlannedRun) -> str:
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

    def note(event: Event) -> str | None:
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

    ended |= {run.key: run.estimated_seconds for run in plan.runs if Store(folder).finished(run)}
    before = sum(ended.values())
    if ended:
        say(f"{len(ended)} of {len(known)} runs are finished already in {folder}")
    console = live_console()
    if console is None:
        last = time.monotonic()

        def plain(event: Event) -> None:
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
    from rich.live import Live
    from rich.table import Table

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

        def show(event: Event) -> None:
            line = note(event)
            if line is not None:
                console.print(line, highlight=False, markup=False)
            live.update(picture())

        yield show
