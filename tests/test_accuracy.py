"""What real data must give, by the default settings: minutes each, so behind `make test-slow`."""

from statistics import mean

import pytest

from pocketbert.errors import UserError
from pocketbert.evaluate import evaluate_run
from pocketbert.runs import train_run
from pocketbert.tasks import load_task
from pocketbert.training.settings import Settings

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _data(data, monkeypatch):
    monkeypatch.setenv("POCKETBERT_DATA", str(data))


def accuracy(name: str, method: str, folder, *, seeds: int = 3, split: str = "test", **settings) -> float:
    """Mean accuracy over seeds, in percent."""
    model = settings.pop("model", None)
    task = load_task(name)
    runs = [
        train_run(task, method, folder / f"{method}-{seed}", model=model, settings=Settings(seed=seed, **settings))
        for seed in range(seeds)
    ]
    return 100 * mean(run.metrics["scores"][split]["accuracy"] for run in runs)


def test_tfidf_reaches_80_on_sst2(tmp_path):
    assert accuracy("sst2", "tfidf", tmp_path, seeds=1) >= 80.5


def test_a_tiny_bert_from_scratch_reaches_80_on_sst2(tmp_path):
    assert accuracy("sst2", "scratch", tmp_path, model="tiny") >= 80


def test_minilm_fine_tuned_reaches_88_on_sst2(tmp_path):
    assert accuracy("sst2", "finetune", tmp_path, model="minilm-l6") >= 88


def test_minilm_fine_tuned_reaches_47_on_sst5(tmp_path):
    assert accuracy("sst5", "finetune", tmp_path, model="minilm-l6", seeds=1) >= 47


def test_minilm_fine_tuned_reaches_91_on_cfimdb_dev_and_its_test_is_refused(tmp_path):
    settings = {"max_length": 512, "batch_size": 8, "epochs": 3}
    assert accuracy("cfimdb", "finetune", tmp_path, model="minilm-l6", seeds=1, split="dev", **settings) >= 91
    from pocketbert.runs import load_run

    with pytest.raises(UserError, match="placeholders"):
        evaluate_run(load_run(tmp_path / "finetune-0"), "cfimdb:test")
