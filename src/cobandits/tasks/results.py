"""What the passes over the data of many tasks return."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels import Fit, RidgePenalty
from cobandits.tasks.checks import Codes, Floats

__all__ = ["Averages", "LeastSquares", "RidgedLeastSquares", "Scatter", "TaskFit", "TaskMeans"]


class TaskFit(NamedTuple):
    """Every task's least-squares weights in a basis, and the sums that a descent needs."""

    weights: Floats  # (r, T)
    gradient: Floats  # (d, r), half the derivative of the total cost in B
    costs: NDArray[np.float64]  # (T,), squared residuals plus the ridge term
    determined: bool  # True if every task is known to have one solution only
    cost: float  # of all tasks
    weighted: Floats  # (r, r), W diag(n) W' with n rows per task

    @classmethod
    def of(cls, fit: Fit, counts: Codes) -> TaskFit:
        """Add the sums over tasks, which have ``counts`` rows, (T,)."""
        W = fit.weights
        return cls(*fit, cost=float(fit.costs.sum()), weighted=W * counts @ W.T)


class LeastSquares(Protocol):
    """What solves every task in the span of a basis."""

    def least_squares(self, B: Floats) -> TaskFit:
        """Solve every task in the span of ``B``; see :func:`cobandits.kernels.least_squares`."""
        ...


class RidgedLeastSquares(Protocol):
    """The same with a ridge on theta."""

    def least_squares(self, B: Floats, ridge: RidgePenalty = 0.0) -> TaskFit:
        """Solve every task in the span of ``B``."""
        ...


class TaskMeans(NamedTuple):
    """Means over the rows of each task, 0 without rows."""

    features: Floats  # (d, T)
    rewards: Floats  # (T,)
    products: Floats  # (d, T), of feature times reward


class Averages(NamedTuple):
    """Means over the rows of each task, and mean squares over all rows."""

    features: Floats  # (d, T)
    rewards: Floats  # (T,)
    products: Floats  # (d, T), of feature times reward
    squares: Floats  # (d,), mean square of each feature over all rows


class Scatter(NamedTuple):
    """The sum of ``v v'`` over rows, of the features around their tasks' means."""

    total: Floats  # (d, d)
    n_rows: int  # in the sum
    sampled: bool  # whether it is over a part of the rows
