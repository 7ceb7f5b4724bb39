"""Several tasks and heads on one encoder; several threads on one fitted model; settings of the process left alone."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from pocketbert.encoder import Encoder
from pocketbert.errors import UserError
from pocketbert.heads import make_head
from pocketbert.methods import get_method
from pocketbert.methods.finetune import FinetuneSettings
from pocketbert.methods.frozen import FrozenSettings
from pocketbert.train import plan_run, train_run
from pocketbert.training.fit import fit_network, learns_from_features
from pocketbert.training.job import JobTask
from pocketbert.training.learners import NetworkLearner, TaskTexts, fresh_head
from pocketbert.training.loop import train
from pocketbert.training.machine import computing, flushes_denormals
from pocketbert.training.network import Network

from .conftest import make_task
from .test_methods import quick

SETTINGS = FinetuneSettings(
    learning_rate=5e-3, epochs=10, batch_size=16, pooling="pooler", dropout=0.0, precision="float32"
)


@pytest.fixture(scope="module")
def two(tokenizer):
    """The toy task, and one of three labels on other texts."""
    tasks = {"two classes": make_task(), "three.classes": make_task(labels=3, train=96)}
    return [
        TaskTexts(name, len(task.labels), tokenizer(task.train.texts), task.train.labels,
                  tokenizer(task.dev.texts), task.dev.labels)
        for name, task in tasks.items()
    ]  # fmt: skip


def network(config, tasks):
    heads = {task.name: fresh_head(SETTINGS, config.width, task.labels, number) for number, task in enumerate(tasks)}
    return Network(Encoder(config, seed=3), heads, "pooler")


def test_two_heads_learn_two_tasks_at_once_and_the_mean_of_their_scores_chooses(two, config):
    made = []

    def start():
        made.append(NetworkLearner(network(config, two), lambda part: part.read, two, SETTINGS, 5e-3))
        return made[-1]

    outcome = train([start], epochs=10)
    last = outcome.history[-1]
    each = [last.scores[f"dev_accuracy {task.name}"] for task in two]
    shares = [np.bincount(task.dev_targets).max() / len(task.dev_targets) for task in two]
    assert all(score > share + 0.2 for score, share in zip(each, shares, strict=True)), "both are learnt"
    assert last.scores["dev_accuracy"] == pytest.approx(np.mean(each))
    assert outcome.best[0].score == max(record.scores["dev_accuracy"] for record in outcome.history)
    assert {name.split(".")[1] for name in outcome.weights[0] if name.startswith("heads.")} == {
        "two_classes",
        "three_classes",
    }
    assert made[0].examples == sum(len(task.train) for task in two)
    epoch = made[0].batches(0)
    assert sum(len(rows) for _, rows in epoch) == made[0].examples
    assert 0 < sum(place for place, _ in epoch[: len(epoch) // 2]) < len(epoch) // 2, "the tasks are mixed"


def test_a_job_of_several_tasks_gives_something_that_predicts_the_first(task, model):
    other = make_task(labels=3, train=96)
    job = plan_run(task, "finetune", model=model, settings=quick(learning_rate=1e-2, epochs=3)).job
    both = (job.task, JobTask("other", other.labels, other.train, other.dev))
    trained = fit_network(get_method("finetune"), replace(job, tasks=both), (0,))[0]
    assert trained.fitted.probabilities(task.test.texts).shape == (60, 2)
    assert trained.best["dev_accuracy"] > 0.6


def test_two_tasks_of_one_name_are_refused(config):
    heads = {"a.b": make_head("linear", config.width, 2), "a b": make_head("linear", config.width, 2)}
    with pytest.raises(UserError, match="nearly the same name"):
        Network(Encoder(config, seed=3), heads, "pooler")


def test_an_encoder_with_something_added_never_takes_the_plain_ones_vectors(config):
    settings = FrozenSettings(learning_rate=1e-2, epochs=1, pooling="pooler")
    plain = Network(Encoder(config, seed=3), {"toy": make_head("linear", config.width, 2)}, "pooler")
    assert learns_from_features(get_method("frozen"), plain, settings)
    plain.encoder.layers[0].attention.projection = torch.nn.Linear(1, 1)
    assert not learns_from_features(get_method("frozen"), plain, settings)


@pytest.mark.parametrize("method", ["finetune", "frozen", "tfidf"])
def test_eight_threads_on_one_fitted_model_get_what_one_gets(method, task, model, tmp_path):
    settings = quick(learning_rate=1e-2, epochs=2) if method != "tfidf" else {}
    run = train_run(task, method, tmp_path / "run", model=model if settings else None, settings=settings)
    fitted = run.fitted()
    parts = [task.test.texts[i::8] * 5 for i in range(8)]
    with computing(1):
        alone = [fitted.probabilities(texts) for texts in parts]
    together: list = [None] * 8
    failed: list[BaseException] = []

    def predict(place):
        try:
            for _ in range(5):
                with computing(1):
                    together[place] = fitted.probabilities(parts[place])
        except BaseException as error:
            failed.append(error)

    before = torch.get_num_threads()
    threads = [threading.Thread(target=predict, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for one, many in zip(alone, together, strict=True):
        assert one.tobytes() == many.tobytes()
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("flushed", [False, True])
def test_small_numbers_and_threads_are_as_they_were_after_a_fit(flushed, task, model, tmp_path):
    torch.set_flush_denormal(flushed)
    before = torch.get_num_threads()
    try:
        train_run(task, "finetune", tmp_path / "run", model=model, settings=quick(learning_rate=1e-2, epochs=1))
        assert flushes_denormals() is flushed
        assert torch.get_num_threads() == before
        with computing(2):
            assert flushes_denormals()
            with computing(1):
                assert flushes_denormals()
            assert flushes_denormals(), "the inner block leaves the outer one's setting"
            assert torch.get_num_threads() == 2
        assert flushes_denormals() is flushed
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("name", ["train", "eval", "keys", "forward"])
def test_a_task_may_be_called_as_a_method_of_modules_is(name, model):
    from pocketbert.heads import make_head
    from pocketbert.loading import load_encoder
    from pocketbert.training.network import Network

    encoder = load_encoder(model, quiet=True)
    network = Network(encoder, {name: make_head("linear", encoder.config.width, 2, seed=0)}, "mean")
    assert network.head(name) is next(iter(network.heads.values()))
