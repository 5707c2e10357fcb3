"""Confidence intervals of means."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

__all__ = ["t_factor", "t_interval"]

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
