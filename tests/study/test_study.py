"""Studies from end to end: the same numbers however they were computed, and nothing done twice."""

import csv
import dataclasses
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import pocketbert as pb
from pocketbert.cli import app
from pocketbert.errors import UserError
from pocketbert.locks import lock
from pocketbert.manifest import write_manifest
from pocketbert.report import read_document
from pocketbert.study import Row
from pocketbert.study.pool import Event, Worker
from pocketbert.study.store import Store
from study.conftest import SMALL, files_of, numbers_of, run


@pytest.fixture(scope="module")
def done(tmp_path_factory, reviews, model):
    """A finished study, for tests that only look."""
    where = tmp_path_factory.mktemp("done")
    out, err = run(
        "study", reviews, "--models", model, *SMALL, "--workers", "2", "--out", where / "study", home=where / "home"
    )
    return where / "study", out, err


def test_a_study_ends_with_a_table_a_verdict_and_a_report(done):
    folder, out, err = done
    assert "tfidf" in out
    assert "finetune small" in out
    assert "has the highest accuracy" in out
    assert f"report: {folder / 'report.html'}" in err
    assert "[8/8]" in err
    results = read_document(folder / "study.json")
    assert [row.name for row in results.rows] == ["random", "majority", "tfidf", "frozen small", "finetune small"]
    for row in results.rows:
        assert row.accuracy.low <= row.accuracy.mean <= row.accuracy.high
        told = [json.loads((folder / "runs" / run / "metrics.json").read_text()) for run in row.folders]
        assert row.dev.mean == pytest.approx(np.mean([one["scores"]["dev"]["accuracy"] for one in told]))
        assert row.dev.low <= row.dev.mean <= row.dev.high
        assert row.cost.peak_memory_bytes > 0
    learnt = [row for row in results.rows if not row.guesses and not row.all_undertrained]
    pairs = len(learnt) * (len(learnt) - 1) // 2  # among themselves, and each against both ways to guess
    assert len(results.comparisons) == pairs + 2 * len(learnt)
    assert all(one.effect >= 0 for one in results.comparisons)
    assert "finetune small" in (folder / "table.md").read_text()
    assert "<html" in (folder / "report.html").read_text()
    assert len(list(csv.DictReader((folder / "results.csv").read_text().splitlines()))) == 8


@pytest.mark.slow
def test_one_worker_and_two_give_identical_bytes(done, tmp_path, reviews, model):
    folder, _, _ = done
    run("study", reviews, "--models", model, *SMALL, "--workers", "1", "--out", tmp_path / "one", home=tmp_path / "h")
    assert numbers_of(tmp_path / "one") == numbers_of(folder)
    assert files_of(tmp_path / "one") == files_of(folder)


@pytest.mark.slow
def test_a_small_run_is_not_said_to_need_the_memory_of_a_larger_one_before_it(tmp_path):
    path = tmp_path / "long.csv"
    words = ["a", "long", "text", "of", "many", "words", "that", "are", "good", "or", "bad", "as", "films", "are"]
    rows = [f"{' '.join(words[(i * j) % 14] for j in range(120))},{i % 2}" for i in range(1, 241)]
    path.write_text("\n".join(["text,label", *rows]), encoding="utf-8")

    def memory_of_tiny(models: str) -> int:
        out = tmp_path / models
        arguments = [
            "--methods",
            "scratch",
            "--epochs",
            "1",
            "--seeds",
            "1",
            "--folds",
            "0",
            "--workers",
            "1",
            "--out",
            out,
        ]
        run("study", path, "--models", models, *arguments, home=tmp_path / "home")
        rows = read_document(out / "study.json").rows
        return next(row.cost.peak_memory_bytes for row in rows if row.name == "scratch tiny")

    assert memory_of_tiny("mini,tiny") < 1.1 * memory_of_tiny("tiny")


@pytest.mark.slow
def test_the_same_command_again_repeats_nothing_and_more_seeds_only_add(done, tmp_path, reviews, model):
    folder, _, _ = done
    stamps = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/manifest.json")}
    common = ["study", reviews, "--models", model, *SMALL[:4], "--folds", "0", "--workers", "2", "--out", folder]
    _, err = run(*common, "--seeds", "2", home=tmp_path)
    assert "8 of 8 runs are finished already" in err
    _, err = run(*common, "--seeds", "3", home=tmp_path)
    assert "8 of 11 runs are finished already" in err
    now = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/manifest.json")}
    assert len(now) == 11
    assert all(now[path] == stamp for path, stamp in stamps.items())


def test_another_study_in_the_same_folder_is_said_and_its_runs_are_marked_as_left_over(tmp_path):
    path = tmp_path / "tickets.csv"
    words = "abcdefghijklmnopqrstuvwxyz"
    body = [f"{words[n % 26] * 5} {words[n // 3] * 4} {words[7 * n % 26] * 6}" for n in range(60)]
    lines = [f"the {'good' if n % 2 else 'bad'} story {n},{body[n]},{'ab'[n % 2]}" for n in range(60)]
    path.write_text("title,body,label\n" + "\n".join(lines) + "\n")
    common = ["study", str(path), "--methods", "tfidf", "--folds", "2", "--out", str(tmp_path / "study")]
    runner = CliRunner()

    def studied(*flags):
        done = runner.invoke(app, [*common, "--workers", "1", *flags])
        assert done.exit_code == 0, done.output
        return done.stderr

    def listed():
        runs = json.loads(runner.invoke(app, ["runs", str(tmp_path / "study"), "--json"]).stdout)["runs"]
        return {name: run["in_study"] for name, run in runs.items()}

    said = "holds another study"
    assert said not in studied("--text", "title", "--repeats", "1")
    first = listed()
    assert set(first.values()) == {True}
    assert said not in studied("--text", "title", "--repeats", "2"), "more repeats only add runs"
    grown = listed()
    assert set(grown) > set(first)
    assert set(grown.values()) == {True}
    err = studied("--text", "body", "--repeats", "1")
    assert f"{said}, with {len(grown)} runs that this one does not have" in err
    assert "--out" in err
    now = listed()
    assert {name for name, here in now.items() if not here} == set(grown)
    assert {name for name, here in now.items() if here} == set(now) - set(grown)
    shown = runner.invoke(app, ["runs", str(tmp_path / "study")]).stdout
    assert shown.count("left over") == len(grown)


def test_a_dry_run_says_what_and_how_long_and_does_nothing(tmp_path, reviews, model):
    arguments = ["study", reviews, "--models", model, *SMALL, "--out", tmp_path / "study", "--dry-run"]
    out, err = run(*arguments, home=tmp_path)
    assert "8 of 8 runs to do" in out
    assert "nothing was run" in err
    out, _ = run(*arguments, "--json", home=tmp_path)
    plan = json.loads(out)
    assert plan["left"] == 8
    assert plan["seconds"] > 0
    assert {run["settings"]["threads"] for run in plan["runs"]} == {1}
    assert not (tmp_path / "study").exists()


def test_the_index_is_made_from_the_folders(done):
    folder, _, _ = done
    store = Store(folder)
    whole = store.index()
    for damage in ("", "{", '{"runs": 3}'):
        (folder / "index.json").write_text(damage)
        assert store.index() == whole
    (folder / "index.json").unlink()
    assert store.index() == whole
    assert json.loads((folder / "index.json").read_text())["runs"] == whole


@pytest.mark.slow
def test_runs_lists_them(done, tmp_path):
    folder, _, _ = done
    out, _ = run("runs", folder, "--json", home=tmp_path)
    assert len(json.loads(out)["runs"]) >= 8
    out, _ = run("runs", folder, home=tmp_path)
    assert "finetune" in out
    _, err = run("runs", tmp_path, home=tmp_path, code=2)
    assert "no study" in err


@pytest.mark.parametrize("harm", ["missing", "shorter", "another", "no numbers"])
def test_a_run_that_was_damaged_is_listed_as_damaged_and_the_others_as_they_are(done, tmp_path, harm):
    folder, _, _ = done
    shutil.copytree(folder, tmp_path / "study")
    store = Store(tmp_path / "study")
    whole = store.index()
    victim = next(path for path in store.runs.iterdir() if "tfidf" in path.name)
    if harm == "missing":
        (victim / "test.csv").unlink()
    elif harm == "shorter":
        (victim / "dev.csv").write_text("row,label\n")
    elif harm == "another":
        (victim / "test.csv").write_text((victim / "test.csv").read_text().replace("yes", "no "))
    else:
        metrics = json.loads((victim / "metrics.json").read_text())
        metrics["scores"]["test"]["accuracy"] = "high"
        (victim / "metrics.json").write_text(json.dumps(metrics))
        write_manifest(victim)
    listed = store.index()
    assert [name for name, entry in listed.items() if "damaged" in entry] == [victim.name]
    assert victim.name in listed[victim.name]["damaged"]
    assert {name: entry for name, entry in listed.items() if name != victim.name} == {
        name: entry for name, entry in whole.items() if name != victim.name
    }
    if harm == "missing":
        out, err = run("runs", tmp_path / "study", home=tmp_path)
        assert "damaged" in out
        assert f"{victim / 'test.csv'}: missing or changed" in err
        out, _ = run("runs", tmp_path / "study", "--json", home=tmp_path)
        assert "missing" in json.loads(out)["runs"][victim.name]["damaged"]


def test_an_index_that_was_edited_is_made_anew(done, tmp_path):
    folder, _, _ = done
    shutil.copytree(folder, tmp_path / "study")
    store = Store(tmp_path / "study")
    whole = store.index()
    for change in ({"scores": 3}, {"task": "another"}, {"seed": None}):
        edited = {name: {**entry, **change} for name, entry in whole.items()}
        (tmp_path / "study" / "index.json").write_text(json.dumps({"format": 1, "runs": edited}))
        assert store.index() == whole


def test_names_stay_text_in_the_table(task, tmp_path):
    name = "<img src=x onerror=alert(1)> & [a](http://x) `b` | *c* _d_ e_f\nnext\x1b[31m"
    table = [Row("", "majority", name=name), Row("", "random", name="plain")]
    hostile = dataclasses.replace(task, name="<b>toy</b>")
    study = pb.Study(hostile, table=table, name="# a <i>study</i>", out=tmp_path / "study").run(1)
    text = (tmp_path / "study" / "table.md").read_text()
    assert study.table() == text
    assert "<" not in text
    assert "&lt;img src=x onerror=alert(1)&gt; &amp; \\[a\\](http://x) \\`b\\` \\| \\*c\\* \\_d\\_ e_f next" in text
    assert "\x1b" not in text
    assert {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("|")} == {7}


def test_a_changed_run_is_found_out(done, reviews, model, tmp_path):
    folder, _, _ = done
    shutil.copytree(folder, tmp_path / "study")
    victim = next((tmp_path / "study").glob("runs/*tfidf*/test.csv"))
    victim.write_text(victim.read_text().replace("yes", "no"))
    _, err = run(
        "study", reviews, "--models", model, *SMALL, "--out", tmp_path / "study", home=tmp_path / "home", code=2
    )
    assert "changed since the run was finished" in err


def test_the_library_does_the_same_as_the_command(task, model, tmp_path):
    seen: list[Event] = []
    study = pb.Study(task, [model], ["frozen"], 2, settings={"epochs": 1}, out=tmp_path / "study")
    study.run(workers=1, watch=seen.append)
    assert "frozen small" in study.table()
    study.report(tmp_path / "elsewhere.html")
    assert (tmp_path / "elsewhere.html").is_file()
    assert {event.kind for event in seen} >= {"began", "done"}
    assert sum(event.kind == "done" for event in seen) == 6


def test_two_studies_do_not_write_one_folder(task, tmp_path):
    store = Store(tmp_path / "study")
    with store.writing(), pytest.raises(UserError, match="another process is writing here"):
        pb.Study(task, methods=["random"], seeds=1, out=tmp_path / "study").run(workers=1)


def test_a_folder_of_something_else_is_left_alone(task, tmp_path):
    (tmp_path / "letters.txt").write_text("dear")
    with pytest.raises(UserError, match="is no study of pocketbert"):
        pb.Study(task, methods=["random"], seeds=1, out=tmp_path).run(workers=1)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["letters.txt"]


def test_a_worker_that_is_killed_is_replaced_and_its_run_done_again(task, tmp_path, monkeypatch):
    """The first two workers die in the middle of a run."""
    begun: list[Worker] = []
    plain = Worker.__init__

    def start(self, *arguments):
        plain(self, *arguments)
        begun.append(self)

    monkeypatch.setattr(Worker, "__init__", start)
    said = []

    def watch(event: Event) -> None:
        said.append(event.kind)
        if event.kind == "progress" and len(begun) <= 2:
            begun[-1].process.kill()

    common = {"models": ["tiny"], "methods": ["scratch"], "seeds": 1, "settings": {"epochs": 3}}
    killed = pb.Study(task, **common, out=tmp_path / "killed").run(workers=1, watch=watch)
    assert said.count("again") == 2
    assert not killed.results.failures
    monkeypatch.undo()
    pb.Study(task, **common, out=tmp_path / "calm").run(workers=1)
    assert numbers_of(tmp_path / "killed") == numbers_of(tmp_path / "calm")


def test_a_run_that_fails_is_reported_and_the_others_are_finished(task, model, tmp_path):
    wild = pb.load_encoder(model, quiet=True)
    wild.embeddings.norm.weight.data.fill_(3e38)  # nothing that follows is a number
    pb.save_model(wild, tmp_path / "wild", pb.load_tokenizer(model))
    rows = [Row("toy", "tfidf"), Row("toy", "finetune", str(tmp_path / "wild"), {"epochs": 1}, "wild", 1)]
    study = pb.Study(task, table=rows, out=tmp_path / "study").run(workers=1)
    assert [failure.run.split("-seed")[0] for failure in study.results.failures] == ["toy-finetune-wild"]
    assert "diverged at learning rate" in study.results.failures[0].error
    assert [row.name for row in study.results.rows] == ["tfidf"]
    missing = Row("toy", "scratch", "tiny", {"vocabulary": str(tmp_path / "no.txt")}, "lost", 1)
    study = pb.Study(task, table=[rows[0], missing], out=tmp_path / "study").run(workers=1)
    assert [failure.run.split("-seed")[0] for failure in study.results.failures] == ["toy-scratch-tiny"]
    assert "no.txt" in study.results.failures[0].error
    assert [row.name for row in study.results.rows] == ["tfidf"]


@pytest.mark.slow
def test_a_rate_that_the_first_seed_chose_is_kept_by_the_others(task, tmp_path):
    rates = (1e-6, 3e-3)
    row = Row("toy", "scratch", "tiny", {"epochs": 2, "learning_rate": rates}, "kept", 3, keep_rate=True)
    study = pb.Study(task, table=[row], out=tmp_path / "study")
    before = study.plan()
    assert [run.needs for run in before.runs] == [(), (before.runs[0].folder,), (before.runs[0].folder,)]
    study.run(workers=2)
    store = Store(tmp_path / "study")
    chosen = store.chosen_rate(before.runs[0].folder)
    assert chosen in rates
    assert study.results.rows[0].seeds == (0, 1, 2)
    assert [store.load(run).settings.rates for run in before.runs] == [rates, (chosen,), (chosen,)]
    assert [run.key for run in study.plan().runs] == [run.key for run in before.runs]


def test_a_rate_that_nobody_chose_is_a_failure_of_all_seeds(task, tmp_path):
    settings = {"epochs": 2, "learning_rate": (1e-4, 3e-3), "vocabulary": str(tmp_path / "no.txt")}
    rows = [Row("toy", "random", seeds=2, keep_rate=True)]  # has no rate: nothing to keep
    rows += [Row("toy", "scratch", "tiny", settings, "lost", 2, keep_rate=True)]
    study = pb.Study(task, table=rows, out=tmp_path / "study").run(workers=1)
    assert ["no.txt" in failure.error for failure in study.results.failures] == [True, False]
    assert "the run that it needs failed" in study.results.failures[1].error
    assert [row.name for row in study.results.rows] == ["random"]
    study.plan()


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_study_goes_on_when_there_is_room(tmp_path, reviews, model):
    """A limit on file sizes stands in for a full disk: writing fails in the same place."""
    arguments = ["study", reviews, "--models", model, *SMALL, "--workers", "1", "--out", tmp_path / "study"]
    process = subprocess.run(
        [sys.executable, "-m", "pocketbert", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "POCKETBERT_HOME": str(tmp_path / "home")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000)),
    )
    assert process.returncode == 2, process.stderr
    assert "cannot write" in process.stderr
    assert "give the same command again" in process.stderr
    assert "Traceback" not in process.stderr
    run(*arguments, home=tmp_path / "home")
    assert (tmp_path / "study" / "report.html").is_file()
    assert not [name for name in files_of(tmp_path / "study") if name.endswith(".part")]


def test_ctrl_c_stops_the_workers_too(tmp_path, reviews):
    import signal

    from study.conftest import command

    process = command(
        "study",
        reviews,
        *("--models", "mini", "--epochs", "50", "--repeats", "1"),
        *("--out", tmp_path / "study"),
        home=tmp_path / "home",
    )
    for _ in range(600):
        if list(tmp_path.glob("study/runs/*scratch*")):
            break
        time.sleep(0.1)
    else:
        process.kill()
        pytest.fail(f"no run began within a minute: {process.communicate()}")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    with Store(tmp_path / "study").writing():
        for folder in (tmp_path / "study" / "runs").iterdir():
            with lock(folder, wait=10):
                pass  # nobody holds it any more


def test_labels_may_hold_anything_a_line_can_and_cannot(tmp_path, task):
    labels = ('a "good",\r one', "NA\nnull")
    study = pb.Study(dataclasses.replace(task, labels=labels), methods=["random"], seeds=1, out=tmp_path / "study").run(
        1
    )
    for row in study.results.rows:
        counted = sum(row.confusion[i][i] for i in range(2)) / sum(map(sum, row.confusion))
        assert row.accuracy.mean == pytest.approx(counted)


def test_modules_in_the_folder_one_is_in_are_not_run(tmp_path, task, monkeypatch):
    (tmp_path / "queue.py").write_text("raise SystemExit('a stranger's queue')")
    monkeypatch.chdir(tmp_path)
    study = pb.Study(task, methods=["random"], seeds=1, out=tmp_path / "study").run(1)
    assert not study.results.failures


def test_threads_end_with_the_study(task, tmp_path):
    before = threading.active_count()
    pb.Study(task, methods=["random"], seeds=2, out=tmp_path / "study").run(workers=2)
    assert threading.active_count() == before


# -- a person's own file ---------------------------------------------------------------------------------------------


def write_own(path: Path) -> None:
    """500 rows: a header, commas, quotes, accents, an imbalanced third class."""
    from training.conftest import make_split

    split = make_split(500, 9)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "Comment", "Rating"])
        for number, (text, label) in enumerate(zip(split.texts, split.labels.tolist(), strict=True)):
            rating = "mixed" if number % 62 == 0 else ("bad", "good")[label]
            writer.writerow([number, f'{text}, "naïve" café, isn\'t it? {number}', rating])


def test_from_a_file_of_ones_own_to_a_report_in_one_command(tmp_path):
    path = tmp_path / "comments.csv"
    write_own(path)
    out, err = run(
        "study",
        path,
        "--models",
        "tiny",
        "--epochs",
        "2",
        "--folds",
        "2",
        "--repeats",
        "1",
        "--out",
        tmp_path / "study",
        home=tmp_path / "home",
    )
    assert "'Comment'" in err
    assert "'Rating'" in err
    assert "mixed" in err
    task = read_document(tmp_path / "study" / "study.json").tasks[0]
    assert sorted(task.labels) == ["bad", "good", "mixed"]
    assert sum(task.rows.values()) == 500
    assert sum(split["mixed"] for split in task.balance.values()) == 9
    assert any("mixed" in warning for warning in task.warnings)
    assert "scratch tiny" in out
    report = (tmp_path / "study" / "report.html").read_text()
    assert "caf&eacute;" in report or "café" in report
