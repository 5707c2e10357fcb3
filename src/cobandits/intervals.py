"""Confidence intervals of means."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

__all__ = ["t_interval"]

Floats = NDArray[np.float64]

_LEVEL = 0.95


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
    return mean, np.asarray(stdtrit(n - 1, (1 + _LEVEL) / 2) * error)
