"""A row whose trainings learnt nothing is named, in table, verdict and report, and nothing is said to beat it."""

import csv

import numpy as np

from pocketbert.report.document import read_document
from pocketbert.study import Study


def test_a_row_that_predicts_one_class_is_undertrained_and_beaten_by_nothing(tmp_path):
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(60)]
    labels = ["rare" if number % 6 == 0 else "common" for number in range(240)]
    path = tmp_path / "notes.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = [(" ".join([label, *random.choice(words, 8)]), label) for label in labels]
        csv.writer(file).writerows([("text", "label"), *rows])
    settings = {"epochs": 1, "learning_rate": 1e-3, "batch_size": 64}
    study = Study([path], models=["pocket-tiny"], methods=["finetune"], folds=3, settings=settings, out=tmp_path / "s")
    study.run(1, progress=False)
    document = read_document(tmp_path / "s" / "study.json")
    row = document.row(document.tasks[0].name, "finetune pocket-tiny")
    assert row.all_undertrained
    assert any("finetune pocket-tiny is undertrained" in sentence for sentence in document.verdicts)
    assert not any("beats" in sentence and "finetune" in sentence for sentence in document.verdicts)
    assert not [one for one in document.comparisons if "finetune pocket-tiny" in (one.first, one.second)]
    assert "finetune pocket-tiny (undertrained)" in (tmp_path / "s" / "table.md").read_text(encoding="utf-8")
    assert "undertrained: its score says nothing" in (tmp_path / "s" / "report.html").read_text(encoding="utf-8")
