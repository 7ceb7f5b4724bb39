"""Studies of what is learnt from several tasks: adapters are trained before they are fused; heat maps in the report."""

import numpy as np
import pytest
from training.conftest import make_split

from pocketbert.errors import UserError
from pocketbert.study import Row, Study
from pocketbert.study.heat_maps import over_trainings
from pocketbert.study.plan import make_plan
from pocketbert.study.rows import choose_rows
from pocketbert.tasks import Task
from study.conftest import make_task

QUICK = {"epochs": 2, "batch_size": 32, "learning_rate": 1e-2, "max_length": 32}


def other_task() -> Task:
    splits = {part: make_split(rows, 50 + rows, labels=3) for part, rows in (("train", 96), ("dev", 30), ("test", 40))}
    return Task("other", ("no", "yes", "so"), splits, pair=False)


@pytest.fixture(scope="module")
def done(model, tmp_path_factory):
    """Every method that needs other tasks, in one study of two tasks."""

    def row(task, method, seeds, **more):
        return Row(task, method, model, QUICK, f"{method} row", seeds=seeds, **more)

    members = {"toy": "toy: pfeiffer row", "other": "other: pfeiffer row"}
    study = Study(
        [make_task(), other_task()],
        table=[
            row("toy", "fusion", 2, adapters=members),
            row("toy", "multitask", 1, others=("other",)),
            row("toy", "sequential", 2, others=("other",)),
            row("toy", "pfeiffer", 1),
            row("other", "pfeiffer", 1),
        ],
        out=tmp_path_factory.mktemp("study") / "study",
    )
    study.run(workers=1, progress=False)
    return study


def test_every_run_is_finished_and_fused_adapters_are_those_of_the_rows(done):
    assert {row.name for row in done.results.rows if row.accuracy is not None} == {
        "fusion row",
        "multitask row",
        "sequential row",
        "pfeiffer row",
    }
    assert len(done.results.rows) == 5


def test_where_only_methods_are_named_missing_adapters_are_trained_and_all_tasks_are_learnt():
    rows, _ = choose_rows(["toy", "other"], ["pocket-tiny"], ["fusion", "multitask"], None, {"epochs": 3})
    found = {(row.task, row.name): row for row in rows}
    assert found["toy", "fusion pocket-tiny"].adapters == {
        "toy": "toy: pfeiffer pocket-tiny",
        "other": "other: pfeiffer pocket-tiny",
    }
    assert found["other", "pfeiffer pocket-tiny"].settings == {"epochs": 3}
    assert found["other", "multitask pocket-tiny"].others == ("toy",)


def test_the_report_has_their_heat_maps_with_intervals(done, tmp_path):
    maps = {(one.task, one.row.split()[0], one.title.split()[0]): one for one in done.results.heat_maps}
    fused, lost = maps["toy", "fusion", "Fusion"], maps["toy", "sequential", "Forgetting:"]
    assert fused.columns == ("toy", "other")
    assert fused.trainings == lost.trainings == 2
    assert lost.columns == ("other", "toy")
    assert lost.rows == ("after other", "after toy", "alone")
    assert lost.mean[0][1] is None
    assert lost.low[0][0] <= lost.mean[0][0] <= lost.high[0][0]
    done.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Fusion weights: which adapter is listened to, by layer" in page
    assert "Forgetting: accuracy by task, after each" in page


def test_differences_may_be_below_zero():
    mean, low, high = over_trainings([[[-0.1, None]], [[0.1, None]]])
    assert mean[0][0] == pytest.approx(0)
    assert low[0][0] == -1
    assert high[0][0] == 1
    assert (mean[0][1], low[0][1], high[0][1]) == (None, None, None)
    assert over_trainings([[[0.02]], [[0.1]]])[1][0][0] == 0
    assert np.isclose(over_trainings([[[0.5]]])[0][0][0], 0.5)


def test_other_tasks_and_adapters_are_part_of_a_runs_key(model):
    tasks = {"toy": make_task(), "other": other_task()}
    row = Row("toy", "multitask", model, QUICK, seeds=1, others=("other",))
    first = make_plan([row], tasks)
    changed = {**tasks, "other": Task("other", ("no", "yes", "so"), {**other_task().splits}, pair=False)}
    assert make_plan([row], changed).runs[0].key == first.runs[0].key
    less = {**tasks["other"].splits, "train": tasks["other"].train.take(range(90))}
    changed["other"] = Task("other", ("no", "yes", "so"), less, pair=False)
    assert make_plan([row], changed).runs[0].key != first.runs[0].key
    assert first.task_of(first.runs[0]).others == (tasks["other"],)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda model: Row("toy", "finetune", model, others=("other",)), "learns one task; leave the others out"),
        (lambda model: Row("toy", "multitask", model, others=("third",)), "learns third as well, which is no task of"),
        (lambda model: Row("toy", "sequential", model), "learns several tasks, and the study has one; name others"),
        (lambda model: Row("toy", "fusion", model), "fuses adapters, and names none"),
        (lambda model: Row("toy", "pfeiffer", model, adapters={"a": "b"}), "takes no adapters; leave them out"),
    ],
)
def test_rows_that_cannot_be_are_refused_before_anything_runs(made, says, model):
    with pytest.raises(UserError, match=says):
        make_plan([made(model)], {"toy": make_task(), "other": other_task()})
