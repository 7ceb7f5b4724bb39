"""Comparisons read as sentences, in the field's words."""

import dataclasses

import numpy as np
import pytest

from pocketbert import statistics
from pocketbert.study import wording


def comparison_of(effect, half, p_value, **more):
    rows = statistics.Outcomes.from_correct(np.ones((2, 9)))
    base = statistics.compare(rows, rows)
    return dataclasses.replace(base, effect=effect, low=effect - half, high=effect + half, p_value=p_value, **more)


@pytest.mark.parametrize(
    ("comparison", "sentence"),
    [
        (comparison_of(0.062, 0.021, 0.001), "tiny beats tfidf by 6.2 points (4.1 to 8.3)"),
        (comparison_of(-0.01, 0.005, 0.001), "tfidf beats tiny by 1.0 point (0.5 to 1.5)"),
        (
            comparison_of(0.003, 0.015, 0.6, detectable_effect=0.021),
            "no significant difference between tiny and tfidf: 0.3 points (−1.2 to 1.8); "
            "a difference below 2.1 points could have been missed",
        ),
        (
            comparison_of(-0.0001, 0.015, 0.9, detectable_effect=0.01),
            "no significant difference between tiny and tfidf: 0.0 points (−1.5 to 1.5); "
            "a difference below 1.0 point could have been missed",
        ),
        (
            comparison_of(0.03, 0.02, 0.01, corrected_p_value=0.06, detectable_effect=0.04),
            "no significant difference between tiny and tfidf: 3.0 points (1.0 to 5.0); "
            "a difference below 4.0 points could have been missed; "
            "its own interval excludes 0, but among so many comparisons that is not significant",
        ),
        (
            comparison_of(0.03, 0.5, 0.9, detectable_effect=0.547),
            "no significant difference between tiny and tfidf: 3.0 points (−47.0 to 53.0); "
            "this study is too small to tell, it could have missed even 54 points",
        ),
        (
            comparison_of(0.03, 0.02, 0.01, counts_training_noise=False),
            "tiny beats tfidf by 3.0 points (1.0 to 5.0); with one seed, what another seed would change is not counted",
        ),
    ],
)
def test_a_comparison_reads_as_a_sentence(comparison, sentence):
    assert wording.comparison_in_words("tiny", "tfidf", comparison) == sentence


@pytest.mark.parametrize(
    ("detectable", "sentence"),
    [
        ([0.138, 0.114, 0.12], "a difference below 11.4 to 13.8 points could have been missed"),
        ([0.0101, 0.01], "a difference below 1.0 point could have been missed"),
        ([0.25, 0.778], "this study is too small to tell, it could have missed even 25 points"),
        ([0.249, 0.778], "a difference below 24.9 to 77.8 points could have been missed"),
    ],
)
def test_several_differences_that_could_have_been_missed_are_told_at_once(detectable, sentence):
    assert wording.missed_in_words(detectable) == sentence
