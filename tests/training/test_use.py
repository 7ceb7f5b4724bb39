"""What one does with a run, by the commands a person types: train, predict, evaluate, encode, export."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, matthews_corrcoef

from pocketbert import metrics
from pocketbert.embed import encode
from pocketbert.errors import UserError
from pocketbert.evaluate import evaluate_run
from pocketbert.export import export_run
from pocketbert.predict import predict_file
from pocketbert.train import train_run

from .conftest import make_task
from .test_methods import quick

ONE = quick(learning_rate=1e-2, epochs=2)


@pytest.fixture(scope="module")
def run(tmp_path_factory, model):
    return train_run(make_task(), "finetune", tmp_path_factory.mktemp("runs") / "single", model=model, settings=ONE)


@pytest.fixture(scope="module")
def pair_run(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("runs") / "pairs"
    return train_run(make_task(pairs=True), "finetune", folder, model=model, settings=ONE)


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "pocketbert", *map(str, arguments)], capture_output=True, text=True, check=False
    )


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return path


# -- predict ---------------------------------------------------------------------------------------------------------


def test_predict_keeps_columns_and_order_and_adds_its_own(run, tmp_path):
    task = make_task()
    rows = [
        ["id", "text", "note"],
        *([i, text, 'a "quoted", note\nin two lines'] for i, text in enumerate(task.test.texts)),
    ]
    done = predict_file(run, write(tmp_path / "in.csv", rows), tmp_path / "out.csv")
    assert done["rows"] == 60
    assert sum(done["predicted"].values()) == 60
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        written = list(csv.reader(file))
    assert written[0] == ["id", "text", "note", "prediction", "p_no", "p_yes"]
    assert [row[:3] for row in written[1:]] == [[str(cell) for cell in row] for row in rows[1:]]
    expected = run.fitted().probabilities(task.test.texts)
    np.testing.assert_allclose([[float(v) for v in row[4:]] for row in written[1:]], expected, atol=1e-6)
    assert [row[3] for row in written[1:]] == [run.labels[i] for i in expected.argmax(axis=1)]


def test_predict_does_not_depend_on_chunks(run, tmp_path, monkeypatch):
    path = write(tmp_path / "in.csv", [["text"], *([text] for text in make_task().test.texts)])
    predict_file(run, path, tmp_path / "one.csv")
    monkeypatch.setattr("pocketbert.tasks.read.CHUNK", 7)
    predict_file(run, path, tmp_path / "two.csv")
    one, two = (
        [line.split(",")[1] for line in (tmp_path / name).read_text().splitlines()] for name in ("one.csv", "two.csv")
    )
    assert one == two


def test_predict_reads_pairs_and_says_which_columns(pair_run, tmp_path):
    path = write(tmp_path / "in.csv", [["text1", "text2"], ["the film", "was good"], ["a story", "was bad"]])
    done = predict_file(pair_run, path, tmp_path / "out.csv", numbers=True)
    assert "'text1' and 'text2'" in done["said"][0]
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "text1,text2,prediction,probab_0,probab_1"
    assert lines[1].split(",")[2] in ("0", "1")


@pytest.mark.parametrize(
    ("rows", "flags", "says"),
    [
        ([["a", "b"], ["x", "y"]], {}, "which column holds the text"),
        ([["text"], ["x"]], {"text": "txt"}, "'txt'.*it has: 'text'"),
        ([["text", "prediction"], ["x", "y"]], {}, "already has a column 'prediction'"),
        ([["text"], ["x"]], {"text2": "text"}, "single texts"),
    ],
)
def test_a_file_that_cannot_be_predicted_says_why_and_leaves_nothing(run, tmp_path, rows, flags, says):
    with pytest.raises(UserError, match=says):
        predict_file(run, write(tmp_path / "in.csv", rows), tmp_path / "out.csv", **flags)
    assert not (tmp_path / "out.csv").exists()


def test_a_bad_row_far_down_is_named_and_nothing_is_written(run, tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "good"}\n' * 20 + '{"text": null}\n')
    with pytest.raises(UserError, match="row 21.*'text'"):
        predict_file(run, path, tmp_path / "out.csv")
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith("home")] == ["in.jsonl"]


# -- evaluate --------------------------------------------------------------------------------------------------------


def test_evaluate_scores_a_labelled_file_and_notices_texts_it_learnt_from(run, tmp_path):
    task = make_task()
    fresh = write(
        tmp_path / "new.csv", [["text", "label"], ["a superb film indeed", "yes"], ["a vile film indeed", "no"]]
    )
    scores = evaluate_run(run, fresh)
    assert scores["rows"] == 2
    assert scores["seen"] == 0
    texts = [[text, task.labels[label]] for text, label in zip(task.train.texts, task.train.labels, strict=True)]
    learnt = write(tmp_path / "old.csv", [["text", "label"], *texts])
    with pytest.raises(UserError, match="160 of 160 texts.*learnt from.*--allow-overlap"):
        evaluate_run(run, learnt)
    assert evaluate_run(run, learnt, allow_overlap=True)["seen"] == 160


def test_a_label_the_run_does_not_know_is_named_with_its_row(run, tmp_path):
    path = write(tmp_path / "new.csv", [["text", "label"], ["one", "yes"], ["two", "maybe"]])
    with pytest.raises(UserError, match="row 2.*'maybe' is not one this run knows; it knows: no, yes"):
        evaluate_run(run, path)


def test_pairs_are_not_scored_by_a_run_for_single_texts(run, data, monkeypatch):
    monkeypatch.setenv("POCKETBERT_DATA", str(data))
    with pytest.raises(UserError, match="does not know"):
        evaluate_run(run, "rte:test")


def test_movies_and_sst_are_recognised_as_the_same_sentences(data, monkeypatch, tmp_path):
    from pocketbert.tasks import load_task

    monkeypatch.setenv("POCKETBERT_DATA", str(data))
    trained = train_run(load_task("movies"), "majority", tmp_path / "movies")
    with pytest.raises(UserError, match="of sst2:test are among those this run learnt from"):
        evaluate_run(trained, "sst2:test")
    other = train_run(load_task("sst2"), "majority", tmp_path / "sst2")
    with pytest.raises(UserError, match="of movies:test are among those this run learnt from"):
        evaluate_run(other, "movies:test")
    assert evaluate_run(other, "sst2:test")["accuracy"] == pytest.approx(909 / 1821)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.floats(0.01, 1), min_size=4, max_size=4)), min_size=2, max_size=60
    )
)
def test_scores_agree_with_scikit_learn(rows):
    labels = np.array([label for label, _ in rows])
    probabilities = np.array([values for _, values in rows])
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    predicted = probabilities.argmax(axis=1)
    got = metrics.measure(probabilities, labels, ("a", "b", "c", "d"))
    assert got["accuracy"] == pytest.approx((labels == predicted).mean())
    assert got["macro_f1"] == pytest.approx(f1_score(labels, predicted, average="macro"))
    if len(set(labels) | set(predicted)) > 1:  # scikit-learn warns of one label alone
        assert got["mcc"] == pytest.approx(matthews_corrcoef(labels, predicted), abs=1e-12)
    assert got["low"] <= got["accuracy"] <= got["high"]
    assert 0 <= got["calibration_error"] <= 1


def test_the_interval_is_wilsons():
    from scipy.stats import binomtest

    for right, rows in ((0, 10), (7, 10), (10, 10), (900, 1101), (1, 1)):
        expected = binomtest(right, rows).proportion_ci(method="wilson")
        assert metrics.wilson(right, rows) == pytest.approx((expected.low, expected.high))


# -- encode and export -----------------------------------------------------------------------------------------------


def test_vectors_are_the_encoders_own(model):
    from pocketbert.loading import load_encoder, load_tokenizer

    texts = ["good film", "a dull story with some of the cast", ""]
    got = encode(texts, model, pooling="cls")
    encoder, tokenizer = load_encoder(model, quiet=True), load_tokenizer(model)
    for text, vector in zip(texts, got, strict=True):
        with torch.no_grad():
            expected = encoder(**tokenizer([text]).tensors()).last_hidden_state[0, 0]
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    assert encode([], model).shape == (0, 24)
    with pytest.raises(UserError, match="shape with fresh weights"):
        encode(["x"], "tiny")


def test_a_file_of_texts_becomes_a_file_of_vectors(model, tmp_path):
    path = write(tmp_path / "in.csv", [["text"], ["good"], ["bad film"]])
    done = command("encode", path, "--model", model, "--out", tmp_path / "v.npy", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 2
    vectors = np.load(tmp_path / "v.npy", allow_pickle=False)
    np.testing.assert_allclose(vectors, encode(["good", "bad film"], model), atol=1e-6)


@pytest.mark.parametrize(("pooling", "head"), [("pooler", "linear"), ("cls", "two-layer")])
@pytest.mark.parametrize("pairs", [False, True])
def test_an_exported_run_gives_equal_probabilities_in_transformers(model, tmp_path, pooling, head, pairs):
    import transformers

    task = make_task(pairs=pairs)
    made = {**ONE, "pooling": pooling, "head": head}
    trained = train_run(task, "finetune", tmp_path / "run", model=model, settings=made)
    export_run(trained, tmp_path / "exported")
    theirs = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "exported").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    batch = tokenizer(task.test.texts, task.test.second_texts, padding=True, truncation=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(**batch).logits.softmax(-1).numpy()
    got = trained.fitted().probabilities(task.test.texts, task.test.second_texts)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert theirs.config.id2label == {0: "no", 1: "yes"}


# -- the commands ----------------------------------------------------------------------------------------------------


def test_from_a_csv_to_predictions_by_command_alone(tmp_path, model):
    task = make_task()
    names = ("bad", "good")
    rows = [
        [text, names[label]]
        for split in task.splits.values()
        for text, label in zip(split.texts, split.labels, strict=True)
    ]
    reviews = write(tmp_path / "reviews.csv", [["text", "label"], *rows])
    flags = ["--model", model, "--epochs", "5", "--learning-rate", "1e-2,3e-3", "--max-length", "32", "--threads", "1"]
    trained = command("train", reviews, "--out", tmp_path / "run", *flags, "--json")
    assert trained.returncode == 0, trained.stderr
    document = json.loads(trained.stdout)
    assert document["metrics"]["scores"]["test"]["accuracy"] > 0.6
    assert "one file was given, so it was split" in trained.stderr
    assert "dev accuracy" in trained.stderr
    predicted = command("predict", tmp_path / "run", reviews, "--out", tmp_path / "out.csv")
    assert predicted.returncode == 0, predicted.stderr
    assert "good" in predicted.stdout
    shown = command("evaluate", tmp_path / "run", reviews)
    assert shown.returncode == 2, "it learnt from most of these rows"
    exported = command("export", tmp_path / "run", tmp_path / "exported")
    assert exported.returncode == 0, exported.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train", "nosuch", "--out", "OUT"], "no such file, folder or built-in task"),
        (["train", "FILE", "--out", "OUT", "--epochs", "0"], "epochs: 0"),
        (["train", "FILE", "--out", "OUT", "--learning-rate", "fast"], "--learning-rate fast"),
        (["train", "FILE", "--out", "OUT", "--learning-rate", "-1"], "learning_rate"),
        (["train", "FILE", "--out", "OUT", "--label", "lable"], "lable"),
        (["train", "FILE", "--out", "OUT", "--method", "magic"], "method 'magic'"),
        (["predict", "OUT", "FILE"], "no such run"),
        (["evaluate", "OUT", "FILE"], "no such run"),
        (["export", "OUT", "DIR"], "no such run"),
        (["encode", "MISSING"], "MISSING"),
    ],
)
def test_a_persons_mistake_is_one_line_and_exit_code_2(tmp_path, arguments, says):
    file = write(tmp_path / "reviews.csv", [["text", "label"], *([f"text {i}", i % 2] for i in range(40))])
    places = {"OUT": tmp_path / "out", "FILE": file, "DIR": tmp_path / "dir", "MISSING": tmp_path / "MISSING"}
    done = command(*(places.get(argument, argument) for argument in arguments))
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "dir").exists()


def test_methods_are_listed_as_objects_with_names():
    done = command("methods", "--json")
    assert [it["name"] for it in json.loads(done.stdout)] == [
        "random",
        "majority",
        "tfidf",
        "frozen",
        "finetune",
        "scratch",
        "bitfit",
        "lora",
        "houlsby",
        "pfeiffer",
        "fusion",
        "multitask",
        "sequential",
    ]
