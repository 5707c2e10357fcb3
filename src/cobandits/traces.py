"""The results of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import Decisions, Outcome, Round, Truth
from cobandits.estimate import Estimate
from cobandits.linalg import subspace_distance
from cobandits.metrics import relative_error

__all__ = ["FitNote", "Trace", "TraceBuilder"]

Floats = NDArray[np.float64]


class FitNote(NamedTuple):
    """A fit, and the round after which it was made."""

    round: int  # 1 for the first
    error: float  # relative error of theta, NaN where the truth is not known
    distance: float  # subspace distance of the basis from the true one, likewise
    iterations: int
    status: str
    message: str  # why it ended so


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """The results of a simulation: regret per task and round, fits, and times."""

    policy: str
    regret: Floats  # (N, T), 0 where a task did not ask, NaN where nobody knows
    asked: NDArray[np.int64]  # (N,), decisions of each round
    rewards: Floats  # (N,), the sum of those that came
    squares: Floats  # (N,), the sum of their squares
    rewarded: NDArray[np.int64]  # (N,), how many came
    fits: tuple[FitNote, ...]
    seconds_deciding: float
    seconds_learning: float

    @property
    def decisions(self) -> int:
        """The number of decisions."""
        return int(self.asked.sum())

    @property
    def cumulative(self) -> Floats:
        """Cumulative regret per task after each round, mean over tasks, (N,)."""
        return np.asarray(np.cumsum(self.regret.mean(axis=1)))

    @property
    def regret_per_task(self) -> float:
        """Regret per task over all rounds, mean over tasks."""
        return float(self.regret.sum(axis=0).mean())

    @property
    def mean_reward(self) -> float:
        """Mean of the rewards received; NaN if there were none."""
        came = int(self.rewarded.sum())
        return float(self.rewards.sum() / came) if came else float("nan")

    @property
    def mean_reward_error(self) -> float:
        """Standard error of that mean, for independent rewards; NaN for fewer than two."""
        came = int(self.rewarded.sum())
        if came < 2:
            return float("nan")
        spread = max(0.0, float(self.squares.sum()) - came * self.mean_reward**2)
        return float(np.sqrt(spread / (came - 1) / came))


class TraceBuilder:
    """Builds the trace of a simulation, one round at a time."""

    def __init__(self, policy: str, n_rounds: int, n_tasks: int) -> None:
        self._policy = policy
        self._regret = np.zeros((n_rounds, n_tasks))
        self._asked, self._rewarded = (np.zeros(n_rounds, np.int64) for _ in range(2))
        self._rewards, self._squares = np.zeros(n_rounds), np.zeros(n_rounds)
        self._fits: list[FitNote] = []
        self._last: Estimate | None = None
        self._seconds = np.zeros(2)
        self._n = 0

    def add(
        self,
        asked: Round,
        decisions: Decisions,
        outcome: Outcome,
        estimate: Estimate | None,
        seconds: tuple[float, float],
    ) -> None:
        """Record a round, and a fit if there is a new one."""
        n = self._n
        np.add.at(self._regret[n], asked.tasks, asked.regrets(decisions))
        self._asked[n] = len(asked.tasks)
        self._rewards[n], self._rewarded[n] = outcome.rewards.sum(), len(outcome.rewards)
        self._squares[n] = outcome.rewards @ outcome.rewards
        self._seconds += seconds
        self._n = n + 1
        if estimate is not None and estimate is not self._last:
            self._fits.append(_fit_note(n + 1, estimate, asked.truth))
            self._last = estimate

    def trace(self) -> Trace:
        """Return the results so far."""
        n = self._n
        return Trace(
            policy=self._policy,
            regret=self._regret[:n],
            asked=self._asked[:n],
            rewards=self._rewards[:n],
            squares=self._squares[:n],
            rewarded=self._rewarded[:n],
            fits=tuple(self._fits),
            seconds_deciding=float(self._seconds[0]),
            seconds_learning=float(self._seconds[1]),
        )


def _fit_note(n: int, estimate: Estimate, truth: Truth | None) -> FitNote:
    error = distance = float("nan")
    if truth is not None:
        error = relative_error(estimate.theta, truth.theta[:, np.array(estimate.labels)])
        r = min(estimate.rank, truth.basis.shape[1])
        distance = subspace_distance(estimate.basis[:, :r], truth.basis)
    status = estimate.status
    return FitNote(n, error, distance, status.iterations, status.outcome, status.message)
