"""Small linear algebra that several layers share."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = [
    "factor",
    "inverse_cholesky",
    "orthonormal",
    "procrustes",
    "subspace_distance",
    "top_left_vectors",
]

Floats = NDArray[np.floating]


def subspace_distance(B1: Floats, B2: Floats) -> float:
    """Return ``SD(B1, B2) = |(I - B1 B1') B2|_F`` of two orthonormal bases, (d, r) each.

    0 for the same span, sqrt(r) for orthogonal ones.

    >>> subspace_distance(np.eye(3)[:, :2], np.eye(3)[:, 1:])
    1.0
    """
    return float(np.linalg.norm(B2 - B1 @ (B1.T @ B2)))


def orthonormal(B: Floats) -> Floats:
    """Return an orthonormal basis of the columns of ``B``, (d, r), by QR."""
    Q, _ = np.linalg.qr(B)
    return np.asarray(Q)


def top_left_vectors(M: Floats, r: int) -> Floats:
    """Return the ``r`` leading left singular vectors of ``M``, (d, T), as (d, r).

    Taken from the smaller of the two Gram matrices, which is faster than an SVD and
    as good for a starting point: directions with singular values below 1e-8 of the
    largest are not resolved.
    """
    d, T = M.shape
    if d <= T:
        _, vectors = scipy.linalg.eigh(M @ M.T, subset_by_index=(d - r, d - 1))
        return np.asarray(vectors[:, ::-1])
    _, vectors = scipy.linalg.eigh(M.T @ M, subset_by_index=(T - r, T - 1))
    return orthonormal(M @ vectors[:, ::-1])


def inverse_cholesky(M: Floats) -> Floats:
    """Return the upper triangular ``S`` with ``S S' = M^-1``, for a definite ``M``, (d, d).

    >>> inverse_cholesky(np.diag([4.0, 16.0])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    L = np.linalg.cholesky(M)
    return np.asarray(scipy.linalg.lapack.dtrtri(L, lower=1, overwrite_c=1)[0]).T


def procrustes(source: Floats, target: Floats) -> Floats:
    """Return the rotation ``R`` that minimises ``|source R - target|_F``.

    >>> B = orthonormal(np.arange(12.0).reshape(4, 3) ** 2)
    >>> bool(np.allclose(procrustes(B, -B), -np.eye(3)))
    True
    """
    U, _, Vt = np.linalg.svd(source.T @ target)
    return np.asarray(U @ Vt)


def factor(Theta: Floats, rank: int | None = None) -> tuple[Floats, Floats]:
    """Return ``B`` (d, r), orthonormal, and ``W`` (r, T) with ``B W = Theta`` to rank r.

    The columns of ``B`` are left singular vectors in falling order.
    """
    U, s, Vt = np.linalg.svd(Theta, full_matrices=False)
    return U[:, :rank], s[:rank, None] * Vt[:rank]
