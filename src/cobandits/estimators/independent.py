"""Independent, one ridge regression per task, and Pooled, one theta for all tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Estimate
from cobandits.estimators.base import Estimator, HistoryWriter, Solution, solved_directly
from cobandits.estimators.checks import check_ridge, check_rows
from cobandits.kernels import RidgePenalty
from cobandits.linalg import factor, solve_semidefinite
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

__all__ = ["Independent", "Pooled"]

Floats = NDArray[np.floating]

_RESOLVED = 1e-14  # relative precision of a pooled Gram matrix, per feature


@dataclass(frozen=True, kw_only=True)
class Independent(Estimator):
    """Each task by itself: ``argmin |y_t - Phi_t theta|^2 + ridge |theta|^2``.

    The solution is in closed form: ``start`` and ``rng`` of a fit have no effect.

    Parameters
    ----------
    ridge : float or "cv"
        The penalty, the same for all tasks and features. ``"cv"`` makes it proportional to
        the features' mean squares, so that their units do not matter, and chooses the factor
        by leave-one-out cross-validation over the rows of all tasks, see
        :meth:`choose_ridge`; this needs rows, not statistics. 0 is least squares, of least
        norm if a task has fewer rows than features.

    Examples
    --------
    >>> from cobandits.tasks import TaskRows
    >>> tasks = TaskRows.from_arrays([[1.0], [1.0], [2.0]], [1.0, 3.0, 2.0], ["a", "a", "b"])
    >>> Independent(ridge=0.0).fit(tasks).theta.tolist()
    [[2.0, 1.0]]
    """

    name: ClassVar[str] = "independent"

    ridge: float | Literal["cv"] = "cv"

    def __post_init__(self) -> None:
        if self.ridge != "cv":
            check_ridge(self.ridge, "a number or 'cv'")

    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        if self.ridge == "cv":
            share = self.choose_ridge(tasks)
            ridge: RidgePenalty = share * tasks.penalty_scale()
            message = f"ridge {share:.3g} times the features' mean squares"
        else:
            ridge, message = self.ridge, f"ridge {self.ridge:.3g}"
        B, W = factor(tasks.kept(tasks.ridge(ridge).astype(np.float64)))
        cost = _cost(tasks, B @ W, B @ W, ridge)
        return solved_directly(B, W, cost, history, f", with {message}")

    def choose_ridge(self, tasks: TaskData) -> float:
        """Return the penalty with the least leave-one-out error over the rows of all tasks.

        The penalty is for features divided by their root mean squares; multiply it by the
        mean squares for the features as they are. Each row is predicted from the other rows
        of its task, exactly and without fitting again. 23 penalties are tried (fewer for
        float32), from 1e-8 to 1e3 times the mean number of rows per task.
        """
        check_rows(tasks)
        penalties = _penalties(tasks)
        errors = tasks.leave_one_out_errors(penalties, np.sqrt(tasks.penalty_scale()))
        return float(penalties[np.argmin(errors)])


@dataclass(frozen=True, kw_only=True)
class Pooled(Estimator):
    """One theta for all tasks: ``argmin sum_t |y_t - Phi_t theta|^2 + ridge |theta|^2``.

    The solution is in closed form: ``start`` and ``rng`` of a fit have no effect.

    Parameters
    ----------
    ridge : float
        The penalty. 0 is least squares, of least norm if the rows of all tasks together do
        not determine theta.

    Examples
    --------
    >>> from cobandits.tasks import TaskRows
    >>> tasks = TaskRows.from_arrays([[1.0], [1.0], [2.0]], [1.0, 3.0, 4.0], ["a", "a", "b"])
    >>> Pooled().fit(tasks).theta.tolist()
    [[2.0, 2.0]]
    """

    name: ClassVar[str] = "pooled"

    ridge: float = 0.0

    def __post_init__(self) -> None:
        check_ridge(self.ridge, "a number")

    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        tasks.limit_messages(1)
        B, length = factor(_pooled(tasks, self.ridge))  # (d, 1), (1, 1)
        W = tasks.repeated(length[:, 0])
        cost = _cost(tasks, B @ W, B @ length, self.ridge)
        return solved_directly(B, W, cost, history, f", with ridge {self.ridge:.3g}")


def _cost(tasks: TaskData, Theta: Floats, charged: Floats, ridge: RidgePenalty) -> float:
    """Return the squared residuals of ``Theta`` plus the ridge term of the ``charged`` columns."""
    shrinkage = (np.reshape(ridge, (-1, 1)) * charged**2).sum()
    return float(tasks.residuals(Theta)[1].sum() + shrinkage)


def _pooled(tasks: TaskData, ridge: float) -> Floats:
    """Return the theta that fits the rows of all tasks together, (d, 1)."""
    moments = tasks.moments()  # (d, T), as exact as the rows
    tolerance = tasks.dim * max(float(np.finfo(tasks.dtype).eps), _RESOLVED)
    M = tasks.gram() + ridge * np.eye(tasks.dim)
    return solve_semidefinite(M[None], moments.sum(axis=1)[None], tolerance).T


def _penalties(tasks: TaskData) -> Floats:
    """Return the penalties to try: two per decade, times the mean number of rows per task."""
    resolved = float(np.sqrt(np.finfo(tasks.dtype).eps))  # smaller ones are lost in rounding
    shares = 10.0 ** np.arange(3, np.log10(resolved) - 0.5, -0.5)
    return np.asarray(tasks.n_rows / tasks.n_tasks * shares)
