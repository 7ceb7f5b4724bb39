"""Who sees progress in Python: a person in a terminal or a notebook; nobody else, unless they ask."""

import builtins
import os
import pty
import subprocess
import sys
import threading
import types

import pytest

from pocketbert.classifier import Classifier
from pocketbert.errors import UserError

FIT = "pb.Classifier('pocket-tiny', epochs=2, learning_rate=1e-3, threads=1{}).fit(texts, labels)"
STUDY = "pb.Study(pb.load_task('films.csv'), models=[], methods=['tfidf'], folds=2, out='study').run(1{})"
QUIET, ASKED = ", progress=False", ", progress=True"
NEXT = "sys.stderr.write('NEXT')\n"
GIVEN = """
import os, sys
import pocketbert as pb
texts = [f'a {word} film {n}' for n in range(30) for word in ('fine', 'dull')]
labels = ['good', 'bad'] * 30
with open('films.csv', 'w') as file:
    file.write('text,label\\n' + ''.join(f'{t},{n}\\n' for t, n in zip(texts, labels)))
"""


def in_a_terminal(program: str, folder) -> str:
    """What a program writes to standard error where that is a terminal; standard output must stay empty."""
    ours, theirs = pty.openpty()
    heard: list[bytes] = []

    def listen() -> None:
        try:
            while piece := os.read(ours, 65536):
                heard.append(piece)
        except OSError:  # how Linux says that the other end is closed
            pass

    listener = threading.Thread(target=listen)
    listener.start()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=theirs, env=environment, cwd=folder, check=False
    )
    os.close(theirs)
    listener.join()
    os.close(ours)
    said = b"".join(heard).decode()
    assert (done.returncode, done.stdout) == (0, b""), said
    return said


def elsewhere(program: str, folder) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def test_in_a_terminal_fit_and_study_show_a_bar_and_are_quiet_when_asked(tmp_path):
    """The second study is there already: its progress would be that it is."""
    shown, quiet = FIT.format("") + "\n" + STUDY.format(""), FIT.format(QUIET) + "\n" + STUDY.format(QUIET)
    said, _, after = in_a_terminal(f"{GIVEN}{shown}\n{NEXT}{quiet}", tmp_path).partition("NEXT")
    assert "epoch 1/2: loss" in said
    assert "━" in said, "a bar"
    assert "6 of 6 runs finished" in said
    assert after == ""


@pytest.mark.slow
def test_elsewhere_both_are_silent_unless_asked(tmp_path):
    silent, asked = FIT.format("") + "\n" + STUDY.format(""), FIT.format(ASKED) + "\n" + STUDY.format(ASKED)
    before, _, said = elsewhere(f"{GIVEN}{silent}\n{NEXT}{asked}", tmp_path).partition("NEXT")
    assert before == ""
    *epochs, study = said.splitlines()
    assert [line.split(":")[0] for line in epochs] == ["rate 0.001, epoch 1/2", "rate 0.001, epoch 2/2"]
    assert study == "6 of 6 runs are finished already in study"
    assert "\x1b" not in said


def test_in_a_notebook_without_ipywidgets_there_are_lines(monkeypatch, capsys):
    """Rich knows a notebook by its shell, and draws there through ipywidgets; without them nothing, and warns."""
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setattr(builtins, "get_ipython", type("ZMQInteractiveShell", (), {}), raising=False)
    monkeypatch.setattr("pocketbert.progress.find_spec", lambda name: None)
    texts, labels = ["a good film", "a bad film"] * 20, ["good", "bad"] * 20
    Classifier("pocket-tiny", epochs=2, learning_rate=1e-3, threads=1).fit(texts, labels, dev=(texts, labels))
    said = capsys.readouterr().err
    assert [line.split(":")[0] for line in said.splitlines()] == ["rate 0.001, epoch 1/2", "rate 0.001, epoch 2/2"]


@pytest.mark.slow
def test_processes_of_scikit_learn_do_not_all_draw_on_one_terminal(tmp_path):
    search = (
        "from sklearn.model_selection import cross_val_score\n"
        "scores = cross_val_score(pb.Classifier('pocket-tiny', epochs=1, threads=1), texts, labels, cv=2, n_jobs=2)\n"
    )
    assert in_a_terminal(GIVEN + search, tmp_path) == ""


def test_a_progress_that_is_neither_yes_nor_no_is_refused():
    with pytest.raises(UserError, match="progress: 'loud' is not true or false"):
        Classifier(method="majority", progress="loud").fit(["a", "b"], [0, 1])
