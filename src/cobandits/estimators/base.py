"""The base class of all estimators, and what their fits have in common."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Estimate, History, Status
from cobandits.estimators.checks import check_rank, check_rows, check_truth
from cobandits.linalg import factor
from cobandits.metrics import relative_error
from cobandits.randomness import RandomSource
from cobandits.spread_estimate import SpreadEstimate
from cobandits.tasks import SpreadTasks, TaskData

__all__ = [
    "Estimator",
    "HistoryWriter",
    "Progress",
    "Solution",
    "ended",
    "estimate_of",
    "free_parameters",
    "solved_directly",
]

Floats = NDArray[np.floating]
Progress = Callable[[int, int, float], None]  # iteration, most iterations, cost


class HistoryWriter:
    """Writes the history of a fit, and reports its progress.

    Parameters
    ----------
    limit : int
        The most iterations, for the progress report.
    truth : (d, T), optional
        The true theta: the history then has the error of each iteration.
    progress : optional
        Called at each iteration.
    steps : optional
        The numbers of the iterations that are reported.
    """

    def __init__(
        self,
        limit: int = 0,
        truth: Floats | None = None,
        progress: Progress | None = None,
        steps: Iterator[int] | None = None,
    ) -> None:
        self._limit, self._truth, self._progress = limit, truth, progress
        self._steps = itertools.count() if steps is None else steps
        self._costs: list[float] = []
        self._errors: list[float] = []

    def note(self, cost: float, B: Floats, W: Floats) -> None:
        """Add an iteration: the cost of ``B W``, and its error if the truth is known."""
        self._costs.append(cost)
        if self._truth is not None:
            self._errors.append(relative_error(B @ W, self._truth))
        if self._progress is not None:
            step = next(self._steps)
            self._progress(step, max(step, self._limit), cost)

    def restarted(self) -> HistoryWriter:
        """Return an empty writer for another descent; progress reports go on counting."""
        return HistoryWriter(self._limit, self._truth, self._progress, self._steps)

    def history(self) -> History:
        """Return the history so far."""
        errors = None if self._truth is None else np.array(self._errors)
        return History(costs=np.array(self._costs), errors=errors)


class Solution(NamedTuple):
    """What :meth:`Estimator._fit` returns."""

    basis: Floats  # (d, r), orthonormal columns
    weights: Floats  # (r, T)
    status: Status
    history: HistoryWriter


class Estimator(ABC):
    """Fits one theta per task to the data of many tasks.

    A subclass is a frozen dataclass whose fields are the configuration. It has a ``name``, by
    which it is found, and a ``_fit`` that computes. :meth:`fit` checks the arguments before:
    there are rows, and the ``rank``, if there is one, is from 1 to min(d, T).
    """

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
        """Fit ``tasks``.

        Parameters
        ----------
        tasks
            The rows, or their statistics.
        start
            An earlier estimate to start from; estimators in closed form ignore it.
        rng
            A generator or a seed, where the fit draws anything.
        truth : (d, T)
            The true theta, where known: the history then has the error of each iteration.
        progress
            Called with the iteration, the most there can be, and the cost.
        """
        self._check(tasks)
        check_truth(truth, tasks)
        known = getattr(self, "rank", None)
        tasks.limit_messages(known if isinstance(known, int) else None)
        history = HistoryWriter(getattr(self, "iterations", 1), truth, progress)
        found = self._fit(tasks, start, rng, history)
        rank = found.basis.shape[1] if hasattr(self, "rank") else None
        return estimate_of(tasks, found, type(self).__name__, rank)

    def _check(self, tasks: TaskData) -> None:
        """Refuse data that cannot be fitted with this configuration."""
        check_rows(tasks)
        if hasattr(self, "rank"):
            check_rank(self.rank, tasks)

    @abstractmethod
    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        """Compute the basis and the weights; the arguments of :meth:`fit` have been checked."""


def ended(
    outcome: Literal["converged", "limit", "refused"], message: str, iterations: int
) -> Status:
    """Return the status of a fit."""
    return Status(outcome=outcome, message=message, iterations=iterations)


def solved_directly(
    B: Floats, W: Floats, cost: float, history: HistoryWriter, details: str = ""
) -> Solution:
    """Return a solution in closed form, with its cost as the only entry of the history."""
    history.note(cost, B, W)
    return Solution(B, W, ended("converged", f"solved directly{details}", 0), history)


def free_parameters(tasks: TaskData, rank: int) -> int:
    """Return the free parameters of a basis and weights: at most n_t weights for task t."""
    return rank * (tasks.dim - rank) + int(np.minimum(tasks.counts, rank).sum())


def estimate_of(
    tasks: TaskData, found: Solution, estimator: str, rank: int | None = None
) -> Estimate:
    """Return the estimate ``B W`` in canonical form.

    The columns of the basis are the left singular vectors of theta in falling order,
    each with its largest entry positive, so that equal fits give equal arrays.
    """
    message = "; ".join([found.status.message, *_cautions(tasks, rank)])
    U, scaled = factor(found.weights.astype(np.float64))
    basis = np.asarray(found.basis, np.float64) @ U
    signs = np.sign(basis[np.abs(basis).argmax(axis=0), np.arange(basis.shape[1])])
    signs[signs == 0] = 1
    kind: Callable[..., Estimate]
    if isinstance(tasks, SpreadTasks):  # weights and labels stay on the nodes
        kind = partial(SpreadEstimate, tasks=tasks)
    else:
        kind = partial(Estimate, labels=tasks.labels)
    return kind(
        basis=basis * signs,
        weights=tasks.kept(scaled * signs[:, None]),
        status=replace(found.status, message=message),
        history=found.history.history(),
        estimator=estimator,
        feature_names=tasks.feature_names,
    )


def _cautions(tasks: TaskData, rank: int | None) -> list[str]:
    """Return what a user should know about data that can be fitted but say little."""
    if not tasks.squares.any():
        return ["all rewards are 0, so theta is 0: check the reward column"]
    short = 0 if rank is None else int((tasks.counts < rank).sum())
    if short:
        return [f"tasks with fewer rows than rank {rank}: {short}; add rows or lower rank"]
    return []
