"""Intervals against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cobandits.intervals import t_interval


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
