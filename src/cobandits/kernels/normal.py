"""Normal equations of all tasks: what the passes over rows and over statistics share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.linalg import solve_semidefinite

__all__ = [
    "Fit",
    "RidgePenalty",
    "pivot_tolerance",
    "solve_normal",
    "solve_penalised",
    "weight_penalty",
    "with_ridge_gradient",
]

Floats = NDArray[np.floating]
RidgePenalty = float | Floats  # one number for all features, or (d,)


class Fit(NamedTuple):
    """Every task's least-squares weights in a basis, with the gradient and the costs."""

    weights: Floats  # (r, T)
    gradient: Floats  # (d, r), half the derivative of the total cost in B
    costs: NDArray[np.float64]  # (T,), squared residuals plus the ridge term
    determined: bool = False  # True if every task is known to have one solution only


def weight_penalty(B: Floats, ridge: RidgePenalty) -> Floats:
    """Return the ridge on theta as a penalty on weights: ``B' diag(ridge) B``, (r, r)."""
    if isinstance(ridge, float) and ridge == 0:
        return np.zeros((B.shape[1], B.shape[1]))
    return (B.T * ridge) @ B


def with_ridge_gradient(fit: Fit, B: Floats, ridge: RidgePenalty) -> Fit:
    """Add the derivative of the ridge term, half of it, to the gradient of ``fit``."""
    if isinstance(ridge, float) and ridge == 0:
        return fit
    shrinkage = np.reshape(ridge, (-1, 1)) * (B @ (fit.weights @ fit.weights.T))
    return fit._replace(gradient=fit.gradient + shrinkage)


def solve_normal(M: Floats, v: Floats, tolerance: float) -> tuple[Floats, bool]:
    """Solve ``M_t w_t = v_t``, (T, r, r) and (T, r), with least norm where singular.

    And return whether every task has one solution only, by the pivots of its matrix.
    """
    if _are_definite(M, tolerance):
        return np.asarray(np.linalg.solve(M, v[..., None])[..., 0]), True
    return _least_norm(M, v, tolerance), False


def _are_definite(M: Floats, tolerance: float) -> bool:
    try:
        pivots = np.diagonal(np.linalg.cholesky(M), axis1=1, axis2=2) ** 2
    except np.linalg.LinAlgError:
        return False
    largest = np.diagonal(M, axis1=1, axis2=2).max(axis=1, initial=0)
    return bool(np.all(pivots > tolerance * largest[:, None]))


def _least_norm(M: Floats, v: Floats, tolerance: float) -> Floats:
    """Solve by eigenvalues; those below ``tolerance`` times the largest count as 0."""
    values, vectors = np.linalg.eigh(M)
    largest = values[:, -1:]
    keep = values > tolerance * largest
    inverse = np.divide(1, values, out=np.zeros_like(values), where=keep)
    coordinates = (v[:, None, :] @ vectors)[:, 0] * inverse
    return np.asarray((vectors @ coordinates[..., None])[..., 0])


def solve_penalised(
    grams: Floats, moments: Floats, penalties: Floats, resolved: float = 0.0
) -> Floats:
    """Solve ``(G_t + diag(penalties)) x_t = v_t``, with least norm where singular."""
    d = len(penalties)
    tolerance = max(resolved, pivot_tolerance(d, grams.dtype))
    M = grams + np.diag(penalties)
    if np.all(penalties > tolerance * np.diagonal(M, axis1=1, axis2=2)):  # far from singular
        return np.asarray(np.linalg.solve(M, moments[..., None])[..., 0])
    return solve_semidefinite(M, moments, tolerance)


def pivot_tolerance(rank: int, dtype: np.dtype[np.floating]) -> float:
    """Return the relative size below which a pivot is only rounding error."""
    return float(64 * rank * np.finfo(dtype).eps)
