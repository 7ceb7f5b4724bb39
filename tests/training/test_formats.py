"""Runs of every version: old folders are read, new settings orphan none of them, other formats are refused."""

import json
import shutil
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from conftest import REPOSITORY

from pocketbert.errors import UserError
from pocketbert.evaluate import evaluate_run
from pocketbert.manifest import write_manifest
from pocketbert.methods import get_method, list_methods
from pocketbert.methods.finetune import FinetuneSettings
from pocketbert.runs import load_run
from pocketbert.study.plan import make_plan
from pocketbert.study.rows import Row
from pocketbert.study.store import Store
from pocketbert.train import train_run
from pocketbert.training.settings import Settings, option

from .conftest import make_task
from .test_methods import quick, told

FORMAT_1 = REPOSITORY / "tests" / "fixtures" / "format-1"


@pytest.mark.parametrize("name", [path.name for path in sorted(FORMAT_1.iterdir())])
def test_a_run_folder_of_the_first_format_is_read_and_says_what_it_said(name, tmp_path):
    folder = shutil.copytree(FORMAT_1 / name, tmp_path / "run")
    run = load_run(folder)
    assert run.metadata["format"] == 1
    task = make_task()
    probabilities = run.fitted().probabilities(task.test.texts)
    written = np.loadtxt(folder / "test.csv", delimiter=",", skiprows=1, usecols=(3, 4))
    np.testing.assert_allclose(probabilities, written, atol=2e-6)
    assert {key: getattr(run.settings, key) for key in told(name)} == told(name)
    assert evaluate_run(run, write_texts(tmp_path / "new.csv"))["rows"] == 2


def write_texts(path):
    path.write_text("text,label\na splendid thing,yes\nan ugly thing,no\n")
    return path


def test_an_unfinished_run_of_the_first_format_is_refused_with_a_sentence(model, task, tmp_path):
    folder = shutil.copytree(FORMAT_1 / "finetune", tmp_path / "run")
    (folder / "manifest.json").unlink()
    with pytest.raises(UserError, match="begun by another version of pocketbert .format 1, this one writes 2"):
        train_run(task, "finetune", folder, model=model, settings=quick())


def test_a_run_of_a_newer_format_is_refused_with_a_sentence(task, tmp_path):
    train_run(task, "majority", tmp_path / "run")
    path = tmp_path / "run" / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    write_manifest(tmp_path / "run")
    with pytest.raises(UserError, match="made by a newer pocketbert .format 99"):
        load_run(tmp_path / "run")


@dataclass(frozen=True)
class Grown(FinetuneSettings):
    """Fine-tuning as a later version may have it: one more setting, and a default that was changed."""

    label_smoothing: float = option(0.0, "A setting that came later.")
    warmup: float = option(0.2, "A default that was changed later.", absent=0.1)


def test_a_setting_that_came_later_finds_every_old_run_again(model, task, tmp_path, monkeypatch):
    rows = [Row("toy", "finetune", model, quick(learning_rate=1e-2, epochs=1), seeds=2)]
    plan = make_plan(rows, {"toy": task})
    store = Store(tmp_path / "study")
    for run in plan.runs:
        train_run(task, "finetune", store.runs / run.folder, model=model, settings=run.settings)
    monkeypatch.setattr(type(get_method("finetune")), "settings", Grown)
    later = [Row("toy", "finetune", model, quick(learning_rate=1e-2, epochs=1, warmup=0.1), seeds=2)]
    again = make_plan(later, {"toy": task})
    assert [run.key for run in again.runs] == [run.key for run in plan.runs]
    assert all(store.finished(run) for run in again.runs)
    assert [store.load(run).settings.label_smoothing for run in again.runs] == [0.0, 0.0]
    stamps = [(store.runs / run.folder / "manifest.json").stat().st_mtime_ns for run in again.runs]
    for run in again.runs:
        train_run(task, "finetune", store.runs / run.folder, model=model, settings=run.settings)
    assert [(store.runs / run.folder / "manifest.json").stat().st_mtime_ns for run in again.runs] == stamps
    told_otherwise = [replace(later[0], settings={**later[0].settings, "label_smoothing": 0.1})]
    assert {run.key for run in make_plan(told_otherwise, {"toy": task}).runs}.isdisjoint(run.key for run in again.runs)
    new_default = [replace(rows[0], settings=quick(learning_rate=1e-2, epochs=1))]
    assert {run.key for run in make_plan(new_default, {"toy": task}).runs}.isdisjoint(run.key for run in again.runs)


# What the absence of a setting means in a run's key, for good: a default that is changed keeps it with `absent=`.
ABSENT = {
    "batch_size": 32, "cache_features": True, "class_weights": False, "clip": 1.0, "device": "cpu", "dropout": None,
    "epochs": None, "group_by_length": True, "head": "linear", "keep": "best", "learning_rate": None,
    "max_length": 128, "only_cls": True, "patience": 0, "pooling": None, "precision": None, "schedule": "linear",
    "seed": 0, "threads": None, "vocabulary": None, "vocabulary_size": 8_000, "vocabulary_slice": True, "warmup": 0.1,
    "weight_decay": 0.01,
}  # fmt: skip


@pytest.mark.parametrize("name", list_methods())
def test_what_the_absence_of_a_setting_means_never_changes(name):
    for field in fields(get_method(name).settings):
        assert field.metadata["help"], "every setting says what it is"
        assert field.metadata["absent"] == ABSENT.get(field.name, field.default), field.name


def test_a_key_holds_only_what_differs_from_absence():
    assert Settings(seed=3).key() == {"seed": 3}
    assert FinetuneSettings(batch_size=32, epochs=2, keep="best").key() == {"epochs": 2}
