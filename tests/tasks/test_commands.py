"""`pocketbert tasks` and `check`: one JSON document for machines, exit code 2 for what must be mended."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import pocketbert.cli.check
import pocketbert.cli.study
import pocketbert.cli.tasks  # noqa: F401 - importing adds the command
from pocketbert.cli.app import app
from pocketbert.errors import UserError

Write = Callable[..., Path]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_tasks_lists_every_built_in_task(no_data: Path) -> None:
    listed = json.loads(run("tasks", "--json").stdout)
    assert {"sst2", "sst2-glue", "rte", "sst5", "cfimdb", "mnli", "snli", "qnli", "sick", "movies"} == {
        task["name"] for task in listed
    }
    assert all(task["labels"] and task["licence"] and (task["splits"] or task["error"]) for task in listed)
    shown = run("tasks")
    assert shown.exit_code == 0
    assert "sst2-glue" in shown.stdout
    assert shown.stdout.count("not here") == 9
    assert len(shown.stderr.strip().splitlines()) <= 2
    assert "--hub" in shown.stderr


def test_check_gives_one_json_document(reviews: Path) -> None:
    done = run("check", reviews, "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["errors"] == []
    assert found["splits"]["test"]["rows"] == 10
    assert found["splits"]["test"]["labelled"] is True
    assert "was split" in done.stderr


def test_check_shows_people_a_table_and_what_was_guessed(reviews: Path) -> None:
    done = run("check", reviews)
    assert done.exit_code == 0
    assert "0: 40, 1: 40" in done.stdout
    assert "reading the text from 'text'" in done.stderr


def test_check_says_that_cfimdb_test_is_never_scored(data: Path) -> None:
    done = run("check", "cfimdb", "--json")
    assert done.exit_code == 0
    test = json.loads(done.stdout)["splits"]["test"]
    assert (test["rows"], test["labelled"]) == (488, False)
    assert test["reason"].startswith("all 488 labels are 0 ")
    insisted = json.loads(run("check", "cfimdb", "--labels-are-real", "--json").stdout)
    assert insisted["splits"]["test"]["labelled"] is True


@pytest.mark.parametrize("content", ["", "text,label\na,1\nb,1\n", "text,label\na,1\nb\n", "x,y\na\0,1\n"])
def test_check_exits_2_on_a_file_that_must_be_mended(write: Write, content: str) -> None:
    path = write("it.csv", content)
    done = run("check", path, "--json")
    assert done.exit_code == 2
    assert "it.csv" in json.loads(done.stdout)["errors"][0]
    assert isinstance(run("check", path).exception, UserError)


def test_check_prints_its_report_before_it_exits_2(write: Write) -> None:
    path = write("it.csv", "text,label\n" + "".join(f"text {n},{n}\n" for n in range(60)))
    others = [write(name, "text,label\na,1\nb,2\n") for name in ("dev.csv", "test.csv")]
    done = run("check", path, *others, "--json")
    assert done.exit_code == 2
    found = json.loads(done.stdout)
    assert "60 different labels in 60 rows" in found["errors"][0]
    assert found["splits"]["train"]["rows"] == 60


def test_columns_are_named_on_the_command_line(write: Write) -> None:
    lines = "".join(f"p {n},h {n},{'yn'[n % 2]}\n" for n in range(40))
    path = write("it.csv", "one,two,three\n" + lines)
    done = run("check", path, "--text", "one", "--text2", "two", "--label", "three", "--json")
    assert json.loads(done.stdout)["labels"] == ["n", "y"]
    wrong = json.loads(run("check", path, "--text", "won", "--json").stdout)["errors"][0]
    assert "--text column 'won' not in" in wrong
    assert "'one', 'two', 'three'" in wrong


def test_two_files_are_train_and_test(write: Write) -> None:
    train = write("train.csv", "text,label\n" + "".join(f"text number {n},{'ab'[n % 2]}\n" for n in range(40)))
    test = write("test.csv", "text,label\n" + "".join(f"another text {n},{'ab'[n % 2]}\n" for n in range(20)))
    for files in ((train, test), (test, train)):
        done = run("check", *files, "--json")
        assert done.exit_code == 0, done.exception
        splits = json.loads(done.stdout)["splits"]
        assert {name: split["rows"] for name, split in splits.items()} == {"train": 36, "dev": 4, "test": 20}
        assert "train.csv is train, test.csv is test" in done.stderr


def test_all_missing_data_sets_are_named_at_once(no_data: Path) -> None:
    done = run("study", "sst2", "movies", "rte", "qnli", "--dry-run")
    assert isinstance(done.exception, UserError)
    said = str(done.exception)
    assert all(f"{name} (" in said for name in ("sst2", "rte", "qnli"))
    assert "movies (" not in said
    assert "--hub" in said
    assert "\n" not in said
