"""The hot loops: every task's least squares in a given basis, and its residuals.

Everything that an estimator repeats is one of the passes below. On rows, a pass
runs compiled (``compiled/_pass.c``) where the extension was built, and in batched NumPy
where it was not. Both are single-threaded: what is parallel is the level above,
processes over trials or cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cobandits.linalg import least_norm, solve_semidefinite

try:
    from cobandits.compiled import _pass
except ImportError:  # no compiler at installation
    COMPILED = False
else:
    COMPILED = True

__all__ = [
    "COMPILED",
    "Fit",
    "Ridge",
    "blocks",
    "gram_least_squares",
    "gram_residuals",
    "gram_ridge",
    "least_squares",
    "pull_backs",
    "residuals",
    "ridge",
    "turns",
]

Floats = NDArray[np.floating]
Offsets = NDArray[np.int64]
Number = TypeVar("Number", bound=np.generic)
Ridge = float | Floats  # one number for all features, or (d,)

_BLOCK_BYTES = 1 << 21  # what a batched pass may hold at a time


class Fit(NamedTuple):
    """Every task's best weights in a basis, and what is left."""

    weights: Floats  # (r, T)
    gradient: Floats  # (d, r), half the derivative of the total cost in B
    costs: NDArray[np.float64]  # (T,), squared residuals plus the ridge term
    determined: bool = False  # whether it is known that no other weights are as good


def least_squares(
    rows: Floats, rewards: Floats, offsets: Offsets, B: Floats, ridge: Ridge = 0.0
) -> Fit:
    """Solve every task in the span of ``B`` and return the gradient in ``B``.

    Lines 6 and 7 of Algorithm 3: ``w_t = (Phi_t B)^+ y_t`` and
    ``sum_t Phi_t' (Phi_t B w_t - y_t) w_t'``. With a ``ridge``, one number or one a
    feature, the cost of task t has ``sum_j ridge_j theta_tj^2`` added for
    ``theta_t = B w_t``, which does not depend on the choice of ``B`` within its span. A
    task that does not determine its weights gets those of least norm.

    Parameters
    ----------
    rows : (n_rows, d)
        Feature vectors, a task's rows side by side.
    rewards : (n_rows,)
    offsets : (T + 1,)
        Task t owns the rows ``offsets[t]`` to ``offsets[t + 1]``.
    B : (d, r)
    """
    penalty = _penalty(B, ridge)
    tolerance = _pivot_tolerance(B.shape[1], rows.dtype)
    if not COMPILED:
        everyone = np.arange(len(offsets) - 1)
        fit = _batched_least_squares(rows, rewards, offsets, everyone, B, penalty, tolerance)
    else:
        fit = _compiled_least_squares(rows, rewards, offsets, B, penalty, tolerance)
    return _with_ridge_gradient(fit, B, ridge)


def residuals(
    rows: Floats, rewards: Floats, offsets: Offsets, Theta: Floats
) -> tuple[Floats, NDArray[np.float64]]:
    """Return ``Phi_t' (Phi_t theta_t - y_t)``, (d, T), and the squared residuals, (T,)."""
    d, T = Theta.shape
    thetas = np.ascontiguousarray(Theta.T)  # (T, d)
    G = np.zeros_like(thetas)
    costs = np.zeros(T)
    if COMPILED:
        _pass.residuals(rows, rewards, offsets, thetas, G, costs, d, rows.dtype == np.float64)
        return G.T, costs
    for group, Phi, y in _equal_counts(rows, rewards, offsets, np.arange(T)):
        e = (Phi @ thetas[group, :, None])[..., 0] - y  # (group, n)
        G[group] = (e[:, None, :] @ Phi)[:, 0]
        costs[group] = np.einsum("tn,tn->t", e, e)
    return G.T, costs


def pull_backs(rows: Floats, values: Floats, offsets: Offsets) -> Floats:
    """Return ``Phi_t' v`` for every task and column v of ``values``, (n_rows, k), as (T, k, d)."""
    T, k, d = len(offsets) - 1, values.shape[1], rows.shape[1]
    out = np.zeros((T, k, d), rows.dtype)
    values = np.ascontiguousarray(values, rows.dtype)
    if COMPILED:
        _pass.pull_backs(rows, values, offsets, out, d, k, rows.dtype == np.float64)
        return out
    for group, Phi, index in _equal_counts(rows, np.arange(len(rows)), offsets, np.arange(T)):
        out[group] = values[index].transpose(0, 2, 1) @ Phi
    return out


def gram_least_squares(
    grams: Floats, moments: Floats, squares: Floats, B: Floats, ridge: Ridge = 0.0
) -> Fit:
    """Do what :func:`least_squares` does, from sufficient statistics.

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
    penalty = _penalty(B, ridge)
    for block in blocks(T, d * r * grams.itemsize):
        S = (grams[block].reshape(-1, d) @ B).reshape(-1, d, r)  # (block, d, r)
        v = moments[block] @ B
        M = B.T @ S + penalty
        w = _solve_normal(M, v, _pivot_tolerance(r, M.dtype))
        g = (S @ w[..., None])[..., 0] - moments[block]  # (block, d)
        W[block] = w
        gradient += g.T @ w
        explained = 2 * np.einsum("tr,tr->t", v, w) - np.einsum("tr,trs,ts->t", w, M, w)
        costs[block] = np.maximum(squares[block] - explained, 0)
    return _with_ridge_gradient(Fit(W.T, gradient, costs), B, ridge)


def gram_residuals(
    grams: Floats, moments: Floats, squares: Floats, Theta: Floats
) -> tuple[Floats, NDArray[np.float64]]:
    """Do what :func:`residuals` does, from sufficient statistics."""
    thetas = Theta.T  # (T, d)
    predicted = (grams @ thetas[..., None])[..., 0]  # (T, d)
    G = predicted - moments
    costs = squares + np.einsum("td,td->t", thetas, G - moments)
    return G.T, np.maximum(costs, 0)


def ridge(rows: Floats, rewards: Floats, offsets: Offsets, penalty: Ridge) -> Floats:
    """Return ``argmin |y_t - Phi_t theta|^2 + sum_j penalty_j theta_j^2`` a task, (d, T).

    The penalty is one number or one a feature. Solved in the smaller of the two spaces:
    (d, d) normal equations, or (n, n) where a task has fewer rows than features. Without a
    penalty, or with one that rounding hides, the solution of least norm.
    """
    d, T = rows.shape[1], len(offsets) - 1
    thetas = np.zeros((T, d), rows.dtype)
    penalties = np.broadcast_to(np.asarray(penalty, np.float64), d)
    for group, Phi, y in _equal_counts(rows, rewards, offsets, np.arange(T)):
        resolved = max(Phi.shape[1:]) * float(np.finfo(rows.dtype).eps)
        data = Phi.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
        if penalties.any():
            thetas[group] = _penalised(*data, penalties, resolved**2)
        else:
            thetas[group] = least_norm(*data, resolved)
    return thetas.T


def gram_ridge(grams: Floats, moments: Floats, penalty: Ridge) -> Floats:
    """Do what :func:`ridge` does, from sufficient statistics."""
    T, d, _ = grams.shape
    thetas = np.zeros((T, d))
    penalties = np.broadcast_to(np.asarray(penalty, np.float64), d)
    for block in blocks(T, d * d * grams.itemsize):
        thetas[block] = _solve_penalised(grams[block], moments[block], penalties)
    return thetas.T


def _penalised(Phi: Floats, y: Floats, penalties: Floats, resolved: float) -> Floats:
    """Do :func:`ridge` for tasks with equally many rows, (T, n, d) and (T, n), as (T, d)."""
    n, d = Phi.shape[1:]
    Phit = Phi.transpose(0, 2, 1)
    if n >= d or not penalties.all():
        moments = (Phit @ y[..., None])[..., 0]
        return _solve_penalised(Phit @ Phi, moments, penalties, resolved)
    largest = penalties.max()
    Phit = Phit / (penalties / largest)[:, None]
    alphas = _solve_penalised(Phi @ Phit, y, np.broadcast_to(largest, n), resolved)
    return np.asarray((Phit @ alphas[..., None])[..., 0])


def _solve_penalised(
    grams: Floats, moments: Floats, penalties: Floats, resolved: float = 0.0
) -> Floats:
    """Solve ``(G_t + diag(penalties)) x_t = v_t``, with least norm where singular."""
    d = len(penalties)
    tolerance = max(resolved, _pivot_tolerance(d, grams.dtype))
    M = grams + np.diag(penalties)
    if np.all(penalties > tolerance * np.diagonal(M, axis1=1, axis2=2)):  # far from singular
        return np.asarray(np.linalg.solve(M, moments[..., None])[..., 0])
    return solve_semidefinite(M, moments, tolerance)


def _compiled_least_squares(
    rows: Floats,
    rewards: Floats,
    offsets: Offsets,
    B: Floats,
    penalty: Floats,
    tolerance: float,
) -> Fit:
    (d, r), T = B.shape, len(offsets) - 1
    dtype = rows.dtype
    W = np.empty((T, r), dtype)
    grad_t = np.empty((r, d), dtype)
    costs = np.empty(T)
    B_c = np.ascontiguousarray(B, dtype)
    penalty_c = np.ascontiguousarray(penalty, dtype)
    is_double = dtype == np.float64
    n_singular = _pass.least_squares(
        rows, rewards, offsets, B_c, penalty_c, W, grad_t, costs, d, r, is_double, tolerance
    )
    if n_singular == 0:
        return Fit(W.T, grad_t.T, costs, determined=True)
    singular = np.flatnonzero(costs < 0)
    rest = _batched_least_squares(rows, rewards, offsets, singular, B, penalty, tolerance)
    W[singular] = rest.weights.T[singular]
    costs[singular] = rest.costs[singular]
    return Fit(W.T, grad_t.T + rest.gradient, costs)


def _batched_least_squares(
    rows: Floats,
    rewards: Floats,
    offsets: Offsets,
    tasks: NDArray[np.int64],
    B: Floats,
    penalty: Floats,
    tolerance: float,
) -> Fit:
    """Do the pass for ``tasks`` only, those with equally many rows at once."""
    (d, r), T = B.shape, len(offsets) - 1
    W = np.zeros((T, r), rows.dtype)
    gradient = np.zeros((d, r), rows.dtype)
    costs = np.zeros(T)
    for group, Phi, y in _equal_counts(rows, rewards, offsets, tasks):
        A = Phi @ B  # (group, n, r)
        At = A.transpose(0, 2, 1)
        w = _solve_normal(At @ A + penalty, (At @ y[..., None])[..., 0], tolerance)
        e = (A @ w[..., None])[..., 0] - y  # (group, n)
        gradient += (e[:, None, :] @ Phi)[:, 0].T @ w
        W[group] = w
        costs[group] = np.einsum("tn,tn->t", e, e) + np.einsum("tr,rs,ts->t", w, penalty, w)
    return Fit(W.T, gradient, costs)


def _penalty(B: Floats, ridge: Ridge) -> Floats:
    """Return the ridge on theta as one on weights: ``B' diag(ridge) B``, (r, r)."""
    if isinstance(ridge, float) and ridge == 0:
        return np.zeros((B.shape[1], B.shape[1]))
    return (B.T * ridge) @ B


def _with_ridge_gradient(fit: Fit, B: Floats, ridge: Ridge) -> Fit:
    if isinstance(ridge, float) and ridge == 0:
        return fit
    shrinkage = np.reshape(ridge, (-1, 1)) * (B @ (fit.weights @ fit.weights.T))
    return fit._replace(gradient=fit.gradient + shrinkage)


def _pivot_tolerance(rank: int, dtype: np.dtype[np.floating]) -> float:
    """Return the share of a pivot below which rounding has eaten it."""
    return float(64 * rank * np.finfo(dtype).eps)


def _solve_normal(M: Floats, v: Floats, tolerance: float) -> Floats:
    """Solve ``M_t w_t = v_t``, (T, r, r) and (T, r), with least norm where singular."""
    values, vectors = np.linalg.eigh(M)
    largest = values[:, -1:]
    keep = values > tolerance * largest
    inverse = np.divide(1, values, out=np.zeros_like(values), where=keep)
    coordinates = (v[:, None, :] @ vectors)[:, 0] * inverse
    return np.asarray((vectors @ coordinates[..., None])[..., 0])


def _equal_counts(
    rows: Floats, rewards: NDArray[Number], offsets: Offsets, tasks: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], Floats, NDArray[Number]]]:
    """Yield groups of tasks with equally many rows: their numbers, Phi (., n, d), y (., n)."""
    d = rows.shape[1]
    counts = np.diff(offsets)
    for n in np.unique(counts[tasks]).tolist():
        alike = tasks[counts[tasks] == n]
        for block in blocks(len(alike), n * d * rows.itemsize):
            group = alike[block]
            first, last = offsets[group[0]], offsets[group[-1] + 1]
            if last - first == n * len(group):  # side by side: no copy
                index: slice | NDArray[np.int64] = slice(int(first), int(last))
            else:
                index = (offsets[group, None] + np.arange(n)).ravel()
            m = len(group)
            yield group, rows[index].reshape(m, n, d), rewards[index].reshape(m, n)


def blocks(length: int, item_bytes: int) -> Iterator[slice]:
    """Cut ``range(length)`` into slices that hold about 2 MiB each."""
    step = max(1, _BLOCK_BYTES // max(1, item_bytes))
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def turns(tasks: Offsets) -> Offsets:
    """Return how often the task of each row has come before it, (m,).

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
