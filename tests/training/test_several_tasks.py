"""Several tasks on one encoder, at once or one after the other: sampling, replay, rates by layer, what is forgotten."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from pocketbert.errors import UserError
from pocketbert.methods import get_method
from pocketbert.runs import load_run
from pocketbert.start import weights_fingerprint
from pocketbert.tasks import Split, Task, load_task
from pocketbert.train import plan_run, train_run
from pocketbert.training.fit import make_network, read_task
from pocketbert.training.learners import NetworkLearner, batches_per_task, layer_scales
from pocketbert.training.optimizer import FlatAdamW
from pocketbert.training.sequence import forgetting

from .conftest import make_split, make_task, with_other
from .test_methods import quick

QUICK = quick(learning_rate=5e-3, epochs=4)


def three_tasks() -> Task:
    """A task with two others, whose labels are called otherwise."""
    task = with_other(make_task(), "multitask")
    splits = {part: make_split(rows, 70 + rows) for part, rows in (("train", 64), ("dev", 24), ("test", 40))}
    return replace(task, others=(*task.others, Task("third", ("dull", "bright"), splits, pair=False)))


@pytest.mark.parametrize(
    ("batches", "sampling", "expected"),
    [
        ((100, 25), "proportional", [100, 25]),
        ((100, 25), "square-root", [83, 42]),  # 10 : 5 of 125
        ((9,), "square-root", [9]),
        ((10_000, 1), "square-root", [9_902, 99]),
    ],
)
def test_by_the_square_root_small_tasks_are_trained_on_more(batches, sampling, expected):
    assert batches_per_task(batches, sampling) == expected


@pytest.mark.parametrize("sampling", ["proportional", "square-root"])
def test_an_epoch_has_so_many_batches_of_each_task(sampling, model):
    task = three_tasks()
    job = plan_run(task, "multitask", model=model, settings=quick(learning_rate=1e-3, sampling=sampling)).job
    encoder, tokenizer = job.prepared
    method = get_method("multitask")
    texts = [read_task(one, tokenizer, 32) for one in job.tasks]
    network = make_network(method, encoder, job.settings, {one.name: len(one.labels) for one in job.tasks})
    learner = NetworkLearner(network, method.trains, texts, job.settings, 1e-3)
    batches = learner.batches(0)
    assert [sum(place == one for one, _ in batches) for place in range(3)] == learner.counts
    assert learner.steps == len(batches) == 20  # 160, 96 and 64 rows, 16 at a time
    if sampling == "proportional":
        assert sorted(np.concatenate([rows for place, rows in batches if place == 0])) == list(range(160))


def test_multitask_is_chosen_on_its_own_dev_and_keeps_its_own_head(model, tmp_path):
    task = three_tasks()
    run = train_run(task, "multitask", tmp_path / "run", model=model, settings={**QUICK, "keep": "best"})
    assert set(load_run(run.folder).fitted().network.heads) == {"toy"}
    (matrix,) = run.metrics["matrices"]
    assert matrix["columns"] == ["toy", "other", "third"]
    own = [line[0] for line in matrix["values"]]
    assert run.metrics["best"]["dev_accuracy"] == max(own)
    assert run.metrics["best"]["epoch"] == own.index(max(own)) + 1
    written = json.loads((run.folder / "settings.json").read_text())
    assert list(written["others"]) == ["other", "third"]
    assert run.seen(task.others[0].train).all(), "what the others learnt from, the run has learnt from"
    mean = train_run(
        task, "multitask", tmp_path / "mean", model=model, settings={**QUICK, "keep": "best", "selection": "mean"}
    )
    values = mean.metrics["matrices"][0]["values"]
    assert mean.metrics["best"]["dev_accuracy"] == pytest.approx(max(np.mean(line) for line in values))


@pytest.fixture(scope="module")
def sequences(model, tmp_path_factory):
    """The same three tasks in order: plain, with replay, with an adapter each."""
    folder = tmp_path_factory.mktemp("sequences")
    remedies = {"plain": {}, "replay": {"replay": 0.5}, "adapters": {"updates": "adapters"}}
    return {
        name: train_run(three_tasks(), "sequential", folder / name, model=model, settings={**QUICK, **told})
        for name, told in remedies.items()
    }


def test_after_each_task_all_that_were_learnt_are_scored(sequences):
    accuracies, told = sequences["plain"].metrics["matrices"]
    assert accuracies["columns"] == ["other", "third", "toy"], "the run's own task is the last"
    assert accuracies["rows"] == ["after other", "after third", "after toy", "alone"]
    values = accuracies["values"]
    assert [[value is None for value in line] for line in values[:3]] == [
        [False, True, True],
        [False, False, True],
        [False, False, False],
    ]
    test = sequences["plain"].metrics["scores"]["test"]["accuracy"]
    assert values[2][2] == pytest.approx(test)
    assert told["rows"] == ["forgetting", "forward transfer"]
    lost, gained = told["values"]
    assert lost[0] == pytest.approx(max(values[0][0], values[1][0]) - values[2][0])
    assert lost[3] == pytest.approx((lost[0] + lost[1]) / 2)
    assert gained[2] == pytest.approx(values[2][2] - values[3][2])
    assert gained[0] is None


def test_an_adapter_per_task_forgets_nothing_and_leaves_the_encoder_as_it_was(sequences, model):
    run = sequences["adapters"]
    assert run.metrics["matrices"][1]["values"][0][:2] == [0, 0]
    assert run.metadata["weights"] == weights_fingerprint(run.fitted().network.encoder)
    np.testing.assert_allclose(
        run.fitted().probabilities(make_task().test.texts), run.predictions("test")[0], atol=1e-6
    )
    assert [path.name for path in run.folder.glob("checkpoint*")] == []


def test_replay_trains_on_earlier_rows_again(sequences):
    plain, replayed = (sequences[name].metrics["matrices"][0]["values"] for name in ("plain", "replay"))
    assert plain[0] == replayed[0], "nothing to replay yet"
    assert plain[1:3] != replayed[1:3]


def test_forgetting_is_since_a_task_was_best():
    assert forgetting([(0.8, None), (0.9, None), (0.6, 0.7)][1:]) == pytest.approx([0.3, None], nan_ok=True)
    assert forgetting([(0.8, None, None), (0.9, 0.5, None), (0.6, 0.7, 0.4)]) == [
        pytest.approx(0.3),
        pytest.approx(-0.2),
        None,
    ]


def test_lower_layers_have_smaller_rates(model):
    job = plan_run(three_tasks(), "sequential", model=model, settings=quick(layer_decay=0.5)).job
    encoder, _ = job.prepared
    network = make_network(get_method("sequential"), encoder, job.settings, {"toy": 2})
    scales = layer_scales(network, 0.5)
    assert scales["encoder.embeddings.word.weight"] == 0.125
    assert scales["encoder.layers.0.inner.weight"] == 0.25
    assert scales["encoder.layers.1.inner.bias"] == 0.5
    assert not any(name.startswith(("heads", "encoder.pooler")) for name in scales)
    assert layer_scales(network, 1.0) == {}


def test_a_scaled_rate_is_that_rate():
    torch.manual_seed(0)
    first, second, gradient = torch.randn(3, 2), torch.randn(4), torch.randn(3, 2)
    made = []
    for scales, rate in (({"a": 0.25}, 1e-2), (None, 2.5e-3)):
        a, b = torch.nn.Parameter(first.clone()), torch.nn.Parameter(second.clone())
        optimizer = FlatAdamW([("a", a), ("b", b)], weight_decay=0.1, clip=0, scales=scales, only_decays="a")
        for _ in range(3):
            a.grad.copy_(gradient)
            optimizer.step(rate)
        made.append((a.detach(), optimizer.decay))
    torch.testing.assert_close(made[0][0], made[1][0])
    assert made[0][1] == pytest.approx(made[1][1])


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["multitask", "sequential"])
def test_training_text_of_anothers_test_split_is_refused(name, model, tmp_path):
    task = three_tasks()
    (other, third), train = task.others, task.train
    leaky = replace(third, splits={**third.splits, "test": train.take(range(5))})
    with pytest.raises(UserError, match="training texts of toy are in third:test: its score would be too good"):
        train_run(replace(task, others=(other, leaky)), name, tmp_path / "run", model=model, settings=QUICK)
    taught = replace(other, splits={**other.splits, "train": _with(other.train, task.test.texts[0])})
    with pytest.raises(UserError, match="1 training texts of other are in toy:test"):
        train_run(replace(task, others=(taught,)), name, tmp_path / "run", model=model, settings=QUICK)
    assert not (tmp_path / "run").exists()
    allowed = plan_run(replace(task, others=(taught,)), name, model=model, settings=QUICK, allow_overlap=True)
    assert len(allowed.job.tasks) == 2


def _with(split: Split, text: str) -> Split:
    return Split([*split.texts[1:], text], None, split.labels)


def test_other_tasks_that_cannot_be_learnt_are_refused(model, tmp_path):
    task = three_tasks()

    def train(task, name, **told):
        train_run(task, name, tmp_path / "run", model=model, settings={**QUICK, **told})

    with pytest.raises(UserError, match="method 'finetune' learns one task; leave the others out"):
        train(task, "finetune")
    with pytest.raises(UserError, match="sequential learns several tasks, and no other is named: --tasks"):
        train(make_task(), "sequential")
    with pytest.raises(UserError, match="task other is named twice"):
        train(replace(task, others=(*task.others, task.others[0])), "multitask")
    with pytest.raises(UserError, match="an adapter per task forgets nothing; leave replay and layer_decay out"):
        train(task, "sequential", updates="adapters", replay=0.1)
    assert not (tmp_path / "run").exists()


def test_a_built_in_task_can_be_taken_with_fewer_training_rows():
    whole, few = load_task("movies"), load_task("movies@100")
    assert few.name == "movies@100"
    assert len(few.train) == 100
    assert set(few.train.texts) <= set(whole.train.texts)
    assert few.test.texts == whole.test.texts
    assert load_task("movies@100").train.texts == few.train.texts
    assert f"100 of the {len(whole.train):,} training rows" in few.notes[-1]
    with pytest.raises(UserError, match="movies@x: no such file"):
        load_task("movies@x")
