"""Sufficient statistics of every task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cobandits import kernels
from cobandits.tasks.base import Averages, Codes, Floats, TaskData

__all__ = ["TaskStatistics"]


class TaskStatistics(TaskData):
    """Sufficient statistics of each task: what least squares needs, whatever the rows.

    Rows are not kept, so what needs single rows is not possible: truncation of large
    rewards (it is left out), sample splitting and cross-validation (they are refused).

    >>> statistics = TaskStatistics(dim=2)
    >>> statistics.add([[1.0, 0.0], [1.0, 1.0]], [1.0, 3.0], ["a", "a"])
    >>> statistics.ridge(0.0).round(6).tolist()
    [[1.0], [2.0]]
    """

    def __init__(self, dim: int, feature_names: Sequence[str] | None = None) -> None:
        super().__init__(dim, feature_names)
        self._store: dict[str, Floats] = {  # the first axis is the task
            "grams": np.zeros((0, dim, dim)),
            "moments": np.zeros((0, dim)),
            "feature_sums": np.zeros((0, dim)),
            "reward_sums": np.zeros(0),
            "squares": np.zeros(0),
            "counts": np.zeros(0),
        }
        self._squared_moment: Floats = np.zeros((dim, dim))  # of all tasks together

    def _reserve(self, capacity: int) -> None:
        """Make room for ``capacity`` tasks and keep what is there."""
        for name, held in self._store.items():
            grown = np.zeros((capacity, *held.shape[1:]))
            grown[: len(held)] = held
            self._store[name] = grown

    def _take(self, Phi: Floats, y: Floats, codes: Codes) -> None:
        capacity = len(self._store["counts"])
        if self.n_tasks > capacity:
            self._reserve(max(self.n_tasks, capacity + capacity // 4))
        order = np.argsort(codes, kind="stable")
        tasks, starts = np.unique(codes[order], return_index=True)
        store = self._store
        for task, rows in zip(tasks.tolist(), np.split(order, starts[1:]), strict=True):
            X, v = Phi[rows].astype(np.float64, copy=False), y[rows].astype(np.float64, copy=False)
            store["grams"][task] += X.T @ X
            store["moments"][task] += v @ X
            store["feature_sums"][task] += X.sum(axis=0)
            store["reward_sums"][task] += v.sum()
            store["squares"][task] += v @ v
            store["counts"][task] += len(v)
            weighted = X * v[:, None]
            self._squared_moment += weighted.T @ weighted

    def _part(self, name: str) -> Floats:
        return self._store[name][: self.n_tasks]

    @property
    def counts(self) -> Codes:
        """Rows of each task, (T,)."""
        return self._part("counts").astype(np.int64)

    @property
    def nbytes(self) -> int:
        """Memory of the statistics."""
        return sum(array.nbytes for array in self._store.values()) + self._squared_moment.nbytes

    @property
    def squares(self) -> NDArray[np.float64]:
        """``y_t' y_t``, (T,)."""
        return self._part("squares").astype(np.float64, copy=False)

    @property
    def rounding(self) -> float:
        """The total cost that is no more than rounding error: costs are differences here."""
        return float(10 * np.finfo(np.float64).eps * self.squares.sum())

    def least_squares(self, B: Floats, ridge: kernels.Ridge = 0.0) -> kernels.Fit:
        """Solve every task in the span of ``B``; see :func:`cobandits.kernels.least_squares`."""
        return kernels.gram_least_squares(
            self._part("grams"), self._part("moments"), self.squares, B, ridge
        )

    def residuals(self, Theta: Floats) -> tuple[Floats, NDArray[np.float64]]:
        """Return ``Phi_t'(Phi_t theta_t - y_t)``, (d, T), and squared residuals, (T,)."""
        return kernels.gram_residuals(
            self._part("grams"), self._part("moments"), self.squares, Theta
        )

    def moments(self, largest_square: float = np.inf) -> Floats:  # noqa: ARG002
        """Return ``Phi_t' y_t``, (d, T); the bound needs single rows and is not applied."""
        return self._part("moments").T

    def squared_moment(self, largest_square: float = np.inf) -> Floats:  # noqa: ARG002
        """Return the sum of ``y^2 phi phi'``, (d, d); the bound is not applied."""
        return self._squared_moment

    def averages(self) -> Averages:
        """Return each task's means of features, rewards and their products."""
        counts = np.maximum(self._part("counts"), 1)
        sums = (self._part(name).T for name in ("feature_sums", "reward_sums", "moments"))
        return Averages(*(total / counts for total in sums))

    def covariance(self, means: Floats) -> Floats:
        """Return the features' covariance around their tasks' ``means``, (d, T), as (d, d)."""
        between = (means * self._part("counts")) @ means.T
        return (self.gram() - between) / max(1, self.n_rows)

    def gram(self) -> Floats:
        """Return the sum of ``phi phi'`` over all rows of all tasks, (d, d)."""
        return np.asarray(self._part("grams").sum(axis=0))

    def ridge(self, penalty: float) -> Floats:
        """Return ``argmin |y_t - Phi_t theta|^2 + penalty |theta|^2`` for each task, (d, T)."""
        return kernels.gram_ridge(self._part("grams"), self._part("moments"), penalty)

    def compact(self) -> TaskData:
        """Return these data as they are: rows cannot be had back."""
        return self
