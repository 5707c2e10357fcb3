"""Greedy policies with one ridge regression for all tasks, and what each task adds to it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.decisions import check_tasks
from cobandits.errors import ConfigurationError
from cobandits.policies.base import Policy
from cobandits.policies.gaussian import GaussianPosteriors
from cobandits.policies.propensities import greedy
from cobandits.policies.task_index import TaskIndex, places_in

__all__ = ["GlobalOwnRidge", "GlobalRidge"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class GlobalRidge(Policy):
    """Greedy: the best arm by one ridge regression with intercept for all tasks together.

    Parameters
    ----------
    ridge : float
        Penalty on the squares of the coefficients, also of the intercept.
    """

    name: ClassVar[str] = "global"
    grid: ClassVar[dict[str, tuple[float, ...]]] = {"ridge": _RIDGES}

    def __init__(self, *, dim: int, n_tasks: int | None = None, ridge: float = 1.0) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        self._common = GaussianPosteriors(n_tasks=1, dim=dim + 1, ridge=ridge)

    @property
    def coefficients(self) -> Floats:
        """The coefficients for all tasks, (d + 1,); the intercept is the last."""
        return np.asarray(self._common.means[0])

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        return greedy(self._values(tasks, _with_intercept(arms)))

    def _values(self, tasks: Codes, arms: Floats) -> Floats:
        """Return the expected rewards of arms with intercept, (m, K)."""
        values = np.einsum("mkd,d->mk", arms, self.coefficients)
        return np.asarray(values)  # of equal arms to the last bit: matmul does not promise that

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        self._common.learn(np.zeros_like(tasks), _with_intercept(rows), rewards)


class GlobalOwnRidge(GlobalRidge):
    """Greedy: the ridge regression of all tasks, and one per task on what that leaves.

    A reward is first learned by the regression of all tasks; the task's own then learns the
    residual. Residuals are not computed again when the common coefficients change.

    Parameters
    ----------
    ridge, own : float
        Penalties on the squares of the coefficients for all tasks and of each task's own.
    """

    name: ClassVar[str] = "global-own"
    grid: ClassVar[dict[str, tuple[float, ...]]] = {
        "ridge": _RIDGES,
        "own": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    }

    def __init__(
        self, *, dim: int, n_tasks: int | None = None, ridge: float = 1.0, own: float = 10.0
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks, ridge=ridge)
        if not (np.isfinite(own) and own > 0):
            raise ConfigurationError(f"own must be a finite number above 0, got {own}")
        self._own = GaussianPosteriors(n_tasks=n_tasks or 1, dim=dim + 1, ridge=own)
        self._index = None if n_tasks else TaskIndex()

    @property
    def own_coefficients(self) -> Floats:
        """What each task adds to the coefficients, (T, d + 1)."""
        return self._own.means

    def _check_tasks(self, tasks: ArrayLike, *, learning: bool = False) -> Codes:
        codes = check_tasks(tasks, self.n_tasks)
        if self._index is None:
            return codes
        return places_in(self._index, codes, self._own, learning=learning)

    def _values(self, tasks: Codes, arms: Floats) -> Floats:
        thetas = self.coefficients + self.own_coefficients[tasks]  # (m, d + 1)
        return np.asarray(np.einsum("mkd,md->mk", arms, thetas))

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        X, y = _with_intercept(rows), np.asarray(rewards, np.float64)
        for posteriors in (self._common, self._own):
            posteriors.check(X, y)  # before either learns
        residuals = np.empty(len(tasks))
        for n in range(len(tasks)):  # each of when its reward was learned
            self._common.learn(np.zeros(1, np.int64), X[n : n + 1], y[n : n + 1])
            residuals[n] = y[n] - X[n] @ self.coefficients
        self._own.learn(tasks, X, residuals)


def _with_intercept(features: Floats) -> Floats:
    """Append a feature that is 1, (..., d) to (..., d + 1)."""
    ones = np.ones((*features.shape[:-1], 1), features.dtype)
    return np.concatenate([features, ones], axis=-1)
