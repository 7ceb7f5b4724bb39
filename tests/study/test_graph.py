"""A study as a graph: runs that start from runs, or take their rate, in the order they need, however it is computed."""

import csv
import json
import os
import signal
import time
from dataclasses import replace

import pytest

import pocketbert as pb
from pocketbert.errors import UserError
from pocketbert.runs import load_run
from pocketbert.study import Row, Study
from pocketbert.study.plan import PlannedRun, make_plan
from pocketbert.study.pool import Queue
from pocketbert.study.store import Store
from pocketbert.training.settings import Settings
from study.conftest import command, make_task, numbers_of, run

QUICK = {"epochs": 2, "batch_size": 32, "learning_rate": 1e-2, "max_length": 32}

# a → b → c, a chain of tasks; and a diamond: d and e from c, f from d with e's rate.
TOML = """
tasks = ["{first}", "{second}"]
seeds = 2
folds = 0
[settings]
epochs = 2
batch_size = 32
max_length = 32

[[row]]
name = "a"
task = "first"
method = "finetune"
model = "{model}"

[[row]]
name = "b"
task = "second"
method = "bitfit"
start = "a"

[[row]]
name = "c"
task = "first"
method = "finetune"
start = "b"

[[row]]
name = "d"
task = "second"
method = "finetune"
start = "c"

[[row]]
name = "e"
task = "second"
method = "frozen"
start = "c"
[row.settings]
learning_rate = [1e-3, 1e-2]

[[row]]
name = "f"
task = "first"
method = "frozen"
start = "d"
rate_from = "e"
[row.settings]
learning_rate = [1e-3, 1e-2]
"""


def write_task(path, seed_of):
    toy = make_task()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for name, split in toy.splits.items():
            for text, label in zip(split.texts, split.labels, strict=True):
                # The two tasks share words, and no text.
                writer.writerow([f"{seed_of} {name} {text}", toy.labels[label if seed_of == "one" else 1 - label]])
    return path


@pytest.fixture(scope="module")
def described(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("graph")
    first, second = write_task(folder / "first.csv", "one"), write_task(folder / "second.csv", "two")
    (folder / "study.toml").write_text(TOML.format(first=first, second=second, model=model))
    return folder / "study.toml"


@pytest.fixture(scope="module")
def calm(described, tmp_path_factory):
    """The study with one worker, undisturbed; and about how long it took."""
    folder = tmp_path_factory.mktemp("calm")
    started = time.monotonic()
    run("study", "--config", described, "--workers", "1", "--out", folder / "study", home=folder / "home")
    return folder / "study", time.monotonic() - started


def test_each_run_starts_from_the_one_before_it_and_knows_its_ancestors(calm):
    store = Store(calm[0])
    runs = {(row["name"], seed): load_run(store.runs / folder) for row in results(calm[0])["rows"]
            for seed, folder in zip(row["seeds"], row["folders"], strict=True)}  # fmt: skip
    assert {name for name, _ in runs} == set("abcdef")
    for seed in (0, 1):
        ancestry = [(one["task"], one["method"], one["seed"]) for one in runs["f", seed].metadata["ancestry"]]
        chain = [("first", "finetune"), ("second", "bitfit"), ("first", "finetune"), ("second", "finetune")]
        assert ancestry == [(*one, seed) for one in chain]
        assert runs["b", seed].metadata["from"] == f"../{runs['a', seed].folder.name}"
        rate = runs["e", seed].metrics["best"]["learning_rate"]
        assert runs["f", seed].settings.learning_rate == rate
    both = runs["a", 0].folder, runs["a", 1].folder
    assert len({(folder / "model" / "trained.safetensors").read_bytes() for folder in both}) == 2
    assert runs["f", 1].fitted().probabilities(["one test the film was good"]).shape == (1, 2), "loads its ancestors"


def results(folder):
    return json.loads((folder / "study.json").read_text())


@pytest.mark.slow
def test_two_workers_write_the_same_bytes(calm, described, tmp_path):
    run("study", "--config", described, "--workers", "2", "--out", tmp_path / "study", home=tmp_path / "home")
    assert numbers_of(tmp_path / "study") == numbers_of(calm[0])


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(0.35,), pytest.param((0.2, 0.35, 0.5), marks=pytest.mark.slow)])
def test_killed_at_some_moments_it_goes_on_to_the_same_bytes(calm, described, tmp_path, shares):
    arguments = ["study", "--config", described, "--workers", "2", "--out", tmp_path / "study"]
    landed = 0
    for share in shares:
        process = command(*arguments, home=tmp_path / "home")
        time.sleep(share * calm[1])
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            landed += 1
        process.communicate()
    assert landed >= len(shares) / 2
    run(*arguments, home=tmp_path / "home")
    assert numbers_of(tmp_path / "study") == numbers_of(calm[0])


@pytest.mark.slow
def test_on_ray_the_same_bytes(calm, described, tmp_path, only_ray):
    pytest.importorskip("ray", reason="Ray is not installed (the extra: pocketbert[ray])")
    from study.test_ray import Cluster

    cluster = Cluster(tmp_path / "home")
    try:
        place = ["--include-dashboard=false", f"--temp-dir={cluster.folder}"]
        cluster.add("--head", f"--port={cluster.port}", "--num-cpus=2", *place)
        where = ["--workers", f"ray://{cluster.address}", "--out", tmp_path / "study"]
        run("study", "--config", described, *where, home=tmp_path / "home")
    finally:
        cluster.end()
    assert numbers_of(tmp_path / "study") == numbers_of(calm[0])


# -- the plan --------------------------------------------------------------------------------------------------------


def rows(of_a, **of_b):
    a = Row("toy", "finetune", of_a, QUICK, "a", 1)
    b = Row("toy", "finetune", None, QUICK, "b", 1, start="a")
    return [a, replace(b, **of_b)]


def test_the_key_of_a_run_holds_the_keys_of_the_runs_it_needs(model, task):
    known = make_plan(rows(model), {"toy": task}).runs
    assert known[1].needs == (known[0].folder,)
    changed = [replace(rows(model)[0], settings={**QUICK, "epochs": 1}), rows(model)[1]]
    others = make_plan(changed, {"toy": task}).runs
    assert others[0].key != known[0].key
    assert others[1].key != known[1].key
    reversed_order = make_plan(rows(model)[::-1], {"toy": task}).runs
    assert {run.key for run in reversed_order} == {run.key for run in known}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"start": "z"}, "no row is called 'z'; there are 'toy: a', 'toy: b'"),
        ({"start": "b"}, "row 'b' needs itself"),
        ({"rate_from": "b"}, "row 'b' needs itself"),
        ({"model": "pocket-tiny"}, "model and start both say what to start from"),
    ],
)
def test_a_graph_that_cannot_be_is_said_before_anything_runs(model, task, change, says):
    with pytest.raises(UserError, match=says):
        make_plan(rows(model, **change), {"toy": task})


def test_a_row_that_trains_no_encoder_is_no_start(model, task):
    with pytest.raises(UserError, match="'a', which trains no encoder"):
        make_plan([Row("toy", "tfidf", name="a"), rows(model)[1]], {"toy": task})


@pytest.mark.parametrize("which", [0, 1])
def test_a_rate_is_taken_only_where_both_rows_have_one(model, task, which):
    with_rate, without = Row("toy", "finetune", model, QUICK, "a", 1), Row("toy", "tfidf", name="a")
    taker = Row("toy", "tfidf", name="b", rate_from="a") if which else rows(model, start=None, rate_from="a")[1]
    with pytest.raises(UserError, match="'b' takes the rate of 'a', and one of them has no learning rate"):
        make_plan([with_rate if which else without, taker], {"toy": task})


def planned(folder, *needs):
    return PlannedRun(folder, folder, 0, "toy", "tfidf", None, Settings(), 1.0, *needs)


def test_a_failed_run_takes_with_it_all_that_need_it_and_no_other():
    a, b, c, other = planned("a"), planned("b", "a"), planned("c", None, "b"), planned("other")
    queue = Queue([[c], [b, other], [a]], [])
    assert queue.take() == [a]
    assert queue.take() is None, "[b, other] waits for a"
    assert [run.folder for run, _ in queue.failed(a, "no room")] == ["a", "b", "c"]
    assert queue.take() == [other]
    assert [why for _, why in queue.failures] == ["no room", *["the run that it needs failed: a"] * 2]


# -- a run to start from, by command ---------------------------------------------------------------------------------


def test_a_leak_through_two_steps_is_noticed(model, tmp_path):
    """c is scored on texts that a has learnt from; b, between them, has never seen one of them."""
    first, second = write_task(tmp_path / "first.csv", "one"), write_task(tmp_path / "second.csv", "two")
    home, told = tmp_path / "home", ["--epochs", "1", "--max-length", "32", "--threads", "1"]
    run("train", first, "--model", model, *told, "--out", tmp_path / "a", home=home)
    run("train", second, "--from", tmp_path / "a", *told, "--out", tmp_path / "b", home=home)
    # Cut otherwise, a third of what was trained on is tested on.
    again = ["train", first, "--from", tmp_path / "b", "--split-seed", "5", *told, "--out", tmp_path / "c"]
    _, err = run(*again, home=home, code=2)
    assert "are among those that" in err
    assert "has learnt from (first, second)" in err
    assert not (tmp_path / "c").exists()
    _, err = run(*again, "--allow-overlap", home=home)
    assert "warning" in err
    assert load_run(tmp_path / "c").metadata["from"] == "../b"
    _, err = run("train", first, "--from", tmp_path / "nothing", *told, "--out", tmp_path / "d", home=home, code=2)
    assert "no such run" in err
    both = ["--from", tmp_path / "a", "--model", model]
    _, err = run("train", second, *both, *told, "--out", tmp_path / "d", home=home, code=2)
    assert "--model and --from" in err


def test_a_study_of_tables_takes_starts_from_python(task, model, tmp_path):
    study = Study(task, table=rows(model), out=tmp_path / "study").run(workers=2)
    assert [row.name for row in study.results.rows] == ["a", "b"]
    assert not study.results.failures
    assert pb.load_run(tmp_path / "study" / "runs" / study.results.rows[1].folders[0]).metadata["ancestry"]
