"""What a study and its workers tell each other, as JSON: tasks, with all that was made of their texts, and runs.

A text is read, normalised and tokenised once, where the study is planned; workers are handed the results.
"""

import base64
from dataclasses import replace
from typing import Any

import numpy as np

from pocketbert.study.plan import Plan, PlannedRun, with_others
from pocketbert.study.store import Store
from pocketbert.tasks import Split, Task
from pocketbert.tasks.folds import Folds, Part, with_share
from pocketbert.tasks.task import Derived, Source
from pocketbert.tokenizer import Encoded

ARRAYS = ("ids", "starts", "second_starts", "cut")  # of an Encoded


def task_to_json(plan: Plan, name: str, *, others: bool = True) -> dict[str, Any]:
    """What runs need of a task, of its folds where it is cut into such, and of others that are learnt with it."""
    task, folds = plan.tasks[name], plan.folds.get(name)
    splits = {name: _split_to_json(split) for name, split in task.splits.items()}
    source = None if task.source is None else vars(task.source)
    content = {"name": task.name, "labels": list(task.labels), "pair": task.pair, "splits": splits, "source": source}
    names = dict.fromkeys(other for run in plan.runs if run.task == name for other in run.others)
    content["others"] = [task_to_json(plan, other, others=False) for other in names if others]
    if folds is None:
        return {**content, "folds": None}
    assignments = [_pack(assignment) for assignment in folds.assignments]
    return {**content, "folds": {"count": folds.count, "clusters": _pack(folds.clusters), "assignments": assignments}}


def task_from_json(content: dict[str, Any]) -> Task | Folds:
    splits = {name: _split_from_json(split) for name, split in content["splits"].items()}
    source = None if content["source"] is None else Source(**content["source"])
    others = tuple(task for one in content["others"] if isinstance(task := task_from_json(one), Task))
    task = Task(content["name"], tuple(content["labels"]), splits, content["pair"], source=source, others=others)
    folds = content["folds"]
    if folds is None:
        return task
    return Folds(task, folds["count"], _unpack(folds["clusters"]), tuple(map(_unpack, folds["assignments"])))


def task_of(message: dict[str, Any], known: Task | Folds) -> Task:
    """The task of a bank's runs."""
    task = known if isinstance(known, Task) else known.task_of(Part(**message["part"]), dev=message["dev"])
    others = {other.name: other for other in (known if isinstance(known, Task) else known.task).others}
    return with_others(replace(with_share(task, message["share"]), others=()), message["others"], others)


def _split_to_json(split: Split) -> dict[str, Any]:
    encodings = [
        {
            "tokenizer": tokenizer,
            "max_length": max_length,
            "padding_id": encoded.padding_id,
            "pairs": encoded.pairs,
            **{name: _pack(getattr(encoded, name)) for name in ARRAYS},
        }
        for (tokenizer, max_length), encoded in split.derived.encodings.items()
    ]
    return {
        "texts": split.texts,
        "second_texts": split.second_texts,
        "labels": None if split.labels is None else _pack(split.labels),
        "reason": split.reason,
        "hashes": _pack(split.hashes),
        "encodings": encodings,
    }


def _split_from_json(content: dict[str, Any]) -> Split:
    encodings = {
        (one["tokenizer"], one["max_length"]): Encoded(
            **{name: _unpack(one[name]) for name in ARRAYS}, padding_id=one["padding_id"], pairs=one["pairs"]
        )
        for one in content["encodings"]
    }
    labels = None if content["labels"] is None else _unpack(content["labels"])
    derived = Derived(_unpack(content["hashes"]), encodings)
    return Split(content["texts"], content["second_texts"], labels, content["reason"], derived=derived)


def _pack(array: np.ndarray) -> list[str]:
    return [array.dtype.str, base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")]


def _unpack(packed: list[str]) -> np.ndarray:
    kind, data = packed
    return np.frombuffer(bytearray(base64.b64decode(data)), dtype=kind)  # one that may be written to, as torch asks


def bank_message(runs: list[PlannedRun], plan: Plan, store: Store | None) -> dict[str, Any]:
    """Runs that differ in their seeds alone, as a worker is told of them, now that what they need is finished.

    Folders, `start` among them, are beside each other in the worker's folder of runs.
    """
    first = runs[0]
    return {
        "task": first.task,
        "part": None if first.part is None else vars(first.part),
        "share": first.share,
        "method": first.method,
        "model": first.model,
        "start": first.start,
        "adapters": dict(first.adapters),
        "others": first.others,
        "settings": (first.settings if store is None else store.settings(first)).to_dict(),
        "seeds": {run.settings.seed: run.folder for run in runs},
        "dev": first.needs_dev,
        "without_dev": first.without_dev,
        "warnings": plan.checks[first.row].warnings,
    }
