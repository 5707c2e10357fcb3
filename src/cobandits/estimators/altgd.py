"""AltGD: gradient descent in both factors, the baseline of the paper's Figure 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Estimate, Status
from cobandits.estimators.altgdmin import spectral_start
from cobandits.estimators.base import Estimator, HistoryWriter, Solution, ended
from cobandits.estimators.checks import (
    check_at_least,
    check_iterations,
    check_positive,
    starting_basis,
)
from cobandits.estimators.factored import FactoredCost, FactoredPoint, balanced
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

__all__ = ["AltGD"]

Floats = NDArray[np.floating]

_MOST_HALVINGS = 60
_DEFICIENT = 1e-8  # share of the top singular value below which a direction is missing


@dataclass(frozen=True, kw_only=True)
class AltGD(Estimator):
    """Alternating gradient descent: a gradient step in the basis and one in the weights.

    The method of Yi et al. (2016) as section 6 of the paper uses it, from the spectral start
    of Algorithm 2, without the projections that are for corrupted entries. It descends on
    ::

        1 / (2 n) sum_t |y_t - Phi_t B w_t|^2 + 1/8 |B'B - W W'|_F^2

    whose second term keeps the factors of equal size. The start is balanced too: with
    ``Theta_0 = U S V'`` it is ``B = U S^1/2`` and ``W = S^1/2 V'``. The step is ``step``
    over the mean of the squared top singular values of the current ``B`` and ``W``, so
    ``step / sigma_max(Theta)`` where they are balanced, the ``c / sigma_1*`` of that work.
    A step that would raise the cost is not taken, and the step length is halved.

    Where tasks have different numbers of rows, ``B`` and ``W`` are factors of
    ``Theta diag(sqrt(n_t / n))`` with ``n`` the mean of ``n_t``: in these the cost is equally
    curved for all tasks, and its minimum is that of AltGDMin. Features are divided by their
    root mean square. The history has the squared residuals only.

    Parameters
    ----------
    rank : int
        Number of columns of the basis.
    step : float
        Length of the first steps, ``c`` above. Both factors move, so the cost has twice the
        curvature of one of them, and 1 is the limit for exactly white rows; 0.5 leaves room
        for others.
    iterations : int
        The most steps to try.
    tolerance : float
        Stop when a step lowers the cost by less than this share of it.
    truncation : float
        ``C`` of Algorithm 2: the start leaves out rows with y^2 over C times its mean.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> problem = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=15, seed=1)
    >>> estimate = AltGD(rank=2).fit(problem.tasks, truth=problem.theta)
    >>> estimate.status.outcome, bool(estimate.history.errors[-1] < 1e-3)
    ('converged', True)
    """

    name: ClassVar[str] = "altgd"

    rank: int
    step: float = 0.5
    iterations: int = 10_000
    tolerance: float = 1e-9
    truncation: float = 9.0

    def __post_init__(self) -> None:
        check_positive("step", self.step)
        check_positive("truncation", self.truncation)
        check_iterations(self.iterations)
        check_at_least("tolerance", self.tolerance, 0)

    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        cost = FactoredCost.of(tasks)
        B, W = self._start(tasks, cost, start)
        point, status = self._descend(cost, cost.at(B, W), history)
        Q, R = np.linalg.qr(point.B)
        return Solution(Q, R @ (point.W / cost.roots), status, history)

    def _start(
        self, tasks: TaskData, cost: FactoredCost, start: Estimate | None
    ) -> tuple[Floats, Floats]:
        """Return the balanced factors to start from, (d, r) and (r, T).

        They are those of the theta of ``start``, with zero for new tasks. If that has a lower
        rank, which descent could not raise, they are those of the spectral start.
        """
        if start is not None:
            starting_basis(start, tasks, self.rank)
            B, W = balanced(start.theta_for(tasks) * cost.roots, self.rank)
            lengths = np.linalg.norm(W, axis=1) ** 2  # the singular values
            if lengths[-1] > _DEFICIENT * lengths[0]:
                return B, W
        B = spectral_start(tasks, self.rank, truncation=self.truncation)
        bound = self.truncation * float(tasks.squares.sum()) / tasks.n_rows
        Theta = tasks.moments(bound) / np.maximum(tasks.counts, 1) / cost.feature_square
        return balanced(B @ (B.T @ Theta * cost.roots), self.rank)

    def _descend(
        self, cost: FactoredCost, point: FactoredPoint, history: HistoryWriter
    ) -> tuple[FactoredPoint, Status]:
        """Take the steps; return the last point and the status."""
        step, shortest = self.step, self.step / 2**_MOST_HALVINGS
        history.note(point.residual, point.B, point.W / cost.roots)
        for iteration in range(self.iterations):
            if point.residual <= cost.rounding:
                return point, ended("converged", "the rows are fitted exactly", iteration)
            trial = cost.stepped(point, step)
            fall = point.value - trial.value
            taken = fall >= -cost.precision(point)
            point, step = (trial, step) if taken else (point, step / 2)
            history.note(point.residual, point.B, point.W / cost.roots)
            if taken and fall <= self.tolerance * point.value:
                return point, ended("converged", "the cost no longer falls", iteration + 1)
            if step < shortest:
                advice = "every step raises the cost; lower step"
                return point, ended("refused", advice, iteration + 1)
        advice = "raise iterations, or use LowRank, which needs fewer"
        return point, ended("limit", advice, self.iterations)
