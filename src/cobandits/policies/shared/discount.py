"""Weights of rewards that are forgotten: halved with each half-life."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["age_weights", "discount_of"]

Doubles = NDArray[np.float64]

_FORGOTTEN = 1e-12  # weights below it count as 0: products of such numbers underflow, and are slow


def discount_of(half_life: float) -> float:
    """Return the weight of a row over that of the task's next one.

    >>> discount_of(1.0), discount_of(np.inf)
    (0.5, 1.0)
    """
    return float(0.5 ** (1 / half_life))


def age_weights(rows: Doubles, discount: float) -> Doubles:
    """Return the weights of rows of tasks, (m, n): the discount per single row that follows.

    Compressed rows, which have no intercept above 0, are as old as the latest of them.

    >>> rows = np.ones((1, 3, 2))  # [1, y]
    >>> rows[0, 0] *= -1  # of several rewards
    >>> age_weights(rows, 0.5).tolist()
    [[0.25, 0.5, 1.0]]
    """
    single = rows[..., -2] > 0
    ages = single.sum(axis=1, keepdims=True) - np.cumsum(single, axis=1)
    weights = np.asarray(discount**ages)
    weights[weights < _FORGOTTEN] = 0
    return weights
