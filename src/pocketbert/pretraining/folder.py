"""What pretraining leaves behind: a model folder that says how it came about.

settings.json      what was asked, resolved: enough to do it again
budget.json        how many steps the budget became, and the measurement behind it
curve.jsonl        losses, one line per part, while it trains and after
checkpoint…        while it trains: the way to go on
config.json, model.safetensors, tokenizer…, 1_Pooling/   the model, as `transformers` and pocketbert read it
metrics.json       losses against the baseline, the curve, the cost
README.md          the model card
report.html        the curve, drawn
manifest.json      written last: a folder without one is not finished
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from pocketbert.manifest import METRICS, SETTINGS, read_finished
from pocketbert.values import Between, Count, Format, read_object

BUDGET, CURVE = "budget.json", "curve.jsonl"


class Metadata(TypedDict):
    """What is read of settings.json."""

    format: Format
    settings: dict[str, Any]


class BudgetParts(TypedDict, total=False):
    """What budget.json may have."""

    checkpoints: Annotated[int, Between(1, 10**6)]  # where fewer fit into the minutes than were asked for


class Budget(BudgetParts):
    """What is read of budget.json."""

    steps: Annotated[int, Between(1, 10**12)]


class Cost(TypedDict):
    training_seconds: float
    tokens_per_second: float
    parameters: Count


class Metrics(TypedDict):
    """What is read of metrics.json."""

    steps: Count
    tokens: Count
    held_out: dict[str, float | None]
    baseline: dict[str, float | None]
    cost: Cost


@dataclass(frozen=True, eq=False)
class PretrainedFolder:
    """A finished pretraining: the folder is a model by itself."""

    folder: Path
    metadata: dict[str, Any]  # settings.json
    metrics: dict[str, Any]


def load_pretrained(folder: str | os.PathLike[str]) -> PretrainedFolder:
    """A finished one; files that are missing or were changed since are named."""
    folder = Path(folder)
    read_finished(folder, "pretraining", "pretrain")
    return PretrainedFolder(folder, read_object(folder / SETTINGS, Metadata), read_object(folder / METRICS, Metrics))
