"""Linear algebra that several layers share."""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

__all__ = [
    "factor",
    "inverse_cholesky",
    "inverse_definite",
    "inverse_triangles",
    "largest_eigenvalue",
    "leading_left_vectors",
    "least_norm",
    "median",
    "orthonormal",
    "procrustes",
    "solve_rows",
    "solve_semidefinite",
    "solve_triangles",
    "spectral_norm",
    "subspace_distance",
    "top_left_vectors",
    "triangle",
]

Floats = NDArray[np.floating]

_SPARE_DIRECTIONS = 8  # extra directions, which speed up subspace iteration
_SUBSPACE_ITERATIONS = 5
_FEW_ROWS = 32  # triangular systems below this size are solved with an inverse
_SMALL = 16  # triangular matrices below this size are inverted in one call


def subspace_distance(B1: Floats, B2: Floats) -> float:
    """Return ``SD(B1, B2) = |(I - B1 B1') B2|_F`` of two orthonormal bases, (d, r) each.

    0 for the same span, sqrt(r) for orthogonal ones.

    >>> subspace_distance(np.eye(3)[:, :2], np.eye(3)[:, 1:])
    1.0
    """
    return float(np.linalg.norm(B2 - B1 @ (B1.T @ B2)))


def orthonormal(B: Floats) -> Floats:
    """Return an orthonormal basis of the columns of ``B``, (d, r), by QR."""
    factored, tau, _, _ = scipy.linalg.lapack.dgeqrf(B)  # less to call than numpy.linalg.qr
    return np.asarray(scipy.linalg.lapack.dorgqr(factored, tau, overwrite_a=1)[0])


def top_left_vectors(M: Floats, r: int) -> Floats:
    """Return the ``r`` leading left singular vectors of ``M``, (d, T), as (d, r).

    They come from the smaller of the two Gram matrices, which is faster than an SVD.
    Directions with singular values below 1e-8 of the largest are not resolved.
    """
    d, T = M.shape
    if d <= T or not isinstance(M, np.ndarray):  # columns on several nodes have one Gram matrix
        _, vectors = scipy.linalg.eigh(M @ M.T, subset_by_index=(d - r, d - 1))
        return np.asarray(vectors[:, ::-1])
    _, vectors = scipy.linalg.eigh(M.T @ M, subset_by_index=(T - r, T - 1))
    return orthonormal(M @ vectors[:, ::-1])


def leading_left_vectors(M: Floats, r: int) -> Floats:
    """Return approximately the ``r`` leading left singular vectors of ``M``, (d, T), as (d, r).

    By subspace iteration, which is faster than :func:`top_left_vectors`. They are exact if more
    than about half of the directions are asked for.
    """
    width = r + _SPARE_DIRECTIONS
    if 2 * width > min(M.shape):
        return top_left_vectors(M, r)
    Q: Floats = np.random.default_rng(0).standard_normal((M.shape[0], width))
    for _ in range(_SUBSPACE_ITERATIONS):
        Q = orthonormal(M @ (M.T @ Q))
    P = Q.T @ M
    return np.asarray(Q @ np.linalg.eigh(P @ P.T)[1][:, : -r - 1 : -1])


def spectral_norm(M: Floats) -> float:
    """Return the largest singular value of ``M``, (d, T).

    >>> spectral_norm(np.diag([1.0, -3.0]))
    3.0
    """
    return float(np.linalg.norm(triangle(M), 2))


def triangle(M: Floats) -> Floats:
    """Return the triangle ``R`` with ``R'R = M M'``, for ``M`` (d, T), as (min(d, T), d).

    It has the singular values and the left singular vectors of ``M``, in a size that does not
    depend on T, and keeps their precision. Columns on several nodes are decomposed node by node
    (TSQR).
    """
    return np.asarray(np.linalg.qr(M.T, mode="r"))


def largest_eigenvalue(M: Floats) -> float:
    """Return the largest eigenvalue of a small symmetric ``M``.

    >>> largest_eigenvalue(np.diag([1.0, 3.0]))
    3.0
    """
    return float(scipy.linalg.lapack.dsyev(M, compute_v=0)[0][-1])


def inverse_definite(M: Floats) -> Floats:
    """Return the inverse of a small definite ``M``, (r, r).

    >>> inverse_definite(np.diag([2.0, 4.0])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    S = inverse_cholesky(M)
    return S @ S.T


def inverse_cholesky(M: Floats) -> Floats:
    """Return the upper triangular ``S`` with ``S S' = M^-1``, for a definite ``M``, (d, d).

    >>> inverse_cholesky(np.diag([4.0, 16.0])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    L = np.linalg.cholesky(M)
    return np.asarray(scipy.linalg.lapack.dtrtri(L, lower=1, overwrite_c=1)[0]).T


def inverse_triangles(M: Floats, *, lower: bool = False) -> Floats:
    """Return the inverses of triangular matrices, (m, k, k).

    >>> inverse_triangles(np.array([[[2.0, 4.0], [0.0, 1.0]]])).tolist()
    [[[0.5, -2.0], [0.0, 1.0]]]
    """
    if M.shape[-1] < _SMALL:
        return np.asarray(np.linalg.inv(M))
    out = np.empty_like(M)
    for one, to in zip(M, out, strict=True):
        # LAPACK reads columns, so it is given the transpose, whose triangle is the other one
        inverse, failed = scipy.linalg.lapack.dtrtri(one.T, lower=not lower)
        if failed:
            raise np.linalg.LinAlgError("a triangular matrix is singular")
        to[:] = inverse.T
    return out


def median(values: NDArray[np.float64]) -> float:
    """Return the median of numbers that are not NaN, in a fraction of the time of NumPy's.

    >>> median(np.array([4.0, 1.0, 2.0, 9.0]))
    3.0
    """
    low, high = (len(values) - 1) // 2, len(values) // 2
    parts = np.partition(values, (low, high))
    return float(parts[low] + parts[high]) / 2


def solve_triangles(L: Floats, B: Floats) -> Floats:
    """Return ``L^-1 B`` for lower triangular ``L``, (m, k, k), and ``B``, (m, k, n).

    >>> solve_triangles(np.array([[[2.0, 0.0], [4.0, 1.0]]]), np.array([[[2.0], [5.0]]])).tolist()
    [[[1.0], [1.0]]]
    """
    if L.shape[-1] < _FEW_ROWS:
        return np.asarray(inverse_triangles(L, lower=True) @ B)
    out, solve = np.array(B, np.float64, order="C"), scipy.linalg.blas.dtrsm
    for one, right in zip(L, out, strict=True):  # transposed, since BLAS reads columns
        solve(1.0, one.T, right.T, side=1, overwrite_b=1)  # in place
    return out


def solve_rows(L: Floats, B: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return ``L^-1 B`` and ``L^-1 y`` for lower triangular ``L``, (m, k, k), and ``y``, (m, k).

    >>> X, x = solve_rows(np.array([[[2.0]]]), np.array([[[4.0, 8.0]]]), np.array([[6.0]]))
    >>> X.tolist(), x.tolist()
    ([[[2.0, 4.0]]], [[3.0]])
    """
    if L.shape[-1] < _FEW_ROWS:
        inverse = inverse_triangles(L, lower=True)
        return np.asarray(inverse @ B), _times(y[:, None], inverse.transpose(0, 2, 1))
    out, solve = np.array(y, np.float64, order="C"), scipy.linalg.blas.dtrsv
    for one, right in zip(L, out, strict=True):
        solve(one.T, right, trans=1, overwrite_x=1)  # in place
    return solve_triangles(L, B), out


def solve_semidefinite(M: Floats, v: Floats, tolerance: float) -> Floats:
    """Solve ``M_t x_t = v_t`` for semidefinite ``M_t``, (T, d, d) and (T, d), as (T, d).

    ``M_t`` is first scaled to a unit diagonal, so that a large entry does not hide the others.
    Eigenvalues up to ``tolerance`` times the largest are then taken as zero. If there are any,
    ``x_t`` is the solution of least norm, in the original units.

    >>> M = np.array([[[1e20, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
    >>> solve_semidefinite(M, np.ones((2, 2)), 1e-12).round(6).tolist()
    [[0.0, 1.0], [0.5, 0.5]]
    """
    units = np.sqrt(np.diagonal(M, axis1=1, axis2=2))  # (T, d)
    absent = units == 0
    units = np.where(absent, 1, units)
    S = M / units[:, :, None] / units[:, None, :]
    S += absent[:, :, None] * np.eye(S.shape[-1])  # x is 0 there, and that does not make M singular
    values, V = np.linalg.eigh(S)
    kept = values > tolerance * values[:, -1:]  # (T, d)
    coordinates = _times((v / units)[:, None], V) * np.divide(1, values, where=kept, out=0 * values)
    x = _times(coordinates[:, None], V.transpose(0, 2, 1)) / units
    short = ~kept.all(axis=1)
    A = units[short, :, None] * V[short, :, ::-1]
    x[short] = _in_span(A, kept[short, ::-1], x[short])
    return x


def least_norm(A: Floats, y: Floats, tolerance: float) -> Floats:
    """Return ``argmin |A_t x_t - y_t|``, of least norm, for (T, n, d) and (T, n), as (T, d).

    Singular values up to ``tolerance`` times the largest are taken as zero, after each
    column is divided by its length, as in :func:`solve_semidefinite`.

    >>> least_norm(np.array([[[1e20, 0.0, 0.0], [0.0, 1.0, 1.0]]]), np.ones((1, 2)), 1e-12)[0, 1:]
    array([0.5, 0.5])
    """
    units = np.linalg.norm(A, axis=1)  # (T, d)
    units = np.where(units == 0, 1, units)
    U, s, Vt = np.linalg.svd(A / units[:, None, :], full_matrices=False)
    kept = s > tolerance * s.max(axis=1, initial=0, keepdims=True)  # (T, min(n, d))
    coordinates = _times(y[:, None], U) * np.divide(1, s, where=kept, out=np.zeros_like(s))
    x = _times(coordinates[:, None], Vt) / units
    short = np.count_nonzero(kept, axis=1) < A.shape[2]
    rows = units[short, :, None] * Vt[short].transpose(0, 2, 1)
    x[short] = _in_span(rows, kept[short], x[short])
    return x


def _in_span(A: Floats, kept: NDArray[np.bool_], x: Floats) -> Floats:
    """Project ``x_t``, (T, d), on the ``kept`` columns of ``A_t``, (T, d, k), the first ones."""
    Q, _ = np.linalg.qr(A)
    coordinates = _times(x[:, None], Q) * kept
    return _times(coordinates[:, None], Q.transpose(0, 2, 1))


def _times(rows: Floats, M: Floats) -> Floats:
    """Return the products of single rows, (T, 1, d), with matrices, (T, d, e), as (T, e)."""
    return np.asarray((rows @ M)[:, 0])


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
    U, _, _ = np.linalg.svd(triangle(Theta).T, full_matrices=False)
    B = np.ascontiguousarray(U[:, :rank])
    return B, B.T @ Theta
