"""Estimators against enumeration, and the bootstrap against known answers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.evaluation.tables import made

from mmcredit.evaluation.metrics import Accuracy
from mmcredit.evaluation.statistics import Bootstrap, all_of, majority, pass_at
from mmcredit.evaluation.table import Grade, Ratio, clusters, share
from mmcredit.types import UserError


@pytest.mark.parametrize(("n", "right"), [(5, 0), (5, 2), (5, 5), (8, 1), (8, 7)])
def test_pass_and_worst_are_means_over_all_subsets(n, right):
    grades = [i < right for i in range(n)]
    for k in range(1, n + 1):
        subsets = list(itertools.combinations(grades, k))
        assert pass_at(k, n, right) == pytest.approx(np.mean([any(s) for s in subsets]), abs=1e-12)
        assert all_of(k, n, right) == pytest.approx(np.mean([all(s) for s in subsets]), abs=1e-12)


def test_pass_at_k_is_unbiased_where_the_plug_in_estimate_is_not():
    """Of all outcomes of 6 draws with chance .3: the expectation is 1 - .7^3, exactly."""
    chance, n, k = 0.3, 6, 3
    outcomes = [sum(o) for o in itertools.product([0, 1], repeat=n)]
    weights = [chance**c * (1 - chance) ** (n - c) for c in outcomes]
    mean = sum(w * pass_at(k, n, c) for w, c in zip(weights, outcomes, strict=True))
    plug_in = sum(w * (1 - (1 - c / n) ** k) for w, c in zip(weights, outcomes, strict=True))
    assert mean == pytest.approx(1 - 0.7**3, abs=1e-12)
    assert abs(plug_in - (1 - 0.7**3)) > 0.02


def test_pass_at_k_of_many_samples_does_not_overflow():
    assert pass_at(1000, 3000, 1) == pytest.approx(1 / 3, abs=1e-12)


@pytest.mark.parametrize(
    ("votes", "wanted"),
    [
        ([("a", 1), ("a", 1), ("b", 0)], 1),
        ([("a", 1), ("b", 0), ("b", 0)], 0),
        ([("a", 1), ("b", 0)], 0.5),
        ([("a", 1), (" A ", 1), ("b", 0), ("c", 0)], 1),
        ([(None, 0), (None, 0), ("a", 1)], 1),
        ([(None, 0), (None, 0)], 0),
    ],
)
def test_majority(votes, wanted):
    assert majority([Grade(bool(right), answer) for answer, right in votes]) == wanted


def test_interval_of_a_mean_is_the_binomial_one():
    """400 questions, 100 right: the resampled mean is binomial, its deviation sqrt(.25 x .75 / 400) = .02165."""
    table = made([("1" if i < 100 else "0", {}) for i in range(400)])
    found = Bootstrap(20_000, seed=1)(Accuracy()(table))["accuracy"]
    assert (found.value, found.std) == (0.25, None)
    assert (found.high - found.low) / 2 / 1.96 == pytest.approx(0.02165, rel=0.04)
    assert (found.high + found.low) / 2 == pytest.approx(0.25, abs=0.003)


def test_copies_inside_a_cluster_add_no_information():
    """Ten copies of every question give the interval of one copy if they are one cluster, a narrower one if not."""
    rows = [("1" if i % 4 else "0", {"q": i}) for i in range(60)]

    def width(table):
        found = Bootstrap(4000)(Accuracy()(table))["accuracy"]
        return found.high - found.low

    once, copied = made(rows), [row for row in rows for _ in range(10)]
    assert width(made(copied, ["q"])) == pytest.approx(width(once), abs=1e-12)
    assert width(made(copied)) == pytest.approx(width(once) / 10**0.5, rel=0.1)


@pytest.mark.parametrize("level", [0.3, 0.6, 0.8])
def test_exhaustive_bootstrap_of_three_clusters(level):
    """All 27 resamples of clusters with sums (1 of 1), (0 of 3), (2 of 2), enumerated: the interval must end at the
    quantiles of that distribution. At these levels no quantile lies within .02 of a step of it."""
    sums = [(1, 1), (0, 3), (2, 2)]
    exact = [sum(t for t, _ in drawn) / sum(b for _, b in drawn) for drawn in itertools.product(sums, repeat=3)]
    ratio = Ratio("x", np.array([[1.0], [0.0], [2.0]]), np.array([[1.0], [3.0], [2.0]]), np.array([0, 1, 2]))
    found = Bootstrap(40_000, level=level)([ratio])["x"]
    assert found.value == 0.5
    tails = [50 * (1 - level), 50 * (1 + level)]
    assert [found.low, found.high] == pytest.approx(np.percentile(exact, tails, method="inverted_cdf"), abs=1e-9)


def test_repetitions_of_a_question_are_drawn_together():
    """Grades that are the same in every repetition give the interval of one repetition."""
    rows = [("1" if i % 3 else "0", {}) for i in range(50)]
    one = Bootstrap(2000)(Accuracy()(made(rows)))["accuracy"]
    many = Bootstrap(2000)(Accuracy()(made([(g * 8, m) for g, m in rows])))["accuracy"]
    assert (many.value, many.low, many.high) == pytest.approx((one.value, one.low, one.high), abs=1e-12)
    assert many.std == 0


def test_deviation_over_repetitions():
    found = Bootstrap(10)(Accuracy()(made([("110", {}), ("100", {})])))["accuracy"]
    assert found.value == pytest.approx(0.5)
    assert found.std == pytest.approx(0.5)  # of 1, .5, 0


def test_seed_decides_the_draws():
    ratios = Accuracy()(made([("10"[i % 2], {}) for i in range(40)]))
    first = Bootstrap(300)(ratios)
    assert Bootstrap(300)(ratios) == first != Bootstrap(300, seed=1)(ratios)


def test_a_repetition_without_anything_to_count_is_left_out():
    ratio = Ratio("rate", np.array([[1.0, 0.0]]), np.array([[2.0, 0.0]]), np.array([0]))
    found = Bootstrap(10)([ratio])["rate"]
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    nothing = Bootstrap(10)(
        [share("other", np.ones((1, 1)), np.array([0])), Ratio("r", *np.zeros((2, 1, 1)), np.array([0]))]
    )
    assert np.isnan([nothing["r"].value, nothing["r"].low]).all()


def test_clusters_group_by_columns_and_never_by_text():
    table = made([("1", {"set": 1}), ("1", {"set": 2}), ("1", {"set": 1})], ["set"])
    assert table.cluster_Q.tolist() == [0, 1, 0]
    assert clusters(table.questions, ()).tolist() == [0, 1, 2]  # though all ask the same
    assert clusters(table.questions, ["absent"]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("wrong", [{"replicates": 0}, {"level": 1.0}, {"level": 0.0}])
def test_refuses(wrong):
    with pytest.raises(UserError, match="bootstrap"):
        Bootstrap(**wrong)
