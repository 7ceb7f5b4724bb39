"""The first hour of a new user with files of their own: what was learnt is used again without being told twice."""

import csv
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from pocketbert.cli import app
from pocketbert.errors import UserError
from pocketbert.evaluate import evaluate_run
from pocketbert.predict import predict_file, predict_texts
from pocketbert.runs import load_run
from pocketbert.tasks import load_task
from pocketbert.train import train_run

from .conftest import make_task
from .test_methods import quick


def command(*arguments, code=0, text=None):
    """A command, in this process: what it prints, and its exit code."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], input=text)
    mistake = isinstance(done.exception, UserError)
    assert (2 if mistake else done.exit_code) == code, f"{done.exception!r}\n{done.stdout}\n{done.stderr}"
    return SimpleNamespace(stdout=done.stdout, stderr=f"{done.stderr}{done.exception if mistake else ''}")


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("hour")


@pytest.fixture(scope="module")
def tickets(place):
    """A file with columns that nobody would guess by name, and a label with a space."""
    task = make_task(train=240)
    rows = [
        [f"k{number}", "note of the agent", text, ("not good", "good")[label]]
        for split in task.splits.values()
        for number, (text, label) in enumerate(zip(split.texts, split.labels, strict=True))
    ]
    return write(place / "tickets.csv", [["Kunde", "Notiz", "Nachricht", "Art"], *rows])


@pytest.fixture(scope="module")
def run(place, tickets):
    return train_run(load_task(tickets, text="Nachricht", label="Art"), "tfidf", place / "run")


@pytest.fixture(scope="module")
def pair_run(place):
    return train_run(make_task(pairs=True), "tfidf", place / "pairs")


def test_a_run_remembers_its_columns_and_finds_them_in_other_files(run, tmp_path):
    new = write(tmp_path / "new.csv", [["text", "Nachricht", "Art"], ["x", "the film was good", "good"]])
    done = predict_file(run, new, tmp_path / "out.csv")
    assert "text is column 'Nachricht'" in done["said"][0]
    scores = evaluate_run(run, new, labels_are_real=True)
    assert scores["rows"] == 1
    other = write(tmp_path / "other.csv", [["text"], ["the film was good"]])
    assert "text is column 'text'" in predict_file(run, other, tmp_path / "out.csv")["said"][0]


def test_the_same_texts_from_another_file_are_the_same_run(run, tickets, tmp_path):
    copy = tmp_path / "tickets.csv"
    copy.write_bytes(tickets.read_bytes())
    stamp = (run.folder / "manifest.json").stat().st_mtime_ns
    again = train_run(load_task(copy, text="Nachricht", label="Art"), "tfidf", run.folder)
    assert (again.folder / "manifest.json").stat().st_mtime_ns == stamp


def test_probabilities_are_called_by_their_labels_and_by_numbers_where_asked(run, tmp_path):
    new = write(tmp_path / "new.csv", [["Nachricht"], ["a lovely warm film"]])
    predict_file(run, new, tmp_path / "names.csv")
    (named,) = table(tmp_path / "names.csv")
    assert list(named) == ["Nachricht", "prediction", "p_good", "p_not good"]
    predict_file(run, new, tmp_path / "numbers.csv", numbers=True)
    (numbered,) = table(tmp_path / "numbers.csv")
    assert list(numbered) == ["Nachricht", "prediction", "probab_0", "probab_1"]
    assert list(named.values())[2:] == list(numbered.values())[2:]
    assert list(table(run.folder / "test.csv")[0]) == ["row", "label", "prediction", "p_good", "p_not good"]


@pytest.mark.parametrize("nothing", ["", "   ", "\t \u00a0", "\u200b\ufeff"])
def test_a_row_without_a_text_has_no_prediction_and_is_said(run, tmp_path, nothing):
    rows = [["Nachricht"], ["a good film"], [nothing], ["a bad film"], [nothing], ["the plot"]]
    done = predict_file(run, write(tmp_path / "new.csv", rows), tmp_path / "out.csv")
    written = table(tmp_path / "out.csv")
    assert [bool(row["prediction"]) for row in written] == [True, False, True, False, True]
    assert [bool(row["p_good"]) for row in written] == [True, False, True, False, True]
    assert (done["rows"], done["empty"], done["empty_rows"]) == (5, 2, [2, 4])
    assert sum(done["predicted"].values()) == 3
    assert any("2 rows have no text (2, 4): nothing is predicted there" in one for one in done["warnings"])


def test_the_command_says_which_rows_have_no_text_also_as_json(run, tmp_path):
    new = write(tmp_path / "new.csv", [["Nachricht"], ["a good film"], [" "]])
    done = command("predict", run.folder, new, "--out", tmp_path / "out.csv", "--json")
    assert "warning: new.csv: row 2 has no text" in done.stderr
    assert json.loads(done.stdout)["empty_rows"] == [2]


def test_a_pair_that_lacks_one_text_has_no_prediction(pair_run, tmp_path):
    new = write(tmp_path / "new.csv", [["text1", "text2"], ["the film", "was good"], ["the film", ""]])
    assert predict_file(pair_run, new, tmp_path / "out.csv")["empty_rows"] == [2]


def test_texts_can_be_given_on_the_command_line(run, pair_run):
    done = command("predict", run.folder, "--text", "a lovely warm film", "--text", "dull and grim", "--text", " ")
    assert "a lovely warm film" in done.stdout
    assert "p_not good" in done.stdout
    assert "row 3 has no text" in done.stderr
    document = json.loads(command("predict", run.folder, "--text", "a lovely warm film", "--json").stdout)
    (one,) = document["predictions"]
    assert one["prediction"] == "good"
    assert set(one["probabilities"]) == {"good", "not good"}
    expected = run.fitted().predict(load_task_split(["a lovely warm film"])).probabilities[0]
    np.testing.assert_allclose(list(one["probabilities"].values()), expected)
    both = predict_texts(pair_run, ["the film"], ["was good"])
    assert both["predictions"][0]["text2"] == "was good"
    with pytest.raises(UserError, match="pairs; 1 first texts were given, and 0 second"):
        predict_texts(pair_run, ["the film"])
    assert "leave second texts out" in command("predict", run.folder, "--text", "a", "--text2", "b", code=2).stderr
    assert "what shall be predicted?" in command("predict", run.folder, code=2).stderr


def load_task_split(texts):
    from pocketbert.tasks import Split

    return Split(texts, None, None)


@pytest.mark.parametrize(
    ("given", "rows"),
    [
        ("a lovely warm film\n5 stars, dull\n", 2),
        ("Nachricht,x\na lovely film,1\n", 1),
        ('{"Nachricht": "a good film"}\n', 1),
        ('{"text": "a good film"}\n', 1),
    ],
)
def test_standard_input_is_read_as_what_it_is(run, given, rows):
    document = json.loads(command("predict", run.folder, "-", "--json", text=given).stdout)
    assert document["rows"] == rows
    assert all(one["prediction"] in ("good", "not good") for one in document["predictions"])


def test_standard_input_is_answered_on_standard_output(run):
    done = subprocess.run(
        [sys.executable, "-m", "pocketbert", "predict", run.folder, "-"],
        input="a lovely warm film\n\ndull and grim\n",
        capture_output=True,
        text=True,
        check=True,
    )
    lines = list(csv.DictReader(done.stdout.splitlines()))
    assert [line["prediction"] for line in lines] == ["good", "", "not good"]


def test_evaluate_without_a_file_scores_the_runs_own_test_split_again(run, tickets, tmp_path):
    done = command("evaluate", run.folder)
    assert "tickets:test" in done.stdout
    assert "as not good" in done.stdout
    scores = evaluate_run(load_run(run.folder))
    told = run.metrics["scores"]["test"]
    assert {name: scores[name] for name in ("rows", "accuracy", "confusion")} == {
        name: told[name] for name in ("rows", "accuracy", "confusion")
    }
    assert scores["labels"] == ["good", "not good"]


def test_a_test_split_that_changed_or_is_gone_is_said(tmp_path):
    rows = [[f"{'good' if n % 2 else 'bad'} film number {n}", n % 2] for n in range(60)]
    path = write(tmp_path / "it.csv", [["text", "label"], *rows])
    run = train_run(load_task(path), "tfidf", tmp_path / "run")
    write(path, [["text", "label"], *rows[:50]])
    with pytest.raises(UserError, match="is not the one that the run was scored on"):
        evaluate_run(run)
    path.unlink()
    with pytest.raises(UserError, match="it.csv: is not there any more; name a file or a task"):
        evaluate_run(run)
    made = train_run(make_task(), "majority", tmp_path / "made")
    with pytest.raises(UserError, match="does not say where its task came from; name a file"):
        evaluate_run(made)


def test_train_shows_which_label_was_taken_for_which(tickets, tmp_path):
    done = command("train", tickets, "--text", "Nachricht", "--method", "tfidf", "--out", tmp_path / "run")
    assert "Predicted, test" in done.stdout
    assert "as not good" in done.stdout
    scored = load_run(tmp_path / "run").metrics["scores"]["test"]
    (line,) = [line for line in done.stdout.splitlines() if line.strip().startswith("not good")]
    assert list(map(int, line.split()[2:])) == [*scored["confusion"][1], sum(scored["confusion"][1])]


def test_a_confusion_of_many_labels_is_a_list_of_the_commonest(capsys):
    from pocketbert.cli.train import print_confusion

    labels = [f"label{number}" for number in range(30)]
    matrix = np.diag(np.full(30, 9))
    matrix[3, 7] = 4
    print_confusion(labels, matrix.tolist())
    shown = capsys.readouterr().out
    assert "label3" in shown
    assert "label7" in shown
    assert "label8" not in shown


def test_a_run_gives_vectors_as_a_model_does(model, tmp_path):
    from pocketbert.embed import encode

    trained = train_run(
        make_task(), "finetune", tmp_path / "run", model=model, settings=quick(learning_rate=1e-2, epochs=1)
    )
    new = write(tmp_path / "new.csv", [["text"], ["a good film"], ["bad"]])
    command("encode", trained.folder, new, "--out", tmp_path / "one.npy")
    command("encode", new, "--model", trained.folder, "--out", tmp_path / "two.npy")
    one, two = (np.load(tmp_path / name) for name in ("one.npy", "two.npy"))
    np.testing.assert_array_equal(one, two)
    assert not np.allclose(one, encode(["a good film", "bad"], model), atol=1e-3)


def test_a_language_that_the_model_does_not_know_is_said_before_training(tmp_path):
    texts = [f"Das Essen war {'gut' if n % 2 else 'schlecht'}, Bestellung Nummer {n} kam pünktlich." for n in range(60)]
    path = write(tmp_path / "it.csv", [["text", "label"], *([text, n % 2] for n, text in enumerate(texts))])
    said = "not in the model's vocabulary"
    frozen = ["--method", "frozen", "--model", "pocket-tiny", "--epochs", "1"]
    assert said in command("train", path, *frozen, "--out", tmp_path / "frozen").stderr
    assert said not in command("train", path, "--method", "tfidf", "--out", tmp_path / "words").stderr
    assert said in command("study", path, "--models", "pocket-tiny", "--dry-run").stderr
    assert said in command("check", path).stderr
