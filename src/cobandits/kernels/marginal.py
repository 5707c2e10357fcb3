"""The likelihood of rewards if thetas vary between tasks around a common mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.kernels.batches import chunks, equal_counts
from cobandits.linalg import inverse_triangles

__all__ = ["Marginal", "gram_marginal", "marginal"]

Floats = NDArray[np.floating]
Offsets = NDArray[np.int64]

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
