"""Fewer rows with the same products as many, by a QR decomposition."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.policies.shared.discount import age_weights

__all__ = ["compress", "equivalent_rows"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_BLOCK = 32  # columns that LAPACK reduces at a time


def compress(
    F: Doubles,
    order: Codes,
    sizes: Codes,
    full: NDArray[np.bool_],
    discount: float,
    *,
    out: Doubles,
) -> Codes:
    """Write the rows of all slots to ``out``, equivalent ones of those that are full.

    Returns the number of rows of each slot. ``F[order]`` are the rows sorted by slot, of which
    each has as many as ``sizes`` says. Rows of full slots are weighted by their ages before.
    """
    found, ends = sizes.copy(), np.cumsum(sizes)
    read = written = 0
    for slot in np.flatnonzero(full).tolist():
        start, end = ends[slot] - sizes[slot], ends[slot]
        rows = F[order[start:end]]
        if discount < 1:
            rows *= np.sqrt(age_weights(rows[None], discount))[0, :, None]
        short = equivalent_rows(rows)
        copied = written + start - read  # rows of the slots before it
        F.take(order[read:start], axis=0, out=out[written:copied], mode="clip")
        read, written, found[slot] = end, copied + len(short), len(short)
        out[copied:written] = short
    F.take(order[read:], axis=0, out=out[written : int(found.sum())], mode="clip")
    return found


def equivalent_rows(F: Doubles) -> Doubles:
    """Return R with ``R'R = F'F`` of rows ``[phi, 1, y]``, one row per column that is not 0.

    ``F``, (n, width), has no fewer rows than that. Rows that were returned before may come first:
    only the others are reduced then. No row that is returned has an intercept above 0, so they
    differ from single rows.

    >>> F = np.array([[2.0, 0.0, 1.0, 7.0], [4.0, 0.0, 1.0, 9.0], [1.0, 0.0, 1.0, 3.0]])
    >>> R = equivalent_rows(F)
    >>> R.shape, np.allclose(R.T @ R, F.T @ F), bool((R[:, -2] <= 0).all())
    ((3, 4), True, True)
    """
    columns = np.flatnonzero(F.any(axis=0))
    found = np.zeros((len(columns), F.shape[1]))
    found[:, columns] = _triangle(F[:, columns], int(np.count_nonzero(F[:, -2] <= 0)))
    found *= np.where(found[:, -2:-1] > 0, -1.0, 1.0)
    found += 0.0  # turns -0.0 into 0.0, which takes no room in files
    return found


def _triangle(A: Doubles, n_reduced: int) -> Doubles:
    """Return the triangle of a QR decomposition, (k, k), of A, (n, k), without zero columns.

    The first rows are those that were reduced before, to one per column that they have.
    """
    first = A[:n_reduced]
    known = np.flatnonzero(first.any(axis=0))
    R = np.zeros((A.shape[1], A.shape[1]))
    if 0 < len(known) == n_reduced < len(A):
        R[known] = first
        if not np.tril(R, -1).any():
            size = min(_BLOCK, len(R))
            return np.triu(scipy.linalg.lapack.dtpqrt(0, size, R, A[n_reduced:])[0])
    return np.asarray(np.linalg.qr(A, mode="r"))
