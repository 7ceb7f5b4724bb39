"""`pocketbert pretrain`, from text to a model folder."""

import json
import os
import signal
import socket
import sys
import time

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

import pocketbert
from pocketbert.checkpoints import save_model
from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.loading import load_model, load_pretraining
from pocketbert.pretraining import PretrainingSettings, load_pretrained, pretrain
from pocketbert.pretraining.card import command
from pocketbert.pretraining.settings import default_rate, resolve_settings

from .conftest import TOY, run, write_corpus

FLAGS = [word for name, value in TOY.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def trained(tmp_path_factory, text_file, cache):
    """One toy model that learned something."""
    out = tmp_path_factory.mktemp("out") / "toy"
    settings = PretrainingSettings(**{**TOY, "batch_size": 32}, steps=250, learning_rate=1e-2, half=True)
    return pretrain(text_file, out, settings, cache=cache)


def test_a_toy_model_learns_to_tell_words_better_than_their_frequencies_do(trained):
    held, baseline = trained.metrics["held_out"], trained.metrics["baseline"]
    assert held["words"] < baseline["words"] - 0.5
    assert held["words_accuracy"] > baseline["words_accuracy"]
    assert len(trained.metrics["curve"]) == 4
    assert trained.metrics["steps"] == 250
    assert trained.metrics["curve"][0]["held_words"] > held["words"]


def test_the_folder_is_a_model_and_tells_how_it_was_made(trained, text_file):
    folder = trained.folder
    names = {path.name for path in folder.iterdir()} - {".lock"}
    assert names == {
        "config.json", "curve.jsonl", "manifest.json", "metrics.json", "model.safetensors", "README.md", "report.html",
        "settings.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt",
    }  # fmt: skip
    card = (folder / "README.md").read_text()
    assert "toy.jsonl" in card
    assert str(text_file.parent) not in card + (folder / "settings.json").read_text()
    assert (folder / "report.html").read_text().count("<svg") == 3
    assert load_model(folder).pooling == "pooler"
    assert load_pretrained(folder).metrics == trained.metrics
    guesses = pocketbert.fill("the ship was near the [MASK] and the sea.", folder, top=3)
    assert guesses[0][0].probability > 0.03


def test_half_precision_on_disk_is_float32_in_memory_and_transformers_reads_the_same(trained):
    transformers = pytest.importorskip("transformers")
    on_disk = load_file(trained.folder / "model.safetensors")
    assert {tensor.dtype for tensor in on_disk.values()} == {torch.float16}
    ours = load_pretraining(trained.folder, quiet=True)
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float32}
    table = on_disk["bert.embeddings.word_embeddings.weight"].float()
    assert torch.equal(table, ours.encoder.embeddings.word.weight)
    theirs = transformers.BertForPreTraining.from_pretrained(trained.folder, dtype=torch.float32).eval()
    ids = torch.randint(5, 60, (3, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        mine, other = ours(ids), theirs(ids)
    assert torch.allclose(mine.words, other.prediction_logits, atol=1e-4)
    assert torch.allclose(mine.next_sentence, other.seq_relationship_logits, atol=1e-5)


def test_places_that_were_never_trained_repeat_the_trained_ones(trained):
    table = load_pretraining(trained.folder, quiet=True).encoder.embeddings.position.weight
    assert torch.equal(table[32:40], table[1:9])


def test_the_command_on_the_card_makes_the_model_again_to_the_last_bit(trained, text_file, tmp_path, cache):
    settings = PretrainingSettings.from_dict(trained.metadata["settings"])
    line = command(settings, [str(text_file)]).replace("--out DIR", f"--out {tmp_path / 'again'}")
    assert line.split()[:2] == ["pocketbert", "pretrain"]
    done = run(*line.split()[1:], "--threads", "1", "--cache", cache, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["steps"] == 250
    assert "held out: words" in done.stderr
    for name in ("model.safetensors", "config.json", "tokenizer.json", "curve.jsonl", "settings.json"):
        assert (tmp_path / "again" / name).read_bytes() == (trained.folder / name).read_bytes(), name


KILLED = """
import json, os, signal, sys
from pocketbert.pretraining import PretrainingSettings, pretrain
told = []
def say(line):
    if "step " in line:
        told.append(line)
        if len(told) == 3:  # the third part is trained, and not yet saved
            os.kill(os.getpid(), signal.SIGKILL)
text, out, cache, settings = sys.argv[1:]
pretrain(text, out, PretrainingSettings(**json.loads(settings)), cache=cache, say=say)
"""


@pytest.mark.skipif(os.name == "nt", reason="no kill -9")
def test_after_kill_9_it_goes_on_to_the_same_bits(text_file, tmp_path, cache, teacher):
    chosen = {**TOY, "steps": 21, "dropout": 0.1, "teacher": teacher, "teacher_words": True, "teacher_batch": 8,
              "teacher_sentences": 50, "teacher_layer": 1}  # fmt: skip
    settings = PretrainingSettings(**chosen)
    undisturbed = pretrain(text_file, tmp_path / "undisturbed", settings, cache=cache)
    killed = run(text_file, tmp_path / "killed", cache, json.dumps(chosen), program=("-c", KILLED))
    assert killed.returncode == -signal.SIGKILL
    with safe_open(tmp_path / "killed" / "checkpoint.safetensors", "pt") as file:
        assert json.loads(file.metadata()["progress"])["epoch"] == 2
    with pytest.raises(UserError, match="not finished"):
        load_pretrained(tmp_path / "killed")
    with pytest.raises(UserError, match="holds another pretraining .steps"):
        pretrain(text_file, tmp_path / "killed", PretrainingSettings(**{**chosen, "steps": 22}), cache=cache)
    resumed = pretrain(text_file, tmp_path / "killed", settings, cache=cache)
    assert resumed.metrics["curve"] == undisturbed.metrics["curve"]
    names = [tmp_path / name / "model.safetensors" for name in ("killed", "undisturbed")]
    assert names[0].read_bytes() == names[1].read_bytes()
    assert not (tmp_path / "killed" / "checkpoint.safetensors").exists()
    assert load_model(tmp_path / "killed").pooling == "mean"
    began = time.perf_counter()
    assert pretrain(text_file, tmp_path / "killed", settings, cache=cache).metrics == resumed.metrics
    assert time.perf_counter() - began < 2  # a finished one is given back


def test_two_processes_learn_what_one_does(text_file, tmp_path, cache, teacher):
    arguments = [text_file, *FLAGS, "--steps", 12, "--cache", cache, "--teacher", teacher, "--teacher-sentences", 50,
                 "--teacher-batch", 7, "--teacher-layer", 1, "--precision", "float32"]  # fmt: skip
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port",
                str(port), "-m", "pocketbert")  # fmt: skip
    alone = run("pretrain", *arguments, "--out", tmp_path / "one")
    assert alone.returncode == 0, alone.stderr
    both = run("pretrain", *arguments, "--out", tmp_path / "two", "--json", program=launcher)
    assert both.returncode == 0, both.stderr
    assert json.loads(both.stdout)["metrics"]["cost"]["processes"] == 2  # one document: one process speaks
    curves = [load_pretrained(tmp_path / name).metrics["curve"] for name in ("one", "two")]
    for one, two in zip(*curves, strict=True):
        assert None not in one.values()
        for name in one:
            assert abs(one[name] - two[name]) < 1e-4, name
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    assert max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0]) < 1e-3


WORDS_ALONE = {"cosine_weight": 0.0, "similarity_weight": 0.0}


@pytest.mark.parametrize(
    ("changes", "pooling"),
    [
        ({"causal": True, "next_sentence": False}, "mean"),
        ({"whole_word": True, "next_sentence": False}, "mean"),
        ({"text_weight": 0.0, "next_sentence": False, "teacher": True}, "mean"),
        ({"teacher": True, "teacher_pooling": "pooler", "next_sentence": False}, "pooler"),
        ({"teacher": True, "teacher_layer": 1}, "mean"),
        ({"teacher": True, "teacher_layer": 1, **WORDS_ALONE}, "pooler"),
        (
            {"teacher": True, "teacher_layer": 1, **WORDS_ALONE, "teacher_pooling": "pooler", "next_sentence": False},
            "mean",
        ),
        ({"precision": "bfloat16"}, "pooler"),
        ({"tokens": 3_000}, "pooler"),
        ({"minutes": 0.03}, "pooler"),
    ],
)
def test_every_option_trains_and_saves_what_it_trained(changes, pooling, text_file, tmp_path, cache, teacher):
    if changes.get("teacher"):
        changes = {**changes, "teacher": teacher, "teacher_sentences": 50, "teacher_batch": 8}
    budget = {} if {"tokens", "minutes"} & changes.keys() else {"steps": 6}
    settings = PretrainingSettings(**{**TOY, **budget, **changes})
    done = pretrain(text_file, tmp_path / "out", settings, cache=cache)
    with safe_open(done.folder / "model.safetensors", "pt") as file:
        names = set(file.keys())
    assert ("cls.predictions.bias" in names) == (settings.text_weight > 0 and not settings.causal)
    assert ("cls.seq_relationship.bias" in names) == settings.next_sentence
    assert ("bert.pooler.dense.bias" in names) == settings.trains_pooler
    model = load_model(done.folder)
    assert model.pooling == pooling
    assert np.isfinite(model.encoder().pooler.weight.detach().numpy()).all()
    if "tokens" in changes:
        assert abs(done.metrics["tokens"] - 3_000) < 600
    if "minutes" in changes:
        budget = json.loads((done.folder / "budget.json").read_text())
        assert budget["steps"] == done.metrics["steps"]
        assert budget["seconds_per_step"] > 0


def test_a_budget_of_minutes_is_measured_once(text_file, tmp_path, cache, monkeypatch):
    module = sys.modules["pocketbert.pretraining.pretrain"]
    settings = PretrainingSettings(**TOY, minutes=1)
    monkeypatch.setattr(module, "time_steps", lambda learner: {"seconds_per_step": 5, "seconds_per_measurement": 1})
    monkeypatch.setattr(module, "write_model", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pretrain(text_file, tmp_path / "out", settings, cache=cache)
    monkeypatch.undo()
    monkeypatch.setattr(module, "time_steps", lambda learner: pytest.fail("measured again"))
    assert pretrain(text_file, tmp_path / "out", settings, cache=cache).metrics["steps"] == 11  # (60 - 4 · 1) / 5


@pytest.mark.parametrize(("seconds", "parts", "steps"), [(1.0, 4, 56), (5.0, 1, 55), (20.0, 1, 40)])
def test_few_minutes_are_measured_less_often(text_file, tmp_path, cache, monkeypatch, seconds, parts, steps):
    module = sys.modules["pocketbert.pretraining.pretrain"]
    timed = {"seconds_per_step": 1, "seconds_per_measurement": seconds}
    monkeypatch.setattr(module, "time_steps", lambda learner: timed)
    done = pretrain(text_file, tmp_path / "out", PretrainingSettings(**TOY, minutes=1), cache=cache)
    assert done.metrics["steps"] == steps
    assert len((tmp_path / "out" / "curve.jsonl").read_text().splitlines()) == parts


def test_minutes_that_would_all_be_spent_on_measuring_are_refused(text_file, tmp_path, cache, monkeypatch):
    module = sys.modules["pocketbert.pretraining.pretrain"]
    monkeypatch.setattr(module, "time_steps", lambda learner: {"seconds_per_step": 1, "seconds_per_measurement": 40})
    with pytest.raises(UserError, match=r"measuring held-out text once takes 40.0 s.*--held-out"):
        pretrain(text_file, tmp_path / "out", PretrainingSettings(**TOY, minutes=1), cache=cache)
    assert not (tmp_path / "out").exists()


def test_what_changed_behind_a_name_is_noticed(text_file, tmp_path, cache, corpus):
    def folder(seed: int) -> None:
        config = Config(vocabulary=len(corpus.tokenizer), width=16, layers=1, heads=2, inner=16, positions=64)
        save_model(Encoder(config, seed=seed), tmp_path / "teacher", corpus.tokenizer, overwrite=True)

    values = {**TOY, "steps": 2, "teacher": str(tmp_path / "teacher"), "teacher_sentences": 40, "teacher_batch": 8}
    folder(seed=1)
    pretrain(text_file, tmp_path / "out", PretrainingSettings(**values), cache=cache)
    folder(seed=2)
    with pytest.raises(UserError, match="teacher_weights is"):
        pretrain(text_file, tmp_path / "out", PretrainingSettings(**values), cache=cache)
    with pytest.raises(UserError, match="inside the model's folder"):
        pretrain(text_file, tmp_path / "new", PretrainingSettings(**values), cache=tmp_path / "new" / "cache")


def test_wrong_settings_are_named():
    def refused(**values) -> str:
        with pytest.raises(UserError) as caught:
            PretrainingSettings(**{"steps": 5, **values})
        return str(caught.value)

    assert "steps and minutes" in refused(minutes=3)
    assert "found none" in refused(steps=None)
    assert "'huge' is not known" in refused(size="huge")
    assert "not divisible" in refused(size="2x200")
    assert "max_length" in refused(max_length=600)
    assert "batch_size: 0" in refused(batch_size=0)
    assert "learning_rate" in refused(learning_rate=0.0)
    assert "--no-nsp" in refused(causal=True)
    assert "whole_word means nothing" in refused(causal=True, next_sentence=False, whole_word=True)
    assert "share means nothing" in refused(causal=True, next_sentence=False, share=0.3)
    assert "teacher_words needs a teacher" in refused(teacher_words=True)
    assert "teacher_layer needs a teacher" in refused(teacher_layer=1)
    assert "states_weight 0" in refused(teacher="x", teacher_layer=1, states_weight=0.0)
    assert "whose states" in refused(teacher="x", states_weight=1.0)
    assert not PretrainingSettings(steps=5, teacher="x", teacher_layer=1, **WORDS_ALONE).learns_sentences
    assert "nothing to learn" in refused(text_weight=0.0, next_sentence=False)
    assert "teacher_pooling" in refused(teacher_pooling="last")
    assert "share" in refused(share=2.0)
    assert "--no-nsp" in refused(text_weight=0.0, teacher="minilm-l6")
    assert "teacher_length 128" in refused(teacher="x", teacher_length=128, positions=64, max_length=64)
    longest = PretrainingSettings(steps=5, teacher="x", text_weight=0.0, next_sentence=False, teacher_length=50).longest
    assert longest == 50  # the text, of 128, is not read
    assert [default_rate(width) for width in (128, 256, 768)] == [1e-3, 6e-4, 2e-4]
    assert resolve_settings(PretrainingSettings(steps=5), processes_here=64).threads == 1


def test_bad_input_is_one_line_and_exit_2_and_nothing_stays(tmp_path, text_file, capsys, monkeypatch):
    from pocketbert.cli import main

    monkeypatch.setenv("POCKETBERT_HOME", str(tmp_path / "home"))
    for name, content in {
        "empty.txt": b"", "line.txt": b"one line\n", "binary.txt": b"\0\1", "latin.txt": b"a caf\xe9",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
    small = write_corpus(tmp_path / "small.jsonl", count=6)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "precious").write_text("mine")
    (tmp_path / "file").write_text("a file")
    flags = [*FLAGS, "--steps", "4"]
    out = tmp_path / "out"
    cases = [
        ([tmp_path / "empty.txt", *flags, "--out", out], "empty corpus"),
        ([tmp_path / "line.txt", *flags, "--out", out], "one line"),
        ([tmp_path / "binary.txt", *flags, "--out", out], "binary.txt: line 1 has a NUL"),
        ([tmp_path / "latin.txt", *flags, "--out", out], "latin.txt: line 1, byte 6"),
        ([tmp_path / "nothing.txt", *flags, "--out", out], "no such file"),
        ([small, *flags, "--batch-size", "64", "--out", out], "smaller than a batch"),
        ([text_file, *flags, "--teacher", "nobody", "--out", out], "no model 'nobody'"),
        ([text_file, *flags, "--minutes", "1", "--out", out], "steps and minutes"),
        ([text_file, *flags, "--vocabulary", tmp_path / "no" / "vocab.txt", "--out", out], "no such folder"),
        ([text_file, *flags, "--out", tmp_path / "taken"], "holds precious"),
        ([text_file, *flags, "--out", tmp_path / "file"], "is a file"),
        ([text_file, *flags, "--out", tmp_path / "file" / "below"], "cannot write"),
    ]
    for arguments, message in cases:
        monkeypatch.setattr(sys, "argv", ["pocketbert", "pretrain", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2, message
        assert message in capsys.readouterr().err
        assert not out.exists(), message
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["precious"]
    kept = {path.name.split("-")[0] for path in (tmp_path / "home").rglob("*")}
    assert not any(name.endswith(".part") for name in kept)
