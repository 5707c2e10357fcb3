"""AltGD: gradient descent in both factors, the baseline of the paper's Figure 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Estimate, Status
from cobandits.estimators.altgdmin import spectral_start
from cobandits.estimators.base import (
    Progress,
    Record,
    check_at_least,
    check_iterations,
    check_positive,
    check_rank,
    ended,
    finished,
    starting_basis,
)
from cobandits.linalg import factor
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

__all__ = ["AltGD"]

Floats = NDArray[np.floating]

_MOST_HALVINGS = 60
_DEFICIENT = 1e-8  # share of the top singular value below which a direction is missing


@dataclass(frozen=True, kw_only=True)
class AltGD:
    """Alternating gradient descent: a gradient step in the basis and one in the weights.

    The method of Yi et al. (2016) as section 6 of the paper uses it, from the spectral start
    of Algorithm 2, without the projections that are for corrupted entries. It descends on
    ::

        1 / (2 n) sum_t |y_t - Phi_t B w_t|^2 + 1/8 |B'B - W W'|_F^2

    whose second term keeps the factors of equal size. The start is balanced too: with
    ``Theta_0 = U S V'`` it is ``B = U S^1/2`` and ``W = S^1/2 V'``. The step is ``step``
    over the mean of the squared top singular values of the current ``B`` and ``W``, so
    ``step / sigma_max(Theta)`` where they are balanced, the ``c / sigma_1*`` of that work.
    A step that would raise the cost is refused, and the following ones are half as long.

    Where tasks have different numbers of rows, ``B`` and ``W`` are factors of
    ``Theta diag(sqrt(n_t / n))`` with ``n`` the mean of ``n_t``: in these the cost is equally
    curved for all tasks, and its minimum is that of AltGDMin. Features are taken as divided
    by their root mean square. The history has the squared residuals alone.

    Parameters
    ----------
    rank : int
        Number of columns of the basis.
    step : float
        Length of the first steps, ``c`` above. Both factors move, so the cost has twice
        the curvature of one of them and 1 is the limit for rows that were white to the
        letter; 0.5 leaves room for rows that are not.
    iterations : int
        The most steps to take or to refuse.
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

        From a ``start``, it begins at its theta, with zero for tasks that are new; if that
        has a lower rank, descent could not raise it, and the spectral start is taken.
        """
        check_rank(self.rank, tasks)
        cost = _Cost.of(tasks)
        B, W = self._start(tasks, cost, start)
        record = Record(self.iterations, truth, progress)
        point, status = self._descend(cost, cost.at(B, W), record)
        Q, R = np.linalg.qr(point.B)
        W = R @ (point.W / cost.roots)
        name = type(self).__name__
        return finished(tasks, Q, W, status=status, record=record, estimator=name, rank=self.rank)

    def _start(self, tasks: TaskData, cost: _Cost, start: Estimate | None) -> tuple[Floats, Floats]:
        """Return the balanced factors, (d, r) and (r, T), of where to start."""
        if start is not None:
            starting_basis(start, tasks, self.rank)
            B, W = _balanced(start.theta_of(tasks.labels) * cost.roots, self.rank)
            lengths = np.linalg.norm(W, axis=1) ** 2  # the singular values
            if lengths[-1] > _DEFICIENT * lengths[0]:
                return B, W
        B = spectral_start(tasks, self.rank, truncation=self.truncation)
        bound = self.truncation * float(tasks.squares.sum()) / tasks.n_rows
        Theta = tasks.moments(bound) / np.maximum(tasks.counts, 1) / cost.feature_square
        return _balanced(B @ (B.T @ Theta * cost.roots), self.rank)

    def _descend(self, cost: _Cost, point: _Point, record: Record) -> tuple[_Point, Status]:
        """Take the steps; return the last point and how it ended."""
        step, shortest = self.step, self.step / 2**_MOST_HALVINGS
        record.note(point.residual, point.B, point.W / cost.roots)
        for iteration in range(self.iterations):
            if point.residual <= cost.rounding:
                return point, ended("converged", "the rows are fitted exactly", iteration)
            trial = _stepped(cost, point, step)
            fall = point.value - trial.value
            taken = fall >= -cost.precision(point)
            point, step = (trial, step) if taken else (point, step / 2)
            record.note(point.residual, point.B, point.W / cost.roots)
            if taken and fall <= self.tolerance * point.value:
                return point, ended("converged", "the cost no longer falls", iteration + 1)
            if step < shortest:
                advice = "every step raises the cost; lower step"
                return point, ended("refused", advice, iteration + 1)
        advice = "raise iterations, or use LowRank, which needs fewer"
        return point, ended("limit", advice, self.iterations)


class _Point(NamedTuple):
    """Factors, and the cost there."""

    B: Floats  # (d, r)
    W: Floats  # (r, T), times the roots
    gradient: Floats  # (d, T), of the first term in B W
    residual: float  # sum of squared residuals
    value: float  # both terms


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cost:
    """The two terms of the cost, in factors that are equally curved for all tasks."""

    tasks: TaskData
    roots: NDArray[np.float64]  # (T,), sqrt(n_t / n)
    feature_square: float  # mean square of the features
    size: float  # n times feature_square
    rounding: float  # the residual that is no more than rounding error

    @classmethod
    def of(cls, tasks: TaskData) -> _Cost:
        counts = tasks.counts
        square = float(tasks.mean_squares().mean()) or 1.0
        mean_count = tasks.n_rows / tasks.n_tasks
        roots = np.sqrt(np.maximum(counts, 1) / mean_count)
        return cls(
            tasks=tasks,
            roots=roots,
            feature_square=square,
            size=mean_count * square,
            rounding=tasks.rounding,
        )

    def at(self, B: Floats, W: Floats) -> _Point:
        """Return the point with its gradient and costs, which may be infinite."""
        G, costs = self.tasks.residuals(B @ (W / self.roots))
        residual = float(costs.sum())
        D = B.T @ B - W @ W.T
        value = residual / (2 * self.size) + float(np.vdot(D, D)) / 8
        return _Point(B, W, G / (self.size * self.roots), residual, value)

    def precision(self, point: _Point) -> float:
        """Return how far the value may be off by rounding."""
        relative = 100 * float(np.finfo(point.gradient.dtype).eps) * point.value
        return max(relative, self.rounding / (2 * self.size))


def _stepped(cost: _Cost, point: _Point, step: float) -> _Point:
    """Return the point one step on; its value is infinite if the step overflows."""
    B, W, G = point.B, point.W, point.gradient
    BB, WW = B.T @ B, W @ W.T  # (r, r)
    curvature = float(np.linalg.eigvalsh(BB)[-1] + np.linalg.eigvalsh(WW)[-1]) / 2
    if curvature <= 0:  # the factors are zero: so is the gradient
        return point
    rate, D = step / curvature, BB - WW
    with np.errstate(over="ignore", invalid="ignore"):
        B_next = B - rate * (G @ W.T + B @ D / 2)
        W_next = W - rate * (B.T @ G - D @ W / 2)
        trial = cost.at(B_next, W_next)
    return trial if np.isfinite(trial.value) else trial._replace(value=np.inf)


def _balanced(Theta: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return ``U S^1/2`` and ``S^1/2 V'`` of the leading part of ``Theta = U S V'``."""
    U, scaled = factor(Theta, rank)
    roots = np.sqrt(np.linalg.norm(scaled, axis=1))  # (r,)
    inverse = np.divide(1, roots, out=np.zeros_like(roots), where=roots > 0)
    return U * roots, scaled * inverse[:, None]
