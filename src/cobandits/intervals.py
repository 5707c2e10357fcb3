"""Confidence intervals of means."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

__all__ = ["holm", "t_factor", "t_interval", "t_test"]

Floats = NDArray[np.float64]

_LEVEL = 0.95


def t_factor(freedom: int, level: float = _LEVEL) -> float:
    """Return half the width of a t-interval, in standard errors.

    >>> round(t_factor(4), 2), round(t_factor(10**9), 2)
    (2.78, 1.96)
    """
    return float(scipy.special.stdtrit(freedom, (1 + level) / 2))


def t_interval(trials: Floats) -> tuple[Floats, Floats]:
    """Return the mean over trials, the first axis, and half the width of its 95 % t-interval.

    The half width is 0 where there is one trial, which says nothing of the spread.

    >>> mean, half = t_interval(np.array([1.0, 3.0]))
    >>> float(mean), round(float(half), 1)
    (2.0, 12.7)
    """
    n = len(trials)
    mean = np.asarray(trials.mean(axis=0))
    if n == 1:
        return mean, np.zeros_like(mean)
    error = trials.std(axis=0, ddof=1) / np.sqrt(n)
    return mean, np.asarray(t_factor(n - 1) * error)


def t_test(trials: Floats) -> float:
    """Return the two-sided p-value of the hypothesis that the mean over trials, (n,), is 0.

    It is 1 for one trial, and where all trials are 0.

    >>> round(t_test(np.array([1.0, 2.0, 3.0])), 3), t_test(np.zeros(5))
    (0.074, 1.0)
    """
    mean, half = t_interval(trials)
    if len(trials) == 1 or mean == 0:
        return 1.0
    if half == 0:
        return 0.0
    freedom = len(trials) - 1
    return float(2 * scipy.special.stdtr(freedom, -abs(mean) / half * t_factor(freedom)))


def holm(p_values: Floats, level: float = 1 - _LEVEL) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected, so that all are right with probability 1 - level.

    The step-down procedure of Holm (1979): the k-th smallest of m p-values, k = 1, ..., is compared
    with ``level / (m - k + 1)``, up to the first that is larger.

    >>> holm(np.array([0.04, 0.01, 0.03])).tolist()
    [False, True, False]
    """
    order = np.argsort(p_values, kind="stable")
    m = len(order)
    passed = p_values[order] <= level / np.arange(m, 0, -1)
    rejected = np.zeros(m, bool)
    rejected[order[: m if passed.all() else int(np.argmin(passed))]] = True
    return rejected
