"""Checks of what estimators are given: data, rank, start and parameters."""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError, RankError
from cobandits.estimate import Estimate
from cobandits.linalg import orthonormal
from cobandits.tasks import TaskData

__all__ = [
    "check_at_least",
    "check_iterations",
    "check_positive",
    "check_rank",
    "check_ridge",
    "check_rows",
    "check_truth",
    "starting_basis",
]

Floats = NDArray[np.floating]


def check_rows(tasks: TaskData) -> None:
    """Refuse data without rows."""
    if tasks.n_tasks == 0 or tasks.n_rows == 0:
        raise DataError("there are no rows to fit; add rows first")


def check_rank(rank: int, tasks: TaskData) -> None:
    """Refuse a rank that is above the number of features or tasks, or below 1."""
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


def check_truth(truth: Floats | None, tasks: TaskData) -> None:
    """Refuse a true theta of another shape than (d, T)."""
    expected = tasks.dim, tasks.n_tasks
    if truth is not None and truth.shape != expected:
        raise ConfigurationError(f"truth must be theta, {expected}, got shape {truth.shape}")


def starting_basis(start: Estimate, tasks: TaskData, rank: int) -> Floats:
    """Return the basis of ``start``, (d, rank); refuse one of another shape."""
    if start.basis.shape != (tasks.dim, rank):
        raise ConfigurationError(
            f"the start has a basis of shape {start.basis.shape}, the fit needs "
            f"{(tasks.dim, rank)}; start from an estimate of the same features and rank"
        )
    return orthonormal(start.basis)


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


def check_ridge(ridge: object, expected: str) -> None:
    """Refuse a ridge that is not a number of at least 0."""
    if isinstance(ridge, bool) or not isinstance(ridge, (int, float, np.number)):
        raise ConfigurationError(f"ridge must be {expected}, got {ridge!r}")
    check_at_least("ridge", float(ridge), 0)
