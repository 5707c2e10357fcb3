"""Errors relative to the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["relative_error"]

Floats = NDArray[np.floating]


def relative_error(Theta: Floats, truth: Floats) -> float:
    """Return ``|Theta - truth|_F / |truth|_F``, the Err-Theta of the paper's Figure 2.

    If the truth is 0: 0 if Theta is 0 too, otherwise infinity.

    >>> relative_error(np.array([[3.0, 0.0]]), np.array([[3.0, 4.0]]))
    0.8
    >>> zero = np.zeros((1, 2))
    >>> relative_error(zero, zero), relative_error(zero + 1, zero)
    (0.0, inf)
    """
    gap, size = float(np.linalg.norm(Theta - truth)), float(np.linalg.norm(truth))
    return gap / size if size > 0 else float("inf" if gap > 0 else 0)
