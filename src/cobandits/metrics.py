"""How far an answer is from the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["r_squared", "relative_error"]

Floats = NDArray[np.floating]


def relative_error(Theta: Floats, truth: Floats) -> float:
    """Return ``|Theta - truth|_F / |truth|_F``, the Err-Theta of the paper's Figure 2.

    >>> relative_error(np.array([[1.0, 2.0]]), np.array([[1.0, 2.0]]))
    0.0
    """
    return float(np.linalg.norm(Theta - truth) / np.linalg.norm(truth))


def r_squared(squared_errors: float, rewards: Floats) -> float:
    """Return the share of the rewards' variance that is explained; NaN without variance."""
    total = float(np.sum((rewards - np.mean(rewards)) ** 2)) if len(rewards) else 0.0
    return 1 - squared_errors / total if total > 0 else float("nan")
