"""A file is read once, a text normalised once and tokenised once, whatever the number of runs and processes."""

import os
from collections import Counter
from pathlib import Path

from study.conftest import run

COUNTING = Path(__file__).parent.parent / "counting"


def test_a_study_of_many_runs_reads_normalises_and_tokenises_once(tmp_path, reviews, model):
    log = tmp_path / "log"
    path = os.pathsep.join([str(COUNTING), *filter(None, [os.environ.get("PYTHONPATH")])])
    counting = {"COUNTING_LOG": str(log), "COUNTING_FILE": str(reviews), "PYTHONPATH": path}
    options = ["--models", model, "--epochs", "1", "--batch-size", "32", "--seeds", "2", "--workers", "2"]
    run("study", reviews, *options, "--out", tmp_path / "study", home=tmp_path / "home", **counting)
    runs = list((tmp_path / "study" / "runs").iterdir())
    assert len(runs) >= 17
    found: dict[str, Counter[str]] = {"opened": Counter(), "normalised": Counter(), "tokenised": Counter()}
    for line in log.read_text(encoding="utf-8").splitlines():
        what, which = line.split("\t", 1)
        found[what][which] += 1
    rows = Counter(repr(line.rpartition(",")[0]) for line in reviews.read_text(encoding="utf-8").splitlines()[1:])
    assert found["opened"].total() == 1, "the file is read once"
    assert {text: found["normalised"][text] for text in rows} == rows, "each row's text is normalised once"
    assert {text: found["tokenised"][text] for text in rows} == rows, "and tokenised once, in all processes together"
