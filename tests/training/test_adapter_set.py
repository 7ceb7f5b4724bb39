"""Many tasks' adapters over one encoder in memory: equal to each alone, switched at once, removed without a trace."""

import time

import numpy as np
import pytest

from pocketbert.adapter_set import AdapterSet
from pocketbert.checkpoints import save_model
from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.start import weights_fingerprint
from pocketbert.train import train_run

from .conftest import make_task
from .test_methods import told


@pytest.fixture(scope="module")
def runs(model, beside, tmp_path_factory):
    """One run of each method that leaves its encoder as it was."""
    folder, task = tmp_path_factory.mktemp("runs"), make_task()
    names = ("frozen", "lora", "houlsby", "pfeiffer", "fusion")
    made = {
        name: train_run(
            task, name, folder / name, model=model, settings=told(name, epochs=2, dropout=0.2), **beside(name, model)
        )
        for name in names
    }
    seeds = {
        f"seed {seed}": train_run(
            task, "pfeiffer", folder / str(seed), model=model, settings=told("pfeiffer", epochs=1, seed=seed)
        )
        for seed in range(1, 3)
    }
    return {**made, **seeds}


def test_each_predicts_as_it_does_alone_in_any_order(runs, task):
    adapters = AdapterSet(runs)
    assert adapters.names == list(runs)
    alone = {name: run.fitted().probabilities(task.test.texts) for name, run in runs.items()}
    for name in [*runs, *reversed(runs), "lora", "fusion", "lora"]:
        assert np.array_equal(adapters.predict_proba(name, task.test.texts), alone[name]), name
        assert adapters.active == name
        assert adapters.labels(name) == ("no", "yes")


def test_the_encoder_is_there_once_and_an_adapter_is_small(runs):
    adapters = AdapterSet({name: runs[name] for name in ("pfeiffer", "seed 1", "seed 2")})
    networks = [member.fitted.network for member in adapters._members.values()]
    assert len({id(network.encoder) for network in networks}) == 1
    parameters = {
        id(p): p for network in networks for p in (*network.encoder.parameters(), *network.heads.parameters())
    }
    for member in adapters._members.values():
        parameters.update({id(p): p for module in member.modules.values() for p in module.parameters()})
    one = runs["pfeiffer"].metrics["cost"]["model_bytes"]
    added = 3 * 4 * runs["pfeiffer"].metrics["cost"]["trained_parameters"]
    assert sum(p.nbytes for p in parameters.values()) <= one + added


def test_switching_takes_less_than_a_millisecond(runs):
    adapters = AdapterSet({name: runs[name] for name in ("pfeiffer", "seed 1")})
    taken = []
    for number in range(200):
        began = time.perf_counter()
        adapters.use(("pfeiffer", "seed 1")[number % 2])
        taken.append(time.perf_counter() - began)
    assert np.median(taken) < 1e-3


def test_adding_and_removing_leave_the_others_as_they_were(runs, task):
    adapters = AdapterSet({"a": runs["pfeiffer"]})
    before = adapters.predict_proba("a", task.test.texts)
    adapters.add("b", runs["houlsby"].folder)
    assert adapters.active == "a"
    assert np.array_equal(adapters.predict_proba("a", task.test.texts), before)
    adapters.use("b")
    adapters.remove("b")
    assert (adapters.active, adapters.names) == (None, ["a"])
    assert not adapters._shared.encoder.added()
    assert weights_fingerprint(adapters._shared.encoder) == runs["pfeiffer"].metadata["weights"]
    assert np.array_equal(adapters.predict_proba("a", task.test.texts), before)


def test_what_cannot_share_the_encoder_is_refused_and_changes_nothing(runs, model, task, tokenizer, config, tmp_path):
    adapters = AdapterSet({})
    with pytest.raises(UserError, match="no adapter 'a' is loaded; there are: none"):
        adapters.use("a")
    tuned = train_run(task, "finetune", tmp_path / "tuned", model=model, settings=told("finetune", epochs=1))
    with pytest.raises(UserError, match="adapter 't': .*method 'finetune' changed its encoder"):
        adapters.add("t", tuned)
    with pytest.raises(UserError, match="adapter 'm': .*no such run"):
        adapters.add("m", tmp_path / "missing")
    adapters.add("a", runs["pfeiffer"])
    with pytest.raises(UserError, match="'a' is loaded already"):
        adapters.add("a", runs["lora"])
    save_model(Encoder(config, seed=8), tmp_path / "model", tokenizer)
    other = train_run(
        task, "pfeiffer", tmp_path / "other", model=str(tmp_path / "model"), settings=told("pfeiffer", epochs=1)
    )
    with pytest.raises(UserError, match="adapter 'o': .*was trained on other weights .*fingerprint"):
        adapters.add("o", other)
    with pytest.raises(UserError, match="no adapter 'o' is loaded; there are: a"):
        adapters.predict_proba("o", ["text"])
    assert adapters.names == ["a"]
