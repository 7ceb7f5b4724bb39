"""Learning curves: a power law is found again, its forecast holds as often as it says, and a study draws them."""

import numpy as np
import pytest

from pocketbert.report.document import read_document
from pocketbert.statistics import follows_power_law, forecast
from pocketbert.statistics.learning_curve import MODEL_ERROR, power_law
from pocketbert.study import Study
from pocketbert.study.plan import SHARES

SIZES = np.array([100, 200, 400, 800])


def test_a_power_law_without_noise_is_found_exactly():
    errors = 2.0 * SIZES**-0.4
    factor, exponent = power_law(SIZES, errors)
    assert np.exp(factor) == pytest.approx(2.0)
    assert exponent == pytest.approx(0.4)
    found = forecast(SIZES, np.tile(errors, (5, 1)), 1600)
    assert found.gain == pytest.approx(2.0 * (800**-0.4 - 1600**-0.4))
    assert found.high - found.low == pytest.approx(2 * MODEL_ERROR * found.gain), "the law itself is an approximation"


def test_the_forecast_holds_about_as_often_as_it_says():
    random = np.random.default_rng(0)
    truth = 2.0 * (800**-0.4 - 1600**-0.4)
    held = []
    for _ in range(400):
        errors = 2.0 * SIZES**-0.4 + 0.01 * random.standard_normal((5, 4))
        found = forecast(SIZES, errors, 1600)
        held.append(found.low <= truth <= found.high)
    assert np.mean(held) >= 0.93


def test_a_curve_that_jumps_at_its_end_is_not_extended():
    random = np.random.default_rng(1)
    errors = 2.0 * SIZES**-0.4 + 0.001 * random.standard_normal((5, 4))
    assert follows_power_law(SIZES, errors)
    errors[:, -1] += 0.1
    assert not follows_power_law(SIZES, errors)


def test_a_study_draws_a_curve_whose_points_train_on_shares_of_the_rows(tmp_path, reviews):
    study = Study([reviews], methods=["tfidf"], folds=3, curves=["tfidf"], out=tmp_path / "study")
    plan = study.plan()
    own = [run for run in plan.runs if run.method == "tfidf"]
    assert {run.share for run in own} == {*SHARES, 1.0}
    whole = next(run for run in own if run.share == 1.0 and run.part.fold == 0)
    rows = set(plan.task_of(whole).train.texts)
    before: set[str] = set()
    for share in SHARES:
        run = next(run for run in own if run.share == share and run.part.fold == 0)
        texts = plan.task_of(run).train.texts
        assert len(texts) == round(share * len(rows))
        assert before < set(texts) < rows
        before = set(texts)
    study.run(1, plan=plan)
    document = read_document(tmp_path / "study" / "study.json")
    (curve,) = document.learning_curves
    assert [point.rows for point in curve.points] == [round(share * len(rows)) for share in (*SHARES, 1.0)]
    assert curve.points[-1].score.mean == document.row(document.tasks[0].name, "tfidf").accuracy.mean
    assert "Would more data help?" in (tmp_path / "study" / "report.html").read_text(encoding="utf-8")
    assert curve.sentence
