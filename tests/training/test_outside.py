"""A method of another package, found by its entry point, does everything that a built-in one does; and so does bitfit.

tests/outside is that package, as `pip` would have installed it: a module and its entry point.
"""

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import REPOSITORY

from pocketbert.methods import list_methods

from .conftest import make_task
from .test_methods import PROGRAM

OUTSIDE = REPOSITORY / "tests" / "outside"
METHODS = ["rescale", "bitfit"]
TOLD = ["--epochs", "3", "--batch-size", "32", "--learning-rate", "0.01", "--max-length", "32", "--threads", "1"]


def environment(home):
    path = os.pathsep.join([str(OUTSIDE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "POCKETBERT_HOME": str(home)}


def command(home, *arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "pocketbert", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment(home),
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def predictions(path):
    return [row["prediction"] for row in csv.DictReader(path.read_text().splitlines())]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    for name, split in make_task().splits.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            writer.writerows(zip(split.texts, (("no", "yes")[label] for label in split.labels), strict=True))
    return folder


def test_a_method_is_a_short_file():
    assert len((OUTSIDE / "outside_method.py").read_text().splitlines()) <= 60
    bitfit = REPOSITORY / "src" / "pocketbert" / "methods" / "bitfit.py"
    assert len(bitfit.read_text().splitlines()) <= 50


def test_it_is_listed_and_its_settings_are_flags(tmp_path):
    listed = [one["name"] for one in json.loads(command(tmp_path, "methods", "--json").stdout)]
    assert listed == [*list_methods(), "rescale"]
    words = " ".join(command(tmp_path, "train", "--help").stdout.replace("│", " ").split())
    assert "--initial-scale" in words
    assert "rescale: What the scales start from." in words
    shown = command(tmp_path, "methods", "rescale").stdout
    assert "What the scales start from." in " ".join(shown.split())
    assert "| `rescale` |" in command(tmp_path, "methods", "--markdown").stdout


@pytest.mark.parametrize("method", METHODS)
def test_it_trains_saves_what_it_trained_and_predicts(method, files, model, tmp_path):
    flags = ["--initial-scale", "0.9"] if method == "rescale" else []
    run = tmp_path / "run"
    command(tmp_path, "train", files, "--method", method, "--model", model, *TOLD, *flags, "--out", run)
    about = json.loads((run / "settings.json").read_text())
    assert about["settings"].get("initial_scale") == (0.9 if method == "rescale" else None)
    saved = {path.name for path in (run / "model").iterdir()}
    assert saved == {"trained.safetensors"}, "the encoder is the model's own"
    assert (run / "model" / "trained.safetensors").stat().st_size < 20_000
    out = tmp_path / "out.csv"
    command(tmp_path, "predict", run, files / "test.csv", "--out", out)
    assert predictions(out) == predictions(run / "test.csv")
    command(tmp_path, "evaluate", run, files / "test.csv")


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_killed_it_goes_on_to_the_same_bytes(method, model, tmp_path):
    settings = {"learning_rate": [1e-2, 3e-2], "epochs": 3, "max_length": 32, "threads": 1}

    def train(folder, stop=()):
        about = {"folder": str(folder), "method": method, "model": model, "settings": settings, "stop": stop}
        program = [sys.executable, "-c", PROGRAM, str(REPOSITORY / "tests"), json.dumps(about)]
        return subprocess.run(program, capture_output=True, text=True, check=False, env=environment(tmp_path / "home"))

    assert train(tmp_path / "whole").returncode == 0
    assert train(tmp_path / "cut", stop=(1e-2, 2)).returncode == -signal.SIGKILL
    assert not (tmp_path / "cut" / "manifest.json").exists()
    assert train(tmp_path / "cut").returncode == 0
    for name in ("dev.csv", "test.csv", "model/trained.safetensors"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def assert_onnx_gives_its_probabilities(tmp_path, run, folder):
    """By the lines in the exported folder's README.md, beside what `predict` writes."""
    texts = ["a good film", "bad", "the plot was dull and cold, the cast was warm", "?"]
    with (tmp_path / "new.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["text"], *([text] for text in texts)])
    command(tmp_path, "predict", run, tmp_path / "new.csv", "--out", tmp_path / "predicted.csv")
    with (tmp_path / "predicted.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    expected = [[float(value) for name, value in row.items() if name.startswith("p_")] for row in rows]
    block = (folder / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    names = {"texts": texts}
    exec(block.replace('"exported"', repr(str(folder))), names)
    np.testing.assert_allclose(names["probabilities"], expected, atol=1e-4)


def test_it_is_compared_in_a_study_and_exported_or_clearly_not(files, model, tmp_path):
    study = tmp_path / "study"
    flags = ["--models", model, "--methods", ",".join(METHODS), "--seeds", "1", *TOLD, "--initial-scale", "1.1"]
    command(tmp_path, "study", files, *flags, "--workers", "2", "--out", study)
    rows = json.loads((study / "study.json").read_text())["rows"]
    assert [row["method"] for row in rows if not row["baseline"]] == METHODS
    assert {row["method"]: row["settings"].get("initial_scale") for row in rows if not row["baseline"]} == {
        "rescale": 1.1,
        "bitfit": None,
    }
    folders = {row["method"]: study / "runs" / row["folders"][0] for row in rows}
    refused = command(tmp_path, "export", folders["rescale"], tmp_path / "exported", code=2)
    assert "adds to the encoder what transformers has not; --format onnx can hold it" in refused.stderr
    command(tmp_path, "export", folders["rescale"], tmp_path / "onnx", "--format", "onnx")
    assert_onnx_gives_its_probabilities(tmp_path, folders["rescale"], tmp_path / "onnx")
    command(tmp_path, "export", folders["bitfit"], tmp_path / "exported")
    assert (tmp_path / "exported" / "model.safetensors").is_file()


def test_a_flag_that_a_method_does_not_read_is_refused_by_name(files, model, tmp_path):
    flags = ["--method", "bitfit", "--model", model, "--initial-scale", "0.5", "--out", tmp_path / "run"]
    refused = command(tmp_path, "train", files, *flags, code=2)
    assert "'initial_scale' is not known" in refused.stderr
    assert not (tmp_path / "run").exists()
