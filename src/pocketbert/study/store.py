"""Where a study lives: a folder of run folders, and an index of them that can be made anew at any time.

study/
  runs/NAME-KEY/   a run folder each (runs.py); finished when it has its manifest
  index.json       what the finished runs scored: made from the folders, remade when they changed
  study.json, table.md, results.csv, report.html, predictions/   what came out
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from pocketbert.errors import UserError
from pocketbert.files import remove_leftovers, write_json
from pocketbert.locks import LOCK, lock
from pocketbert.manifest import CHECKPOINT, MANIFEST, METRICS, SETTINGS
from pocketbert.report.document import read_document
from pocketbert.runs import Run, load_run
from pocketbert.study.plan import PlannedRun
from pocketbert.training.settings import Settings
from pocketbert.values import Format, read_object

INDEX, STUDY = "index.json", "study.json"


class Index(TypedDict):
    """index.json; an entry's stamp says whether it is as we wrote it."""

    format: Format
    runs: dict[str, dict[str, Any]]


class Store:
    """The folder of a study."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / "runs"

    def writing(self) -> AbstractContextManager[None]:
        """Only one study at a time writes here."""
        if self.folder.is_dir():
            foreign = [path.name for path in self.folder.iterdir() if not path.name.startswith(".")]
            if foreign and not self.runs.is_dir():
                raise UserError(f"{self.folder}: is no study of pocketbert (it holds {foreign[0]}); name another --out")
        return lock(self.folder, wait=5.0)

    def clean(self) -> None:
        """Remove what a killed study left half-written. Only for one who holds the lock."""
        remove_leftovers(self.folder)
        self.runs.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.runs)

    def finished(self, run: PlannedRun) -> bool:
        return (self.runs / run.folder / MANIFEST).is_file()

    def load(self, run: PlannedRun) -> Run:
        """A finished run, its files as they were written."""
        found = load_run(self.runs / run.folder)
        if found.metadata["method"] != run.method or found.settings != self.settings(run):
            raise UserError(f"{found.folder}: is not the run its name says; remove the folder, and run again")
        return found

    def settings(self, run: PlannedRun) -> Settings:
        """A run's settings, once the runs that it needs are finished: with the rate that was chosen there."""
        if run.rate_from is None:
            return run.settings
        return replace(run.settings, learning_rate=self.chosen_rate(run.rate_from))  # type: ignore[call-arg]

    def chosen_rate(self, folder: str) -> float:
        """The rate that dev chose in a finished run."""
        best = load_run(self.runs / folder).metrics["best"]
        if not best:
            raise UserError(f"{self.runs / folder / METRICS}: damaged: it names no best rate; remove the folder")
        return float(best["learning_rate"])

    def index(self) -> dict[str, dict[str, Any]]:
        """Every finished run in the folder, by folder name; only what changed since the last time is read.

        A run whose files are not those it was finished with has only `damaged`, which says what is wrong.
        """
        path = self.folder / INDEX
        try:
            known = read_object(path, Index)["runs"] if path.is_file() else {}
        except UserError:
            known = {}  # damaged: it is made anew
        entries = {}
        for folder in sorted(self.runs.iterdir()) if self.runs.is_dir() else []:
            if not (folder / MANIFEST).is_file():
                continue
            entry = known.get(folder.name)
            if entry is None or entry.get("stamp") != _stamp(folder, entry):
                entry = _entry(folder)
                entry["stamp"] = _stamp(folder, entry)
            entries[folder.name] = entry
        if entries != known:
            write_json(path, {"format": 1, "runs": entries})
        return entries

    def in_study(self) -> set[str] | None:
        """The folders of the runs that the present study.json is about; None: there is none that can be read."""
        try:
            document = read_document(self.folder / STUDY)
        except UserError:
            return None
        in_rows = {folder for row in document.rows for folder in row.folders}
        return in_rows | {folder for curve in document.learning_curves for folder in curve.folders}

    def replaced_study(self, runs: Iterable[PlannedRun]) -> str | None:
        """What to say before the results of another study are replaced. A study that only grows replaces nothing."""
        lost = (self.in_study() or set()) - {run.folder for run in runs}
        if not lost:
            return None
        again = read_document(self.folder / STUDY).again
        return (
            f"{self.folder} holds another study, with {len(lost)} runs that this one does not have: its report, tables "
            f"and final model will be replaced. Its runs stay: its own command{f' ({again})' if again else ''} brings "
            "all of it back. To keep both, name another folder with --out"
        )

    def tidy(self) -> None:
        """After the last run: locks and checkpoints of finished runs go, and folders that never began."""
        for folder in self.runs.iterdir():
            if (folder / MANIFEST).is_file():
                for name in (LOCK, CHECKPOINT):
                    (folder / name).unlink(missing_ok=True)
            elif folder.is_dir() and not (folder / SETTINGS).is_file():
                shutil.rmtree(folder, ignore_errors=True)


def _entry(folder: Path) -> dict[str, Any]:
    try:
        run = load_run(folder)
    except UserError as error:
        return {"damaged": str(error)}
    scores = {
        name: {key: score[key] for key in ("rows", "accuracy", "refused") if key in score}
        for name, score in run.metrics["scores"].items()
    }
    metadata = {key: run.metadata[key] for key in ("task", "method", "model")}
    return {**metadata, "seed": run.settings.seed, "scores": scores, "seconds": run.metrics["cost"]["seconds"]}


def _stamp(folder: Path, entry: dict[str, Any]) -> str:
    """Of a run's files as they are now, and of what is said of it: the same as long as neither changed."""
    digest = hashlib.blake2b(json.dumps({**entry, "stamp": None}, sort_keys=True).encode(), digest_size=16)
    for path in sorted(folder.rglob("*")):
        if not path.name.startswith(".") and path.name != CHECKPOINT:
            status = path.lstat()
            size = f" {status.st_size} {status.st_mtime_ns}\n"
            digest.update(os.fsencode(path.relative_to(folder)) + size.encode())
    return digest.hexdigest()
