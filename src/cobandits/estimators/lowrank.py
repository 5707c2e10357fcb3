"""LowRank, the library's default: AltGDMin's cost, minimised by quasi-Newton steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators.altgdmin import spectral_start
from cobandits.estimators.base import (
    Progress,
    Record,
    check_at_least,
    check_rank,
    check_rows,
    finished,
    starting_basis,
)
from cobandits.estimators.quasinewton import Scaling, Solution, descend
from cobandits.kernels import Ridge
from cobandits.linalg import orthonormal
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

__all__ = ["LowRank"]

Floats = NDArray[np.floating]

_PATH_TOLERANCE = 1e-3  # while ranks are compared
_COUNTED = 1.15  # times that a parameter counts while ranks are compared
_LEAST_SPARE = 0.05  # of the rows, that the noise is estimated from
_PATIENCE = 4  # ranks to try beyond the best one
_TIGHT = 4.0  # rows a parameter, below which two starts are tried
_RUNAWAY = 1e3  # times the usual size: weights that grow without bound
_HOLD = 0.02  # the ridge that holds them, as a share of the rows' own curvature


@dataclass(frozen=True, kw_only=True)
class LowRank:
    """Least squares with a shared basis: the cost of AltGDMin, minimised fast.

    The cost of equation (4) with the best weights put in, ``f(B) = min_W f(B, W)`` (the
    variable projection), is minimised by L-BFGS. Steps are scaled by the inverses of the
    features' second moment and of ``W diag(n) W'``, so neither the scale, correlation and
    mean of the features nor the condition number of theta slow it down, and a step is
    only taken if it lowers the cost. An evaluation costs as much as an iteration of
    AltGDMin; there are usually 10 to 30.

    Parameters
    ----------
    rank : int or "auto"
        Number of columns of the basis; ``"auto"`` takes the one with the least generalised
        cross-validation error, see :meth:`choose_rank`.
    ridge : float or "auto"
        Adds ``ridge |theta_t|^2`` to each task's cost, for tasks with few rows. ``"auto"``
        takes the variance of the noise over that of the weights, both estimated, with
        features in units of their root mean square (empirical Bayes).
    iterations : int
        The most steps to take.
    tolerance : float
        Stop when the next step promises to lower the cost by less than this share of it.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> problem = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=15, seed=1)
    >>> estimate = LowRank(rank="auto").fit(problem.tasks, truth=problem.theta)
    >>> estimate.rank, bool(estimate.history.errors[-1] < 1e-3)
    (2, True)
    """

    name: ClassVar[str] = "fast"

    rank: int | Literal["auto"] = "auto"
    ridge: float | Literal["auto"] = 0.0
    iterations: int = 500
    tolerance: float = 1e-10

    def __post_init__(self) -> None:
        if not (self.rank == "auto" or isinstance(self.rank, (int, np.integer))):
            raise ConfigurationError(f"rank must be a whole number or 'auto', got {self.rank!r}")
        if self.ridge != "auto":
            check_at_least("ridge", self.ridge, 0)
        check_at_least("iterations", self.iterations, 1)
        check_at_least("tolerance", self.tolerance, 0)

    def fit(
        self,
        tasks: TaskData,
        *,
        start: Estimate | None = None,
        rng: RandomSource = None,  # noqa: ARG002
        truth: Floats | None = None,
        progress: Progress | None = None,
    ) -> Estimate:
        """Fit the rows of ``tasks``; see :class:`cobandits.estimators.base.Estimator`."""
        check_rows(tasks)
        if self.rank != "auto":
            check_rank(self.rank, tasks)
        given: Ridge = 0.0 if self.ridge == "auto" else self.ridge
        scaling = Scaling.of(tasks, given)
        B = self._start(tasks, start, scaling, given)
        if self.ridge == "auto":
            B, given = self._empirical_ridge(tasks, B)
            scaling = Scaling.of(tasks, given)

        def settled(basis: Floats) -> Solution:
            return self._settled(
                tasks, basis, scaling, given, lambda: Record(self.iterations, truth, progress)
            )

        found = settled(B)
        tight = tasks.n_rows < _TIGHT * _parameters(tasks, B.shape[1])
        if start is None and (tight or found.status.outcome == "refused"):
            other = settled(spectral_start(tasks, B.shape[1]))
            found = min(found, other, key=_preference)
        return finished(
            tasks,
            found.basis,
            found.weights,
            status=found.status,
            record=found.record,
            estimator=type(self).__name__,
        )

    def _start(
        self, tasks: TaskData, start: Estimate | None, scaling: Scaling, ridge: Ridge
    ) -> Floats:
        """Return the basis to start from: the given one, or the best of this or any rank."""
        if self.rank != "auto":
            if start is not None:
                return starting_basis(start, tasks, self.rank)
            return scaling.start(tasks, self.rank)
        rank, B = self._best_rank(tasks, scaling, ridge)
        warm = start is not None and start.basis.shape == (tasks.dim, rank)
        return start.basis if start is not None and warm else B

    def _empirical_ridge(self, tasks: TaskData, B: Floats) -> tuple[Floats, Ridge]:
        """Return a basis and the ridge of each feature that the data suggest, (d,).

        If noise has variance s^2 and weights have variance t^2, then the most likely weights
        are those with ridge s^2 / t^2. Both variances are those of a fit with a small ridge.
        """
        squares = np.diagonal(tasks.gram()) / tasks.n_rows
        scale = np.where(squares > 0, squares, 1.0)  # (d,)
        rank = B.shape[1]
        held = _HOLD * float(tasks.counts.mean()) * scale
        found = self._descend(
            tasks, B, Scaling.of(tasks, held), Record(0, None, None), _PATH_TOLERANCE, held
        )
        Theta = found.basis @ found.weights
        spare = tasks.n_rows - _COUNTED * _parameters(tasks, rank)
        noise = float(tasks.residuals(Theta)[1].sum()) / max(spare, _LEAST_SPARE * tasks.n_rows)
        signal = float(np.mean(scale @ Theta**2)) / rank
        return found.basis, noise / signal * scale if signal > 0 else held

    def choose_rank(self, tasks: TaskData) -> int:
        """Return the rank with the least generalised cross-validation error.

        ``cost / (1 - 1.15 p / n)^2`` with ``n`` rows in all and ``p`` free parameters, which
        is ``r (d + T - r)`` if every task has r rows. A parameter counts 1.15 times since
        directions are chosen to fit the noise too; of 1.05, 1.1, 1.15 and 1.2 this found
        the true rank most often. Ranks rise until nothing can be left for the error, or
        until for some ranks nothing was gained and what is left looks like noise. (That
        nothing was gained is not enough: of several equally strong directions only the
        last makes the cost fall.)
        """
        check_rows(tasks)
        ridge = 0.0 if self.ridge == "auto" else self.ridge
        return self._best_rank(tasks, Scaling.of(tasks, ridge), ridge)[0]

    def _best_rank(self, tasks: TaskData, scaling: Scaling, ridge: Ridge) -> tuple[int, Floats]:
        n, rounding = tasks.n_rows, tasks.rounding
        largest = min(tasks.dim, tasks.n_tasks)
        B = scaling.start(tasks, 1)
        best: tuple[float, int, Floats] = (np.inf, 1, B)
        for rank in range(1, largest + 1):
            parameters = _parameters(tasks, rank)
            if _COUNTED * parameters >= n:
                break
            found = self._descend(tasks, B, scaling, Record(0, None, None), _PATH_TOLERANCE, ridge)
            score = max(found.cost, rounding) / (1 - _COUNTED * parameters / n) ** 2
            best = min(best, (score, rank, found.basis), key=lambda candidate: candidate[0])
            G, _ = tasks.residuals(found.basis @ found.weights)
            is_noise = scaling.strength(G) <= found.cost / (n - parameters)
            exhausted = rank >= best[1] + _PATIENCE and is_noise
            if exhausted or rank == largest or found.cost <= rounding:
                break
            B = self._grown(tasks, scaling, found.basis, G, ridge)
        return best[1:]

    def _grown(
        self, tasks: TaskData, scaling: Scaling, B: Floats, G: Floats, ridge: Ridge
    ) -> Floats:
        """Return a start with one more column: ``B`` and the best direction of the residuals.

        Or the spectral start, where that has the lower cost.
        """
        grown = orthonormal(np.column_stack([B, scaling.directions(G, 1)]))
        starts = (grown, scaling.start(tasks, grown.shape[1]))
        costs = [tasks.least_squares(start, ridge).costs.sum() for start in starts]
        return starts[int(np.argmin(costs))]

    def _settled(
        self,
        tasks: TaskData,
        start: Floats,
        scaling: Scaling,
        ridge: Ridge,
        new_record: Callable[[], Record],
    ) -> Solution:
        """Return the minimum that a start leads to.

        The cost has minima at infinity: a direction that one task alone uses, with weights
        that grow without bound. Where a fit runs off to one, it is repeated from a fit with
        a ridge, which has none; if it runs off again, the fit with the ridge is the answer.
        """
        found = self._descend(tasks, start, scaling, new_record(), self.tolerance, ridge)
        sizes = _sizes(found)
        if sizes.max() <= _RUNAWAY * np.median(sizes):
            return found
        held_by = ridge + _HOLD * scaling.rows_variance
        held = self._descend(
            tasks, start, Scaling.of(tasks, held_by), new_record(), _PATH_TOLERANCE, held_by
        )
        found = self._descend(tasks, held.basis, scaling, new_record(), self.tolerance, ridge)
        usual = _sizes(held).clip(min=np.median(_sizes(held)))
        if (_sizes(found) <= _RUNAWAY * usual).all():
            return found
        advice = "a task's weights grow without bound; lower rank, add rows or set ridge"
        return held._replace(status=replace(held.status, outcome="refused", message=advice))

    def _descend(
        self,
        tasks: TaskData,
        B: Floats,
        scaling: Scaling,
        record: Record,
        tolerance: float,
        ridge: Ridge,
    ) -> Solution:
        return descend(
            tasks,
            B,
            scaling,
            record,
            ridge=ridge,
            iterations=self.iterations,
            tolerance=tolerance,
        )


def _parameters(tasks: TaskData, rank: int) -> int:
    """Return the free parameters of a basis and of weights; a task has no more than its rows."""
    return rank * (tasks.dim - rank) + int(np.minimum(tasks.counts, rank).sum())


def _preference(solution: Solution) -> tuple[bool, float]:
    """Return what is to be small: that the fit was refused, and its cost."""
    return solution.status.outcome == "refused", solution.cost


def _sizes(solution: Solution) -> Floats:
    """Return the norm of each task's weights, (T,)."""
    return np.asarray(np.linalg.norm(solution.weights, axis=0))
