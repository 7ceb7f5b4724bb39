"""The studies on real data train what they say they train, and never test on what they learnt from."""

import importlib
import sys

import numpy as np
import pytest
import torch
from conftest import REPOSITORY
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from pocketbert.methods import get_method
from pocketbert.methods.tfidf import _vectorizer
from pocketbert.tasks import Split
from pocketbert.training.job import Job, JobTask

sys.path.insert(0, str(REPOSITORY))  # benchmarks are no part of the package
real = importlib.import_module("benchmarks.real_studies")
coverage_real = importlib.import_module("benchmarks.coverage_real")
fold_rules = importlib.import_module("benchmarks.fold_rules")


def population(rows=300, seed=0):
    """Texts whose words tell the label, most of the time; some texts are there twice."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, rows)
    words = np.array([[f"bad{i}" for i in range(30)], [f"good{i}" for i in range(30)]])
    texts = [" ".join([*random.choice(words[label], 2), *random.choice(words.ravel(), 3)]) for label in labels]
    split = Split(texts, None, labels)
    counts = CountVectorizer(ngram_range=(1, 2), token_pattern=_vectorizer().token_pattern).fit_transform(texts)
    features = torch.from_numpy((labels[:, None] + random.standard_normal((rows, 8))).astype(np.float32))
    groups = np.arange(rows) // 2
    return real.Population(
        split, labels, ("bad", "good"), groups, counts.tocsr(), dict.fromkeys(real.ENCODERS, features)
    )


def test_tfidf_from_counts_predicts_what_the_packages_tfidf_does():
    data = population()
    train, rows = np.arange(200), np.arange(200, 300)
    method = get_method("tfidf")
    fitted = method.fit(Job((JobTask("task", data.names, data.split.take(train)),), method.read({}))).fitted
    known = fitted.probabilities(data.split.take(rows).texts).argmax(axis=1)
    assert np.array_equal(real.fit_tfidf(data, train, rows), known)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(20, 120), st.integers(2, 6))
def test_groups_stay_together_and_parts_are_even(seed, rows, parts):
    random = np.random.default_rng(seed)
    groups, labels = random.integers(0, rows, rows), random.integers(0, 2, rows)
    found = real.deal(groups, labels, parts, random)
    for group in np.unique(groups):
        assert len(np.unique(found[groups == group])) == 1
    sizes = np.bincount(found, minlength=parts)
    assert sizes.max() - sizes.min() <= np.bincount(groups).max()


def test_heads_learn_and_are_drawn_from_the_seed():
    data = population()
    jobs = [(np.arange(200), np.arange(200, 230))] * 2
    first, again = (
        real.train_heads(data.features["pocket-tiny"], data.labels, 2, jobs, np.random.default_rng(1)) for _ in range(2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first[0], first[1])  # two jobs, two seeds
    said = real.said_by(first, data.features["pocket-tiny"])
    assert (said == data.labels).mean() > 0.8


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_study_is_written_and_counted(tmp_path, repeats):
    data = population(400)
    for number in range(3):
        study = real.make_study(data, "made up", 100, number, repeats, False)
        assert not np.isin(np.delete(np.arange(400), study["chosen"]), study["chosen"]).any()
        assert study["truth/tfidf"].shape == (5 * repeats, 2, 2)
        assert study["truth/tfidf"][0].sum() == 400 - len(study["chosen"])
        np.savez(tmp_path / f"{number:04d}.npz", **study)
    text = "\n".join(coverage_real.tables(tmp_path, "macro_f1", None))
    assert "3 studies" in text
    assert "pocket-mini − pocket-mini/again | 0.00" in text
    assert "folds, nested" in text
    studies = [coverage_real.read_study(path, 1) for path in sorted(tmp_path.glob("*.npz"))]
    assert [row[0] for row in fold_rules.real_noise(studies)] == list(fold_rules.RULES)


def test_on_normal_noise_the_wider_of_two_is_the_t_test_where_trainings_are_all_there_is():
    rules = list(fold_rules.RULES)
    last = fold_rules.normal_noise(20_000, 0)[-1]
    one, family = map(float, last[1 + rules.index("wider of two")].split(" / "))
    assert 4.4 < one < 5.5
    assert family < 6
    assert float(last[1 + rules.index("truncated excess")].split(" / ")[1]) > 10
