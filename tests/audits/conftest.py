"""Classifiers without training: functions of a text that are as biased as a test needs."""

import numpy as np
import pytest


class Scored:
    """A scikit-learn classifier whose log-odds are a function of the text."""

    def __init__(self, score, classes=("negative", "positive"), pair=False):
        self.score, self.classes_, self.pair_ = score, list(classes), pair

    def predict_proba(self, texts):
        odds = np.array([self.score(text if isinstance(text, str) else " ".join(text)) for text in texts])
        positive = 1 / (1 + np.exp(-odds))
        rest = len(self.classes_) - 1
        return np.column_stack([*([(1 - positive) / rest] * rest), positive])


def noise(text: str, size: float) -> float:
    """Something that depends on the text, and on nothing else."""
    return size * (np.random.default_rng(abs(hash_of(text)) % 2**32).normal())


def hash_of(text: str) -> int:
    import zlib

    return zlib.crc32(text.encode())


def words(text: str) -> set[str]:
    return set(text.lower().replace(",", " ").replace(".", " ").replace(":", " ").replace(";", " ").split())


SHE = {"she", "her", "hers", "herself"}


def biased(effect: float, *, unstable: float = 0.0):
    return Scored(lambda text: (effect if words(text) & SHE else 0.0) + (noise(text, unstable) if unstable else 0.0))


@pytest.fixture
def table(tmp_path):
    """A suite file of these rows."""

    def write(*rows, columns="id,group,text,template,expected"):
        path = tmp_path / "suite.csv"
        path.write_text("\n".join([columns, *rows]) + "\n", encoding="utf-8")
        return path

    return write
