"""The likelihood of rewards if thetas vary between tasks around a common mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.kernels.batches import chunks, equal_counts
from cobandits.linalg import inverse_triangles, solve_semidefinite

__all__ = ["Marginal", "common_mean", "gram_marginal", "gram_partially_pooled", "marginal"]

Floats = NDArray[np.floating]
Offsets = NDArray[np.int64]

_RESOLVED = 1e-14  # relative precision of the precision matrix, per feature
_SMALL = 16  # matrices below this size are inverted in one call


class Marginal(NamedTuple):
    """Sums over tasks with ``K_t = I + Phi_t diag(v) Phi_t'``, the covariance of rewards.

    Both ``v`` and ``K_t`` are in units of the noise variance. The rewards of task t have the
    mean ``Phi_t m`` for a common mean ``m``, so the generalised least squares of ``m`` is
    ``precision^-1 moments``.
    """

    precision: Floats  # sum of Phi_t' K_t^-1 Phi_t, (d, d)
    moments: Floats  # sum of Phi_t' K_t^-1 y_t, (d,)
    square: float  # sum of y_t' K_t^-1 y_t
    log_determinant: float  # sum of log |K_t|


def marginal(rows: Floats, rewards: Floats, offsets: Offsets, variances: Floats) -> Marginal:
    """Return the sums for rows sorted by task; ``variances`` v above 0, one per feature, (d,)."""
    d = rows.shape[1]
    U = np.zeros((d + 1, d + 1))  # of rows and rewards side by side
    log_determinant = 0.0
    for _, Phi, y in equal_counts(rows, rewards, offsets, np.arange(len(offsets) - 1)):
        n = Phi.shape[1]
        both = np.concatenate([Phi, y[..., None]], axis=-1, dtype=np.float64)  # (group, n, d + 1)
        if n < d:
            scaled = both[..., :d] * np.sqrt(variances)
            L = np.linalg.cholesky(np.eye(n) + scaled @ scaled.transpose(0, 2, 1))
            log_determinant += 2 * float(np.log(np.diagonal(L, axis1=1, axis2=2)).sum())
            whitened = (inverse_triangles(L, lower=True) @ both).reshape(-1, d + 1)
            U += whitened.T @ whitened
        else:
            grams = both.transpose(0, 2, 1) @ both
            reduced, added = _reduced(grams, variances)
            U += reduced
            log_determinant += added
    return Marginal(U[:d, :d], U[:d, d], float(U[d, d]), log_determinant)


def gram_marginal(grams: Floats, moments: Floats, squares: Floats, variances: Floats) -> Marginal:
    """Return the sums of :func:`marginal` from sufficient statistics."""
    T, d, _ = grams.shape
    U = np.zeros((d + 1, d + 1))
    log_determinant = 0.0
    for chunk in chunks(T, (d + 1) ** 2 * grams.itemsize):
        both = np.empty((len(grams[chunk]), d + 1, d + 1))
        both[:, :d, :d], both[:, d, d] = grams[chunk], squares[chunk]
        both[:, :d, d] = both[:, d, :d] = moments[chunk]
        reduced, added = _reduced(both, variances)
        U += reduced
        log_determinant += added
    return Marginal(U[:d, :d], U[:d, d], float(U[d, d]), log_determinant)


def common_mean(precision: Floats, moments: Floats, penalty: Floats) -> Floats:
    """Return the common mean by generalised least squares with a penalty, (d,).

    Entries with an infinite penalty are 0.
    """
    free = np.flatnonzero(np.isfinite(penalty))
    M = precision[np.ix_(free, free)] + np.diag(penalty[free])
    m = np.zeros(len(penalty))
    m[free] = solve_semidefinite(M[None], moments[None, free], len(penalty) * _RESOLVED)[0]
    return m


def gram_partially_pooled(
    grams: Floats, moments: Floats, ridge: Floats, mean_ridge: Floats
) -> tuple[Floats, Floats]:
    """Return the common mean, (d,), and thetas shrunken to it, (d, T), for a mean of few entries.

    With ``D = ridge^-1/2`` and ``M_t = I + D G_t D``, theta is ``D M_t^-1 (D b_t + D^-1 m)``: one
    system per task, with a right side for the moments ``b_t`` and one for each entry of m.
    """
    T, d, _ = grams.shape
    D, free = 1 / np.sqrt(ridge), np.flatnonzero(np.isfinite(mean_ridge))
    found = np.empty((T, d, 1 + len(free)))  # M^-1 D b and columns of M^-1
    for chunk in chunks(T, d * d * grams.itemsize):
        M = grams[chunk] * np.outer(D, D) + np.eye(d)
        columns = np.broadcast_to(np.eye(d)[:, free], (len(M), d, len(free)))
        sides = np.concatenate([(D * moments[chunk])[..., None], columns], axis=2)
        found[chunk] = np.linalg.solve(M, sides)
    precision, sums = np.zeros((d, d)), found[..., 0].sum(axis=0) / D
    inverse = found[:, free, 1:].sum(axis=0)
    precision[np.ix_(free, free)] = (T * np.eye(len(free)) - inverse) / np.outer(D[free], D[free])
    m = common_mean(precision, sums, mean_ridge)
    return m, (D * (found[..., 0] + found[..., 1:] @ (m / D)[free])).T


def _reduced(grams: Floats, variances: Floats) -> tuple[Floats, float]:
    """Return ``sum G - G D (I + D G D)^-1 D G`` with ``D^2 = diag(v)``, and the log determinants.

    ``G``, (T, d + 1, d + 1), is the Gram matrix of rows and rewards; rewards have no entry in D.
    With ``M = I + D G D``, the part of the features is ``D^-1 (I - M^-1) D^-1``: one inverse per
    task.
    """
    d = len(variances)
    D = np.sqrt(variances)
    M = grams[:, :d, :d] * np.outer(D, D) + np.eye(d)
    b = D * grams[:, :d, d]  # (T, d)
    halves, log_determinant = _inverses(M)
    diagonals = np.diagonal(halves, axis1=1, axis2=2)
    total = halves.sum(axis=0)
    inverse = total + total.T - np.diag(diagonals.sum(axis=0))
    shrunk = (halves @ b[..., None] + halves.transpose(0, 2, 1) @ b[..., None])[..., 0]
    shrunk -= diagonals * b
    U = np.empty((d + 1, d + 1))
    U[:d, :d] = (len(M) * np.eye(d) - inverse) / np.outer(D, D)
    U[:d, d] = U[d, :d] = shrunk.sum(axis=0) / D
    U[d, d] = grams[:, d, d].sum() - np.einsum("ti,ti->", b, shrunk)
    return U, log_determinant


def _inverses(M: Floats) -> tuple[Floats, float]:
    """Return the lower triangles of the inverses of definite matrices, (T, d, d).

    And the sum of the log determinants.
    """
    L = np.linalg.cholesky(M)
    log_determinant = 2 * float(np.log(np.diagonal(L, axis1=1, axis2=2)).sum())
    if M.shape[-1] < _SMALL:
        return np.tril(np.linalg.inv(M)), log_determinant
    for one in L:  # LAPACK reads columns: of the transpose, the upper triangle
        upper, _ = scipy.linalg.lapack.dpotri(one.T, lower=0, overwrite_c=1)
        one[:] = upper.T
    return L, log_determinant
