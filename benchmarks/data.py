"""What both sides read: SST-2, BERT's vocabulary, a fresh model folder; and a clear word where one is missing."""

import importlib.util
import os
import sys
from pathlib import Path

from pocketbert import Task, UserError, load_task
from pocketbert.checkpoints import save_model
from pocketbert.config import SHAPES
from pocketbert.encoder import Encoder
from pocketbert.tokenizer import Tokenizer

REPOSITORY = Path(__file__).resolve().parent.parent


def vocabulary_file() -> Path | None:
    """BERT's uncased vocabulary in the data folder."""
    folder = os.environ.get("POCKETBERT_DATA")
    path = Path(folder) / "bert_vocab" / "vocab.txt" if folder else None
    return path if path is not None and path.is_file() else None


def missing(*, rival: bool = True, task: str = "sst2") -> str | None:
    """Why the benchmark cannot run here; None where it can."""
    if rival and importlib.util.find_spec("transformers") is None:
        return "transformers is not installed: pip install 'pocketbert[dev]'"
    if vocabulary_file() is None:
        return "no BERT vocabulary: set POCKETBERT_DATA to the folder that holds bert_vocab/vocab.txt"
    try:
        load_task(task)
    except UserError as error:
        return f"no {task}: {error}"
    return None


def skip_if_missing(*, rival: bool = True, task: str = "sst2") -> None:
    """End the script, without an error, where there is nothing to measure with."""
    reason = missing(rival=rival, task=task)
    if reason is not None:
        print(f"benchmark skipped: {reason}", file=sys.stderr)
        raise SystemExit(0)


def tokenizer() -> Tokenizer:
    path = vocabulary_file()
    if path is None:
        raise UserError(missing() or "no vocabulary")
    return Tokenizer.from_vocabulary_file(path)


def sst2(rows: int | None = None) -> Task:
    """SST-2's sentences; `rows` keeps the first so many of each split, for a quick look."""
    task = load_task("sst2")
    if rows is None:
        return task
    splits = {name: split.take(range(min(rows, len(split)))) for name, split in task.splits.items()}
    return Task(task.name, task.labels, splits, task.pair)


def write_model(folder: Path, shape: str) -> Path:
    """A fresh model of a published shape, with BERT's vocabulary, in a folder that both sides open."""
    save_model(Encoder(SHAPES[shape], seed=0), folder / shape, tokenizer())
    return folder / shape
