"""Posteriors of tasks under a prior that they share, and the same by normal equations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import explain as explaining
from cobandits.policies.shared.empirical_bayes import (
    Coordinates,
    DecomposedPrior,
    HyperparameterSelector,
    Prior,
)
from cobandits.policies.shared.explain import Explanation, Explanations
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.policies.task_index import TaskIndex

__all__ = [
    "DIM",
    "N_TASKS",
    "check_same",
    "covariance",
    "errors_of_thetas",
    "explain",
    "explain_all",
    "late_tasks",
    "learned_in_turn",
    "posterior",
    "reduced",
    "related_tasks",
    "residual_parts",
    "rows_of",
    "some_prior",
    "stored",
    "wide_prior",
]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


def explain(posteriors: TaskPosteriors | None, counts: Codes, task: int) -> Explanation:
    """Explain a task, where tasks had their first rewards in the order of their numbers."""
    learned = posteriors, HyperparameterSelector(), counts
    return explaining.explain(*learned, task, TaskIndex(range(len(counts))))


def explain_all(posteriors: TaskPosteriors | None, counts: Codes) -> Explanations:
    """Explain all tasks, in the same order."""
    learned = posteriors, HyperparameterSelector(), counts
    return explaining.explain_all(*learned, TaskIndex(range(len(counts))))


# ---- few features: posteriors have all directions

N_TASKS, DIM = 12, 4


def late_tasks(seed: int = 0, n: int = 60) -> tuple[Codes, Doubles]:
    """Draw tasks, of which some are rare and the last two never come, and rows ``[phi, 1, y]``."""
    rng = np.random.default_rng(seed)
    tasks = np.floor((N_TASKS - 2) * rng.random(n) ** 2).astype(np.int64)
    Theta = rng.standard_normal((N_TASKS, DIM))
    Phi = rng.standard_normal((n, DIM)) + np.array([0.0, 3.0, 0.0, 0.0])
    y = 2 + np.einsum("nd,nd->n", Phi, Theta[tasks]) + 0.3 * rng.standard_normal(n)
    return tasks, np.column_stack([Phi, np.ones(n), y])


def stored(tasks: Codes, F: Doubles, n_tasks: int = N_TASKS) -> RowStore:
    """Return a store that was given one row after the other, as far as it accepts them."""
    store = RowStore.empty(n_tasks=n_tasks, dim=F.shape[1] - 2)
    for i in range(len(tasks)):
        store = store.added(tasks[i : i + 1], F[i : i + 1])
    return store.compressed(2 * store.width)


def some_prior(F: Doubles, seed: int = 3) -> DecomposedPrior:
    """Return a prior that no learning would lead to, in the coordinates of some rows."""
    rng = np.random.default_rng(seed)
    coordinates = Coordinates.of(stored(np.zeros(len(F), np.int64), F))
    Z, root = F[:, :-1] @ coordinates.matrix, rng.standard_normal((DIM + 1, DIM + 1))
    prior = Prior(
        coordinates=coordinates,
        covariance=root @ root.T,
        mean=np.linspace(-1.0, 1.0, DIM + 1),
        offset=0.7,
        noise=0.4,
        feature_second_moment=Z.T @ Z / len(Z),
    )
    return DecomposedPrior.of(prior)


def posterior(prior: Prior, F: Doubles) -> tuple[Doubles, Doubles]:
    """Return a task's mean, less the prior's, and covariance in its coordinates, by definition."""
    Z = F[:, :-1] @ prior.coordinates.matrix
    y = F[:, -1] - Z @ prior.center
    P = np.linalg.inv(np.linalg.inv(prior.covariance) + Z.T @ Z / prior.noise)
    return np.asarray(P @ Z.T @ y / prior.noise), np.asarray(P)


def learned_in_turn(prior: DecomposedPrior, tasks: Codes, F: Doubles) -> TaskPosteriors:
    """Return posteriors that learned one row after the other."""
    posteriors = TaskPosteriors(n_tasks=N_TASKS, prior=prior)
    for i in range(len(tasks)):
        posteriors.learn(tasks[i : i + 1], F[i : i + 1])
    return posteriors


def check_same(ours: TaskPosteriors, theirs: TaskPosteriors, rtol: float = 1e-7) -> None:
    """Compare thetas, noises, beliefs about arms, and volumes."""
    tasks, rng = np.arange(N_TASKS), np.random.default_rng(5)
    arms = rng.standard_normal((N_TASKS, 3, DIM))
    np.testing.assert_allclose(ours.thetas, theirs.thetas, rtol=rtol, atol=1e-8)
    np.testing.assert_allclose(ours.noises, theirs.noises, rtol=rtol)
    for here, there in zip(ours.beliefs(tasks, arms), theirs.beliefs(tasks, arms), strict=True):
        np.testing.assert_allclose(here, there, rtol=rtol, atol=1e-8)
    volumes = ours.weights.log_volumes, theirs.weights.log_volumes
    np.testing.assert_allclose(*volumes, rtol=rtol, atol=1e-8)


# ---- tasks that share a basis of rank 2


def related_tasks(
    seed: int = 0, n_tasks: int = 60, d: int = 20, n: int = 8
) -> tuple[Codes, Doubles, Doubles]:
    """Draw rows of tasks with a common basis of rank 2, one task after the other, and thetas."""
    rng = np.random.default_rng(seed)
    Theta = rng.standard_normal((n_tasks, 2)) @ np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    tasks, Phi = np.tile(np.arange(n_tasks), n), rng.standard_normal((n * n_tasks, d))
    y = np.einsum("nd,nd->n", Phi, Theta[tasks]) + 0.1 * rng.standard_normal(len(Phi))
    return tasks, np.column_stack([Phi, np.ones(len(Phi)), y]), Theta


def errors_of_thetas(posteriors: TaskPosteriors, Theta: Doubles) -> float:
    """Return the relative error of the thetas, squared."""
    return float(((posteriors.thetas[:, :-1] - Theta) ** 2).sum() / (Theta**2).sum())


# ---- many features: posteriors have few of all directions


def wide_prior(d: int = 18, rank: int = 2, seed: int = 2) -> DecomposedPrior:
    """Return a prior with so many wide directions, for features that are correlated."""
    rng = np.random.default_rng(seed)
    p = d + 1
    matrix = np.diag(np.append(np.geomspace(0.3, 3, d), 1.0))
    matrix[-1, 0] = -0.6  # the first feature is centred
    vectors = np.linalg.qr(rng.standard_normal((p, p)))[0]
    variances = np.linspace(0.04, 0.1, p)
    variances[:rank] = np.linspace(3, 2, rank)
    Z = _typical(5000, d, rng) @ matrix
    prior = Prior(
        coordinates=Coordinates(matrix=matrix),
        covariance=vectors * variances @ vectors.T,
        mean=np.linspace(-0.5, 0.5, p),
        offset=0.7,
        noise=0.25,
        feature_second_moment=Z.T @ Z / len(Z),
    )
    decomposed = DecomposedPrior.of(prior)
    assert decomposed.rank == rank
    return decomposed


def rows_of(n: int, d: int, n_tasks: int = 6, seed: int = 0) -> tuple[Codes, Doubles]:
    """Draw tasks, of which the last one never comes, and rows ``[phi, 1, y]``."""
    rng = np.random.default_rng(seed)
    tasks, X = rng.integers(0, n_tasks - 1, n), _typical(n, d, rng)
    thetas = np.random.default_rng(1).standard_normal((n_tasks, d + 1))
    y = np.einsum("nd,nd->n", X, thetas[tasks]) + 0.5 * rng.standard_normal(n)
    return tasks, np.column_stack([X, y])


def _typical(n: int, d: int, rng: np.random.Generator) -> Doubles:
    """Draw features that are correlated, with the 1, (n, d + 1)."""
    mixing = np.random.default_rng(7).standard_normal((d, d)) / np.sqrt(d) + np.eye(d)
    return np.column_stack([rng.standard_normal((n, d)) @ mixing + 0.2, np.ones(n)])


def reduced(d: int = 18, n: int = 120, rank: int = 2) -> tuple[TaskPosteriors, Codes, Doubles]:
    """Return posteriors of some rows in fewer directions than there are, and these rows."""
    tasks, F = rows_of(n, d)
    posteriors = TaskPosteriors.of(stored(tasks, F, 6), wide_prior(d, rank))
    assert posteriors.weights.dim == 2 * rank + 8 < d + 1
    return posteriors, tasks, F


def residual_parts(posteriors: TaskPosteriors) -> Doubles:
    """Return the parts of all thetas that rewards do not move, (T, d + 1)."""
    moved = posteriors.weights.means @ posteriors.directions
    return np.asarray(posteriors.thetas - posteriors.prior.theta - moved)


def covariance(posteriors: TaskPosteriors, task: int) -> Doubles:
    """Return that of a task's weights, (q, q)."""
    S = posteriors.weights.unpacked(np.array([task]))[0]
    return np.asarray(S @ S.T)
