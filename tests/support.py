"""Problems with known answers, independent solvers, and what each estimator promises."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cobandits.environments import Problem, Synthetic
from cobandits.estimators import Estimator, available
from cobandits.tasks import TaskRows

Floats = NDArray[np.floating]
Real = type[np.float32] | type[np.float64]

NAMES = sorted(available())


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What an estimator promises beyond the contract that all keep."""

    shares: bool = True  # exact without noise, from fewer rows per task than features
    full_rank: bool = True  # rank d, or no rank at all, is least squares per task
    alone: bool = True  # one task alone is least squares
    redundant: bool = True  # exact predictions without noise, whatever features are redundant
    feature_scale: bool = True  # features times a give theta over a
    starts: bool = True  # goes on from a start, so one of other features is refused


# An estimator that is not named here promises everything.
EXCEPTIONS = {
    # The step is made for features of unit variance, as the paper assumes.
    "altgdmin": Promise(feature_scale=False, redundant=False),
    # Plain descent is too slow where features are redundant.
    "altgd": Promise(redundant=False),
    # The eigenvectors of y^2 phi phi' carry sampling error even where the rewards carry none.
    "moments": Promise(shares=False, alone=False, redundant=False, starts=False),
    # A penalty shrinks, so nothing is exact.
    "tracenorm": Promise(shares=False, full_rank=False, alone=False, redundant=False),
    # A task alone needs as many rows as features.
    "independent": Promise(shares=False, starts=False),
    # Its own variances are chosen from noise; without them it is a task alone.
    "common": Promise(shares=False, starts=False),
    # One theta for all tasks cannot be that of each.
    "pooled": Promise(shares=False, full_rank=False, redundant=False, starts=False),
}


def warnings_as_errors() -> dict[str, str]:
    """Return the environment of a process whose warnings are errors, but for those ignored here."""
    filters = ["error", *filter(None, [os.environ.get("PYTHONWARNINGS")])]
    return {**os.environ, "PYTHONWARNINGS": ",".join(filters)}


def promise(name: str) -> Promise:
    """Return what the estimator of this name promises."""
    return EXCEPTIONS.get(name, Promise())


def make(name: str, rank: int, **parameters: object) -> Estimator:
    """Return the estimator of this name, with those parameters that it has."""
    kind: Callable[..., Estimator] = available()[name]
    known = inspect.signature(kind).parameters
    chosen = {"rank": rank, **parameters}
    return kind(**{key: value for key, value in chosen.items() if key in known})


def exact(name: str, rank: int) -> Estimator:
    """Return the estimator without shrinkage and without an early stop."""
    return make(name, rank, tolerance=1e-15, iterations=20_000, ridge=0.0, truncation=1e9)


def drawn(
    *, d: int = 20, T: int = 12, r: int = 2, n: int = 15, noise: float = 1e-2, seed: int = 0
) -> Problem:
    """Draw a small problem; by default one that is easy for every estimator."""
    return Synthetic(dim=d, n_tasks=T, rank=r, noise_std=noise).problem(n_rows=n, seed=seed)


def flat(
    features: Floats, rewards: Floats, tasks: Sequence[Hashable] | NDArray[np.int64]
) -> TaskRows:
    """Make tasks from flat arrays."""
    return TaskRows.from_arrays(features, rewards, tasks)


def of_type(array: Floats, dtype: Real) -> Floats:
    """Return the array in single or double precision."""
    return array.astype(np.float32) if dtype is np.float32 else array.astype(np.float64)


def parts(tasks: TaskRows) -> list[tuple[Floats, Floats]]:
    """Return features (n_t, d) and rewards (n_t,) of each task."""
    bounds = itertools.pairwise(tasks.offsets)
    return [(tasks.rows[a:b], tasks.rewards[a:b]) for a, b in bounds]


def literal_weights(tasks: TaskRows, B: Floats) -> Floats:
    """Return ``(Phi_t B)^+ y_t`` of each task, (r, T), one task after the other."""
    return np.column_stack([np.linalg.pinv(Phi @ B) @ y for Phi, y in parts(tasks)])


def cost_of(tasks: TaskRows, Theta: Floats) -> float:
    """Return the sum of squared residuals, equation (4)."""
    return sum(
        float(np.sum((Phi @ Theta[:, t] - y) ** 2)) for t, (Phi, y) in enumerate(parts(tasks))
    )


def least_squares_per_task(tasks: TaskRows) -> Floats:
    """Return each task's own least squares, (d, T)."""
    return np.column_stack([np.linalg.lstsq(Phi, y)[0] for Phi, y in parts(tasks)])


def optimum_near_truth(problem: Problem, steps: int = 6) -> Floats:
    """Return the least-squares theta of rank r that Gauss-Newton steps reach from the true B.

    A step solves ``min sum_t |P_t (y_t - Phi_t (B + D) w_t)|^2`` for ``D``, where ``P_t``
    takes out what task t can fit with ``B``. Independent of the library.
    """
    B = problem.basis
    for _ in range(steps):
        W = literal_weights(problem.tasks, B)
        curvatures, slopes = [], []
        for (Phi, y), w in zip(parts(problem.tasks), W.T, strict=True):
            Q = np.linalg.qr(Phi @ B)[0]
            rest = Phi - Q @ (Q.T @ Phi)  # P_t Phi_t
            curvatures.append(rest.T @ rest)
            slopes.append(rest.T @ (y - Phi @ (B @ w)))
        B = np.linalg.qr(B + _gauss_newton_step(W, np.stack(curvatures), np.stack(slopes)))[0]
    return B @ literal_weights(problem.tasks, B)


def _gauss_newton_step(W: Floats, curvatures: Floats, slopes: Floats) -> Floats:
    """Solve ``sum_t C_t D w_t w_t' = sum_t s_t w_t'`` for D, (d, r); least norm, nearly."""
    r, d = len(W), slopes.shape[1]
    H = np.einsum("pt,qt,tij->piqj", W, W, curvatures, optimize=True).reshape(r * d, r * d)
    lift = 1e-11 * np.trace(H) / len(H)  # rotations of B within its span cost nothing
    D = np.linalg.solve(H + lift * np.eye(len(H)), (W @ slopes).ravel())
    return np.asarray(D.reshape(r, d).T)
