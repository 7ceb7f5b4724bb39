"""A file without a test split: every row is tested once, the verdict ends in a model, and labels are looked at."""

import csv
import json
import shutil

import numpy as np
import pytest

from pocketbert.errors import UserError
from pocketbert.report import read_document
from pocketbert.runs import load_run
from pocketbert.study import Row, Study
from pocketbert.study.plan import make_plan
from pocketbert.tasks import load_task
from study.conftest import files_of, numbers_of, run

FOLDS = ["--epochs", "2", "--batch-size", "32", "--folds", "3", "--repeats", "1"]
LONG = "a quiet and rather lovely story about two old men who walk home through the snow after their last day at work"


@pytest.fixture(scope="module")
def done(tmp_path_factory, reviews, model):
    """A finished study, for tests that only look."""
    where = tmp_path_factory.mktemp("done")
    out, err = run(
        "study", reviews, "--models", model, *FOLDS, "--workers", "2", "--out", where / "study", home=where / "home"
    )
    return where / "study", out, err


def test_every_row_is_tested_once_by_a_model_that_did_not_see_it(done, reviews):
    folder, out, _ = done
    rows = read_document(folder / "study.json").rows
    assert "each tested once, in 3 folds" in out
    assert [len(row.seeds) for row in rows] == [3] * 5
    assert all(row.accuracy.examples == 360 for row in rows)
    runs = [load_run(folder / "runs" / name) for name in rows[-1].folders]
    assert sum(one.metrics["scores"]["test"]["rows"] for one in runs) == 360
    assert len({one.settings.seed for one in runs}) == 3, "every fold has a seed of its own"
    plan = Study([reviews], methods=["majority"], folds=3).plan()
    for part in plan.folds["reviews"].parts(1):
        task = plan.folds["reviews"].task_of(part)
        learnt = np.concatenate([task.train.hashes, task.dev.hashes])
        assert not np.isin(task.test.hashes, learnt).any()


def test_a_run_with_nothing_to_choose_trains_on_the_rows_of_dev_too(done, reviews):
    folder, _, _ = done
    plan = Study([reviews], models=["pocket-tiny"], folds=3).plan()
    seen = set()
    for one in plan.runs:
        splits = plan.task_of(one).splits
        assert sum(len(split) for split in splits.values()) == 360
        assert ("dev" in splits) == (one.settings.choices > 1)
        seen.add((one.method, "dev" in splits))
    assert seen >= {("tfidf", False), ("frozen", False), ("finetune", True)}
    for row in read_document(folder / "study.json").rows:
        found = load_run(folder / "runs" / row.folders[0])
        assert ("dev" in found.metrics["scores"]) == (found.settings.choices > 1)


def test_one_worker_and_two_give_identical_bytes_and_so_does_a_study_that_was_cut_off(done, tmp_path, reviews, model):
    folder, _, _ = done
    arguments = ["study", reviews, "--models", model, *FOLDS, "--workers", "1", "--out"]
    run(*arguments, tmp_path / "one", home=tmp_path / "home")
    assert numbers_of(tmp_path / "one") == numbers_of(folder)
    shutil.copytree(folder, tmp_path / "cut")
    for name in ("final", "study.json"):
        path = tmp_path / "cut" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for gone in sorted((tmp_path / "cut" / "runs").glob("*fold1*"))[:3]:
        shutil.rmtree(gone)
    run(*arguments, tmp_path / "cut", home=tmp_path / "home")
    assert numbers_of(tmp_path / "cut") == numbers_of(folder)
    assert files_of(tmp_path / "cut") == files_of(folder)


@pytest.mark.slow
def test_more_seeds_and_repeats_only_add_runs(done, tmp_path, reviews, model):
    folder = tmp_path / "study"
    shutil.copytree(done[0], folder)
    stamps = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/manifest.json")}
    common = ["study", reviews, "--models", model, *FOLDS, "--workers", "2", "--out", folder]
    _, err = run(*common, "--seeds", "2", "--repeats", "2", "--methods", "frozen", home=tmp_path)
    assert "12 of 36 runs are finished already" in err  # random, majority, tfidf, frozen: 3 each
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    row = read_document(folder / "study.json").row("reviews", "frozen small")
    assert (row.accuracy.trainings, row.accuracy.draws) == (12, 4)


def test_the_study_leaves_a_model_that_was_trained_on_all_rows(done, tmp_path, reviews):
    folder, out, err = done
    recommended = read_document(folder / "study.json").recommended[0]
    assert f"Recommended: {recommended.row};" in out
    assert "expect accuracy of about" in out
    assert f"pocketbert predict {folder} FILE" in err
    final = load_run(folder / recommended.final)
    assert set(final.metadata["fingerprints"]) == {"train"}
    assert final.seen(load_task(reviews).whole).all(), "it has learnt from every row"
    predicted, _ = run("predict", folder, reviews, "--out", "-", home=tmp_path)
    assert len(list(csv.DictReader(predicted.splitlines()))) == 360
    run("evaluate", folder, reviews, "--allow-overlap", "--json", home=tmp_path)


def test_the_final_model_takes_the_chosen_rate_and_the_median_epoch(done):
    folder, _, _ = done
    document = read_document(folder / "study.json")
    row = document.row("reviews", document.recommended[0].row)
    settings = load_run(folder / "final").settings
    if row.chosen[0].epoch is not None:
        assert settings.epochs == max(1, round(float(np.median([one.epoch for one in row.chosen]))))


def test_a_changed_recommendation_makes_a_new_final_model(done, tmp_path, reviews, model):
    folder = tmp_path / "study"
    shutil.copytree(done[0], folder)
    run(
        "study",
        reviews,
        "--folds",
        "3",
        "--repeats",
        "1",
        "--methods",
        "tfidf",
        "--workers",
        "1",
        "--out",
        folder,
        home=tmp_path,
    )
    assert load_run(folder / "final").metadata["method"] == "tfidf"


@pytest.mark.slow
def test_labels_that_were_changed_are_among_the_suspects(tmp_path, reviews):
    rows = list(csv.reader(reviews.read_text(encoding="utf-8").splitlines()))
    header, rows = rows[0], rows[1:]
    labels = sorted({row[1] for row in rows})
    flipped = set(range(5, 350, 40))
    for place in flipped:
        rows[place][1] = labels[1 - labels.index(rows[place][1])]
    path = tmp_path / "wrong.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    arguments = ["--folds", "3", "--repeats", "1", "--methods", "tfidf", "--workers", "1", "--out", tmp_path / "study"]
    run("study", path, *arguments, home=tmp_path)
    written = (tmp_path / "study" / "suspect_labels.csv").read_text(encoding="utf-8")
    found = list(csv.DictReader(written.splitlines()))
    first = {int(row["row"]) - 1 for row in found[: len(flipped)]}
    assert len(first & flipped) >= len(flipped) // 2
    assert all(row["text"] == rows[int(row["row"]) - 1][0] for row in found), "rows are numbered as in the file"


def test_a_run_starts_from_the_run_of_its_own_fold(reviews, model):
    rows = [
        Row("reviews", "finetune", model, {"epochs": 1}, name="first"),
        Row("reviews", "frozen", None, {"epochs": 1}, name="second", start="first"),
    ]
    plan = make_plan(rows, {"reviews": load_task(reviews)}, folds=3)
    by_folder = {one.folder: one for one in plan.runs}
    for one in plan.of_row(1):
        assert by_folder[one.start].part == one.part


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([f"text {row} here,{'ab'[row % 2]}" for row in range(4)], "too few rows"),
        ([f"word{row} and {row * 7} others,{'ab'[row % 2]}" for row in range(40)] + ["one,c", "two,c"], "c has 2 rows"),
        (
            [f"{LONG} {row},{'ab'[row % 2]}" for row in range(40)],
            "near-duplicates of each other",
        ),
    ],
)
def test_what_cannot_be_cut_into_folds_is_one_line(tmp_path, lines, says):
    path = tmp_path / "data.csv"
    path.write_text("text,label\n" + "\n".join(lines) + "\n")
    _, err = run("study", path, "--methods", "tfidf", "--out", tmp_path / "study", home=tmp_path, code=2)
    assert says in err
    assert "Traceback" not in err
    assert not (tmp_path / "study").exists()


def test_metric_and_margin_decide_and_are_checked(tmp_path, reviews):
    with pytest.raises(UserError, match="metric"):
        Study([reviews], metric="beauty")
    with pytest.raises(UserError, match="folds 1"):
        Study([reviews], folds=1)
    study = Study([reviews], methods=["tfidf"], folds=2, metric="macro_f1", margin=0.02, out=tmp_path / "study")
    study.run(1)
    assert study.results.metric == "macro_f1"
    assert study.results.recommended[0].margin == 0.02
    assert "has the highest macro-F1" in study.results.verdicts[0]
    assert json.loads((tmp_path / "study" / "study.json").read_text())["metric"] == "macro_f1"
