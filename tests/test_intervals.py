"""Intervals against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cobandits.intervals import holm, t_interval, t_test


@pytest.mark.parametrize("n", [2, 5, 100])
def test_the_interval_is_students(n: int) -> None:
    values = np.random.default_rng(0).standard_normal((n, 3))
    mean, half = t_interval(values)
    low, high = stats.t.interval(0.95, n - 1, loc=values.mean(axis=0), scale=stats.sem(values))
    np.testing.assert_allclose(mean - half, low)
    np.testing.assert_allclose(mean + half, high)


def test_one_trial_has_a_mean_and_no_width() -> None:
    mean, half = t_interval(np.array([[1.0, 2.0]]))
    assert mean.tolist() == [1, 2]
    assert half.tolist() == [0, 0]


@pytest.mark.parametrize("n", [2, 5, 100])
def test_the_test_of_a_mean_is_students(n: int) -> None:
    values = np.random.default_rng(n).standard_normal(n) + 0.3
    assert t_test(values) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)


def test_a_mean_without_spread_is_certain_and_one_trial_says_nothing() -> None:
    assert t_test(np.full(4, 2.0)) == 0
    assert t_test(np.array([2.0])) == 1


def test_holm_rejects_by_its_definition() -> None:
    rng = np.random.default_rng(0)
    for m in (1, 2, 7, 30):
        p = rng.random(m) ** 4
        rejected = set[int]()
        while rest := [k for k in range(m) if k not in rejected]:  # the smallest that is left
            k = min(rest, key=lambda k: p[k])
            if p[k] > 0.05 / len(rest):
                break
            rejected.add(k)
        assert set(np.flatnonzero(holm(p)).tolist()) == rejected


def test_holm_is_seldom_wrong_at_all_where_nothing_is_there() -> None:
    rng = np.random.default_rng(1)
    wrong = sum(bool(holm(rng.random(92)).any()) for _ in range(2000))
    assert 40 < wrong < 170  # 100 expected at 5 %; without correction 1982
