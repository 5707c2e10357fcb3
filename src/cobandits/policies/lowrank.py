"""The paper's policy, and those like it: greedy, refitted when an epoch ends."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimators import AltGDMin, Estimator, MethodOfMoments, TraceNorm
from cobandits.policies.base import Clock, Policy
from cobandits.policies.choice import greedy
from cobandits.schedules import Schedule
from cobandits.tasks import TaskRows

__all__ = ["LRRL", "Moments", "TraceNormGreedy"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


class LRRL(Policy):
    """Algorithm 1 of the paper, LRRL-AltGDMin, with any estimator.

    In an epoch every task takes the best arm by the theta that was fitted when the last one
    ended; in the first epoch theta is 0 and any arm is as good. When an epoch ends, theta is
    fitted to that epoch's rows, from the last basis on (lines 6 to 15). A task without
    rows in an epoch keeps its theta.

    Parameters
    ----------
    schedule : Schedule
        When epochs end.
    rank : int
        Columns of the basis, if no estimator is given.
    estimator : Estimator, optional
        AltGDMin of this rank if not given.
    memory : "epoch" or "all"
        Fit to the last epoch's rows alone, as the paper does, or to all rows so far.
    """

    name: ClassVar[str] = "lrrl"

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int,
        schedule: Schedule,
        rank: int = 1,
        estimator: Estimator | None = None,
        memory: Literal["epoch", "all"] = "epoch",
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        if memory not in ("epoch", "all"):
            raise ConfigurationError(f"memory must be 'epoch' or 'all', got {memory!r}")
        largest = min(dim, n_tasks)
        if not 1 <= rank <= largest:
            raise ConfigurationError(
                f"rank must be from 1 to min(d, T) = {largest}, got {rank}; lower rank"
            )
        self.rank, self.memory = rank, memory
        self.estimator = self._default_estimator() if estimator is None else estimator
        self.theta: Floats = np.zeros((dim, n_tasks))
        self._clock = Clock(n_tasks, schedule)
        self._rows = TaskRows(dim)

    def _default_estimator(self) -> Estimator:
        return AltGDMin(rank=self.rank)

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        return greedy((arms @ self.theta.T[tasks][:, :, None])[..., 0])

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        if len(tasks):
            self._rows.add(rows, rewards, tasks)
        if self._clock.epoch_ends(tasks) and self._rows.n_tasks >= self.rank:
            self._refit()

    def _refit(self) -> None:
        """Fit the rows; a fit that is refused changes nothing but the estimate that is shown."""
        self.estimate = self.estimator.fit(self._rows, start=self.estimate, rng=0)
        if self.estimate.status.outcome != "refused":
            self.theta[:, np.array(self._rows.labels)] = self.estimate.theta
        if self.memory == "epoch":
            self._rows = TaskRows(self.dim)


class Moments(LRRL):
    """Explore, then commit (Yang et al. 2020): one fit, by the method of moments.

    With a schedule of one epoch; with another one it fits again when each ends.
    """

    name: ClassVar[str] = "moments"

    def _default_estimator(self) -> Estimator:
        return MethodOfMoments(rank=self.rank)


class TraceNormGreedy(LRRL):
    """Greedy with the trace-norm relaxation (Cella et al. 2023), which needs no rank."""

    name: ClassVar[str] = "tracenorm"

    def _default_estimator(self) -> Estimator:
        return TraceNorm()
