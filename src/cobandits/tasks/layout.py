"""Where rows are kept: sorted by task, from the beginning of a cache line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cobandits.tasks.checks import Codes, Floats

__all__ = ["aligned_empty", "joined", "sorting"]

_CACHE_LINE = 64  # bytes


def sorting(codes: Codes) -> Codes | None:
    """Return the order that sorts ``codes`` and keeps equal ones in place; None if sorted."""
    return np.argsort(codes, kind="stable") if np.any(np.diff(codes) < 0) else None


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return an array without values that begins at a cache line: it is read faster."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(size + _CACHE_LINE, np.uint8)
    begin = -raw.ctypes.data % _CACHE_LINE
    return raw[begin : begin + size].view(dtype).reshape(shape)


def joined(parts: Sequence[Floats], order: Codes | None) -> Floats:
    """Return a copy of all rows, in this order if there is one."""
    whole = np.concatenate(parts) if len(parts) > 1 else parts[0]
    rows = aligned_empty(
        (len(whole) if order is None else len(order), *whole.shape[1:]), whole.dtype
    )
    if order is None:
        rows[...] = whole
    else:
        np.take(whole, order, axis=0, out=rows, mode="clip")  # without a buffer
    return rows
