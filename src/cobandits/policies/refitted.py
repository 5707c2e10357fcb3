"""The base class of policies that fit one estimate to the rows of all tasks."""

from __future__ import annotations

import copy
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators import Estimator
from cobandits.policies.base import Clock, Policy
from cobandits.policies.propensities import greedy
from cobandits.policies.schedules import Schedule
from cobandits.tasks import TaskRows

__all__ = ["Refitted"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


class Refitted(Policy):
    """A policy whose thetas are fitted to the rows of all tasks whenever an epoch ends.

    A task without rows in a fit keeps its theta. Where fewer tasks than the rank have rows, the
    fit waits for the end of the next epoch.
    """

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int,
        schedule: Schedule,
        estimator: Estimator,
        memory: Literal["epoch", "all"],
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        if memory not in ("epoch", "all"):
            raise ConfigurationError(f"memory must be 'epoch' or 'all', got {memory!r}")
        rank, largest = getattr(estimator, "rank", "auto"), min(dim, n_tasks)
        if rank != "auto" and not (isinstance(rank, int | np.integer) and 1 <= rank <= largest):
            raise ConfigurationError(
                f"rank must be a whole number from 1 to min(d, T) = {largest}, got {rank}"
            )
        self.estimator, self.memory = estimator, memory
        self.theta: Floats = np.zeros((dim, n_tasks))
        self._estimate: Estimate | None = None
        self._fewest = 1 if rank == "auto" else int(rank)  # tasks that a fit needs
        self._clock = Clock(schedule)
        self._rows = TaskRows(dim)

    @property
    def estimate(self) -> Estimate | None:
        """The last fit."""
        return self._estimate

    def _values(self, tasks: Codes, arms: Floats) -> Floats:
        """Return the expected rewards of the arms, (m, K)."""
        return np.asarray((arms @ self.theta.T[tasks][:, :, None])[..., 0])

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        return greedy(self._values(tasks, arms))

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        ends = self._clock.ends_with(tasks)
        if len(tasks) and not self._clock.over:
            held = copy.deepcopy(self._rows) if ends else self._rows  # a fit may raise
            held.add(rows, rewards, tasks)
            if ends and held.n_tasks >= self._fewest:
                self._refit(held)
                held = TaskRows(self.dim) if self.memory == "epoch" else held
            self._rows = held
        self._clock.count(tasks)

    def _fitted(self, rows: TaskRows) -> Estimate:
        """Return the fit to rows, starting from the last basis."""
        return self.estimator.fit(rows, start=self._estimate, rng=0)

    def _refit(self, rows: TaskRows) -> None:
        """Fit the rows; a refused fit leaves theta as it was."""
        self._estimate = found = self._fitted(rows)
        if found.status.outcome != "refused":
            self.theta[:, np.array(rows.labels)] = found.theta
