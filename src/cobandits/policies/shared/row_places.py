"""Where the rows of a few slots are among those of all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["places"]

Codes = NDArray[np.int64]


def places(owners: Codes, sizes: Codes, starts: Codes | None, slots: Codes, steps: Codes) -> Codes:
    """Return where rows of slots, (m,), by their number, (n,), are, (m, n); any if too few.

    ``owners`` has the slot of each row, and ``sizes`` the number of rows of each slot. ``starts``
    has its first row, where rows are sorted by slot. One of the slots must have rows.

    >>> places(np.array([1, 0, 1]), np.array([1, 2]), None, np.array([1]), np.arange(2)).tolist()
    [[0, 2]]
    """
    if starts is not None:
        return np.asarray(np.minimum(starts[slots, None] + steps, len(owners) - 1))
    kept = np.zeros(len(sizes), bool)
    kept[slots] = True
    some = np.flatnonzero(kept[owners])
    order = some[np.argsort(owners[some], kind="stable")]
    ends = np.cumsum(np.where(kept, sizes, 0))[slots, None]
    return np.asarray(order[np.minimum(ends - sizes[slots, None] + steps, len(order) - 1)])
