"""The paper's experiments as one would first write them: loops over rounds, tasks and rows.

Clear and correct NumPy, not tuned. Fits take stacked rows, Phi (T, n, d) and y (T, n), and return
factors of theta, (d, r) and (r, T). Policies play on the library's environments, in which every
task asks in every round. Random choices are drawn one at a time in the order of the library's,
so that both choose alike where nothing but a tie is left to chance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import NDArray

from benchmarks import references
from benchmarks.references import STEP, TRUNCATION, spectral_start
from cobandits.environments import Environment
from cobandits.randomness import stream

__all__ = [
    "ITERATIONS",
    "Factors",
    "Fit",
    "Greedy",
    "Note",
    "Policy",
    "Ridge",
    "SubspaceRidge",
    "Thompson",
    "altgd",
    "altgdmin",
    "moments",
    "play",
    "trace_norm",
]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Factors = tuple[Floats, Floats]  # (d, r) and (r, T)
Note = Callable[[Floats, Floats], None]  # is told the factors after each iteration
Fit = Callable[[Floats, Floats, Factors | None, int], Factors]  # Phi, y, start, iterations

ITERATIONS = 2000  # L of the paper's figures
ALTGD_STEP = 0.5  # the library's


# ---- fits


def altgdmin(
    Phi: Floats,
    y: Floats,
    rank: int,
    start: Factors | None = None,
    iterations: int = ITERATIONS,
    note: Note | None = None,
) -> Factors:
    """Fit by Algorithm 3 with all rows in each step, from the last basis or Algorithm 2."""
    B = spectral_start(Phi, y, rank) if start is None else start[0]
    for _ in range(iterations):
        B_next, W = references.literal(Phi, y, B, STEP)
        if note is not None:
            note(B, W)
        B = B_next
    W = _weights(Phi, y, B)
    if note is not None:
        note(B, W)
    return B, W


def altgd(
    Phi: Floats,
    y: Floats,
    rank: int,
    start: Factors | None = None,
    iterations: int = ITERATIONS,
    note: Note | None = None,
) -> Factors:
    """Fit by gradient steps in both factors (Yi et al. 2016), with the term that balances them.

    Features are in units of their root mean square, as in the library.
    """
    size = Phi.shape[1] * np.mean(Phi**2)
    B, W = _balanced_start(Phi, y, rank) if start is None else _balanced(start[0] @ start[1], rank)
    for iteration in range(iterations + 1):
        if note is not None:
            note(B, W)
        if iteration == iterations:
            break
        G = _residual_moments(Phi, y, B @ W) / size  # (d, T)
        D = B.T @ B - W @ W.T
        rate = ALTGD_STEP / ((np.linalg.norm(B, 2) ** 2 + np.linalg.norm(W, 2) ** 2) / 2)
        B, W = B - rate * (G @ W.T + B @ D / 2), W - rate * (B.T @ G - D @ W / 2)
    return B, W


def moments(Phi: Floats, y: Floats, rank: int) -> Factors:
    """Fit by the method of moments: eigenvectors of the mean of ``y^2 phi phi'``."""
    T, n, d = Phi.shape
    M = np.zeros((d, d))
    for t in range(T):
        for i in range(n):
            M += y[t, i] ** 2 * np.outer(Phi[t, i], Phi[t, i])
    _, vectors = np.linalg.eigh(M / (n * T))
    B = vectors[:, -rank:]
    return B, _weights(Phi, y, B)


def trace_norm(
    Phi: Floats,
    y: Floats,
    penalty: float,
    start: Factors | None = None,
    iterations: int = ITERATIONS,
    note: Note | None = None,
) -> Factors:
    """Fit with a trace-norm penalty, by FISTA with a full SVD per iteration.

    The cost is ``1 / (2 n T) sum_t |y_t - Phi_t theta_t|^2 + penalty |Theta|_*``.
    """
    T, n, d = Phi.shape
    curvature = max(np.linalg.norm(Phi[t], 2) ** 2 for t in range(T)) / (n * T)
    Theta = np.zeros((d, T)) if start is None else start[0] @ start[1]
    U, s, Vt = np.linalg.svd(Theta, full_matrices=False)
    Y, momentum = Theta, 1.0
    for _ in range(iterations):
        gradient = _residual_moments(Phi, y, Y) / (n * T)
        U, s, Vt = np.linalg.svd(Y - gradient / curvature, full_matrices=False)
        s = np.maximum(s - penalty / curvature, 0)
        last, Theta = Theta, U * s @ Vt
        grown = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        Y = Theta + (momentum - 1) / grown * (Theta - last)
        momentum = grown
        if note is not None:
            note(U, s[:, None] * Vt)
    return U, s[:, None] * Vt


def _weights(Phi: Floats, y: Floats, B: Floats) -> Floats:
    """Return ``w_t = (Phi_t B)^+ y_t``, (r, T)."""
    W = np.empty((B.shape[1], len(Phi)))
    for t in range(len(Phi)):
        W[:, t] = np.linalg.pinv(Phi[t] @ B) @ y[t]
    return W


def _residual_moments(Phi: Floats, y: Floats, Theta: Floats) -> Floats:
    """Return ``Phi_t' (Phi_t theta_t - y_t)`` of all tasks, (d, T)."""
    G = np.empty_like(Theta)
    for t in range(len(Phi)):
        G[:, t] = Phi[t].T @ (Phi[t] @ Theta[:, t] - y[t])
    return G


def _balanced_start(Phi: Floats, y: Floats, rank: int) -> Factors:
    """Return balanced factors of the matrix of Algorithm 2."""
    T, n, d = Phi.shape
    kept = np.where(y**2 <= TRUNCATION * np.mean(y**2), y, 0)
    Theta_0 = np.empty((d, T))
    for t in range(T):
        Theta_0[:, t] = Phi[t].T @ kept[t] / n / np.mean(Phi**2)
    return _balanced(Theta_0, rank)


def _balanced(Theta: Floats, rank: int) -> Factors:
    U, s, Vt = np.linalg.svd(Theta, full_matrices=False)
    roots = np.sqrt(s[:rank])
    return U[:, :rank] * roots, roots[:, None] * Vt[:rank]


# ---- policies


class Policy(ABC):
    """A policy for all tasks, which handles one task at a time."""

    def __init__(self, *, dim: int, n_tasks: int) -> None:
        self.dim, self.n_tasks = dim, n_tasks
        self.Theta: Floats = np.zeros((dim, n_tasks))

    def decide(self, arms: Floats, rng: np.random.Generator) -> Codes:
        """Choose the best of a task's arms, (T, K, d), by its theta; any while that is zero."""
        chosen = np.zeros(self.n_tasks, np.int64)
        for t in range(self.n_tasks):
            if not self.Theta[:, t].any():
                chosen[t] = int(arms.shape[1] * rng.random())
            else:
                chosen[t] = np.argmax(arms[t] @ self.Theta[:, t])
        return chosen

    @abstractmethod
    def add(self, rows: Floats, rewards: Floats) -> None:
        """Add the rows, (T, d), and the rewards, (T,), of a round."""

    @abstractmethod
    def refit(self) -> None:
        """Learn from the rows and rewards so far."""


class Greedy(Policy):
    """Algorithm 1 with any fit, of the rows since the last one."""

    def __init__(self, *, dim: int, n_tasks: int, fit: Fit, iterations: int = ITERATIONS) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        self.fit, self.iterations = fit, iterations
        self.factors: Factors | None = None
        self._rows: list[Floats] = []
        self._rewards: list[Floats] = []

    def add(self, rows: Floats, rewards: Floats) -> None:
        """Add the rows, (T, d), and the rewards, (T,), of a round."""
        self._rows.append(rows)
        self._rewards.append(rewards)

    def data(self) -> tuple[Floats, Floats]:
        """Return the rows and rewards of this epoch, (T, n, d) and (T, n)."""
        return np.stack(self._rows, axis=1), np.stack(self._rewards, axis=1)

    def refit(self) -> None:
        """Fit this epoch's rows, from the last fit on, and forget them."""
        self.factors = self.fit(*self.data(), self.factors, self.iterations)
        self.Theta = self.factors[0] @ self.factors[1]
        self._rows, self._rewards = [], []


class Ridge(Policy):
    """Greedy ridge regression, each task alone."""

    def __init__(self, *, dim: int, n_tasks: int, ridge: float = 1.0) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        self.precisions: list[Floats] = [ridge * np.eye(dim) for _ in range(n_tasks)]
        self.moments = [np.zeros(dim) for _ in range(n_tasks)]

    def add(self, rows: Floats, rewards: Floats) -> None:
        """Add the rows, (T, d), and the rewards, (T,), of a round."""
        for t in range(self.n_tasks):
            self.precisions[t] += np.outer(rows[t], rows[t])
            self.moments[t] += rewards[t] * rows[t]

    def refit(self) -> None:
        """Solve for every task's theta."""
        for t in range(self.n_tasks):
            self.Theta[:, t] = np.linalg.solve(self.precisions[t], self.moments[t])


class SubspaceRidge(Ridge):
    """Greedy ridge regression, each task alone, in the span of a basis that is known."""

    def __init__(self, *, basis: Floats, n_tasks: int, ridge: float = 1e-4) -> None:
        super().__init__(dim=basis.shape[1], n_tasks=n_tasks, ridge=ridge)
        self.basis = basis

    def decide(self, arms: Floats, rng: np.random.Generator) -> Codes:
        """Choose the best of a task's arms, (T, K, d), by its theta; any while that is zero."""
        return super().decide(np.stack([arms[t] @ self.basis for t in range(len(arms))]), rng)

    def add(self, rows: Floats, rewards: Floats) -> None:
        """Add the rows, (T, d), and the rewards, (T,), of a round."""
        super().add(np.stack([row @ self.basis for row in rows]), rewards)


class Thompson(Ridge):
    """Thompson sampling, each task alone."""

    def __init__(self, *, dim: int, n_tasks: int, scale: float = 0.1, ridge: float = 1.0) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks, ridge=ridge)
        self.scale = scale
        self.covariances: list[Floats] = [np.eye(dim) / ridge for _ in range(n_tasks)]

    def decide(self, arms: Floats, rng: np.random.Generator) -> Codes:
        """Choose the best of a task's arms, (T, K, d), by a theta that is drawn."""
        chosen = np.zeros(self.n_tasks, np.int64)
        for t in range(self.n_tasks):
            covariance = self.scale**2 * self.covariances[t]
            theta = rng.multivariate_normal(self.Theta[:, t], covariance)
            chosen[t] = np.argmax(arms[t] @ theta)
        return chosen

    def refit(self) -> None:
        """Invert every task's precision."""
        for t in range(self.n_tasks):
            self.covariances[t] = np.linalg.inv(self.precisions[t])
            self.Theta[:, t] = self.covariances[t] @ self.moments[t]


def play(
    policy: Policy,
    environment: Environment,
    rounds: int,
    seed: int,
    *,
    ends: Collection[int],
    trial: int = 0,
) -> Floats:
    """Let a policy play, refitted after the rounds in ``ends``; return the regret, (N, T)."""
    rng = stream(seed, "policy", trial)
    regret = np.zeros((rounds, environment.n_tasks))
    for n, asked in enumerate(environment.rounds(rounds, seed=seed, trial=trial)):
        chosen = policy.decide(asked.arms, rng)
        each = np.arange(len(chosen))
        policy.add(asked.arms[each, chosen], asked.rewards[each, chosen])
        if n + 1 in ends:
            policy.refit()
        regret[n] = asked.means.max(axis=1) - asked.means[each, chosen]
    return regret
