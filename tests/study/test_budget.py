"""Minutes become a plan: what fits, what is left out and said, and that a study that was begun keeps its plan."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pocketbert.errors import UserError
from pocketbert.study import Study
from pocketbert.study.budget import MOST_REPEATS, make_budget, read_budget, what_is_asked, write_budget
from pocketbert.study.timing import Timing, elapsed, timing_key, unknown, with_timings
from study.conftest import numbers_of, run


def planned(reviews, tmp_path, seconds, **more):
    """A plan whose runs take so many seconds, by method."""
    study = Study([reviews], models=["pocket-tiny"], folds=5, out=tmp_path / "study", **more)
    rows = [replace(row, curve=not row.guesses) for row in study.rows]
    from pocketbert.study.plan import make_plan

    plan = make_plan(rows, study.tasks, folds=5)
    runs = tuple(replace(one, estimated_seconds=seconds.get(one.method, 0.1) * one.share) for one in plan.runs)
    return study, replace(plan, runs=runs)


def test_what_costs_little_is_trained_more_often_and_what_does_not_fit_is_left_out(tmp_path, reviews):
    study, plan = planned(reviews, tmp_path, {"tfidf": 1.0, "frozen": 1.0, "finetune": 20.0})
    wide = make_budget(plan, 20, 2)
    assert {one.repeats for one in wide.allotments} == {MOST_REPEATS}
    middle = {one.row: one.repeats for one in make_budget(plan, 1.5, 2).allotments}
    assert middle["tfidf"] == middle["frozen pocket-tiny"] == MOST_REPEATS
    assert middle["finetune pocket-tiny"] == 1
    narrow = make_budget(plan, 0.5, 2)
    assert {one.row for one in narrow.allotments if one.left_out} == {"finetune pocket-tiny"}
    assert "finetune pocket-tiny is left out" in narrow.notes()[0]
    assert [row.name for row in narrow.rows(study.rows)] == ["random", "majority", "tfidf", "frozen pocket-tiny"]
    for budget in (wide, narrow):
        assert budget.seconds <= 60 * budget.minutes


def test_the_plan_is_printed_as_flags_that_make_the_same_plan(tmp_path, reviews):
    study, plan = planned(reviews, tmp_path, {"tfidf": 1.0, "frozen": 1.0, "finetune": 20.0})
    budget = make_budget(plan, 2, 2)
    import shlex

    from pocketbert.cli.study import _counts, _listed

    flags = shlex.split(budget.flags())
    told = dict(zip(flags[::2], flags[1::2], strict=True))
    again = Study(
        [reviews],
        models=["pocket-tiny"],
        repeats=_counts(told["--repeats"], "--repeats"),
        curves=_listed(told["--curves"], "--curves"),
    )
    assert again.rows == budget.rows(study.rows) == [replace(row, seeds=None) for row in again.rows]


def test_a_plan_is_kept_for_the_same_minutes_rows_texts_and_folds(tmp_path, reviews):
    study, plan = planned(reviews, tmp_path, {"finetune": 20.0})
    budget = make_budget(plan, 2, 2)
    folder = tmp_path / "study"
    folder.mkdir()
    asked = what_is_asked(study.rows, study.tasks, 5)
    write_budget(folder, budget, asked)
    assert read_budget(folder, 2, asked) == budget
    assert read_budget(folder, 3, asked) is None
    assert read_budget(folder, 2, what_is_asked(study.rows[1:], study.tasks, 5)) is None
    assert read_budget(folder, 2, what_is_asked(study.rows, study.tasks, 4)) is None
    grown = tmp_path / Path(reviews).name
    lines = Path(reviews).read_text().splitlines()
    grown.write_text("\n".join([*lines, *lines[1:3]]) + "\n")
    more = Study([grown], models=["pocket-tiny"], folds=5)
    assert [row.name for row in more.rows] == [row.name for row in study.rows]
    assert read_budget(folder, 2, what_is_asked(more.rows, more.tasks, 5)) is None


def test_minutes_and_seeds_are_not_both_told(reviews):
    with pytest.raises(UserError, match="leave repeats out"):
        Study([reviews], methods=["tfidf"], minutes=3, repeats=2)


def test_a_timing_is_used_for_runs_of_its_kind(tmp_path, reviews, monkeypatch):
    monkeypatch.setenv("POCKETBERT_HOME", str(tmp_path / "home"))
    _, plan = planned(reviews, tmp_path, {})
    one = next(run for run in plan.runs if run.method == "finetune" and run.share == 1.0)
    assert one.method in {run.method for run in unknown(plan, 2)}
    words = plan.words[one.task]
    timing = Timing(startup=1.0, begin=2.0, once=0.0, each=0.01, predict=0.001, words=words)
    timed = with_timings(plan, 2, {timing_key(one, words, 2): timing})
    found = next(run for run in timed.runs if run.folder == one.folder)
    rows = len(plan.tasks[one.task].split("all"))
    expected = 2.0 + 0.9 * 0.8 * rows * one.settings.epochs * 0.01 + rows / 5 * 0.001
    assert found.estimated_seconds == pytest.approx(expected)
    other = next(run for run in timed.runs if run.method == "tfidf")
    assert other.estimated_seconds == next(r for r in plan.runs if r.folder == other.folder).estimated_seconds
    assert elapsed(timed.jobs(), 1) > elapsed(timed.jobs(), 2)


def test_minutes_are_planned_from_what_was_measured_kept_and_gone_on_with(tmp_path, reviews):

    arguments = ["study", reviews, "--methods", "frozen", "--models", "pocket-tiny", "--minutes", "1", "--folds", "3"]
    home = tmp_path / "home"
    _, err = run(*arguments, "--workers", "2", "--out", tmp_path / "two", home=home)
    assert "measuring what a training costs" in err
    assert "planned for 1 minutes" in err
    saved = json.loads((tmp_path / "two" / "plan.json").read_text())
    assert saved["minutes"] == 1.0
    document = json.loads((tmp_path / "two" / "study.json").read_text())
    assert document["elapsed"] < 60
    _, err = run(*arguments, "--workers", "1", "--out", tmp_path / "two", home=home)
    assert "measuring" not in err  # nor is anything planned anew with another number of workers
    assert json.loads((tmp_path / "two" / "plan.json").read_text()) == saved
    assert "runs are finished already" in err


@pytest.mark.slow
def test_one_plan_gives_the_same_bytes_with_one_worker_with_two_and_on_ray(tmp_path, reviews, only_ray):
    pytest.importorskip("ray", reason="Ray is not installed (the extra: pocketbert[ray])")
    from study.test_ray import Cluster

    arguments = ["study", reviews, "--models", "pocket-tiny", "--methods", "frozen", "--minutes", "1", "--folds", "3"]
    run(*arguments, "--workers", "2", "--out", tmp_path / "two", home=tmp_path / "home")
    for name in ("one", "ray"):
        (tmp_path / name / "runs").mkdir(parents=True)
        shutil.copy(tmp_path / "two" / "plan.json", tmp_path / name)
    run(*arguments, "--workers", "1", "--out", tmp_path / "one", home=tmp_path / "another home")
    assert (tmp_path / "one" / "plan.json").read_bytes() == (tmp_path / "two" / "plan.json").read_bytes()
    assert numbers_of(tmp_path / "one") == numbers_of(tmp_path / "two")
    cluster = Cluster(tmp_path / "home")
    try:
        place = ["--include-dashboard=false", f"--temp-dir={cluster.folder}"]
        cluster.add("--head", f"--port={cluster.port}", "--num-cpus=2", *place)
        where = ["--workers", f"ray://{cluster.address}", "--out", tmp_path / "ray"]
        run(*arguments, *where, home=tmp_path / "home")
    finally:
        cluster.end()
    assert (tmp_path / "ray" / "plan.json").read_bytes() == (tmp_path / "two" / "plan.json").read_bytes()
    assert numbers_of(tmp_path / "ray") == numbers_of(tmp_path / "two")
