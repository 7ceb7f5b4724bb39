"""What to do next: that the ends of texts matter is measured, and every sentence is there only when it is true."""

from types import SimpleNamespace

import numpy as np

from pocketbert.study.advice import advice, gain_of_the_end
from pocketbert.tasks import Split, Task


def long_texts(at_the_end: bool) -> Task:
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(50)]
    labels = np.arange(400) % 2
    texts = []
    for label in labels:
        body = list(random.choice(words, 200))
        body[-1 if at_the_end else 3] = ("lovely", "dreadful")[label]
        texts.append(" ".join(body))
    return Task("long", ("good", "bad"), {"all": Split(texts, None, labels)}, False)


def test_what_only_the_end_says_is_missed_by_a_short_reader():
    matters = gain_of_the_end(long_texts(at_the_end=True), max_length=64)
    assert matters.low > 0.05
    not_here = gain_of_the_end(long_texts(at_the_end=False), max_length=64)
    assert not_here.low <= 0.02


def said(task=None, *, truncated=0.0, baseline=False, significant=True, curves=()):
    """The sentences about a made-up study of two rows."""
    rows = [
        SimpleNamespace(name="tfidf", baseline=True, guesses=False),
        SimpleNamespace(name="finetune", baseline=False, guesses=False),
    ]
    pair = SimpleNamespace(first="finetune", second="tfidf", significant=significant, detectable=0.043)
    recommended = SimpleNamespace(row="tfidf" if baseline else "finetune")
    tokens = {"all": {"unit": "tokens", "truncated_share": truncated, "max_length": 64}}
    return " ".join(advice(rows, [pair], recommended, curves, SimpleNamespace(tokens=tokens), task))


def curve(low: float, gain: float, high: float) -> SimpleNamespace:
    points = (SimpleNamespace(score=SimpleNamespace(mean=0.8)),)
    return SimpleNamespace(row="finetune", low=low, gain=gain, high=high, points=points)


def test_every_sentence_has_its_reason():
    assert said() == ""
    assert "tfidf is enough here" in said(baseline=True)
    assert "too small to tell finetune from tfidf: only a difference above about 4.3 points would show" in said(
        significant=False
    )
    assert "Label more: twice the data would bring finetune about 2.0 points" in said(curves=[curve(0.012, 0.02, 0.03)])
    assert "would bring little" in said(curves=[curve(-0.004, 0.001, 0.004)])
    assert said(curves=[curve(-0.02, 0.01, 0.04)]) == "", "what is not known is not advised"
    assert "their ends matter" in said(long_texts(at_the_end=True), truncated=0.9)
    assert "not shown to matter" in said(long_texts(at_the_end=False), truncated=0.9)
