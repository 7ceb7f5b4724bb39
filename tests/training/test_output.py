"""Where predictions and vectors go: a file, what a link leads to, standard output; never onto what is no file."""

import csv
import io
import json
import os
import pty
import subprocess
import sys

import numpy as np
import pytest
from nodes import no_files

from pocketbert.checkpoints import save_model
from pocketbert.embed import encode_file
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.predict import predict_file
from pocketbert.pretraining import PretrainingSettings, pretrain
from pocketbert.study import Study
from pocketbert.train import train_run

from .conftest import make_task
from .test_use import command, write


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train_run(make_task(), "tfidf", tmp_path_factory.mktemp("runs") / "words")


@pytest.fixture
def texts(tmp_path):
    return write(tmp_path / "in.csv", [["text"], ["good"], ["bad film"]])


def test_predictions_may_go_to_standard_output_and_all_else_to_the_other(run, tmp_path, capfd):
    texts = write(tmp_path / "in.csv", [["text"], ["good"], ["=1+1"]])
    predict_file(run, texts, tmp_path / "out.csv", safe_for_spreadsheets=True)
    expected = (tmp_path / "out.csv").read_text()
    done = command("predict", run.folder, texts, "--safe-for-spreadsheets", "--out", "-")
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected
    assert "2 rows" in done.stderr
    assert "predicted" in done.stderr
    predict_file(run, texts, "/dev/stdout", safe_for_spreadsheets=True)
    assert capfd.readouterr().out == expected


def test_standard_output_is_not_two_things_at_once(run, texts, model):
    for arguments in (["predict", run.folder, texts], ["encode", texts, "--model", model]):
        done = command(*arguments, "--out", "-", "--json")
        assert done.returncode == 2
        assert "with --json standard output is one document" in json.loads(done.stdout)["error"]


@pytest.mark.slow
def test_vectors_may_go_to_a_program_and_not_to_a_terminal(texts, model):
    arguments = [sys.executable, "-m", "pocketbert", "encode", str(texts), "--model", model, "--out", "-"]
    done = subprocess.run(arguments, capture_output=True, check=True)
    assert np.load(io.BytesIO(done.stdout), allow_pickle=False).shape == (2, 24)
    ours, theirs = pty.openpty()
    try:
        shown = subprocess.run(arguments, stdout=theirs, stderr=subprocess.PIPE, check=False)
        assert shown.returncode == 2
        assert b"no text for a terminal" in shown.stderr
    finally:
        os.close(ours)
        os.close(theirs)


def test_predictions_and_vectors_never_replace_what_is_no_file(run, texts, model, tmp_path):
    (tmp_path / "nodes").mkdir()
    for kind, path in no_files(tmp_path / "nodes").items():
        before = path.lstat()
        for write_to in (lambda out: predict_file(run, texts, out), lambda out: encode_file(texts, out, model)):
            with pytest.raises(UserError, match=f"is a {kind}; name a file"):
                write_to(path)
        assert (path.lstat().st_mode, path.lstat().st_ino) == (before.st_mode, before.st_ino)
    done = command("predict", run.folder, texts, "--out", tmp_path / "nodes" / "pipe")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is a pipe; name a file" in done.stderr


def test_no_folder_is_written_where_something_else_is(config, tmp_path):
    (tmp_path / "nodes").mkdir()
    task, corpus = make_task(), tmp_path / "corpus.txt"
    corpus.write_text("A sentence. Another.\n")
    writers = [
        lambda folder: save_model(Encoder(config), folder, overwrite=True),
        lambda folder: train_run(task, "majority", folder),
        lambda folder: Study(task, methods=["majority"], models=[], out=folder).run(1),
        lambda folder: pretrain(corpus, folder, PretrainingSettings(steps=1)),
    ]
    for kind, path in no_files(tmp_path / "nodes").items():
        before = path.lstat()
        for write_to in writers:
            with pytest.raises(UserError, match=f"is a {kind}; name a folder"):
                write_to(path)
        assert (path.lstat().st_mode, path.lstat().st_ino) == (before.st_mode, before.st_ino)


def test_predictions_follow_a_link_and_the_link_stays(run, texts, tmp_path):
    (tmp_path / "link.csv").symlink_to("real.csv")
    predict_file(run, texts, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert not (tmp_path / "real.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("text,prediction")


def test_no_cell_is_a_formula_where_that_is_asked_and_all_are_as_they_were_where_not(run, tmp_path):
    texts = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx", "-5", "+3.5e2", "fine = good", "'quoted'", "a\r=b", "-"]
    path = write(tmp_path / "in.csv", [["text", "=name"], *([text, "x"] for text in texts)])
    safe = ["'=1+1", "'+cmd", "'-2+3", "'@SUM(A1)", "'\tx", "-5", "+3.5e2", "fine = good", "'quoted'", "a\r=b", "'-"]
    for flag, expected, name in ((False, texts, "=name"), (True, safe, "'=name")):
        predict_file(run, path, tmp_path / "out.csv", text="text", safe_for_spreadsheets=flag)
        with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        assert [row[0] for row in rows] == expected
        assert header[1] == name
