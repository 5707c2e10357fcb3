"""What is asked, decided and paid in one round of many tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import DataError

__all__ = ["Decisions", "Outcome", "Round", "Truth", "check_arms", "check_tasks"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Decisions:
    """One decision for each task that asked.

    >>> decided = Decisions(chosen=np.array([1]), probabilities=np.array([0.5]), policy="random")
    >>> decided.features(np.array([[[0.0, 1.0], [2.0, 3.0]]])).tolist()
    [[2.0, 3.0]]
    """

    chosen: Codes  # (m,), the number of the arm
    probabilities: Floats  # (m,), with which the policy would choose that arm
    policy: str  # the name of what decided

    def __post_init__(self) -> None:
        chosen, probabilities = np.asarray(self.chosen), np.asarray(self.probabilities)
        if chosen.ndim != 1 or chosen.shape != probabilities.shape:
            raise DataError(
                f"expected chosen (m,) and probabilities (m,), got {chosen.shape} "
                f"and {probabilities.shape}"
            )
        if chosen.dtype.kind not in "iu":
            raise DataError(f"chosen must be numbers of arms, got values of type {chosen.dtype}")
        if not ((probabilities > 0) & (probabilities <= 1)).all():
            raise DataError(
                "probabilities must be above 0 and at most 1: a decision of probability 0 "
                "was never made"
            )

    def __len__(self) -> int:
        return len(self.chosen)

    def select(self, rows: NDArray[np.bool_]) -> Decisions:
        """Return some of the decisions."""
        return Decisions(
            chosen=self.chosen[rows], probabilities=self.probabilities[rows], policy=self.policy
        )

    def features(self, arms: Floats) -> Floats:
        """Return the feature vectors of the chosen arms, (m, d), of ``arms``, (m, K, d)."""
        m, K, _ = arms.shape
        if len(self) != m:
            raise DataError(f"{len(self)} decisions for {m} sets of arms; give one for each")
        if m and not (self.chosen.min() >= 0 and self.chosen.max() < K):
            wrong = int(self.chosen[(self.chosen < 0) | (self.chosen >= K)][0])
            raise DataError(f"arm {wrong} was never offered: arms are numbered 0 to {K - 1}")
        return np.asarray(arms[np.arange(m), self.chosen])


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """What only the environment knows of the tasks, where rewards are linear."""

    basis: Floats  # B*, (d, r)
    weights: Floats  # W*, (r, T)

    @property
    def theta(self) -> Floats:
        """``B* W*``, (d, T)."""
        return self.basis @ self.weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """The decisions of a round whose rewards are known: what a policy can learn from."""

    tasks: Codes  # (m,)
    arms: Floats  # (m, K, d)
    decisions: Decisions
    rewards: Floats  # (m,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Round:
    """The tasks that ask in a round, and what each of their arms would pay.

    Policies see tasks and arms. A mean or a reward that nobody knows is NaN.
    """

    tasks: Codes  # (m,)
    arms: Floats  # (m, K, d)
    means: Floats  # (m, K), expected rewards
    rewards: Floats  # (m, K)
    truth: Truth | None = None

    def outcome(self, decisions: Decisions) -> Outcome:
        """Return what the decisions pay, without those whose reward is not known."""
        rewards = self.rewards[np.arange(len(self.tasks)), decisions.chosen]
        known = np.isfinite(rewards)
        if known.all():
            return Outcome(tasks=self.tasks, arms=self.arms, decisions=decisions, rewards=rewards)
        return Outcome(
            tasks=self.tasks[known],
            arms=self.arms[known],
            decisions=decisions.select(known),
            rewards=rewards[known],
        )

    def regrets(self, decisions: Decisions) -> Floats:
        """Return by how much the best arm is better in the mean than the chosen one, (m,)."""
        chosen = self.means[np.arange(len(self.tasks)), decisions.chosen]
        return np.asarray(self.means.max(axis=1, initial=-np.inf) - chosen)


def check_tasks(tasks: ArrayLike, n_tasks: int) -> Codes:
    """Return the numbers of tasks, (m,), or refuse those that are none."""
    codes = np.asarray(tasks)
    if codes.ndim != 1 or (codes.dtype.kind not in "iu" and codes.size):
        raise DataError(
            f"tasks must be whole numbers, (m,), got shape {codes.shape} of {codes.dtype}"
        )
    if codes.size and not (codes.min() >= 0 and codes.max() < n_tasks):
        wrong = int(codes[(codes < 0) | (codes >= n_tasks)][0])
        raise DataError(
            f"task {wrong}, but there are {n_tasks}, numbered from 0; "
            "make the policy for more tasks (n_tasks)"
        )
    return codes.astype(np.int64, copy=False)


def check_arms(arms: ArrayLike, n_asked: int, dim: int) -> Floats:
    """Return the arms, (m, K, d), as finite floats, or refuse them."""
    phi = np.asarray(arms)
    if phi.dtype.kind not in "biuf":
        raise DataError(f"arms must be real numbers, got values of type {phi.dtype}")
    if phi.ndim != 3 or len(phi) != n_asked or phi.shape[1] < 1:
        raise DataError(f"expected arms (m, K, d) for m = {n_asked} tasks, got shape {phi.shape}")
    if phi.shape[2] != dim:
        raise DataError(f"expected arms of {dim} features, got {phi.shape[2]}")
    if phi.dtype != np.float32:
        phi = phi.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore", over="ignore"):
        suspicious = not np.isfinite(phi.sum())  # may also be an overflow of the sum
    if suspicious and not np.isfinite(phi).all():
        row = int(np.argwhere(~np.isfinite(phi))[0][0])
        raise DataError(
            f"arms hold a NaN or an infinite value, first in request {row}; fill it in or drop it"
        )
    return phi
