"""Batches: chunks that fit in cache, tasks with equally many rows, and turns of a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["chunks", "equal_counts", "turns"]

Floats = NDArray[np.floating]
Offsets = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)

_CHUNK_BYTES = 1 << 21  # memory of a chunk


def chunks(length: int, item_bytes: int) -> Iterator[slice]:
    """Cut ``range(length)`` into slices of about 2 MiB each."""
    step = max(1, _CHUNK_BYTES // max(1, item_bytes))
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def equal_counts(
    rows: Floats, rewards: NDArray[Number], offsets: Offsets, tasks: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Floats, NDArray[Number]]]:
    """Yield groups of tasks with equally many rows: their numbers, Phi (., n, d), y (., n)."""
    d = rows.shape[1]
    counts = np.diff(offsets)
    for n in np.unique(counts[tasks]).tolist():
        alike = tasks[counts[tasks] == n]
        for chunk in chunks(len(alike), n * d * rows.itemsize):
            group = alike[chunk]
            first, last = offsets[group[0]], offsets[group[-1] + 1]
            if last - first == n * len(group):  # contiguous: no copy
                index: slice | NDArray[np.int64] = slice(int(first), int(last))
            else:
                index = (offsets[group, None] + np.arange(n)).ravel()
            m = len(group)
            yield group, rows[index].reshape(m, n, d), rewards[index].reshape(m, n)


def turns(tasks: Offsets) -> Offsets:
    """Return how many earlier rows have the same task, for each row, (m,).

    >>> turns(np.array([3, 1, 3, 3])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(tasks, kind="stable")
    ranked = tasks[order]
    first = np.r_[True, ranked[1:] != ranked[:-1]][: len(ranked)]
    starts = np.maximum.accumulate(np.where(first, np.arange(len(ranked)), 0))
    out = np.empty(len(tasks), np.int64)
    out[order] = np.arange(len(ranked)) - starts
    return out
