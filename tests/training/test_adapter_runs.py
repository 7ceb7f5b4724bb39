"""Runs of adapters, LoRA and AdapterFusion: what is saved, what stays as it was, what is exported, what is refused."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from pocketbert.checkpoints import save_model
from pocketbert.cli import main
from pocketbert.config import Config
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.export import export_run
from pocketbert.methods import get_method
from pocketbert.runs import load_run, load_start, with_adapters
from pocketbert.start import weights_fingerprint
from pocketbert.tasks import Task
from pocketbert.train import plan_run, train_run
from pocketbert.training.fit import make_network, read_task
from pocketbert.training.learners import NetworkLearner
from pocketbert.training.lower import LowerStates

from .conftest import make_split, make_task
from .test_methods import quick

QUICK = quick(learning_rate=1e-2, epochs=3)


def hashed(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in Path(folder).iterdir()}


@pytest.fixture(scope="module")
def runs(task, model, tmp_path_factory):
    """An adapter on the toy task, and one on another of three labels."""
    folder = tmp_path_factory.mktemp("runs")
    other = Task(
        "other",
        ("no", "yes", "so"),
        {k: make_split(96, 9 + i, labels=3) for i, k in enumerate(("train", "dev"))},
        False,
    )
    return {
        "toy": train_run(task, "pfeiffer", folder / "toy", model=model, settings=QUICK),
        "other": train_run(other, "pfeiffer", folder / "other", model=model, settings=QUICK),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pfeiffer", {"reduction": 4}),
        ("houlsby", {"reduction": 6, "adapter_layers": "top:1"}),
        ("lora", {"rank": 2}),
        ("fusion", {}),
    ],
)
def test_only_adapters_and_head_are_saved_and_the_model_is_untouched(name, told, task, model, runs, tmp_path):
    before, fingerprint = hashed(model), weights_fingerprint(load_start(model).encoder())
    given = {"adapters": runs} if name == "fusion" else {}
    run = train_run(task, name, tmp_path / "run", model=model, settings={**QUICK, **told}, **given)
    assert [path.name for path in (run.folder / "model").iterdir()] == ["trained.safetensors"]
    saved = load_file(run.folder / "model" / "trained.safetensors")
    head, width, layers = 2 * 24 + 2, 24, 2
    by_hand = {
        "pfeiffer": layers * (2 * width * 6 + 6 + width),
        "houlsby": 1 * 2 * (2 * width * 4 + 4 + width),
        "lora": layers * 4 * 2 * width,
        "fusion": layers * (3 * width**2 + 2 * width),
    }[name]
    assert sum(tensor.numel() for tensor in saved.values()) == by_hand + head
    assert run.metrics["cost"]["trained_parameters"] == by_hand + head
    assert hashed(model) == before
    fitted = run.fitted()
    assert weights_fingerprint(fitted.network.encoder) == fingerprint
    np.testing.assert_allclose(fitted.probabilities(task.test.texts), run.predictions("test")[0], atol=1e-6)


@pytest.mark.parametrize("head", ["linear", "bilstm"])
@pytest.mark.parametrize("pooling", ["pooler", "mean"])
@pytest.mark.parametrize("name", ["pfeiffer", "lora"])
def test_cached_lower_layers_give_what_all_layers_give(name, pooling, head, model):
    task = make_task(pairs=True)
    method, found = get_method(name), {}
    for cached in (True, False):
        told = quick(learning_rate=1e-2, epochs=2, dropout=0.2, precision="float64", adapter_layers="top:1",
                     pooling=pooling, head=head, cache_features=cached)  # fmt: skip
        job = plan_run(task, name, model=model, settings=told).job
        encoder, tokenizer = job.prepared
        network = make_network(method, encoder, job.settings, {task.name: 2})
        learner = NetworkLearner(network, method.trains, [read_task(job.task, tokenizer, 32)], job.settings, 1e-2)
        assert isinstance(learner.tasks[0].train, LowerStates) is cached
        losses = [learner.epoch(number, lambda done: None)[0] for number in range(2)]
        found[cached] = (losses, learner.dev_logits(), learner.snapshot(0))
    assert found[True][0] == pytest.approx(found[False][0], abs=1e-12)
    np.testing.assert_allclose(found[True][1], found[False][1], atol=1e-10)
    for key, tensor in found[True][2].items():
        torch.testing.assert_close(tensor, found[False][2][key], rtol=0, atol=1e-10)


def test_states_that_would_take_too_much_memory_are_not_kept(task, model, monkeypatch, tmp_path):
    from pocketbert.training import lower

    told = {**QUICK, "adapter_layers": "top:1"}
    kept = train_run(task, "pfeiffer", tmp_path / "kept", model=model, settings=told)
    monkeypatch.setattr(lower, "MOST_BYTES", 10)
    not_kept = train_run(task, "pfeiffer", tmp_path / "not", model=model, settings=told)
    np.testing.assert_allclose(kept.predictions("test")[0], not_kept.predictions("test")[0], atol=1e-4)


def test_lora_is_merged_for_transformers_and_for_what_starts_from_it(task, model, tmp_path):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    run = train_run(task, "lora", tmp_path / "run", model=model, settings={**QUICK, "pooling": "pooler"})
    exported = export_run(run, tmp_path / "exported")
    assert exported.opens_with == "BertForSequenceClassification"
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported")
    batch = AutoTokenizer.from_pretrained(tmp_path / "exported")(task.test.texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        probabilities = theirs(**batch).logits.softmax(-1).numpy()
    np.testing.assert_allclose(probabilities, run.fitted().probabilities(task.test.texts), atol=1e-5)
    start = run.start()
    assert not start.encoder().added()
    assert weights_fingerprint(start.encoder()) != weights_fingerprint(load_start(model).encoder())


def test_an_adapter_is_no_start_and_not_for_transformers_but_for_onnx(runs, tmp_path):
    with pytest.raises(UserError, match="added to its encoder what a start cannot hold; start from its model"):
        runs["toy"].start()
    with pytest.raises(UserError, match="adds to the encoder what transformers has not; --format onnx can hold it"):
        export_run(runs["toy"], tmp_path / "exported")
    assert export_run(runs["toy"], tmp_path / "onnx", format="onnx").opens_with == "onnxruntime"


# -- fusion ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fused(task, model, runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fused") / "run"
    return train_run(task, "fusion", folder, model=model, adapters=runs, settings=QUICK)


def test_a_fusion_remembers_its_adapters_and_what_they_learnt_from(task, fused, runs):
    written = json.loads((fused.folder / "settings.json").read_text())
    assert {name: one["run"].rpartition("/")[2] for name, one in written["adapters"].items()} == {
        "toy": "toy",
        "other": "other",
    }
    assert [one["task"] for one in written["ancestry"]] == ["toy", "other"]
    assert set(runs["other"].learnt()) <= set(fused.learnt())


def test_which_adapter_is_listened_to_where_is_a_table_of_shares(fused):
    (matrix,) = fused.metrics["matrices"]
    assert matrix["columns"] == ["toy", "other"]
    assert matrix["rows"] == ["layer 1, after feed forward", "layer 2, after feed forward"]
    np.testing.assert_allclose(np.array(matrix["values"]).sum(axis=1), 1, atol=1e-6)


def test_the_adapters_in_a_fusion_are_the_bytes_they_were(fused, runs):
    network = fused.fitted().network
    for name, run in runs.items():
        for key, tensor in load_file(run.folder / "model" / "trained.safetensors").items():
            if key.startswith("encoder."):
                place, _, rest = key.partition("after_feed_forward.")
                ours = dict(network.named_parameters())[f"{place}after_feed_forward.members.{name}.{rest}"]
                assert torch.equal(ours, tensor)


def test_a_fusion_of_one_adapter_is_that_adapter_before_it_trains(task, model, runs):
    start = with_adapters(load_start(model), {"toy": runs["toy"]})
    encoder, alone = start.encoder().eval(), runs["toy"].fitted().network.encoder
    get_method("fusion").extend(encoder, get_method("fusion").read({"seed": 4}))
    batch = start.require_tokenizer()(task.test.texts).tensors()
    expected = alone(**batch).last_hidden_state
    torch.testing.assert_close(encoder(**batch).last_hidden_state, expected, rtol=0, atol=1e-4)


def test_a_fusion_without_one_of_its_adapters_says_which_is_missing(task, model, runs, tmp_path):
    copied = {name: load_run(shutil.copytree(run.folder, tmp_path / name)) for name, run in runs.items()}
    run = train_run(task, "fusion", tmp_path / "fused", model=model, adapters=copied, settings=QUICK)
    shutil.rmtree(tmp_path / "other")
    with pytest.raises(UserError, match="its adapter 'other' is not as it was when it was fused: .*no such run"):
        run.fitted()
    train_run(task, "pfeiffer", tmp_path / "other", model=model, settings={**QUICK, "seed": 3})
    with pytest.raises(UserError, match="its adapter 'other' is not as it was .*trained anew since"):
        run.fitted()


def test_what_does_not_fit_together_is_refused_before_anything_is_trained(
    task, model, runs, tokenizer, config, tmp_path
):
    save_model(Encoder(config, seed=8), tmp_path / "other-weights", tokenizer)
    wide = Config(**{**vars(config), "width": 48})
    save_model(Encoder(wide, seed=8), tmp_path / "wide", tokenizer)

    def fuse(model, adapters, task=task, method="fusion"):
        return train_run(task, method, tmp_path / "run", model=str(model), adapters=adapters, settings=QUICK)

    with pytest.raises(UserError, match="adapter 'toy': .*was trained on other weights .*fingerprint"):
        fuse(tmp_path / "other-weights", runs)
    with pytest.raises(UserError, match="adapter 'toy': .*was trained on an encoder 24 wide .* is 48 wide"):
        fuse(tmp_path / "wide", runs)
    with pytest.raises(UserError, match="method 'finetune' takes no adapters"):
        fuse(model, runs, method="finetune")
    with pytest.raises(UserError, match="fusion puts adapters together, and none are named. Train one per task"):
        fuse(model, {})
    renamed = Task("toy", ("good", "bad"), task.splits, pair=False)
    with pytest.raises(
        UserError, match="adapter 'toy' learnt toy with the labels no, yes; here the task has good, bad"
    ):
        fuse(model, runs, renamed)
    again = train_run(renamed, "pfeiffer", tmp_path / "renamed", model=model, settings=QUICK)
    with pytest.raises(
        UserError, match="'b'.* learnt toy with the labels good, bad, and 'a' the same task with no, yes"
    ):
        fuse(model, {"a": runs["toy"], "b": again})
    with pytest.raises(UserError, match="adapter 'a b': another one has nearly the same name"):
        fuse(model, {"a.b": runs["toy"], "a b": runs["toy"]})
    houlsby = train_run(task, "houlsby", tmp_path / "houlsby", model=model, settings=QUICK)
    with pytest.raises(UserError, match="'h' is not in the same places of the encoder as 'toy'"):
        fuse(model, {**runs, "h": houlsby})
    frozen = train_run(task, "frozen", tmp_path / "frozen", model=model, settings=QUICK)
    with pytest.raises(UserError, match="adapter 'f': .*method 'frozen' trained no adapter"):
        fuse(model, {"f": frozen})
    assert not (tmp_path / "run").exists()


def test_a_fusion_does_not_score_what_an_adapter_has_learnt_from(task, model, runs, tmp_path):
    leaky = Task("leaky", task.labels, {**task.splits, "test": runs_split(task)}, pair=False)
    with pytest.raises(
        UserError, match="among those that .* has learnt from .toy, other.: the score would be too good"
    ):
        train_run(leaky, "fusion", tmp_path / "run", model=model, adapters=runs, settings=QUICK)


def runs_split(task):
    return task.train.take(range(40))


@pytest.mark.parametrize("given", ["toy", "=x", "toy=", "toy=a,toy=b"])
def test_the_command_refuses_adapters_that_are_no_names_of_runs(given, model, tmp_path, monkeypatch, capsys):
    path = tmp_path / "texts.csv"
    path.write_text("text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(40)))
    flags = [
        "train",
        str(path),
        "--method",
        "fusion",
        "--model",
        model,
        "--out",
        str(tmp_path / "run"),
        "--adapters",
        given,
    ]
    monkeypatch.setattr("sys.argv", ["pocketbert", *flags])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--adapters" in capsys.readouterr().err
