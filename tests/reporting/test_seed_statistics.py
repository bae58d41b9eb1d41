"""Small-sample statistics against hand-computed cases and scipy's own tests."""

from __future__ import annotations

import builtins

import pytest
from scipy import stats

from mmcredit.reporting.seed_statistics import paired, spread, welch
from mmcredit.types import UserError


def test_spread_uses_the_sample_standard_deviation():
    found = spread([1.0, 2.0, 3.0, 6.0])
    assert (found.n, found.mean) == (4, 3.0) and found.std == pytest.approx((14 / 3) ** 0.5)
    assert spread([0.5]).std is None


def test_a_paired_difference_by_hand():
    """Differences 1, 2, 3: mean 2, error 1/sqrt(3), t = 2 sqrt(3), t(.975, 2) = 4.30265."""
    found = paired({0: 3.0, 1: 5.0, 2: 7.0}, {2: 4.0, 1: 3.0, 0: 2.0})
    assert (found.n, found.mean) == (3, 2.0)
    assert found.interval == pytest.approx((2 - 4.302653 / 3**0.5, 2 + 4.302653 / 3**0.5), abs=1e-5)
    assert found.p == pytest.approx(0.0741799, abs=1e-6)


def test_welch_by_hand():
    """1, 2, 3 against 2, 4, 6: variances 1 and 4, error sqrt(5/3), freedom
    (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) = 50/17."""
    found = welch([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    half = stats.t.ppf(0.975, 50 / 17) * (5 / 3) ** 0.5
    assert found.mean == -2.0 and found.interval == pytest.approx((-2 - half, -2 + half))
    assert found.p == pytest.approx(2 * stats.t.sf(2 / (5 / 3) ** 0.5, 50 / 17))


def test_both_agree_with_scipy():
    first, second = [0.61, 0.58, 0.7, 0.66], [0.55, 0.6, 0.58, 0.57]
    ours, theirs = welch(first, second[:3]), stats.ttest_ind(first, second[:3], equal_var=False)
    assert ours.p == pytest.approx(theirs.pvalue) and ours.interval == pytest.approx(theirs.confidence_interval(0.95))
    ours, theirs = paired(dict(enumerate(first)), dict(enumerate(second))), stats.ttest_rel(first, second)
    assert ours.p == pytest.approx(theirs.pvalue) and ours.interval == pytest.approx(theirs.confidence_interval(0.95))


def test_only_common_seeds_are_paired():
    assert paired({0: 1.0, 1: 2.0}, {1: 1.0, 2: 5.0}) == paired({1: 2.0}, {1: 1.0})
    assert paired({0: 1.0}, {1: 1.0}) is None


@pytest.mark.parametrize("found", [paired({0: 1.0}, {0: 0.5}), paired({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.5}),
                                   welch([1.0], [0.5, 0.5]), welch([1.0, 1.0], [0.5, 0.5])])  # fmt: skip
def test_without_any_spread_there_is_no_interval(found):
    assert found.mean == 0.5 and found.interval is None and found.p is None


def test_without_scipy_one_line_says_what_to_install(monkeypatch):
    load = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "scipy":
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UserError, match=r"pip install 'mmcredit\[report\]'"):
        welch([1.0, 2.0], [1.0, 3.0])
