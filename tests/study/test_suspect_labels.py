"""Suspect labels are those that cleanlab finds, and those that were made wrong."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pocketbert.study.suspect_labels import SuspectLabel, confident_joint, suspect_labels


def noisy(rows: int, classes: int, wrong: float, certainty: float, seed: int) -> tuple[np.ndarray, ...]:
    """Probabilities of a model that is mostly right about the truth; the labels given; whether each was made wrong."""
    random = np.random.default_rng(seed)
    truth = np.concatenate([np.arange(classes), random.integers(0, classes, rows - classes)])
    scores = random.normal(size=(rows, classes))
    scores[np.arange(rows), truth] += certainty
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    flipped = random.random(rows) < wrong
    flipped[:classes] = False  # every class keeps a row
    labels = np.where(flipped, (truth + random.integers(1, classes, rows)) % classes, truth)
    return probabilities, labels, flipped


cases = st.builds(
    noisy,
    rows=st.integers(20, 300),
    classes=st.integers(2, 6),
    wrong=st.sampled_from([0.0, 0.05, 0.2, 0.4]),
    certainty=st.floats(0.0, 4.0),
    seed=st.integers(0, 10_000),
)


def rounds_by_a_hair(counts: np.ndarray, labels: np.ndarray) -> bool:
    """Do two shares of a line have the same right to be rounded up? Then the last bit decides, here and there."""
    shares = counts / counts.sum(axis=1, keepdims=True) * np.bincount(labels, minlength=len(counts))[:, None]
    short = np.rint(shares).sum(axis=1) != shares.sum(axis=1).round()
    remainders = np.sort(shares - np.rint(shares), axis=1)
    return bool((np.diff(remainders[short]) < 1e-9).any() or (np.abs(shares % 1 - 0.5) < 1e-9).any())


@settings(deadline=None, max_examples=200)
@given(case=cases)
def test_suspects_and_their_order_are_those_of_cleanlab(case: tuple[np.ndarray, ...]) -> None:
    cleanlab = pytest.importorskip("cleanlab", reason="pip install 'pocketbert[dev]'")
    probabilities, labels, _ = case
    assume(np.bincount(labels).min() >= 2)  # cleanlab warns about a class of one row
    assume(not rounds_by_a_hair(cleanlab.count.compute_confident_joint(labels, probabilities, calibrate=False), labels))
    joint = cleanlab.count.compute_confident_joint(labels, probabilities)
    assume(joint.diagonal().min() >= 1)  # where a class seems wrong throughout, ours keeps a row in a simpler way
    assert confident_joint(probabilities, labels).tolist() == joint.tolist()
    theirs = cleanlab.filter.find_label_issues(
        labels, probabilities, return_indices_ranked_by="self_confidence", n_jobs=1
    )
    assert [suspect.row for suspect in suspect_labels(probabilities, labels)] == theirs.tolist()


@settings(deadline=None)
@given(case=cases)
def test_the_estimated_counts_add_up_and_no_class_is_wrong_throughout(case: tuple[np.ndarray, ...]) -> None:
    probabilities, labels, _ = case
    joint = confident_joint(probabilities, labels)
    assert joint.sum(axis=1).tolist() == np.bincount(labels, minlength=len(joint)).tolist()
    assert joint.min() >= 0
    suspects = suspect_labels(probabilities, labels)
    assert len({suspect.row for suspect in suspects}) == len(suspects)
    wrong = np.bincount([suspect.label for suspect in suspects], minlength=len(joint))
    assert (wrong < np.bincount(labels, minlength=len(joint))).all()
    assert all(suspect.predicted != suspect.label == labels[suspect.row] for suspect in suspects)
    scores = [suspect.self_confidence for suspect in suspects]
    assert scores == sorted(scores)


def test_labels_made_wrong_are_found_and_right_ones_mostly_left_alone() -> None:
    probabilities, labels, flipped = noisy(rows=2_000, classes=3, wrong=0.1, certainty=4.0, seed=0)
    rows = [suspect.row for suspect in suspect_labels(probabilities, labels)]
    assert flipped[rows[:100]].mean() > 0.95
    assert flipped[rows].sum() > 0.8 * flipped.sum()


def test_several_models_are_averaged_and_those_that_agree_are_counted() -> None:
    models = np.zeros((3, 40, 2))
    labels = np.arange(40) % 2
    models[:, np.arange(40), labels] = 0.6
    models[:, np.arange(40), 1 - labels] = 0.4
    models[:2, 7] = [0.95, 0.05]  # row 7 is labelled 1; two of three models say 0
    assert suspect_labels(models, labels) == [
        SuspectLabel(row=7, label=1, predicted=0, self_confidence=pytest.approx(0.7 / 3), agreeing=2)
    ]
    assert suspect_labels(models[2], labels) == []


def test_a_class_without_rows_is_no_class_that_a_row_confidently_has() -> None:
    probabilities = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7], [0.9, 0.05, 0.05]])
    assert confident_joint(probabilities, np.array([0, 1, 1, 0]))[:, 2].tolist() == [0, 0, 0]


def test_a_row_that_no_fold_tested_is_refused() -> None:
    probabilities = np.full((4, 2), 0.5)
    probabilities[3] = np.nan
    with pytest.raises(ValueError, match="all folds"):
        suspect_labels(probabilities, np.array([0, 1, 0, 1]))
    with pytest.raises(ValueError, match="all folds"):
        suspect_labels(probabilities[:3], np.array([0, 1, 0, 1]))
