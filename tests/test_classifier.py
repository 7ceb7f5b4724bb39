"""`pb.Classifier`: what scikit-learn asks of an estimator, and what a person may pass to it."""

import inspect
from dataclasses import fields

import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

from pocketbert import catalog
from pocketbert.catalog import usual_model
from pocketbert.classifier import Classifier
from pocketbert.errors import UserError
from pocketbert.methods import get_method
from pocketbert.training.settings import TrainingSettings

GOOD, BAD = ("fine", "lovely", "warm", "clever", "bright"), ("dull", "awful", "cold", "clumsy", "grey")
THINGS = ("film", "plot", "cast", "scene", "score", "ending")
TEXTS = [f"a {word} {thing}" for thing in THINGS for words in zip(GOOD, BAD, strict=True) for word in words]  # 60
LABELS = ["good" if text.split()[1] in GOOD else "bad" for text in TEXTS]
PAIRS = [(text, f"the {text.split()[2]} is {'liked' if row % 3 else 'hated'}") for row, text in enumerate(TEXTS)]

QUICK = {"options": {"vocabulary_size": 200}, "max_length": 16, "threads": 1, "batch_size": 8}


def scratch(**settings) -> Classifier:
    return Classifier("tiny", "scratch", **{**QUICK, "learning_rate": 1e-3, "epochs": 1, **settings})


@pytest.fixture
def minilm():
    """The name of a pretrained model; skipped where it is not installed."""
    if catalog.PACKAGES["minilm-l6"].path() is None:
        pytest.skip("minilm-l6 is not installed")
    return "minilm-l6"


# -- scikit-learn's own checks -----------------------------------------------------------------------------------------

# scikit-learn skips its checks for an estimator that takes text. Here they run nevertheless: once as the classifier is,
# where exactly the checks below fail, each because it fits numbers; and once with the numbers written as words, where
# none may fail.
NUMBERS = "fits a matrix of numbers and expects it to work; the input here is text"
COLUMNS = "asks for n_features_in_; texts have no columns to count"
MESSAGE = "asks for a sentence about the numbers in X; the error here says that X should be text"
EXPECTED_WITH_NUMBERS = {
    "check_classifier_data_not_an_array": NUMBERS,
    "check_classifiers_classes": NUMBERS,
    "check_classifiers_train": NUMBERS,
    "check_dict_unchanged": NUMBERS,
    "check_dont_overwrite_parameters": NUMBERS,
    "check_dtype_object": NUMBERS,
    "check_estimators_dtypes": NUMBERS,
    "check_estimators_fit_returns_self": NUMBERS,
    "check_estimators_overwrite_params": NUMBERS,
    "check_estimators_pickle": NUMBERS,
    "check_f_contiguous_array_estimator": NUMBERS,
    "check_fit2d_predict1d": NUMBERS,
    "check_fit_check_is_fitted": NUMBERS,
    "check_fit_idempotent": NUMBERS,
    "check_fit_score_takes_y": NUMBERS,
    "check_methods_sample_order_invariance": NUMBERS,
    "check_methods_subset_invariance": NUMBERS,
    "check_pipeline_consistency": NUMBERS,
    "check_positive_only_tag_during_fit": NUMBERS,
    "check_readonly_memmap_input": NUMBERS,
    "check_supervised_y_2d": NUMBERS,
    "check_n_features_in": COLUMNS,
    "check_n_features_in_after_fitting": COLUMNS,
    "check_estimators_empty_data_messages": MESSAGE,
    "check_estimators_nan_inf": MESSAGE,
    "check_fit2d_1feature": MESSAGE,
}


class Checked(Classifier):
    """The classifier as it is, with the tag by which scikit-learn runs its checks at all."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, True
        # One epoch from nothing on 300 points is no reasonable score; for tfidf it is asked for.
        tags.classifier_tags.poor_score = self.method == "scratch"
        return tags


class CheckedOnWords(Checked):
    """Numbers become words before the classifier sees them: [0.2, 3.1] is "c0v0 c1v3".

    That X is a good matrix (finite, dense, as wide as in `fit`) is checked by `validate_data` here, not by us.
    """

    def fit(self, X, y, dev=None):
        return super().fit(self.words(validate_data(self, X)), y, dev)

    def predict_proba(self, X):
        check_is_fitted(self)
        return super().predict_proba(self.words(validate_data(self, X, reset=False)))

    @staticmethod
    def words(X):
        return [" ".join(f"c{column}v{round(float(value))}" for column, value in enumerate(row)) for row in X]


def failures(estimator) -> dict[str, Exception]:
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 50, "scikit-learn left its checks out"
    return {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}


def test_scikit_learns_checks_fail_only_where_they_fit_numbers():
    check_estimator(Checked(method="tfidf"), expected_failed_checks=EXPECTED_WITH_NUMBERS, on_skip=None)
    assert set(failures(Checked(method="tfidf"))) == set(EXPECTED_WITH_NUMBERS), (
        "the list is longer than it needs to be"
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "tfidf"},
        {"method": "scratch", "learning_rate": 1e-3, "epochs": 1, "options": {"vocabulary_size": 200}, "threads": 1},
    ],
    ids=["tfidf", "scratch"],
)
def test_every_check_of_scikit_learn_passes_once_numbers_are_written_as_words(settings):
    assert failures(CheckedOnWords(**settings)) == {}


def test_it_is_known_as_a_classifier_of_text():
    tags = Classifier().__sklearn_tags__()
    assert is_classifier(Classifier())
    assert tags.input_tags.string
    assert not tags.input_tags.two_d_array


# -- the constructor ---------------------------------------------------------------------------------------------------


def test_its_arguments_are_the_common_settings_with_the_same_defaults():
    arguments = inspect.signature(Classifier).parameters
    common = {field.name: field.default for field in fields(TrainingSettings)}
    for name, default in common.items():
        assert arguments[name].default == default, name
        assert arguments[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert set(arguments) - set(common) == {"model", "method", "start", "options", "progress"}


def test_options_are_for_one_method_and_can_be_cloned_searched_and_changed_one_by_one():
    classifier = scratch(options={"vocabulary_size": 150})
    assert classifier.get_params()["options__vocabulary_size"] == 150
    assert "options__vocabulary_size" not in classifier.get_params(deep=False)
    copy = clone(classifier)
    assert copy.options == {"vocabulary_size": 150}
    copy.set_params(options__vocabulary_size=120, epochs=2)
    assert (copy.options, copy.epochs) == ({"vocabulary_size": 120}, 2)
    assert classifier.options == {"vocabulary_size": 150}
    search = GridSearchCV(scratch(), {"options__vocabulary_size": [100, 200]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_["options__vocabulary_size"] in (100, 200)
    assert len(search.best_estimator_.fitted_.tokenizer) <= search.best_params_["options__vocabulary_size"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"vocabulary_sise": 10}, "'vocabulary_sise' is not known; known are .*vocabulary_size"),
        ({"vocabulary_size": "many"}, "vocabulary_size: 'many' is not a whole number"),
        ({"epochs": 3}, "options: epochs is an argument of its own"),
        (["vocabulary_size"], "options: .* is not an object"),
    ],
)
def test_a_wrong_option_is_named_in_fit(options, says):
    with pytest.raises(UserError, match=says):
        scratch(options=options).fit(TEXTS, LABELS)


def test_a_run_is_a_start_and_brings_its_pooling_and_what_it_has_seen(tmp_path):
    from pocketbert.tasks import Split, Task
    from pocketbert.train import train_run

    targets = np.array([label == "good" for label in LABELS], dtype=np.int64)
    split = Split(TEXTS, None, targets)
    task = Task("things", ("bad", "good"), {"train": split, "dev": split}, pair=False)
    told = {"epochs": 1, "vocabulary_size": 200, "max_length": 16, "threads": 1, "pooling": "cls"}
    run = train_run(task, "scratch", tmp_path / "run", model="tiny", settings=told)
    given = {"max_length": 16, "threads": 1, "epochs": 1, "learning_rate": 1e-3}
    classifier = Classifier(start=tmp_path / "run", **given).fit(TEXTS, LABELS)
    assert classifier.settings_.pooling == "cls"
    assert classifier.fitted_.tokenizer.tokens == run.fitted().tokenizer.tokens
    with pytest.raises(UserError, match="both say what to start from"):
        Classifier("tiny", start=tmp_path / "run").fit(TEXTS, LABELS)


def test_the_constructor_only_stores_and_clone_copies_it():
    rates = [1e-3, 1e-4]
    classifier = Classifier("no such model", "no such method", learning_rate=rates, epochs=-1)
    assert classifier.get_params()["learning_rate"] is rates
    assert clone(classifier).get_params() == classifier.get_params()
    assert classifier.set_params(epochs=3).epochs == 3


def test_a_setting_that_cannot_be_is_named_in_fit():
    with pytest.raises(UserError, match="epochs: -1"):
        Classifier(method="majority", epochs=-1).fit(TEXTS, LABELS)
    with pytest.raises(UserError, match="method 'finetun' is not known"):
        Classifier(method="finetun").fit(TEXTS, LABELS)


def test_without_a_name_the_best_model_at_hand_is_taken(monkeypatch, minilm):
    assert get_method("scratch").usual_model() == "tiny"
    assert get_method("finetune").usual_model() in ("pocket-mini", "pocket-tiny", minilm)
    monkeypatch.setattr("pocketbert.catalog.PRETRAINED", ("pocket-none", minilm))
    assert usual_model() == minilm
    monkeypatch.setattr("pocketbert.catalog.PRETRAINED", ("pocket-none",))
    with pytest.raises(UserError, match="no pretrained model is available.*pip install"):
        usual_model()


# -- labels and texts, as people have them -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "good"), [("bad", "good"), (0, 1), (-3, 7), (False, True), (np.int8(1), np.int8(2)), (1.0, 2.0)]
)
@pytest.mark.parametrize("form", [list, np.array, lambda labels: np.array(labels, dtype=object)])
def test_labels_come_back_as_they_were_given(bad, good, form):
    labels = form([good if label == "good" else bad for label in LABELS])
    classifier = Classifier(method="tfidf").fit(TEXTS, labels)
    predicted = classifier.predict(["a lovely plot", "an awful plot"])
    assert classifier.classes_.tolist() == [bad, good]
    assert predicted.tolist() == [good, bad]
    assert type(predicted.tolist()[0]) is type(np.array([good]).tolist()[0])
    assert classifier.score(TEXTS, labels) == 1.0


def test_more_than_two_labels_are_sorted_and_have_a_column_each():
    labels = [text.split()[2] for text in TEXTS]
    classifier = Classifier(method="tfidf").fit(TEXTS, labels)
    probabilities = classifier.predict_proba(TEXTS[:7])
    assert classifier.classes_.tolist() == sorted(THINGS)
    assert probabilities.shape == (7, 6)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


class Column:
    """What a column of a table is to us: something numpy makes an array of, with an index of its own."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype or object)


@pytest.mark.parametrize("form", [tuple, np.array, lambda x: np.array(x, dtype=object), Column])
def test_texts_in_any_form_are_the_same_texts(form):
    expected = Classifier(method="tfidf").fit(TEXTS, LABELS).predict_proba(TEXTS)
    found = Classifier(method="tfidf").fit(form(TEXTS), form(LABELS)).predict_proba(form(TEXTS))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", [lambda x: [list(pair) for pair in x], np.array, tuple, Column])
def test_pairs_in_any_form_are_the_same_pairs(form):
    labels = [row % 3 > 0 for row in range(len(PAIRS))]
    expected = Classifier(method="tfidf").fit(PAIRS, labels)
    found = Classifier(method="tfidf").fit(form(PAIRS), labels)
    assert expected.pair_
    assert expected.score(PAIRS, labels) == 1.0
    np.testing.assert_array_equal(found.predict_proba(form(PAIRS)), expected.predict_proba(PAIRS))


def test_the_second_text_of_a_pair_is_read_by_a_network_too():
    classifier = scratch().fit(PAIRS, LABELS)
    one, other = classifier.predict_proba([("a fine film", "the film is liked"), ("a fine film", "the film is hated")])
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([], [], "y is empty"),
        ([], ["a", "b"], "X is empty"),
        (np.array([]), ["a", "b"], "X is empty"),
        ("one text", ["a", "b"], "put it in a list"),
        ({"a": 1, "b": 2}, ["a", "b"], "X is a dict; expected a list"),
        ((text for text in TEXTS), LABELS, "X is a generator; expected a list"),
        (["x", "y", "z"], ["a", "b"], "3 texts but 2 labels"),
        (["x", "y"], ["a", "a"], "one class only"),
        (["x", "y"], None, "requires y"),
        (["x", "y", "z"], ["a", "b", None], "row 2 has no label"),
        (["x", "y", "z"], ["a", "b", float("nan")], "row 2 has no label"),
        (["x", "y", "z"], np.array([0, np.nan, 1]), "row 1 has no label"),
        (["x", "y", "z"], ["a", 1, "b"], "mixes text and other labels, as 'a' and 1"),
        (["x", "y", "z"], [0.5, 0.1, 0.7], "Unknown label type: continuous"),
        (["x", "y"], [["a", "b"], ["b", "a"]], "expected one label for each row|shape"),
        (["x", 5], ["a", "b"], "row 1 is not text: it is int 5"),
        (["x", None], ["a", "b"], "row 1 is not text: it is missing"),
        (["x", float("nan")], ["a", "b"], "row 1 is not text: it is missing"),
        (["x", b"y"], ["a", "b"], "row 1 is not text: it is bytes"),
        ([1, 2], ["a", "b"], "row 0 is not text"),
        (np.eye(2), ["a", "b"], "X holds numbers"),
        ([("x", "y"), "z"], ["a", "b"], "row 1 is a single text and row 0 is not"),
        (["z", ("x", "y")], ["a", "b"], "row 1 is a pair and row 0 is not"),
        ([("x", "y"), ("x", "y", "z")], ["a", "b"], "row 1 holds 3 values"),
        ([("x", "y"), ("x", None)], ["a", "b"], "row 1 is not text: it is missing"),
        (np.array([["x"], ["y"]]), ["a", "b"], "take one column"),
    ],
)
def test_input_that_cannot_be_is_refused_with_what_to_do(X, y, message):
    with pytest.raises(UserError, match=message):
        Classifier(method="tfidf").fit(X, y)


def test_predict_asks_for_what_was_learnt_from():
    single = Classifier(method="majority").fit(TEXTS, LABELS)
    with pytest.raises(UserError, match="learnt from single texts"):
        single.predict(PAIRS)
    with pytest.raises(UserError, match="learnt from pairs"):
        Classifier(method="majority").fit(PAIRS, LABELS).predict(TEXTS)
    with pytest.raises(UserError, match="X is empty"):
        single.predict([])
    with pytest.raises(NotFittedError):
        Classifier().predict(TEXTS)


def test_a_fit_that_fails_leaves_the_fitted_classifier_as_it_was():
    classifier = Classifier(method="majority").fit(TEXTS, LABELS)
    with pytest.raises(UserError):
        classifier.fit(TEXTS, ["other"] * len(TEXTS))
    assert classifier.classes_.tolist() == ["bad", "good"]


# -- choosing ----------------------------------------------------------------------------------------------------------


def test_with_nothing_to_choose_everything_is_trained_on():
    classifier = scratch().fit(TEXTS, LABELS)
    assert classifier.rows_ == {"train": 60, "dev": 0}
    assert classifier.best_ == {"learning_rate": 1e-3, "epoch": 1, "dev_accuracy": None}
    shares = Classifier(method="majority", epochs=5).fit(TEXTS[:50], [*LABELS[:49], "good"]).predict_proba(["x"])
    assert shares.tolist() == [[24 / 50, 26 / 50]]


def test_with_epochs_to_choose_from_a_tenth_is_held_out():
    classifier = scratch(epochs=2, keep="best").fit(TEXTS, LABELS)
    assert classifier.rows_ == {"train": 54, "dev": 6}
    assert len(classifier.history_) == 2


def test_the_last_epoch_of_all_texts_where_a_tenth_is_too_few_to_choose_on():
    classifier = scratch(epochs=3).fit(TEXTS, LABELS)
    assert classifier.rows_ == {"train": 60, "dev": 0}
    assert classifier.best_ == {"learning_rate": 1e-3, "epoch": 3, "dev_accuracy": None}
    many = scratch(epochs=2).fit(TEXTS * 4, LABELS * 4)
    assert many.rows_ == {"train": 216, "dev": 24}
    with pytest.raises(UserError, match="patience stops where dev is best"):
        scratch(keep="last", patience=1).fit(TEXTS, LABELS)


def test_the_rate_that_is_best_on_dev_is_kept_and_named():
    classifier = scratch(learning_rate=[1e-9, 2e-3], epochs=3, keep="best").fit(
        TEXTS, LABELS, dev=(TEXTS[:20], LABELS[:20])
    )
    assert classifier.rows_ == {"train": 60, "dev": 20}
    assert classifier.best_["learning_rate"] == 2e-3
    assert len(classifier.history_) == 6
    best = max(record["dev_accuracy"] for record in classifier.history_)
    assert classifier.best_["dev_accuracy"] == best == classifier.score(TEXTS[:20], LABELS[:20])
    chosen = {(record["rate"], record["epoch"]) for record in classifier.history_ if record["dev_accuracy"] == best}
    assert (classifier.best_["learning_rate"], classifier.best_["epoch"]) in chosen


def test_too_few_texts_to_hold_some_out_are_refused():
    with pytest.raises(UserError, match="too few to hold some out.*dev="):
        scratch(epochs=2, keep="best").fit(TEXTS[:4], LABELS[:4])


@pytest.mark.parametrize(
    ("dev", "message"),
    [
        ((["x"], ["unheard"]), "'unheard' is not among the training labels"),
        ((["x", "y"], ["good"]), "2 texts but 1 labels"),
        ((PAIRS[:2], LABELS[:2]), "pairs and the other single texts"),
        (TEXTS, "expected a pair"),
        (([], []), "X of dev is empty"),
    ],
)
def test_a_dev_that_cannot_be_is_refused(dev, message):
    with pytest.raises(UserError, match=message):
        scratch().fit(TEXTS, LABELS, dev=dev)


# -- randomness --------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_predictions_and_another_seed_others():
    first, again, other = (scratch(epochs=2, seed=seed).fit(TEXTS, LABELS).predict_proba(TEXTS) for seed in (3, 3, 4))
    assert first.tobytes() == again.tobytes()
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("method", ["scratch", "tfidf"])
def test_the_random_numbers_and_threads_of_others_are_left_alone(method):
    def ambient():
        return np.random.get_state()[1].tobytes(), np.random.get_state()[2], torch.get_rng_state().tolist()  # noqa: NPY002

    before, threads = ambient(), torch.get_num_threads()
    options = QUICK["options"] if method == "scratch" else None
    Classifier("tiny", method, **{**QUICK, "options": options, "threads": 2}, epochs=1).fit(TEXTS, LABELS).predict(
        TEXTS
    )
    assert ambient() == before
    assert torch.get_num_threads() == threads


# -- with the rest of scikit-learn -------------------------------------------------------------------------------------


def test_cross_val_score_runs_on_texts_and_on_pairs():
    assert cross_val_score(Classifier(method="tfidf"), TEXTS, LABELS, cv=3).mean() > 0.9
    assert cross_val_score(scratch(), PAIRS, LABELS, cv=2).shape == (2,)


def test_grid_search_hands_out_numpys_numbers_and_they_are_taken():
    grid = {"seed": np.arange(2), "learning_rate": np.array([1e-4, 1e-3])}
    search = GridSearchCV(scratch(), grid, cv=2).fit(TEXTS, LABELS)
    assert set(search.best_params_) == {"seed", "learning_rate"}
    assert search.predict(TEXTS[:3]).shape == (3,)


def test_a_pipeline_may_prepare_the_texts():
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, Classifier(method="tfidf")).fit(TEXTS, LABELS)
    assert pipeline.predict(["A LOVELY PLOT"]).tolist() == ["good"]


# -- pretrained --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["frozen", "finetune"])
def test_a_pretrained_model_learns_from_forty_texts(method, minilm):
    classifier = Classifier(minilm, method, max_length=16, epochs=1, batch_size=8, threads=1, precision="float32")
    if method == "frozen":
        classifier.set_params(learning_rate=3e-2)
    classifier.fit(TEXTS[:40], LABELS[:40])
    assert classifier.model_ == minilm
    assert classifier.settings_.pooling == "mean"
    assert classifier.rows_ == {"train": 40, "dev": 0}
    assert classifier.score(TEXTS[40:], LABELS[40:]) > 0.7


def test_a_shape_has_nothing_to_fine_tune():
    with pytest.raises(UserError, match="starts from a shape \\(scratch\\), or a pretrained model"):
        Classifier("tiny").fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"method": ["tfidf"]}, "method: the list .'tfidf'. is not text"),
        ({"model": 5}, "model: 5 is not text"),
        ({"method": "majority", "threads": 10**6}, "threads: 1000000 is not a whole number from 1 to 1,024"),
        ({"method": "majority", "learning_rate": {"a": 1}}, "learning_rate: the object"),
        ({"method": "scratch", "options": {"vocabulary": 3}}, "vocabulary: 3 is not text"),
        ({"method": "majority", "class_weights": "no"}, "class_weights: 'no' is not true or false"),
        ({"method": "majority", "device": None}, "device: None is not text"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(arguments, says):
    with pytest.raises(UserError, match=says):
        Classifier(**arguments).fit(["good", "bad"], [1, 0])


# -- to a folder and back ----------------------------------------------------------------------------------------------

KINDS = {
    "tfidf": {"method": "tfidf"},
    "majority": {"method": "majority"},
    "scratch": {"model": "tiny", "method": "scratch", **QUICK, "learning_rate": [1e-3, 1e-4], "epochs": 2},
    "frozen": {"model": "pocket-tiny", "method": "frozen", "epochs": 2, "threads": 1},
    "finetune": {"model": "pocket-tiny", "epochs": 1, "threads": 1, "learning_rate": 1e-3, "head": "two-layer"},
    "bitfit": {"model": "pocket-tiny", "method": "bitfit", "epochs": 1, "threads": 1, "pooling": "cls"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_comes_back_to_the_byte_and_can_be_fitted_again(kind, tmp_path):
    classifier = Classifier(**KINDS[kind]).fit(TEXTS, LABELS)
    expected = classifier.predict_proba(TEXTS)
    classifier.save(tmp_path / "run")
    again = Classifier.from_run(tmp_path / "run")
    assert again.predict_proba(TEXTS).tobytes() == expected.tobytes()
    assert again.score(TEXTS, LABELS) == classifier.score(TEXTS, LABELS)
    for name in ("classes_", "pair_", "best_", "history_", "rows_", "settings_", "model_"):
        assert np.all(getattr(again, name) == getattr(classifier, name)), name
    again.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "manifest.json").read_bytes() == (tmp_path / "run" / "manifest.json").read_bytes()
    fresh = clone(again)
    with pytest.raises(NotFittedError):
        fresh.predict(TEXTS)
    assert fresh.fit(TEXTS, LABELS).predict_proba(TEXTS).tobytes() == expected.tobytes()


def test_a_saved_classifier_is_a_run_for_every_command(tmp_path, capsys):
    import csv
    import json

    from pocketbert.cli import app

    def command(*arguments):
        app([*map(str, arguments), "--json"], standalone_mode=False)
        return json.loads(capsys.readouterr().out)

    classifier = Classifier(**KINDS["finetune"]).fit(TEXTS, LABELS)
    classifier.save(tmp_path / "run")
    new = tmp_path / "new.csv"
    new.write_text("text,label\n" + "".join(f"some {word} new film,good\na {word} one,bad\n" for word in GOOD))
    assert command("predict", tmp_path / "run", new, "--out", tmp_path / "out.csv")["rows"] == 10
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows] == classifier.predict([row["text"] for row in rows]).tolist()
    scored = command("evaluate", tmp_path / "run", new)
    assert (scored["rows"], scored["seen"]) == (10, 0)
    assert command("export", tmp_path / "run", tmp_path / "out")["opens_with"] == "AutoModel"
    old = tmp_path / "old.csv"
    old.write_text("text,label\n" + "".join(f"{t},{n}\n" for t, n in zip(TEXTS, LABELS, strict=True)))
    with pytest.raises(UserError, match="60 of 60 texts of .* are among those this run learnt from"):
        app(["evaluate", str(tmp_path / "run"), str(old)], standalone_mode=False)


def test_a_run_that_a_command_trained_becomes_a_classifier_and_one_that_started_from_it_is_saved(tmp_path):
    from pocketbert.tasks import Split, Task
    from pocketbert.train import train_run

    split = Split(TEXTS, None, np.array([label == "good" for label in LABELS], dtype=np.int64))
    task = Task("things", ("bad", "good"), {"train": split, "dev": split}, pair=False)
    told = {"epochs": 1, "vocabulary_size": 200, "max_length": 16, "threads": 1}
    run = train_run(task, "scratch", tmp_path / "run", model="tiny", settings=told)
    classifier = Classifier.from_run(tmp_path / "run")
    assert classifier.predict_proba(TEXTS).tobytes() == run.fitted().probabilities(TEXTS).tobytes()
    assert classifier.classes_.tolist() == ["bad", "good"]
    after = Classifier(start=tmp_path / "run", method="frozen", epochs=1, threads=1, max_length=16).fit(TEXTS, LABELS)
    (tmp_path / "deep").mkdir()
    after.save(tmp_path / "deep" / "after")
    again = Classifier.from_run(tmp_path / "deep" / "after")
    assert again.predict_proba(TEXTS).tobytes() == after.predict_proba(TEXTS).tobytes()
    assert clone(again).fit(TEXTS, LABELS).predict_proba(TEXTS).tobytes() == after.predict_proba(TEXTS).tobytes()


@pytest.mark.parametrize("labels", [[0, 1], [False, True], [1.0, 2.0], [np.int8(1), np.int8(2)], ["a", "é\n,"]])
@pytest.mark.parametrize("form", [list, np.array, lambda labels: np.array(labels, dtype=object)])
def test_labels_come_back_from_a_folder_as_they_were_given(labels, form, tmp_path):
    given = form([labels[label == "good"] for label in LABELS])
    classifier = Classifier(method="tfidf").fit(TEXTS, given)
    classifier.save(tmp_path / "run")
    again = Classifier.from_run(tmp_path / "run")
    assert again.classes_.dtype == classifier.classes_.dtype
    assert again.predict(TEXTS).tolist() == classifier.predict(TEXTS).tolist()


def test_pairs_come_back_as_pairs_and_an_export_has_the_labels(tmp_path):
    import json

    classifier = Classifier("pocket-tiny", "frozen", epochs=1, threads=1).fit(PAIRS, [7, 3] * 30)
    classifier.save(tmp_path / "run")
    again = Classifier.from_run(tmp_path / "run")
    assert again.predict_proba(PAIRS).tobytes() == classifier.predict_proba(PAIRS).tobytes()
    with pytest.raises(UserError, match="learnt from pairs"):
        again.predict(TEXTS)
    assert again.export(tmp_path / "out").opens_with == "AutoModel"
    assert json.loads((tmp_path / "out" / "config.json").read_text())["id2label"] == {"0": "3", "1": "7"}


def test_what_cannot_be_saved_or_read_is_said(tmp_path):
    with pytest.raises(NotFittedError):
        Classifier().save(tmp_path / "run")
    with pytest.raises(NotFittedError):
        Classifier().export(tmp_path / "run")
    classifier = Classifier(method="tfidf").fit(TEXTS, LABELS)
    classifier.save(tmp_path / "run")
    with pytest.raises(UserError, match="already exists"):
        classifier.save(tmp_path / "run")
    classifier.save(tmp_path / "run", overwrite=True)
    with pytest.raises(UserError, match="no such run"):
        Classifier.from_run(tmp_path / "nosuch")
    with pytest.raises(UserError, match="method 'tfidf' is no BERT"):
        classifier.export(tmp_path / "out")
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(UserError, match="is a study; name the folder"):
        Classifier.from_run(tmp_path)
