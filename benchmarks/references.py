"""AltGDMin written three times in plain NumPy, to compare the library with.

``literal`` is the paper's pseudo-code word by word: a loop over tasks and a pseudo-inverse a
task. ``batched`` does the same for all tasks at once. ``batched_reusing`` is ``batched`` with
the product ``Phi B`` used twice, the fastest plain NumPy that was found.

All take equally many rows per task, stacked: Phi (T, n, d) and y (T, n). All estimate the unknown
``sigma_max*`` of the step by that of the current ``W``, as the library does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cobandits.metrics import relative_error

__all__ = [
    "ITERATIONS",
    "Iteration",
    "batched",
    "batched_reusing",
    "iterations_to_error",
    "literal",
    "run",
    "spectral_start",
    "stacked",
]

Floats = NDArray[np.floating]
Iteration = Callable[[Floats, Floats, Floats, float], tuple[Floats, Floats]]  # Phi, y, B, step

STEP = 0.4  # c_gamma of Theorem 5.2
TRUNCATION = 9.0  # C of Algorithm 2


def stacked(rows: Floats, rewards: Floats, n_tasks: int) -> tuple[Floats, Floats]:
    """Return flat rows of equally large tasks as Phi (T, n, d) and y (T, n)."""
    return rows.reshape(n_tasks, -1, rows.shape[1]), rewards.reshape(n_tasks, -1)


def spectral_start(Phi: Floats, y: Floats, rank: int) -> Floats:
    """Return the start of Algorithm 2: top left singular vectors of truncated ``Phi_t' y_t``."""
    n = Phi.shape[1]
    alpha = TRUNCATION * np.mean(y**2)
    kept = np.where(np.abs(y) <= np.sqrt(alpha), y, 0)
    Theta_0 = (Phi.transpose(0, 2, 1) @ kept[..., None])[..., 0].T / n  # (d, T)
    U, _, _ = np.linalg.svd(Theta_0, full_matrices=False)
    return np.ascontiguousarray(U[:, :rank])


def literal(Phi: Floats, y: Floats, B: Floats, step: float = STEP) -> tuple[Floats, Floats]:
    """Do lines 6 to 9 of Algorithm 3 task by task; return the next ``B``, and ``W`` for this."""
    T, n, d = Phi.shape
    W = np.empty((B.shape[1], T), B.dtype)
    Theta = np.empty((d, T), B.dtype)
    gradient = np.zeros_like(B)
    for t in range(T):
        W[:, t] = np.linalg.pinv(Phi[t] @ B) @ y[t]
        Theta[:, t] = B @ W[:, t]
    for t in range(T):
        gradient += np.outer(Phi[t].T @ (Phi[t] @ Theta[:, t] - y[t]), W[:, t])
    return _projected_step(B, gradient, W, step, n), W


def batched(Phi: Floats, y: Floats, B: Floats, step: float = STEP) -> tuple[Floats, Floats]:
    """Do the same for all tasks at once."""
    A = Phi @ B  # (T, n, r)
    w = _solved(A, y)  # (T, r, 1)
    Theta = B @ w  # (T, d, 1)
    return _batched_step(Phi, B, w, Phi @ Theta - y[..., None], step)


def batched_reusing(Phi: Floats, y: Floats, B: Floats, step: float = STEP) -> tuple[Floats, Floats]:
    """Do the same, with the residual from the product ``Phi B`` that is there already."""
    A = Phi @ B
    w = _solved(A, y)
    return _batched_step(Phi, B, w, A @ w - y[..., None], step)


ITERATIONS: dict[str, Iteration] = {
    "literal": literal,
    "batched": batched,
    "batched_reusing": batched_reusing,
}


def run(
    iteration: Iteration, Phi: Floats, y: Floats, rank: int, iterations: int
) -> tuple[Floats, Floats]:
    """Start, take ``iterations`` steps and solve ``W`` for the last ``B``; return both."""
    B = spectral_start(Phi, y, rank)
    for _ in range(iterations):
        B, _ = iteration(Phi, y, B, STEP)
    return B, _solved(Phi @ B, y)[..., 0].T


def iterations_to_error(
    iteration: Iteration, Phi: Floats, y: Floats, truth: Floats, rank: int, error: float, limit: int
) -> int | None:
    """Return after how many steps the relative error of theta is at most ``error``, if it is."""
    B = spectral_start(Phi, y, rank)
    for steps in range(limit + 1):
        B_next, W = iteration(Phi, y, B, STEP)
        if relative_error(B @ W, truth) <= error:
            return steps
        B = B_next
    return None


def _solved(A: Floats, y: Floats) -> Floats:
    """Return ``w_t = (A_t' A_t)^-1 A_t' y_t``, (T, r, 1)."""
    At = A.transpose(0, 2, 1)
    return np.asarray(np.linalg.solve(At @ A, At @ y[..., None]))


def _batched_step(
    Phi: Floats, B: Floats, w: Floats, residual: Floats, step: float
) -> tuple[Floats, Floats]:
    G = (Phi.transpose(0, 2, 1) @ residual)[..., 0]  # (T, d)
    W = w[..., 0].T
    return _projected_step(B, G.T @ w[..., 0], W, step, Phi.shape[1]), W


def _projected_step(B: Floats, gradient: Floats, W: Floats, step: float, n: int) -> Floats:
    """Return the Q of ``B - gamma / n gradient`` with ``gamma = step / sigma_max(W)^2``."""
    gamma = step / float(np.linalg.eigvalsh(W @ W.T)[-1])
    Q, _ = np.linalg.qr(B - gamma / n * gradient)
    return np.asarray(Q)
