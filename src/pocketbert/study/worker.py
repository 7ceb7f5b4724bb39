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

import numpy as np

from pocketbert.errors import CannotWrite, UserError
from pocketbert.methods import get_method
from pocketbert.runs import load_run, train_run
from pocketbert.tasks import Check, Split, Task
from pocketbert.training.loop import Progress

EVERY = 0.5  # seconds between two words about progress
WAIT = 30.0  # seconds to let the worker of a killed study end

Tell = Callable[[dict[str, Any]], None]


def do_run(metadata: dict[str, Any], task: Task, folder: Path, tell: Tell) -> None:
    """Train one run into its folder, and tell how it goes. What it says of a failure is in the last message."""
    try:
        start = None if metadata["start"] is None else load_run(folder.parent / metadata["start"]).start()
        train_run(
            task,
            metadata["method"],
            folder,
            model=metadata["model"],
            start=start,
            settings=get_method(metadata["method"]).read(metadata["settings"]),
            report=_reporter(tell),
            check=Check(task.name, {}, warnings=metadata["warnings"]),
            wait=WAIT,
        )
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


def task_to_json(task: Task) -> dict[str, Any]:
    """What a run needs of a task."""
    splits = {
        name: {
            "texts": split.texts,
            "second_texts": split.second_texts,
            "labels": None if split.labels is None else split.labels.tolist(),
            "reason": split.reason,
        }
        for name, split in task.splits.items()
    }
    return {"name": task.name, "labels": list(task.labels), "pair": task.pair, "splits": splits}


def task_from_json(content: dict[str, Any]) -> Task:
    splits = {}
    for name, split in content["splits"].items():
        labels = None if split["labels"] is None else np.array(split["labels"], dtype=np.int64)
        splits[name] = Split(split["texts"], split["second_texts"], labels, split["reason"])
    return Task(content["name"], tuple(content["labels"]), splits, content["pair"])


def main() -> None:
    # Standard output is the line to the pool: whatever else prints goes to standard error.
    line = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(message: dict[str, Any]) -> None:
        line.write(json.dumps(message) + "\n")
        line.flush()

    incoming: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(incoming,), daemon=True).start()
    tasks: dict[str, Task] = {}
    while True:
        message = incoming.get()
        if "add" in message:
            task = task_from_json(message["add"])
            tasks[task.name] = task
        else:
            do_run(message, tasks[message["task"]], Path(message["folder"]), tell)


def _listen(incoming: "queue.Queue[dict[str, Any]]") -> None:
    for line in sys.stdin:
        incoming.put(json.loads(line))
    os._exit(1)


if __name__ == "__main__":
    main()
