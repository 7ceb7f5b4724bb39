"""A worker: a process that does one run after the other. `python -m pocketbert.study.worker`, started by the pool.

It speaks JSON lines: tasks and runs come in on standard input, progress and results go out on standard output. When
its input ends, whoever started it is gone, and it ends at once, so that a killed study leaves no process behind.
"""

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pocketbert.errors import CannotWrite, UserError
from pocketbert.methods import get_method
from pocketbert.runs import load_run
from pocketbert.start import Start
from pocketbert.study.messages import task_from_json, task_of
from pocketbert.tasks import Check, Task
from pocketbert.tasks.folds import Folds
from pocketbert.train import plan_run, train_runs
from pocketbert.training.loop import Progress
from pocketbert.training.machine import keep_freed_memory

EVERY = 0.5  # seconds between two words about progress
WAIT = 30.0  # seconds to let the worker of a killed study end

Tell = Callable[[dict[str, Any]], None]


def do_bank(message: dict[str, Any], known: Task | Folds, runs: Path, tell: Tell, base: Start | None = None) -> None:
    """Train runs that differ in their seeds alone, each into its folder, and tell how it goes.

    What it says of a failure is in the last message. `base`: the model that its name stands for, where that
    lies in another folder than on the machine that planned.
    """
    try:
        task = task_of(message, known)
        start = base if message["start"] is None else load_run(runs / message["start"]).start(base)
        plan = plan_run(
            task,
            message["method"],
            model=message["model"],
            start=start,
            adapters={name: load_run(runs / folder) for name, folder in message["adapters"].items()},
            settings=get_method(message["method"]).read(message["settings"]),
            check=Check(task.name, {}, warnings=message["warnings"]),
            fold=message["part"],
            without_dev=message["without_dev"],
        )
        folders = {int(seed): runs / folder for seed, folder in message["seeds"].items()}
        train_runs(plan, folders, report=_reporter(tell), wait=WAIT)
    except CannotWrite as error:
        tell({"stop": str(error)})
    except UserError as error:
        tell({"failed": str(error)})
    except Exception:
        tell({"failed": traceback.format_exc()})
    else:
        tell({"done": True})


def _reporter(tell: Tell) -> Callable[[Progress], None]:
    last = 0.0

    def report(now: Progress) -> None:
        nonlocal last
        if time.monotonic() - last < EVERY:
            return
        last = time.monotonic()
        epochs = now.group * now.epochs + now.epoch - 1 + now.done / max(1, now.examples)
        share = epochs / max(1, now.groups * now.epochs)
        tell({"share": min(1.0, share), "speed": now.speed, "left": now.left})

    return report


def _time(message: dict[str, Any], tasks: dict[str, Task | Folds], tell: Tell) -> None:
    from pocketbert.study.timing import time_run

    try:
        tell({"timing": time_run(message, tasks[message["task"]])})
    except Exception:  # what cannot be measured is guessed; a run that cannot be done says why when it is its turn
        tell({"failed": traceback.format_exc()})


def main() -> None:
    # Standard output is the line to the pool: whatever else prints goes to standard error.
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(message: dict[str, Any]) -> None:
        line.write(json.dumps(message) + "\n")
        line.flush()

    keep_freed_memory()
    incoming: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(incoming,), daemon=True).start()
    tasks: dict[str, Task | Folds] = {}
    while True:
        message = incoming.get()
        if "add" in message:
            tasks[message["add"]["name"]] = task_from_json(message["add"])
        elif "ready" in message:
            tell({"done": True})
        elif "time" in message:
            _time(message["time"], tasks, tell)
        else:
            do_bank(message, tasks[message["task"]], Path(message["runs"]), tell)


def _listen(incoming: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        incoming.put(json.loads(line))
    os._exit(1)


if __name__ == "__main__":
    main()
