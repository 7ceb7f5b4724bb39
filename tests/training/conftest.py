"""A small task and a small pretrained model, made here, so that every method can be trained in seconds."""

from dataclasses import replace

import numpy as np
import pytest

from pocketbert.checkpoints import save_model
from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.methods import get_method
from pocketbert.tasks import Split, Task
from pocketbert.tokenizer import Tokenizer
from pocketbert.train import train_run

GOOD = ["good", "great", "fine", "lovely", "warm", "bright"]
BAD = ["bad", "poor", "dull", "cold", "weak", "grim"]
FILL = ["the", "film", "was", "a", "very", "and", "its", "cast", "plot", "story", "quite", "with", "some", "of", "in"]


def make_split(rows: int, seed: int, pairs: bool = False, labels: int = 2) -> Split:
    random = np.random.default_rng(seed)
    classes = random.integers(0, labels, rows)
    words = [BAD, GOOD, ["plain", "even", "middling"]]
    texts = []
    for label in classes:
        length = int(random.integers(2, 12))
        chosen = list(random.choice(FILL, length)) + list(random.choice(words[label], 2))
        random.shuffle(chosen)
        texts.append(" ".join(chosen))
    second_texts = [" ".join(random.choice(FILL, 4)) for _ in range(rows)] if pairs else None
    return Split(texts, second_texts, classes.astype(np.int64))


def make_task(pairs: bool = False, labels: int = 2, train: int = 160) -> Task:
    splits = {
        "train": make_split(train, 1, pairs, labels),
        "dev": make_split(60, 2, pairs, labels),
        "test": make_split(60, 3, pairs, labels),
    }
    return Task("toy", ("no", "yes", "so")[:labels], splits, pair=pairs)


@pytest.fixture(scope="session")
def task():
    return make_task()


@pytest.fixture(scope="session")
def tokenizer(task):
    return Tokenizer.learn([*task.train.texts, *FILL * 5], size=150)


@pytest.fixture(scope="session")
def config(tokenizer):
    # More rows than any text uses, as a real model has.
    return Config(vocabulary=len(tokenizer) + 40, width=24, layers=2, heads=3, inner=40, positions=64)


def with_other(task: Task, name: str) -> Task:
    """For a method that learns several tasks: with another one, of three labels."""
    if not get_method(name).learns_several:
        return task
    splits = {part: make_split(rows, 20 + rows, task.pair, 3) for part, rows in (("train", 96), ("dev", 30))}
    return replace(task, others=(Task("other", ("no", "yes", "so"), splits, task.pair),))


@pytest.fixture(scope="session")
def beside(tmp_path_factory, task):
    """What a method wants beside a model, as arguments of train_run: adapters to fuse, trained here once per model."""
    made = {}

    def give(name: str, model: str) -> dict:
        fuses = get_method(name).fuses
        if fuses is None:
            return {}
        if model not in made:
            settings = {"epochs": 2, "learning_rate": 1e-2, "max_length": 32, "threads": 1}
            folder = tmp_path_factory.mktemp("adapter")
            made[model] = {
                f"toy{seed}": train_run(
                    task, fuses, folder / str(seed), model=model, settings={**settings, "seed": seed}
                )
                for seed in range(2)
            }
        return {"adapters": made[model]}

    return give


@pytest.fixture(scope="session")
def model(tmp_path_factory, config, tokenizer):
    """A folder with a small "pretrained" encoder."""
    folder = tmp_path_factory.mktemp("models") / "small"
    save_model(Encoder(config, seed=5), folder, tokenizer)
    return str(folder)
