"""Memory for large arrays that goes back to the system when it is freed."""

from __future__ import annotations

import math
import mmap
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

__all__ = ["zeros"]

_OWN = 2**20  # bytes from which on an array has pages of its own
_HUGE = 2**25  # bytes from which on they are large; of fewer, unwritten ends would cost memory


def zeros(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return zeros of a shape; memory is taken as they are written to.

    What ``malloc`` gives stays with the process when it is freed, in pieces that later arrays,
    which are larger, do not fit into: a play held half as much memory again. A process that is
    forked has a copy, as of all memory.

    >>> zeros((2, 3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    size = 8 * math.prod(shape)
    if size < _OWN or not hasattr(mmap, "MAP_PRIVATE"):  # Windows has no pages that are private
        return np.zeros(shape)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        raise MemoryError(f"no memory for an array of the shape {shape}") from None
    if size >= _HUGE:
        with suppress(AttributeError, OSError):  # not every system has large pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.float64).reshape(shape)
