"""What the estimators share: their protocol, checks, and the record of a fit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError, RankError
from cobandits.estimate import Estimate, History, Status
from cobandits.linalg import factor, orthonormal
from cobandits.metrics import relative_error
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

__all__ = [
    "Estimator",
    "Progress",
    "Record",
    "check_at_least",
    "check_iterations",
    "check_positive",
    "check_rank",
    "check_rows",
    "ended",
    "finished",
    "free_parameters",
    "starting_basis",
]

Floats = NDArray[np.floating]
Progress = Callable[[int, int, float], None]  # iteration, limit, cost


@runtime_checkable
class Estimator(Protocol):
    """Fits a theta a task to the rows of many tasks. Its fields are its configuration."""

    name: ClassVar[str]  # on the command line

    def fit(
        self,
        tasks: TaskData,
        *,
        start: Estimate | None = None,
        rng: RandomSource = None,
        truth: Floats | None = None,
        progress: Progress | None = None,
    ) -> Estimate:
        """Fit the rows of ``tasks``.

        Parameters
        ----------
        tasks
            The rows, or their statistics.
        start
            An earlier estimate to start from.
        rng
            A generator or a seed, where the fit draws anything.
        truth : (d, T)
            The true theta, where known: the history then has the error by iteration.
        progress
            Called with the iteration, the most there can be, and the cost.
        """
        ...


class Record:
    """Keeps the history of a fit and reports its progress."""

    def __init__(self, limit: int, truth: Floats | None, progress: Progress | None) -> None:
        self._limit, self._truth, self._progress = limit, truth, progress
        self._costs: list[float] = []
        self._errors: list[float] = []

    def note(self, cost: float, B: Floats, W: Floats) -> None:
        """Note the cost of ``B W``, and its error where the truth is known."""
        self._costs.append(cost)
        if self._truth is not None:
            Theta = B @ W
            if Theta.shape != self._truth.shape:
                raise ConfigurationError(
                    f"truth must be theta, {Theta.shape}, got shape {self._truth.shape}"
                )
            self._errors.append(relative_error(Theta, self._truth))
        if self._progress is not None:
            self._progress(len(self._costs) - 1, self._limit, cost)

    def history(self) -> History:
        """Return what was noted."""
        errors = None if self._truth is None else np.array(self._errors)
        return History(costs=np.array(self._costs), errors=errors)


def ended(
    outcome: Literal["converged", "limit", "refused"], message: str, iterations: int
) -> Status:
    """Return how a fit ended."""
    return Status(outcome=outcome, message=message, iterations=iterations)


def finished(
    tasks: TaskData,
    B: Floats,
    W: Floats,
    *,
    status: Status,
    record: Record,
    estimator: str,
    rank: int | None = None,
) -> Estimate:
    """Return the estimate ``B W`` in canonical form.

    ``rank`` is that which was asked for: tasks with fewer rows than it are mentioned.

    The columns of the basis are the left singular vectors of theta in falling order,
    each with its largest entry positive, so that equal fits give equal arrays.
    """
    status = replace(status, message="; ".join([status.message, *_cautions(tasks, rank)]))
    U, scaled = factor(np.asarray(W, np.float64))
    basis = np.asarray(B, np.float64) @ U
    signs = np.sign(basis[np.abs(basis).argmax(axis=0), np.arange(basis.shape[1])])
    signs[signs == 0] = 1
    return Estimate(
        basis=basis * signs,
        weights=scaled * signs[:, None],
        labels=tasks.labels,
        status=status,
        history=record.history(),
        estimator=estimator,
        feature_names=tasks.feature_names,
    )


def _cautions(tasks: TaskData, rank: int | None) -> list[str]:
    """Return what a user should know of data that can be fitted but do not say much."""
    if not tasks.squares.any():
        return ["all rewards are 0, so theta is 0: check the reward column"]
    short = 0 if rank is None else int(np.count_nonzero(tasks.counts < rank))
    if short:
        return [f"tasks with fewer rows than rank {rank}: {short}; add rows or lower rank"]
    return []


def starting_basis(start: Estimate, tasks: TaskData, rank: int) -> Floats:
    """Return the basis of ``start`` if it fits the data and the rank."""
    if start.basis.shape != (tasks.dim, rank):
        raise ConfigurationError(
            f"the start has a basis of shape {start.basis.shape}, the fit needs "
            f"{(tasks.dim, rank)}; start from an estimate of the same features and rank"
        )
    return orthonormal(start.basis)


def free_parameters(tasks: TaskData, rank: int) -> int:
    """Return the free parameters of a basis and of weights; a task has no more than its rows."""
    return rank * (tasks.dim - rank) + int(np.minimum(tasks.counts, rank).sum())


def check_rows(tasks: TaskData) -> None:
    """Refuse data without rows."""
    if tasks.n_tasks == 0 or tasks.n_rows == 0:
        raise DataError("there are no rows to fit; add rows first")


def check_rank(rank: int, tasks: TaskData) -> None:
    """Refuse data without rows, and a rank that features or tasks cannot carry."""
    check_rows(tasks)
    try:
        operator.index(rank)
    except TypeError:
        raise RankError(f"rank must be a whole number, got {rank!r}") from None
    largest = min(tasks.dim, tasks.n_tasks)
    if not 1 <= rank <= largest:
        raise RankError(
            f"rank must be from 1 to min(d, T) = min({tasks.dim}, {tasks.n_tasks}) = {largest}, "
            f"got {rank}; {'lower rank or add tasks' if rank > largest else 'raise rank'}"
        )


def check_iterations(value: int) -> None:
    """Refuse a number of iterations that is not a whole number from 1 up."""
    if not isinstance(value, int | np.integer):
        raise ConfigurationError(f"iterations must be a whole number, got {value!r}")
    check_at_least("iterations", value, 1)


def check_positive(name: str, value: float) -> None:
    """Refuse a parameter that is not a positive finite number."""
    if not (np.isfinite(value) and value > 0):
        raise ConfigurationError(f"{name} must be a finite number above 0, got {value}")


def check_at_least(name: str, value: float, bound: float) -> None:
    """Refuse a parameter below its bound, or not finite."""
    if not (np.isfinite(value) and value >= bound):
        raise ConfigurationError(f"{name} must be at least {bound} and finite, got {value}")
