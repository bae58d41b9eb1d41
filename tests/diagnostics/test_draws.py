"""Nested means and resampled quantities against hand-computed and known values."""

from __future__ import annotations

import numpy as np
import pytest

from mmcredit.diagnostics.draws import Draws, Resampler, by_question
from mmcredit.evaluation.statistics import Bootstrap

NAN = float("nan")


def test_claims_count_within_responses_and_responses_within_questions():
    """Question 0: response 0 has claims 1, 3 (mean 2), response 2 has 8: mean 5. Question 1: nan. Question 2: 4."""
    question, response = np.array([0, 0, 0, 1, 2, 0]), np.array([0, 0, 2, 0, 1, 0])
    values = np.array([1.0, 3.0, 8.0, NAN, 4.0, NAN])
    found = by_question(4, question, response, values)
    assert found[[0, 2]].tolist() == [5.0, 4.0] and np.isnan(found[[1, 3]]).all()
    assert np.isnan(by_question(2, question[:0], response[:0], values[:0])).all()


def test_mean_of_known_questions_and_its_binomial_interval():
    """400 known questions, 100 of them 1: deviation sqrt(.25 x .75 / 400) = .02165; unknown ones change nothing."""
    values = np.array([1.0] * 100 + [0.0] * 300)
    resampler = Resampler(Bootstrap(4000, seed=1), 400)
    estimate = resampler.estimate(resampler.mean(values))
    assert estimate.value == 0.25
    assert (estimate.low, estimate.high) == pytest.approx((0.25 - 1.96 * 0.02165, 0.25 + 1.96 * 0.02165), abs=0.004)
    unknown = resampler.mean(np.where(np.arange(400) % 2, values, NAN))
    assert unknown.value == 0.25 and unknown.drawn_R.std() > resampler.mean(values).drawn_R.std()


def test_differences_keep_the_pairing():
    """The same questions, 1 higher everywhere: the difference has no spread though both means have."""
    values = np.random.default_rng(0).normal(size=50)
    resampler = Resampler(Bootstrap(300), 50)
    apart = resampler.estimate(resampler.mean(values + 1) - resampler.mean(values))
    assert (apart.value, apart.low, apart.high) == pytest.approx((1, 1, 1), abs=1e-12)
    spread = resampler.estimate(resampler.mean(values))
    assert spread.high - spread.low > 0.3


def test_correlation_is_pearsons():
    rng = np.random.default_rng(3)
    question, x = rng.integers(30, size=200), rng.normal(size=200) + 1e4
    y = x + rng.normal(size=200)
    found = Resampler(Bootstrap(500), 30).correlation(question, x, y)
    assert found.value == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    assert 0.02 < found.drawn_R.std() < 0.1
    assert np.isnan(Resampler(Bootstrap(5), 30).correlation(question, x, np.ones(200)).value)
    assert np.isnan(Resampler(Bootstrap(5), 3).correlation(question[:0], x[:0], y[:0]).value)


def test_nothing_counted_is_nan_and_ratios_of_sizes():
    resampler = Resampler(Bootstrap(20), 2)
    nothing = resampler.estimate(resampler.mean(np.array([NAN, NAN])))
    assert all(np.isnan([nothing.value, nothing.low, nothing.high]))
    one = resampler.estimate(resampler.mean(np.array([NAN, 3.0])))
    assert one.value == 3.0 and np.isnan([one.low, one.high]).all()
    ratio = abs(Draws(-6.0, np.array([-6.0]))) / abs(Draws(2.0, np.array([2.0])))
    assert ratio.value == 3.0 and ratio.drawn_R.tolist() == [3.0]
    assert np.isnan((Draws(1.0, np.ones(1)) / Draws(0.0, np.zeros(1))).drawn_R).all()
