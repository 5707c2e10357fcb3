"""Independent, ridge regression a task, and Pooled, one theta for all tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate, Status
from cobandits.estimators.base import Progress, Record, check_at_least, check_rows, finished
from cobandits.kernels import Ridge, blocks
from cobandits.linalg import factor, solve_semidefinite
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData, TaskRows

__all__ = ["Independent", "Pooled"]

Floats = NDArray[np.floating]

_RESOLVED = 1e-14  # what rounding leaves of a Gram matrix, a feature


@dataclass(frozen=True, kw_only=True)
class Independent:
    """Each task by itself: ``argmin |y_t - Phi_t theta|^2 + ridge |theta|^2``.

    Parameters
    ----------
    ridge : float or "cv"
        The penalty, common to all tasks and features. ``"cv"`` takes one that is
        proportional to the features' mean squares, so that their units do not matter, with
        the least leave-one-out error over the rows of all tasks, see :meth:`choose_ridge`;
        it needs rows, not statistics. 0 is least squares, of least norm where a task has fewer
        rows than features.

    Examples
    --------
    >>> tasks = TaskRows.from_arrays([[1.0], [1.0], [2.0]], [1.0, 3.0, 2.0], ["a", "a", "b"])
    >>> Independent(ridge=0.0).fit(tasks).theta.tolist()
    [[2.0, 1.0]]
    """

    name: ClassVar[str] = "independent"

    ridge: float | Literal["cv"] = "cv"

    def __post_init__(self) -> None:
        if self.ridge != "cv":
            _check_ridge(self.ridge, "a number or 'cv'")

    def fit(
        self,
        tasks: TaskData,
        *,
        start: Estimate | None = None,
        rng: RandomSource = None,
        truth: Floats | None = None,
        progress: Progress | None = None,
    ) -> Estimate:
        """Fit the rows of ``tasks``; see :class:`cobandits.estimators.base.Estimator`.

        The answer is in closed form: ``start`` and ``rng`` are taken and make no difference.
        """
        check_rows(tasks)
        if self.ridge == "cv":
            share = self.choose_ridge(tasks)
            ridge: Ridge = share * tasks.penalty_scale()
            message = f"ridge {share:.3g} times the features' mean squares"
        else:
            ridge, message = self.ridge, f"ridge {self.ridge:.3g}"
        B, W = factor(np.asarray(tasks.ridge(ridge), np.float64))
        cost = _cost(tasks, B @ W, B @ W, ridge)
        return _solved(self, tasks, B, W, cost, message, Record(1, truth, progress))

    def choose_ridge(self, tasks: TaskData) -> float:
        """Return the penalty with the least leave-one-out error over all tasks' rows.

        It is for features divided by their root mean squares; times the mean squares, it is
        that of the features as they are. Each row is predicted from the other rows of its
        task, exactly and without fitting again. 23 penalties are tried (fewer for float32),
        from 1e-8 to 1e3 of the mean number of rows of a task.
        """
        check_rows(tasks)
        if not isinstance(tasks, TaskRows):
            raise DataError("ridge 'cv' needs rows, not statistics; give ridge as a number")
        penalties = _penalties(tasks)
        units = np.sqrt(tasks.penalty_scale())
        errors = np.zeros(len(penalties))
        for first, last in pairwise(tasks.offsets):
            Phi = tasks.rows[first:last] / units
            errors += _left_out_errors(Phi, tasks.rewards[first:last], penalties)
        return float(penalties[np.argmin(errors)])


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """One theta for all tasks: ``argmin sum_t |y_t - Phi_t theta|^2 + ridge |theta|^2``.

    Parameters
    ----------
    ridge : float
        The penalty. 0 is least squares, of least norm where the rows of all tasks do not
        determine theta.

    Examples
    --------
    >>> tasks = TaskRows.from_arrays([[1.0], [1.0], [2.0]], [1.0, 3.0, 4.0], ["a", "a", "b"])
    >>> Pooled().fit(tasks).theta.tolist()
    [[2.0, 2.0]]
    """

    name: ClassVar[str] = "pooled"

    ridge: float = 0.0

    def __post_init__(self) -> None:
        _check_ridge(self.ridge, "a number")

    def fit(
        self,
        tasks: TaskData,
        *,
        start: Estimate | None = None,
        rng: RandomSource = None,
        truth: Floats | None = None,
        progress: Progress | None = None,
    ) -> Estimate:
        """Fit the rows of ``tasks``; see :class:`cobandits.estimators.base.Estimator`.

        The answer is in closed form: ``start`` and ``rng`` are taken and make no difference.
        """
        check_rows(tasks)
        B, length = factor(_pooled(tasks, self.ridge))  # (d, 1), (1, 1)
        W = np.repeat(length, tasks.n_tasks, axis=1)
        cost = _cost(tasks, B @ W, B @ length, self.ridge)
        message = f"ridge {self.ridge:.3g}"
        return _solved(self, tasks, B, W, cost, message, Record(1, truth, progress))


def _solved(
    estimator: Independent | Pooled,
    tasks: TaskData,
    B: Floats,
    W: Floats,
    cost: float,
    message: str,
    record: Record,
) -> Estimate:
    """Return the estimate ``B W`` with its cost noted."""
    record.note(cost, B, W)
    message = f"solved directly, with {message}"
    status = Status(outcome="converged", message=message, iterations=0)
    name = type(estimator).__name__
    return finished(tasks, B, W, status=status, record=record, estimator=name)


def _cost(tasks: TaskData, Theta: Floats, charged: Floats, ridge: Ridge) -> float:
    """Return the squared residuals of ``Theta`` plus the ridge term of the ``charged`` columns."""
    shrinkage = np.sum(np.reshape(ridge, (-1, 1)) * charged**2)
    return float(tasks.residuals(Theta)[1].sum() + shrinkage)


def _pooled(tasks: TaskData, ridge: float) -> Floats:
    """Return the theta of all rows together, (d, 1)."""
    moments = tasks.moments()  # (d, T), as exact as the rows
    tolerance = tasks.dim * max(float(np.finfo(moments.dtype).eps), _RESOLVED)
    M = tasks.gram() + ridge * np.eye(tasks.dim)
    return solve_semidefinite(M[None], moments.sum(axis=1)[None], tolerance).T


def _penalties(tasks: TaskRows) -> Floats:
    """Return the penalties to try, two a decade, relative to the mean number of rows."""
    resolved = float(np.sqrt(np.finfo(tasks.rows.dtype).eps))  # the least that rounding spares
    shares = 10.0 ** np.arange(3, np.log10(resolved) - 0.5, -0.5)
    return np.asarray(tasks.n_rows / tasks.n_tasks * shares)


def _left_out_errors(Phi: Floats, y: Floats, penalties: Floats) -> Floats:
    """Return for each penalty the sum of squared errors of rows predicted from the others.

    With the hat matrix ``H = Phi (Phi'Phi + penalty I)^-1 Phi'`` the error of row i is
    ``(y - H y)_i / (1 - H_ii)``.
    """
    totals = np.zeros(len(penalties))
    for e, room in _misses(np.asarray(Phi, np.float64), np.asarray(y, np.float64), penalties):
        totals += np.sum((e / room) ** 2, axis=1)
    return totals


def _misses(Phi: Floats, y: Floats, penalties: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield ``y - H y`` and ``1 - diag(H)`` for some of the rows, (penalty, row) each.

    From the eigenvectors of the smaller Gram matrix; both times ``1 / penalty`` where that
    is ``Phi Phi'``, which loses no digits at small penalties.
    """
    n, d = Phi.shape
    if n < d:
        values, Q = scipy.linalg.eigh(Phi @ Phi.T, overwrite_a=True)
        inverses = 1 / (np.maximum(values, 0) + penalties[:, None])  # (penalty, n)
        yield (inverses * (y @ Q)) @ Q.T, inverses @ (Q**2).T
        return
    values, V = scipy.linalg.eigh(Phi.T @ Phi, overwrite_a=True)  # needs less room
    inverses = 1 / (np.maximum(values, 0) + penalties[:, None])  # (penalty, d)
    coordinates = inverses * (y @ Phi @ V)
    for block in blocks(n, (d + len(penalties)) * Phi.itemsize):
        A = Phi[block] @ V  # (block, d)
        room = 1 - inverses @ (A**2).T
        yield y[block] - coordinates @ A.T, np.maximum(room, np.finfo(np.float64).eps)


def _check_ridge(ridge: object, expected: str) -> None:
    if isinstance(ridge, bool) or not isinstance(ridge, (int, float, np.number)):
        raise ConfigurationError(f"ridge must be {expected}, got {ridge!r}")
    check_at_least("ridge", float(ridge), 0)
