"""Every method in the registry: it learns, saves, comes back the same, and trains what it says it trains."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from pocketbert.classifier import Classifier
from pocketbert.errors import UserError
from pocketbert.methods import SHAPE, WEIGHTS, DataSize, get_method, list_methods
from pocketbert.runs import load_run
from pocketbert.train import plan_run, train_run, train_runs
from pocketbert.training.fit import make_network
from pocketbert.training.learners import NetworkLearner, TaskTexts
from pocketbert.training.settings import TrainingSettings

from .conftest import make_task, with_other

METHODS = list(list_methods())
NEURAL = [name for name in METHODS if get_method(name).needs_model]
QUICK = {"learning_rate": (3e-3, 1e-2), "epochs": 4, "batch_size": 16, "max_length": 32, "threads": 1}


def quick(**changes):
    return {**QUICK, **changes}


def told(name, **changes):
    """Of quick settings, those that a method reads."""
    wanted = {**QUICK, "vocabulary_size": 120, **changes}
    return {key: value for key, value in wanted.items() if get_method(name).reads(key)}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("pairs", [False, True], ids=["single", "pairs"])
def test_every_method_trains_saves_and_comes_back_the_same(name, pairs, model, beside, tmp_path):
    task = with_other(make_task(pairs=pairs), name)
    given = {"model": model if name in NEURAL else None, **beside(name, model)}
    run = train_run(task, name, tmp_path / "run", settings=told(name, epochs=10), **given)
    scores = run.metrics["scores"]["test"]
    assert 0 <= scores["low"] <= scores["accuracy"] <= scores["high"] <= 1
    again = load_run(tmp_path / "run")
    probabilities = again.fitted().probabilities(task.test.texts, task.test.second_texts)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-9)
    lines = (tmp_path / "run" / "test.csv").read_text().splitlines()[1:]
    written = np.array([[float(value) for value in line.split(",")[3:]] for line in lines])
    np.testing.assert_allclose(written, probabilities, atol=1e-5)
    assert again.fitted().probabilities([], [] if pairs else None).shape == (0, 2)
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()
    assert not [path for path in (tmp_path / "run").rglob("*") if path.suffix in (".pkl", ".pickle", ".pt", ".joblib")]


@pytest.mark.parametrize("name", [name for name in METHODS if get_method(name).reads_texts])
def test_every_method_that_reads_texts_learns_from_them(name, task, beside, tmp_path):
    """With what it derives by itself, from a model that knows English where it wants one; words give the label away."""
    method = get_method(name)
    model = {WEIGHTS: "pocket-tiny", SHAPE: "tiny"}.get(method.starts_from)
    more = {} if model is None else {"epochs": max(method.default_steps(DataSize(10_000, 2))[0], 10), "max_length": 32}
    given = {"model": model, **beside(name, model)}
    run = train_run(with_other(task, name), name, tmp_path / "run", settings={"threads": 1, **more}, **given)
    assert run.metrics["scores"]["test"]["low"] > max(np.bincount(task.test.labels)) / 60


@pytest.mark.parametrize("name", NEURAL)
@pytest.mark.parametrize("pooling", ["pooler", "cls", "mean"])
@pytest.mark.parametrize("head", ["linear", "two-layer", "bilstm"])
def test_what_trains_has_a_gradient_and_what_does_not_is_byte_identical(name, pooling, head, task, model, beside):
    method = get_method(name)
    switches = {"cache_features": False, "vocabulary_slice": False}
    settings = told(name, learning_rate=1e-2, epochs=1, pooling=pooling, head=head, **switches)
    job = plan_run(with_other(task, name), name, model=model, settings=settings, **beside(name, model)).job
    encoder, tokenizer = job.prepared
    network = make_network(method, encoder, job.settings, {task.name: 2})
    before = {key: value.detach().clone() for key, value in network.named_parameters()}
    texts = TaskTexts(task.name, 2, tokenizer(task.train.texts), task.train.labels)
    learner = NetworkLearner(network, method.trains, [texts], job.settings, 1e-2)
    learner.epoch(0, lambda done: None)
    chosen = network.chosen(method.trains)
    for key, value in network.named_parameters():
        if key in chosen:
            assert value.grad is not None, key
            assert value.grad.abs().sum() > 0 or "token_type" in key or "position" in key, key
            assert not torch.equal(value, before[key]), key
        else:
            assert value.detach().numpy().tobytes() == before[key].numpy().tobytes(), key
    assert chosen


def test_dev_chooses_the_rate_and_the_epoch_and_ties_go_to_the_earlier_epoch(task, model, tmp_path):
    run = train_run(task, "finetune", tmp_path / "run", model=model, settings=QUICK)
    history, best = run.metrics["history"], run.metrics["best"]
    assert len(history) == run.metrics["trials"] == 8
    top = max(record["dev_accuracy"] for record in history)
    assert best["dev_accuracy"] == top
    assert best["epoch"] == min(record["epoch"] for record in history if record["dev_accuracy"] == top)
    assert run.metrics["scores"]["dev"]["accuracy"] == pytest.approx(top)


def test_patience_stops_early(task, model, tmp_path):
    settings = quick(learning_rate=1e-2, epochs=30, patience=2)
    run = train_run(task, "finetune", tmp_path / "run", model=model, settings=settings)
    assert len(run.metrics["history"]) < 30


ALIKE = (
    "bitfit",
    "lora",
    "houlsby",
    "fusion",
    "multitask",
)  # train as others do that are started anew, or killed, here


def mostly_slow(names):
    return [pytest.param(name, marks=[pytest.mark.slow] if name in ALIKE else []) for name in names]


@pytest.mark.parametrize("name", mostly_slow(METHODS))
def test_two_fresh_processes_write_byte_identical_predictions(name, model, beside, tmp_path, task):
    outs = []
    for i in range(2):
        _train_in_another_process(tmp_path / f"run{i}", name, model, beside)
        outs.append([(tmp_path / f"run{i}" / f"{split}.csv").read_bytes() for split in ("dev", "test")])
    assert outs[0] == outs[1]


PROGRAM = """
import sys, json, time, os, signal
sys.path.insert(0, sys.argv[1])
from training.conftest import make_task, with_other
from pocketbert.runs import load_run
from pocketbert.train import train_run
about = json.loads(sys.argv[2])
def report(now):
    if now.record is not None and (now.record.rate, now.record.epoch) == tuple(about.get("stop", ())):
        report.armed = True
    elif getattr(report, "armed", False):
        os.kill(os.getpid(), signal.SIGKILL)  # in the middle of the next epoch: the checkpoint of the last one is there
given = {"model": about["model"], "settings": about["settings"]}
given["adapters"] = {name: load_run(folder) for name, folder in about.get("adapters", {}).items()}
train_run(with_other(make_task(), about["method"]), about["method"], about["folder"], **given, report=report)
"""


def _train_in_another_process(folder, method, model, beside, stop=()):
    from conftest import REPOSITORY

    about = {
        "folder": str(folder),
        "method": method,
        "model": model if method in NEURAL else None,
        "settings": told(method, dropout=0.1),
        "stop": stop,
        "adapters": {name: str(run.folder) for name, run in beside(method, model).get("adapters", {}).items()},
    }
    command = [sys.executable, "-c", PROGRAM, str(REPOSITORY / "tests"), json.dumps(about)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


MOMENTS = [  # a learning rate, and the epoch after which it is killed; every one is tried by the slow tests
    pytest.param(3e-3, 1, marks=pytest.mark.slow),
    pytest.param(3e-3, 4, marks=pytest.mark.slow),
    pytest.param(1e-2, 2),
]


@pytest.mark.parametrize("method", mostly_slow(NEURAL))
@pytest.mark.parametrize(("rate", "epoch"), MOMENTS)
def test_killed_after_any_epoch_a_run_goes_on_to_the_same_bytes(method, rate, epoch, model, beside, tmp_path):
    done = _train_in_another_process(tmp_path / "whole", method, model, beside)
    assert done.returncode == 0, done.stderr
    expected = [(tmp_path / "whole" / f"{split}.csv").read_bytes() for split in ("dev", "test")]
    folder = tmp_path / f"cut-{rate}-{epoch}"
    killed = _train_in_another_process(folder, method, model, beside, stop=(rate, epoch))
    if method != "frozen" or epoch != 4:  # all rates of a frozen run train together: after epoch 4 it is over
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert not (folder / "manifest.json").exists()
        with pytest.raises(UserError, match="not finished"):
            load_run(folder)
    done = _train_in_another_process(folder, method, model, beside)
    assert done.returncode == 0, done.stderr
    assert [(folder / f"{split}.csv").read_bytes() for split in ("dev", "test")] == expected
    assert not (folder / "checkpoint.safetensors").exists()
    whole = json.loads((tmp_path / "whole" / "metrics.json").read_text())
    again = json.loads((folder / "metrics.json").read_text())
    drop = ("seconds",)
    assert [{k: v for k, v in r.items() if k not in drop} for r in again["history"]] == [
        {k: v for k, v in r.items() if k not in drop} for r in whole["history"]
    ]


def test_one_thread_and_two_predict_the_same_labels(task, model, tmp_path):
    run = train_run(task, "finetune", tmp_path / "run", model=model, settings=QUICK)
    before = torch.get_num_threads()
    try:
        said = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            said.append(run.fitted().probabilities(task.test.texts).argmax(axis=1))
    finally:
        torch.set_num_threads(before)
    assert (said[0] == said[1]).all()


def test_another_seed_gives_another_run(task, model, tmp_path):
    runs = [train_run(task, "finetune", tmp_path / f"{s}", model=model, settings=quick(seed=s)) for s in (0, 1)]
    assert (runs[0].folder / "test.csv").read_bytes() != (runs[1].folder / "test.csv").read_bytes()


def bytes_of(folder):
    """What must be the same, however the run was trained."""
    names = ("settings.json", "dev.csv", "test.csv", "predictions.safetensors", "model/trained.safetensors")
    return {name: (folder / name).read_bytes() for name in names}


@pytest.mark.parametrize("told", [{}, {"head": "two-layer", "class_weights": True}, {"precision": "float64"}])
def test_seeds_that_train_as_one_have_the_bytes_they_have_alone(task, model, tmp_path, told):
    settings = quick(learning_rate=[1e-3, 1e-2], **told)
    plan = plan_run(task, "frozen", model=model, settings=settings)
    assert get_method("frozen").bank_size(plan.job.settings, plan.job.start, 2) >= 3
    train_runs(plan, {seed: tmp_path / f"together-{seed}" for seed in (0, 1, 2)})
    train_runs(plan, {seed: tmp_path / f"pair-{seed}" for seed in (2, 0)})
    for seed in (0, 1, 2):
        alone = tmp_path / f"alone-{seed}"
        train_run(task, "frozen", alone, model=model, settings={**settings, "seed": seed})
        assert bytes_of(tmp_path / f"together-{seed}") == bytes_of(alone)
        if seed != 1:
            assert bytes_of(tmp_path / f"pair-{seed}") == bytes_of(alone)


@pytest.mark.parametrize("write", [1, 2, 3])
def test_seeds_that_trained_as_one_and_were_stopped_while_being_written_are_not_trained_again(
    task, model, tmp_path, monkeypatch, write
):
    from pocketbert import train

    plan = plan_run(task, "frozen", model=model, settings=QUICK)
    folders = {seed: tmp_path / f"{seed}" for seed in (0, 1, 2)}
    plain, written, epochs = train.write_manifest, [], []

    def stop(folder):
        written.append(folder)
        if len(written) == write:
            raise KeyboardInterrupt
        plain(folder)

    monkeypatch.setattr(train, "write_manifest", stop)
    with pytest.raises(KeyboardInterrupt):
        train_runs(plan, folders)
    monkeypatch.setattr(train, "write_manifest", plain)
    train_runs(plan, folders, report=lambda now: epochs.append(now))
    assert epochs == [], "all was trained before"
    train_runs(plan, {seed: tmp_path / f"whole-{seed}" for seed in (0, 1, 2)})
    for seed, folder in folders.items():
        assert bytes_of(folder) == bytes_of(tmp_path / f"whole-{seed}")
        assert not (folder / "checkpoint.safetensors").exists()


def test_a_seed_that_was_begun_alone_goes_on_alone_when_more_are_asked_for(task, model, tmp_path):
    plan = plan_run(task, "frozen", model=model, settings=QUICK)

    def stop(now):
        if now.record is not None and now.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_runs(plan, {0: tmp_path / "0"}, report=stop)
    begun = []
    train_runs(
        plan, {seed: tmp_path / f"{seed}" for seed in (0, 1)}, report=lambda now: begun.append((now.epoch, now.record))
    )
    first = next(record for _, record in begun if record is not None)
    assert (first.seed, first.epoch) == (0, 2), "epoch 1 was kept"
    train_runs(plan, {seed: tmp_path / f"whole-{seed}" for seed in (0, 1)})
    for seed in (0, 1):
        assert bytes_of(tmp_path / f"{seed}") == bytes_of(tmp_path / f"whole-{seed}")


def test_predicting_with_a_frozen_model_writes_nothing(task, model, tmp_path):
    from pocketbert.training.features import cache_folder

    clf = Classifier(model, method="frozen", epochs=1, max_length=32, threads=1).fit(
        task.train.texts, task.train.labels
    )
    before = {path.name for path in cache_folder().glob("*")}
    clf.predict_proba(["a text that nobody has seen"])
    assert {path.name for path in cache_folder().glob("*")} == before


def test_features_are_kept_and_a_damaged_or_deleted_cache_is_no_harm(task, model, tmp_path):
    from pocketbert.training.features import cache_folder

    outs = []
    for i, spoil in enumerate([None, "keep", "damage", "delete"]):
        files = list(cache_folder().glob("*.safetensors"))
        assert len(files) == (0 if spoil is None else 3)  # train, dev, test
        for path in files:
            if spoil == "damage":
                path.write_bytes(path.read_bytes()[:100])
            elif spoil == "delete":
                path.unlink()
        run = train_run(task, "frozen", tmp_path / f"{i}", model=model, settings=QUICK)
        outs.append((run.folder / "test.csv").read_bytes())
    assert len(set(outs)) == 1


def test_the_cache_is_bounded(task, model, tmp_path, monkeypatch):
    from pocketbert.training import features

    monkeypatch.setattr(features, "MOST_BYTES", 40_000)
    for length in (8, 12, 16, 20):
        train_run(task, "frozen", tmp_path / f"{length}", model=model, settings=quick(max_length=length))
    assert sum(path.stat().st_size for path in features.cache_folder().glob("*")) <= 40_000


def test_a_finished_run_is_not_trained_again_and_other_settings_are_refused(task, model, tmp_path):
    start = time.perf_counter()
    run = train_run(task, "finetune", tmp_path / "run", model=model, settings=QUICK)
    first = time.perf_counter() - start
    stamp = (tmp_path / "run" / "manifest.json").stat().st_mtime_ns
    start = time.perf_counter()
    assert train_run(task, "finetune", tmp_path / "run", model=model, settings=QUICK).metrics == run.metrics
    assert time.perf_counter() - start < first
    assert (tmp_path / "run" / "manifest.json").stat().st_mtime_ns == stamp
    with pytest.raises(UserError, match="finished run with other settings .seed is 0 there and 9 here"):
        train_run(task, "finetune", tmp_path / "run", model=model, settings=quick(seed=9))


def test_a_head_is_never_put_on_other_weights(task, tokenizer, config, tmp_path):
    from pocketbert.checkpoints import save_model
    from pocketbert.encoder import Encoder

    save_model(Encoder(config, seed=1), tmp_path / "model", tokenizer)
    run = train_run(task, "frozen", tmp_path / "run", model=str(tmp_path / "model"), settings=QUICK)
    save_model(Encoder(config, seed=2), tmp_path / "model", tokenizer, overwrite=True)
    with pytest.raises(UserError, match="trained on other weights"):
        run.fitted()


def test_a_split_without_real_labels_is_predicted_and_not_scored(model, tmp_path):
    task = make_task()
    hidden = type(task.test)(task.test.texts, None, None, "all 60 labels are 0: placeholders")
    task = replace(task, splits={**task.splits, "test": hidden})
    run = train_run(task, "majority", tmp_path / "run")
    assert run.metrics["scores"]["test"] == {"rows": 60, "refused": "all 60 labels are 0: placeholders"}
    assert len((tmp_path / "run" / "test.csv").read_text().splitlines()) == 61


def test_three_classes_with_weights_and_each_precision(model, tmp_path):
    task = make_task(labels=3)
    for precision in ("float32", "bfloat16"):
        settings = quick(learning_rate=1e-2, precision=precision, class_weights=True, keep="best")
        run = train_run(task, "finetune", tmp_path / precision, model=model, settings=settings)
        assert run.metrics["scores"]["test"]["accuracy"] > 0.6
        assert set(run.metrics["scores"]["test"]["f1"]) == {"no", "yes", "so"}


def test_small_models_get_larger_rates():
    rates = [get_method("finetune").default_rate(width) for width in (128, 256, 384, 768, 1024)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] >= 2e-4
    assert rates[2] == 5e-5


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"epochs": 0}, "epochs: 0"),
        ({"epochs": -1}, "epochs: -1"),
        ({"batch_size": 0}, "batch_size: 0"),
        ({"learning_rate": 0.0}, "learning_rate: 0.0"),
        ({"learning_rate": -1e-4}, "learning_rate"),
        ({"learning_rate": (1e-4, 1e-4)}, "none twice"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"dropout": 1.0}, "dropout"),
        ({"weight_decay": -0.1}, "weight_decay"),
        ({"warmup": 1.0}, "warmup"),
        ({"clip": -1.0}, "clip"),
        ({"patience": -1}, "patience"),
        ({"seed": -1}, "seed"),
        ({"threads": 0}, "threads"),
        ({"max_length": 0}, "max_length"),
        ({"pooling": "max"}, "pooling: 'max' is not known; known are pooler, cls, mean"),
        ({"head": "crf"}, "head"),
        ({"schedule": "cosine"}, "schedule"),
        ({"precision": "int8"}, "precision"),
    ],
)
def test_wrong_settings_are_refused_when_made(settings, says):
    with pytest.raises(UserError, match=says):
        TrainingSettings(**settings)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": "magic"}, "method 'magic' is not known; known are random, majority"),
        ({"model": "tiny", "method": "finetune"}, "shape with fresh weights"),
        ({"model": "nosuch"}, "no model 'nosuch'"),
        ({"settings": quick(max_length=65)}, "max_length 65 is more than the model's 64 positions"),
        ({"settings": quick(max_length=1)}, "no room"),
    ],
)
def test_a_wrong_run_is_refused_before_anything_is_written(task, model, tmp_path, change, says):
    arguments = {"method": "finetune", "model": model, "settings": QUICK, **change}
    with pytest.raises(UserError, match=says):
        train_run(task, arguments.pop("method"), tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


def test_a_model_that_diverges_is_never_chosen(task, model, tmp_path, monkeypatch):
    step = NetworkLearner.step

    def spoilt(self, rows, rate, of=0):
        loss = step(self, rows, rate, of)
        if self.candidates[0].rate == 1e-2:
            with torch.no_grad():
                self.network.head(task.name).output.weight.fill_(float("nan"))
            return float("nan")
        return loss

    monkeypatch.setattr(NetworkLearner, "step", spoilt)
    run = train_run(task, "finetune", tmp_path / "run", model=model, settings=QUICK)
    assert run.metrics["best"]["learning_rate"] == 3e-3
    with pytest.raises(UserError, match="diverged at learning rate 0.01"):
        train_run(task, "finetune", tmp_path / "all", model=model, settings=quick(learning_rate=1e-2))


def test_a_changed_model_file_is_noticed(task, tmp_path):
    run = train_run(task, "majority", tmp_path / "run")
    path = tmp_path / "run" / "model" / "majority.json"
    path.write_text(path.read_text().replace("0.5", "0.6").replace("0.4", "0.7"))
    with pytest.raises(UserError, match="majority.json: changed"):
        run.fitted()
    (tmp_path / "run" / "manifest.json").write_text("[]")
    with pytest.raises(UserError, match="manifest.json: damaged"):
        load_run(tmp_path / "run")


def test_random_has_a_probability_for_each_of_many_labels():
    from pocketbert.methods.random import Coin

    assert Coin(50, 0).probabilities(["a", "b"]).shape == (2, 50)


def test_attention_dropout_is_the_models_own_unless_one_is_given(task, tokenizer, config, tmp_path):
    from pocketbert.checkpoints import save_model
    from pocketbert.encoder import Encoder

    save_model(Encoder(replace(config, attention_dropout=0.0, dropout=0.3)), tmp_path / "m", tokenizer)
    for given, expected in ((None, (0.0, 0.3)), (0.2, (0.2, 0.2))):
        job = plan_run(task, "finetune", model=str(tmp_path / "m"), settings=quick(dropout=given)).job
        network = make_network(get_method("finetune"), job.prepared[0], job.settings, {"toy": 2})
        assert (network.encoder.layers[0].attention.dropout.p, network.encoder.layers[0].dropout.p) == expected


def test_a_model_without_a_pooler_never_goes_through_a_random_matrix(task, tokenizer, config, tmp_path):
    from safetensors.torch import load_file, save_file

    from pocketbert.checkpoints import save_model
    from pocketbert.encoder import Encoder

    save_model(Encoder(config), tmp_path / "m", tokenizer)
    path = tmp_path / "m" / "model.safetensors"
    save_file({k: v for k, v in load_file(path).items() if "pooler" not in k}, path)
    plan = plan_run(task, "frozen", model=str(tmp_path / "m"), settings=QUICK)
    assert plan.job.settings.pooling == "mean"
    with pytest.raises(UserError, match="has no pooler"):
        plan_run(task, "frozen", model=str(tmp_path / "m"), settings=quick(pooling="pooler"))


def test_two_processes_cannot_write_one_run(task, tmp_path):
    from pocketbert.locks import lock

    with lock(tmp_path / "run"), pytest.raises(UserError, match="another process is writing here"):
        train_run(task, "majority", tmp_path / "run")
    run = train_run(task, "majority", tmp_path / "run")
    assert run.metrics["scores"]["test"]["rows"] == 60


def test_a_folder_with_something_else_in_it_is_left_alone(task, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="no run of pocketbert"):
        train_run(task, "majority", tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["thesis.txt"]
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_full_disk_is_said_and_the_run_goes_on_when_there_is_room(model, tmp_path):
    """A limit on the size of files stands in for the disk: the checkpoint cannot be written."""
    from conftest import REPOSITORY

    settings = quick(learning_rate=1e-2)
    program = (
        "import sys, json, resource, signal; sys.path.insert(0, sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "limit = int(sys.argv[3]); resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "from training.conftest import make_task\n"
        "from pocketbert.errors import UserError\n"
        "from pocketbert.train import train_run\n"
        "about = json.loads(sys.argv[2])\n"
        "made = about['settings']\n"
        "try: train_run(make_task(), 'finetune', about['folder'], model=about['model'], settings=made)\n"
        "except UserError as error: print(error, file=sys.stderr); sys.exit(2)\n"
    )
    about = json.dumps({"folder": str(tmp_path / "run"), "model": model, "settings": settings})

    def run(limit):
        command = [sys.executable, "-c", program, str(REPOSITORY / "tests"), about, str(limit)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ})

    full = run(20_000)
    assert full.returncode == 2, full.stderr
    assert "cannot write" in full.stderr
    assert not [path.name for path in (tmp_path / "run").rglob("*.part")]
    assert not (tmp_path / "run" / "manifest.json").exists()
    assert run(10**9).returncode == 0
    assert load_run(tmp_path / "run").metrics["scores"]["test"]["rows"] == 60


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process count its peak anew")
def test_a_run_does_not_inherit_the_peak_memory_of_what_came_before():
    from pocketbert.training.machine import forget_peak_memory, peak_memory

    large = np.ones(400_000_000, dtype=np.uint8)
    before = peak_memory()
    assert before > 400_000_000
    del large
    forget_peak_memory()
    assert peak_memory() < before - 300_000_000


KEEPS = r"""
import torch
from pocketbert.training.machine import computing, give_back_memory, keep_freed_memory, kernel_says

def held():
    return kernel_says("RssAnon") // 2**20

keep_freed_memory()
with computing(1):
    before = held()
    blocks = [torch.ones(1_000_000 + 1_000 * i) for i in range(50)]
    after_them = torch.ones(10_000)
    full = held()
    del blocks
    kept = held()
    give_back_memory()
    print(full - before, kept - before, held() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not asked to keep anything")
def test_freed_memory_is_kept_for_the_next_step_until_it_is_given_back():
    done = subprocess.run([sys.executable, "-c", KEEPS], capture_output=True, text=True, check=True)
    full, kept, given_back = map(int, done.stdout.split())  # megabytes
    assert full > 150
    assert kept > 150
    assert given_back < 50


@pytest.mark.parametrize(
    ("rows", "classes", "expected"),
    [(200, 2, (10, 8)), (1_000, 2, (10, 16)), (5_452, 6, (10, 32)), (2_400, 2, (3, 32)), (67_349, 2, (3, 32))],
)
def test_few_rows_are_read_more_often_in_smaller_batches(rows, classes, expected):
    from pocketbert.loading import load_model

    method = get_method("finetune")
    settings = method.resolve(method.read({}), load_model("pocket-tiny"), DataSize(rows, classes))
    assert (settings.epochs, settings.batch_size) == expected
    told = method.resolve(
        method.read({"epochs": 2, "batch_size": 4}), load_model("pocket-tiny"), DataSize(rows, classes)
    )
    assert (told.epochs, told.batch_size) == (2, 4)
