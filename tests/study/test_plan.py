"""What a study will do: which rows, which runs, and what makes a run another run."""

from dataclasses import replace

import pytest
from report.sample import bare, task_summary
from report.sample import row as made_row

from pocketbert.errors import UserError
from pocketbert.loading import load_model
from pocketbert.study import Row, Study, list_presets
from pocketbert.study.plan import make_plan
from pocketbert.study.rows import choose_rows
from pocketbert.study.study import from_config, parse_workers
from pocketbert.tasks import load_task
from pocketbert.tasks.split import sample


def keys(task, *rows):
    return [run.key for run in make_plan(rows, {task.name: task}).runs]


def test_baselines_are_always_there_and_those_without_chance_run_once(task, model):
    study = Study(task, [model], ["finetune"], seeds=4)
    trained = [run.method for run in study.plan().runs]
    assert trained == ["random"] * 4 + ["majority", "tfidf"] + ["finetune"] * 4


def test_a_shape_is_trained_from_scratch_and_what_cannot_be_is_said(task, model):
    rows, said = choose_rows(["toy"], ["tiny", model], ["frozen", "scratch"], 2, {})
    assert [row.name for row in rows if not row.baseline] == ["scratch tiny", "frozen small", "scratch small"]
    assert said == ["frozen tiny is left out: 'tiny' is a shape without weights to start from"]
    rows, said = choose_rows(["toy"], ["tiny", model], None, 2, {})
    assert [row.name for row in rows if not row.baseline] == ["scratch tiny", "frozen small", "finetune small"]
    with pytest.raises(UserError, match="nothing to train"):
        choose_rows(["toy"], ["tiny"], ["frozen"], 2, {})
    with pytest.raises(UserError, match="only baselines"):
        choose_rows(["toy"], ["tiny"], ["tfidf"], 2, {})


def test_every_run_is_fully_resolved_threads_and_precision_too(task, model):
    plan = Study(task, [model], ["finetune", "frozen"], seeds=2).plan()
    for run in plan.runs:
        assert run.settings.threads == 1
        if run.model is not None:
            assert None not in (run.settings.learning_rate, run.settings.epochs, run.settings.precision)
            assert run.settings.pooling is not None


def test_a_changed_setting_text_seed_or_weight_is_another_run(task, model, tmp_path):
    row = Row("toy", "finetune", model, {"epochs": 1}, seeds=1)
    known = keys(task, row)
    assert keys(task, row) == known
    assert keys(task, replace(row, name="called otherwise", theirs="50")) == known
    others = [
        keys(task, replace(row, settings={"epochs": 2})),
        keys(task, replace(row, settings={"epochs": 1, "seed": 1})),
        keys(task, replace(row, settings={"epochs": 1, "threads": 2})),
        keys(sample(task, 50), row),
        keys(task, Row("toy", "scratch", model, {"epochs": 1}, seeds=1)),
    ]
    from pocketbert.checkpoints import save_model

    changed = load_model(model).encoder()
    changed.pooler.bias.data += 1
    save_model(changed, tmp_path / "other", load_model(model).tokenizer)
    others.append(keys(task, replace(row, model=str(tmp_path / "other"))))
    assert len({tuple(one) for one in [known, *others]}) == 1 + len(others)


def test_a_task_and_a_model_of_one_name_are_two_things(task, model, tmp_path):
    """The weights stay in the key, and so do the texts."""
    from pocketbert.checkpoints import save_model

    home = models_home(tmp_path)
    base = load_model(model)
    keyed = []
    for change in (0.0, 1.0):
        encoder = base.encoder()
        encoder.pooler.bias.data += change
        save_model(encoder, home / "toy", base.tokenizer, overwrite=True)
        keyed.append(keys(task, Row("toy", "finetune", "toy", {"epochs": 1}, seeds=1)))
    keyed.append(keys(sample(task, 50), Row("toy", "finetune", "toy", {"epochs": 1}, seeds=1)))
    assert len({tuple(one) for one in keyed}) == 3


def models_home(tmp_path):
    from pocketbert.catalog import imported_folder

    imported_folder().mkdir(parents=True, exist_ok=True)
    return imported_folder()


def test_another_vocabulary_in_the_same_file_is_another_run(task, tmp_path):
    from conftest import VOCABULARY

    path = tmp_path / "vocab.txt"
    row = Row("toy", "scratch", "tiny", {"vocabulary": str(path)}, seeds=1)
    keyed = []
    for more in ([], ["zebra"]):
        path.write_text("\n".join([*VOCABULARY, *more]) + "\n")
        keyed.append(keys(task, row))
    assert keyed[0] != keyed[1]


def test_two_rows_that_are_one_run_are_done_once(task, model):
    rows = [Row("toy", "finetune", model, {"epochs": 1}, name, seeds=1) for name in ("one", "other")]
    plan = make_plan(rows, {"toy": task})
    assert len(plan.runs) == 2
    assert [len(job) for job in plan.jobs()] == [1]


def test_long_runs_come_first_and_runs_that_share_features_together(task, model):
    jobs = Study(task, ["tiny", model], ["frozen", "scratch"], seeds=2).plan().jobs()
    lengths = [sum(run.estimated_seconds for run in job) for job in jobs]
    assert lengths == sorted(lengths, reverse=True)
    frozen = [job for job in jobs if job[0].method == "frozen"]
    assert [len(job) for job in frozen] == [2]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda task: Study(task, seeds=0, methods=["random"]), "seeds: 0"),
        (lambda task: Study(task, seeds=-3), "seeds: -3"),
        (lambda task: Study(task, methods=["magic"]), "method 'magic' is not known"),
        (lambda task: Study(task, models=["no-such"]), "no model 'no-such'"),
        (lambda task: Study([task, task]), "two tasks are called toy"),
        (lambda task: Study(task, rows=0), "rows: 0"),
        (lambda task: Study(preset="nothing"), "preset 'nothing' is not known; known are minbert, nyu, utah"),
        (lambda task: Study(task, preset="utah"), "leave yours out"),
        (lambda task: Study(task, table=[Row("toy", "tfidf"), Row("toy", "tfidf")]), "two rows of toy"),
        (lambda task: Study(task, table=[Row("another", "tfidf")]), "about another; the tasks here are toy"),
        (lambda task: Study(task, table=[Row("toy", "finetune", "tiny")]).plan(), "nothing to finetune"),
        (lambda task: parse_workers("0"), "workers: '0'"),
        (lambda task: parse_workers("many"), "workers: 'many'"),
        (lambda task: Study(task).report("x.html"), "has not run yet"),
    ],
)
def test_mistakes_are_said_before_anything_runs(task, make, says):
    with pytest.raises(UserError, match=says):
        make(task)


def test_a_task_that_cannot_be_trained_on_is_refused_when_planned(task):
    unlabelled = replace(task, splits={**task.splits, "train": replace(task.train, labels=None, reason="all are −1")})
    with pytest.raises(UserError, match="train has no real labels: all are −1"):
        Study(unlabelled).plan()
    nothing = replace(task, splits={"train": task.train})
    with pytest.raises(UserError, match="nothing to score"):
        Study(nothing, methods=["tfidf"]).plan()
    without_dev = replace(task, splits={"train": task.train, "test": task.test})
    with pytest.raises(UserError, match="no labelled dev split"):
        Study(without_dev, ["tiny"], settings={"keep": "best"}).plan()


def test_a_sample_keeps_the_shares_of_the_labels_and_is_the_same_every_time(task):
    few = sample(task, 40)
    assert {name: len(split) for name, split in few.splits.items()} == {"train": 40, "dev": 40, "test": 40}
    share = few.train.labels.mean()
    assert abs(share - task.train.labels.mean()) < 0.03
    assert sample(task, 40).train.texts == few.train.texts
    assert sample(task, 1_000).train.texts == task.train.texts


CONFIG = """
tasks = ["{reviews}"]
seeds = 2
folds = 2
name = "mine"

[settings]
epochs = 1

[[row]]
method = "tfidf"

[[row]]
method = "finetune"
model = "{model}"
name = "small, two rates"
theirs = "81.0"
[row.settings]
learning_rate = [1e-3, 3e-3]
"""


def test_a_study_is_described_in_a_file(tmp_path, reviews, model):
    path = tmp_path / "study.toml"
    path.write_text(CONFIG.format(reviews=reviews, model=model))
    study = from_config(path, told={"batch_size": 8})
    plan = study.plan()
    assert study.name == "mine"
    assert [run.method for run in plan.runs] == ["tfidf"] * 2 + ["finetune"] * 4, "two folds, two seeds"
    for run in plan.runs[2:]:
        assert (run.settings.rates, run.settings.epochs, run.settings.batch_size) == ((1e-3, 3e-3), 1, 8)
    again = from_config(path, tasks=[load_task(reviews)], told={"batch_size": 8}).plan()
    assert [run.key for run in again.runs] == [run.key for run in plan.runs]
    assert len(from_config(path, seeds=1).plan().runs) == 4


def test_a_row_without_a_task_is_one_for_each_and_a_task_without_a_row_is_refused(task):
    other = replace(task, name="other")
    study = Study([task, other], table=[Row("", "tfidf"), Row("other", "majority")])
    assert [(row.task, row.name) for row in study.rows] == [("toy", "tfidf"), ("other", "tfidf"), ("other", "majority")]
    with pytest.raises(UserError, match="task other has no row"):
        Study([task, other], table=[Row("toy", "tfidf")])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("preset = 'utah'\n[settings]\nepochs = 3", "has its own settings"),
        ("tasks = [", "not TOML"),
        ("task = 'movies'", "'task' is not known"),
        ("[settings]\nlearning = 3", "setting 'learning' is not known"),
        ("[settings]\nepochs = 0", "epochs: 0"),
        ("[[row]]\nmodel = 'tiny'", "a \\[\\[row\\]\\] needs a method"),
        ("settings = 3", "settings: 3 is not an object"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(tmp_path, content, says):
    path = tmp_path / "study.toml"
    path.write_text(content)
    with pytest.raises(UserError, match=says):
        from_config(path)
    with pytest.raises(UserError, match="no such file"):
        from_config(tmp_path / "missing.toml")


@pytest.mark.parametrize("name", list_presets())
def test_every_preset_has_rows_and_a_place_for_every_published_figure(name, model, monkeypatch):
    """With a small model standing in for all."""
    from pocketbert import catalog
    from pocketbert.study.presets import get_preset

    monkeypatch.setitem(catalog.PACKAGES, "minilm-l6", _Stand(model))
    preset = get_preset(name)
    rows, notes = preset.rows(2, hub=False)
    assert any("stands in for" in one for one in notes)
    assert len({(row.task, row.name) for row in rows}) == len(rows)
    assert any(row.theirs for row in rows)
    like = made_row("sst5", "row", 0.5, seeds=2)
    accuracy, dev = (replace(like.accuracy, mean=at, low=at - 0.1, high=at + 0.1) for at in (0.5, 0.3))
    document = replace(
        bare(),
        notes=tuple(notes),
        tasks=tuple(task_summary(task, (8, 8, 8), ("negative", "positive")) for task in {row.task for row in rows}),
        rows=tuple(replace(like, task=row.task, name=row.name, accuracy=accuracy, dev=dev) for row in rows),
    )
    ours = set()
    for table in preset.published(document):
        assert table.differs
        for line in table.rows:
            assert len(line) == len(table.columns)
            assert "not finished" not in " ".join(line)
            ours |= {cell for title, cell in zip(table.columns, line, strict=True) if title.startswith("ours")}
    both = {"50.0 (40.0 to 60.0; 2 seeds)", "30.0 (20.0 to 40.0; 2 seeds)"}
    assert ours - {""} == (both if name == "minbert" else {"50.0 (40.0 to 60.0; 2 seeds)"})  # it also tells dev


class _Stand:
    licence, origin, install = "none", "made for a test", "nothing"

    def __init__(self, folder):
        from pathlib import Path

        self.folder = Path(folder)

    def path(self):
        return self.folder
