"""What real data must give, by the default settings: one study of about half an hour, so behind `make test-slow`."""

import pytest

from pocketbert.errors import UserError
from pocketbert.evaluate import evaluate_run
from pocketbert.runs import load_run
from pocketbert.study import Row, Study

pytestmark = pytest.mark.slow

LONG = {"max_length": 512, "batch_size": 8, "epochs": 3}
ROWS = [
    Row("cfimdb", "finetune", "minilm-l6", LONG, seeds=1),
    Row("sst5", "finetune", "minilm-l6", seeds=1),
    Row("sst2", "tfidf"),
    Row("sst2", "frozen", "minilm-l6", seeds=3),
    Row("sst2", "scratch", "tiny", seeds=3),
    Row("sst2", "finetune", "minilm-l6", seeds=3),
]


@pytest.fixture(scope="module")
def study(data, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POCKETBERT_DATA", str(data))
        patch.setenv("POCKETBERT_HOME", str(tmp_path_factory.mktemp("home")))
        done = Study(["sst2", "sst5", "cfimdb"], table=ROWS, out=tmp_path_factory.mktemp("accuracy") / "study").run()
    print(done.table())
    return done


def accuracy(study, task: str, name: str) -> float:
    """Mean over seeds, in percent."""
    row = study.results.row(task, name)
    assert row.missing == 0
    return 100 * row.accuracy.mean


def test_tfidf_reaches_80_on_sst2(study):
    assert accuracy(study, "sst2", "tfidf") >= 80.5


def test_a_tiny_bert_from_scratch_reaches_80_on_sst2(study):
    assert accuracy(study, "sst2", "scratch tiny") >= 80


def test_minilm_fine_tuned_reaches_88_on_sst2(study):
    assert accuracy(study, "sst2", "finetune minilm-l6") >= 88


def test_minilm_frozen_reaches_80_on_sst2(study):
    assert accuracy(study, "sst2", "frozen minilm-l6") >= 80


def test_minilm_fine_tuned_reaches_47_on_sst5(study):
    assert accuracy(study, "sst5", "finetune minilm-l6") >= 47


def test_minilm_fine_tuned_reaches_91_on_cfimdb_dev_and_its_test_is_refused(study, data, monkeypatch):
    monkeypatch.setenv("POCKETBERT_DATA", str(data))
    assert accuracy(study, "cfimdb", "finetune minilm-l6") >= 91
    (row,) = study.results.rows_of("cfimdb")
    assert row.split == "dev"
    with pytest.raises(UserError, match="placeholders"):
        evaluate_run(load_run(study.folder / "runs" / row.folders[0]), "cfimdb:test")
