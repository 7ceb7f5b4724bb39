"""A toy corpus with topics and an order of words, so that a small model has something to learn in seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pocketbert.checkpoints import save_model
from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.pretraining.corpus import Reading, open_corpus
from pocketbert.tokenizer import Tokenizer

TOPICS = [
    ["ship", "sea", "storm", "captain", "sail", "harbour", "wave", "crew"],
    ["bread", "oven", "flour", "baker", "butter", "crust", "dough", "salt"],
    ["film", "actor", "scene", "plot", "camera", "director", "story", "cast"],
    ["horse", "field", "farmer", "barn", "wheat", "plough", "cow", "meadow"],
]


def make_documents(count: int, seed: int = 0, sentences: int = 14) -> list[str]:
    """Documents of one topic each; a sentence names what the one before ended with."""
    random = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        topic = TOPICS[int(random.integers(len(TOPICS)))]
        lines, last = [], str(random.choice(topic))
        for _ in range(int(random.integers(sentences // 2, sentences + 1))):
            middle = " ".join(random.choice(topic, int(random.integers(1, 5))))
            new = str(random.choice(topic))
            lines.append(f"The {last} was near the {middle} and the {new}.")
            last = new
        documents.append(" ".join(lines))
    return documents


def write_corpus(path: Path, count: int = 120, seed: int = 0, sentences: int = 14) -> Path:
    lines = [json.dumps({"text": text}) for text in make_documents(count, seed, sentences)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(*arguments, environment=None, program=("-m", "pocketbert")):
    """A command in a process of its own."""
    full = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    command = [sys.executable, *program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=full, check=False, timeout=120)


TOY = {
    "size": "1x32",
    "vocabulary_size": 120,
    "batch_size": 8,
    "max_length": 32,
    "positions": 40,
    "teacher_length": 40,
    "held_out": 0.05,
    "checkpoints": 4,
    "threads": 1,
}


@pytest.fixture(scope="session")
def text_file(tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("text") / "toy.jsonl")


@pytest.fixture(scope="session")
def corpus(text_file, tmp_path_factory):
    reading = Reading(vocabulary_size=120, held_out=0.05)
    return open_corpus([text_file], reading, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def teacher(tmp_path_factory, corpus):
    config = Config(vocabulary=len(corpus.tokenizer), width=40, layers=1, heads=4, inner=64, positions=64)
    folder = tmp_path_factory.mktemp("teacher") / "big"
    save_model(Encoder(config, seed=4), folder, corpus.tokenizer)
    return str(folder)


@pytest.fixture(scope="session")
def big_teacher(tmp_path_factory):
    """One that cuts words up otherwise."""
    tokenizer = Tokenizer.learn(make_documents(80, seed=9), size=100)
    config = Config(vocabulary=len(tokenizer), width=48, layers=2, heads=4, inner=64, positions=64)
    folder = tmp_path_factory.mktemp("teacher") / "bigger"
    save_model(Encoder(config, seed=4), folder, tokenizer)
    return str(folder)
