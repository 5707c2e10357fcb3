"""The rows of several tasks at a time, in the coordinates of a prior."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.linalg import inverse_triangles
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.prior import Coordinates
from cobandits.policies.shared.row_store import RowStore

__all__ = ["TaskBlock", "precision_roots", "reward_covariances", "task_blocks"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class TaskBlock(NamedTuple):
    """Rows of tasks that have about as many, in a prior's coordinates; padded with zeros."""

    slots: Codes
    features: Doubles  # (b, n, p)
    rewards: Doubles  # (b, n)


def task_blocks(store: RowStore, slots: Codes, coordinates: Coordinates) -> Iterator[TaskBlock]:
    """Yield the rows of slots; these come ordered by their number of rows, most first."""
    p, start = coordinates.dim, 0
    while start < len(slots):
        n = int(store.sizes[slots[start]])
        size = max(1, config.BLOCK_BYTES // (8 * n * p))
        some = slots[start : start + size]
        F = store.rows(some, n)
        Z, y = coordinates.applied(F[..., :-1]), F[..., -1].copy()  # F need not stay
        if n > config.COMPRESSION * (p + 1):  # p + 1 rows are equivalent
            both: Doubles = np.concatenate([Z, y[..., None]], axis=2)
            both = np.asarray(np.linalg.qr(both, mode="r"))
            Z, y = both[..., :-1], both[..., -1]
        yield TaskBlock(some, Z, y)
        start += len(some)


def reward_covariances(ZC: Doubles, Z: Doubles, noise: float) -> Doubles:
    """Return the covariances K of rewards, (b, n, n), of features Z, (b, n, p), and ``Z C``."""
    K = ZC @ Z.transpose(0, 2, 1)
    diagonal = np.arange(K.shape[1])
    K[:, diagonal, diagonal] += noise
    return np.asarray(K)


def precision_roots(ZC: Doubles, Z: Doubles, noise: float) -> Doubles:
    """Return lower triangular H with ``H'H = K^-1``, (b, n, n), of the same."""
    K = reward_covariances(ZC, Z, noise)
    return np.asarray(inverse_triangles(np.linalg.cholesky(K), lower=True), np.float64)
