"""The passes over the sufficient statistics of all tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels.batches import chunks
from cobandits.kernels.normal import (
    Fit,
    RidgePenalty,
    pivot_tolerance,
    solve_normal,
    solve_penalised,
    weight_penalty,
    with_ridge_gradient,
)

__all__ = ["gram_least_squares", "gram_residuals", "gram_ridge"]

Floats = NDArray[np.floating]


def gram_least_squares(
    grams: Floats, moments: Floats, squares: Floats, B: Floats, ridge: RidgePenalty = 0.0
) -> Fit:
    """Solve :func:`cobandits.kernels.least_squares` from sufficient statistics.

    Parameters
    ----------
    grams : (T, d, d)
        ``Phi_t' Phi_t``.
    moments : (T, d)
        ``Phi_t' y_t``.
    squares : (T,)
        ``y_t' y_t``.
    """
    T, d, _ = grams.shape
    r = B.shape[1]
    W = np.zeros((T, r))
    costs = np.zeros(T)
    gradient = np.zeros((d, r))
    penalty = weight_penalty(B, ridge)
    transposed = np.ascontiguousarray(B.T)
    determined = True
    for chunk in chunks(T, d * r * grams.itemsize):
        S = transposed @ grams[chunk]  # (chunk, r, d); this side is the faster one in BLAS
        v = moments[chunk] @ B
        M = (S.reshape(-1, d) @ B).reshape(-1, r, r) + penalty
        w, definite = solve_normal(M, v, pivot_tolerance(r, M.dtype))
        determined &= definite
        g = (w[:, None, :] @ S)[:, 0] - moments[chunk]  # (chunk, d)
        W[chunk] = w
        gradient += g.T @ w
        explained = np.einsum("tr,tr->t", w, 2 * v - (M @ w[..., None])[..., 0])
        costs[chunk] = np.maximum(squares[chunk] - explained, 0)
    return with_ridge_gradient(Fit(W.T, gradient, costs, determined), B, ridge)


def gram_residuals(
    grams: Floats, moments: Floats, squares: Floats, Theta: Floats
) -> tuple[Floats, NDArray[np.float64]]:
    """Compute :func:`cobandits.kernels.residuals` from sufficient statistics."""
    thetas = Theta.T  # (T, d)
    predicted = (grams @ thetas[..., None])[..., 0]  # (T, d)
    G = predicted - moments
    costs = squares + np.einsum("td,td->t", thetas, G - moments)
    return G.T, np.maximum(costs, 0)


def gram_ridge(grams: Floats, moments: Floats, penalty: RidgePenalty) -> Floats:
    """Solve :func:`cobandits.kernels.ridge` from sufficient statistics."""
    T, d, _ = grams.shape
    thetas = np.zeros((T, d))
    penalties = np.broadcast_to(np.asarray(penalty, np.float64), d)
    for chunk in chunks(T, d * d * grams.itemsize):
        thetas[chunk] = solve_penalised(grams[chunk], moments[chunk], penalties)
    return thetas.T
