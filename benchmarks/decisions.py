"""A round of decisions and updates for all tasks, against a loop over tasks in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from benchmarks.report import Section, Table, Target
from benchmarks.timing import interleaved
from cobandits.decisions import Decisions
from cobandits.policies import LinUCB, PerTask, Ridge, Thompson

__all__ = ["Loop", "section"]

Floats = NDArray[np.floating]

T, K, D = 100, 5, 100
MNIST = (45, 2, 784)
RIDGE, SCALE = 1.0, 0.1
REPETITIONS = 11


@dataclass(eq=False)
class Loop:
    """One NumPy posterior per task, asked and updated one after the other.

    Greedy and UCB keep the covariance and update it by Sherman and Morrison. Sampling
    needs a factor: the precision is kept and factorised for each decision, as textbooks do.
    """

    kind: str
    n_tasks: int
    dim: int

    def __post_init__(self) -> None:
        self.P = [np.eye(self.dim) / RIDGE for _ in range(self.n_tasks)]
        self.V = [RIDGE * np.eye(self.dim) for _ in range(self.n_tasks)]
        self.b = [np.zeros(self.dim) for _ in range(self.n_tasks)]
        self.mean = [np.zeros(self.dim) for _ in range(self.n_tasks)]
        self.rng = np.random.default_rng(0)

    def round(self, arms: Floats, rewards: Floats) -> None:
        """Decide for every task, and learn the reward of what was chosen."""
        for t in range(self.n_tasks):
            x = arms[t, int(np.argmax(self._scores(t, arms[t])))]
            self._learn(t, x, float(rewards[t]))

    def _scores(self, t: int, arms: Floats) -> Floats:
        if self.kind == "ridge":
            return np.asarray(arms @ self.mean[t])
        if self.kind == "linucb":
            widths = np.sqrt(np.einsum("kd,kd->k", arms @ self.P[t], arms))
            return np.asarray(arms @ self.mean[t] + SCALE * widths)
        L = np.linalg.cholesky(self.V[t])
        mean = solve_triangular(L.T, solve_triangular(L, self.b[t], lower=True))
        z = self.rng.standard_normal(self.dim)
        return np.asarray(arms @ (mean + SCALE * solve_triangular(L.T, z)))

    def _learn(self, t: int, x: Floats, y: float) -> None:
        self.b[t] += y * x
        if self.kind == "thompson":
            self.V[t] += np.outer(x, x)
            return
        gain = self.P[t] @ x
        self.P[t] -= np.outer(gain, gain / (1 + x @ gain))
        self.mean[t] = self.P[t] @ self.b[t]


def section() -> Section:
    """Time rounds of the three policies that learn each task alone."""
    rng = np.random.default_rng(0)
    arms, rewards = rng.standard_normal((T, K, D)), rng.standard_normal(T)
    rows, targets = [], []
    for name, policy in _policies(T, D).items():
        loop = Loop(name, T, D)
        times = interleaved(
            {
                "loop": lambda loop=loop: loop.round(arms, rewards),  # type: ignore[misc]
                "ours": _round_of(policy, arms, rewards),
                "read": _read_of(policy),
            },
            repetitions=REPETITIONS,
        )
        ours, ratio = times.median("ours"), times.ratio("loop", "ours")
        reads = times.ratio("ours", "read")
        rows.append((name, 1e6 * times.median("loop") / T, 1e6 * ours / T, ratio, reads))
        targets.append(Target(name=f"{name}: a round against the loop", measured=ratio, at_least=4))
    title = f"A decision and its update, microseconds, at T={T}, K={K}, d={D}"
    columns = ("policy", "loop over tasks", "ours", "ratio", "reads of the posteriors")
    held = _policies(T, D)["ridge"].posteriors.nbytes / 1e6
    return Section(
        name="decisions",
        tables=[Table(title=title, columns=columns, rows=rows), _mnist()],
        targets=targets,
        notes=[
            f"All posteriors together take {held:.1f} MB (a full matrix per task would be "
            f"{8e-6 * T * D * D:.1f} MB). An update reads and writes them once, so the least "
            "is 2 reads for ridge and 3 for the others, which also read them to decide."
        ],
    )


def _mnist() -> Table:
    """Time rounds at the size of the MNIST pairs: nothing is factorised."""
    n_tasks, n_arms, dim = MNIST
    rng = np.random.default_rng(0)
    arms, rewards = rng.random((n_tasks, n_arms, dim)), rng.random(n_tasks)
    rows = []
    for name, policy in _policies(n_tasks, dim).items():
        work = {"ours": _round_of(policy, arms, rewards), "read": _read_of(policy)}
        times = interleaved(work, repetitions=5)
        ours = times.median("ours")
        rows.append((name, 1e3 * ours, 5000 * ours, times.ratio("ours", "read")))
    return Table(
        title=f"A round at T={n_tasks}, K={n_arms}, d={dim} (the MNIST pairs)",
        columns=("policy", "ms", "s for 5000 rounds", "reads of the posteriors"),
        rows=rows,
    )


def _policies(n_tasks: int, dim: int) -> dict[str, PerTask]:
    return {
        "ridge": Ridge(dim=dim, n_tasks=n_tasks, ridge=RIDGE),
        "linucb": LinUCB(dim=dim, n_tasks=n_tasks, ridge=RIDGE, radius=SCALE),
        "thompson": Thompson(dim=dim, n_tasks=n_tasks, ridge=RIDGE, scale=SCALE),
    }


def _round_of(policy: PerTask, arms: Floats, rewards: Floats) -> Callable[[], None]:
    tasks, rng = np.arange(len(arms)), np.random.default_rng(0)

    def play() -> None:
        decisions: Decisions = policy.decide(tasks, arms, rng)
        policy.learn(tasks, arms, decisions, rewards)

    return play


def _read_of(policy: PerTask) -> Callable[[], object]:
    roots = policy.posteriors.roots.ravel()
    return lambda: roots.dot(roots)
