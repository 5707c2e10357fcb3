"""The passes over the rows of all tasks, compiled or in NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels.batches import equal_counts
from cobandits.kernels.normal import (
    Fit,
    RidgePenalty,
    pivot_tolerance,
    solve_normal,
    solve_penalised,
    weight_penalty,
    with_ridge_gradient,
)
from cobandits.linalg import least_norm

try:
    from cobandits.compiled import _pass
except ImportError:  # no compiler at installation
    COMPILED = False
else:
    COMPILED = True

__all__ = ["COMPILED", "least_squares", "pull_backs", "residuals", "ridge"]

Floats = NDArray[np.floating]
Offsets = NDArray[np.int64]


def least_squares(
    rows: Floats, rewards: Floats, offsets: Offsets, B: Floats, ridge: RidgePenalty = 0.0
) -> Fit:
    """Solve every task in the span of ``B`` and return the gradient in ``B``.

    Lines 6 and 7 of Algorithm 3: ``w_t = (Phi_t B)^+ y_t`` and
    ``sum_t Phi_t' (Phi_t B w_t - y_t) w_t'``. A ``ridge``, one number or one per feature,
    adds ``sum_j ridge_j theta_tj^2`` to the cost of task t, with ``theta_t = B w_t``; this
    depends on the span of ``B`` only. If the rows of a task do not determine its weights,
    it gets those of least norm.

    Parameters
    ----------
    rows : (n_rows, d)
        Feature vectors, sorted by task.
    rewards : (n_rows,)
    offsets : (T + 1,)
        Task t owns the rows ``offsets[t]`` to ``offsets[t + 1]``.
    B : (d, r)
    """
    penalty = weight_penalty(B, ridge)
    tolerance = pivot_tolerance(B.shape[1], rows.dtype)
    if not COMPILED:
        everyone = np.arange(len(offsets) - 1)
        fit = _batched_least_squares(rows, rewards, offsets, everyone, B, penalty, tolerance)
    else:
        fit = _compiled_least_squares(rows, rewards, offsets, B, penalty, tolerance)
    return with_ridge_gradient(fit, B, ridge)


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
    for group, Phi, y in equal_counts(rows, rewards, offsets, np.arange(T)):
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
    for group, Phi, index in equal_counts(rows, np.arange(len(rows)), offsets, np.arange(T)):
        out[group] = values[index].transpose(0, 2, 1) @ Phi
    return out


def ridge(rows: Floats, rewards: Floats, offsets: Offsets, penalty: RidgePenalty) -> Floats:
    """Return ``argmin |y_t - Phi_t theta|^2 + sum_j penalty_j theta_j^2`` per task, (d, T).

    The penalty is one number or one per feature. Tasks with at least as many rows as
    features are solved by (d, d) normal equations, the others by (n, n) ones. Without a
    penalty, or with one lost to rounding, the solution is that of least norm.
    """
    d, T = rows.shape[1], len(offsets) - 1
    thetas = np.zeros((T, d), rows.dtype)
    penalties = np.broadcast_to(np.asarray(penalty, np.float64), d)
    for group, Phi, y in equal_counts(rows, rewards, offsets, np.arange(T)):
        resolved = max(Phi.shape[1:]) * float(np.finfo(rows.dtype).eps)
        data = Phi.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
        if penalties.any():
            thetas[group] = _penalised(*data, penalties, resolved**2)
        else:
            thetas[group] = least_norm(*data, resolved)
    return thetas.T


def _penalised(Phi: Floats, y: Floats, penalties: Floats, resolved: float) -> Floats:
    """Solve :func:`ridge` for tasks with equally many rows, (T, n, d) and (T, n), as (T, d)."""
    n, d = Phi.shape[1:]
    Phit = Phi.transpose(0, 2, 1)
    if n >= d or not penalties.all():
        moments = (Phit @ y[..., None])[..., 0]
        return solve_penalised(Phit @ Phi, moments, penalties, resolved)
    largest = penalties.max()
    Phit = Phit / (penalties / largest)[:, None]
    alphas = solve_penalised(Phi @ Phit, y, np.broadcast_to(largest, n), resolved)
    return np.asarray((Phit @ alphas[..., None])[..., 0])


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
    """Do the pass for ``tasks`` only; tasks with equally many rows are one batch."""
    (d, r), T = B.shape, len(offsets) - 1
    W = np.zeros((T, r), rows.dtype)
    gradient = np.zeros((d, r), rows.dtype)
    costs = np.zeros(T)
    for group, Phi, y in equal_counts(rows, rewards, offsets, tasks):
        A = Phi @ B  # (group, n, r)
        At = A.transpose(0, 2, 1)
        w, _ = solve_normal(At @ A + penalty, (At @ y[..., None])[..., 0], tolerance)
        e = (A @ w[..., None])[..., 0] - y  # (group, n)
        gradient += (e[:, None, :] @ Phi)[:, 0].T @ w
        W[group] = w
        costs[group] = np.einsum("tn,tn->t", e, e) + np.einsum("tr,rs,ts->t", w, penalty, w)
    return Fit(W.T, gradient, costs)
