"""Intervals keep their word, by simulated classifiers; tests agree with what they are made of."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketbert.audits.intervals import half_width, one_sided_p_value
from pocketbert.audits.measures import change_noise, measure_change, permutation_p_value
from pocketbert.statistics.variance import VarianceComponent

seeds = st.integers(0, 2**32 - 1)


def drawn(seed, trainings=3, templates=8, fillers=3, mean=0.0):
    random = np.random.default_rng(seed)
    shape = (trainings, templates, fillers)
    values = mean + random.normal(0, 0.02, (1, templates, 1)) + random.normal(0, 0.01, shape)
    return values.reshape(trainings, -1), np.repeat(np.arange(templates), fillers)


@given(seeds, st.floats(-0.05, 0.05))
def test_interval_test_and_equivalence_agree(seed, mean):
    values, templates = drawn(seed, mean=mean)
    found = measure_change(values, templates)
    assert found.low <= found.mean <= found.high
    if found.p_value < 0.0499:
        assert found.low > 0 or found.high < 0
    if found.equivalence_p_value < 0.05:
        assert abs(found.mean) < 0.02
    mirrored = measure_change(-values, templates)
    assert mirrored.mean == pytest.approx(-found.mean)
    assert mirrored.p_value == pytest.approx(found.p_value)


def test_pairs_of_one_template_are_no_further_evidence():
    values, templates = drawn(1, trainings=1, mean=0.02)
    once = measure_change(values, templates)
    again = measure_change(np.repeat(values, 4, axis=1), np.repeat(templates, 4))
    assert again.high - again.low == pytest.approx(once.high - once.low, rel=1e-6)


def test_few_templates_have_every_pattern_of_signs():
    each = np.array([0.1, 0.2, 0.3])
    assert permutation_p_value(each, np.arange(3)) == pytest.approx(2 / 8)
    assert permutation_p_value(np.zeros(3), np.arange(3)) == 1.0


def test_the_half_width_is_between_the_two_known_ways():
    noise = ((VarianceComponent(np.float64(1.0), 44), VarianceComponent(np.float64(1.0), 2)),)
    half = half_width(noise)
    assert 2.0154 * np.sqrt(2) < 2 * 1.96
    welch, banerjee = 2.4 * np.sqrt(2), np.sqrt(2.0154**2 + 4.3027**2)
    assert welch < half < banerjee
    assert one_sided_p_value(half, noise) == pytest.approx(0.025, rel=1e-3)
    assert one_sided_p_value(-half, noise) == pytest.approx(0.975, rel=1e-3)
    alone = ((VarianceComponent(np.float64(1.0), 2),),)
    assert half_width(alone) == pytest.approx(4.3027, rel=1e-3), "of one source, both are Student's"


def test_words_that_were_drawn_widen_the_interval():
    random = np.random.default_rng(0)
    values = (random.normal(0, 0.05, (1, 1, 10)) + random.normal(0, 0.005, (1, 12, 10))).reshape(1, -1)
    templates, words = np.repeat(np.arange(12), 10), np.tile(np.arange(10), 12)
    assert half_width(change_noise(values, templates, words)) > 2 * half_width(change_noise(values, templates))


def test_false_alarms_coverage_and_equivalence_by_simulation():
    """Shares of 1,000 simulated audits, known to about 1.4 points; every regime: benchmarks/audit_coverage."""
    from benchmarks.audit_coverage import REGIMES, Regime, simulate

    found = simulate(Regime(*REGIMES["3 trainings that differ much"]), 1_000, seed=11)
    assert found["false alarms"] <= 0.07
    assert found["equivalence at the margin"] <= 0.07
    assert 0.92 <= found["coverage without effect"] <= 0.98
    assert 0.92 <= found["coverage at it"] <= 0.98
