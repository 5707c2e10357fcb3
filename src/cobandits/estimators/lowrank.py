"""LowRank, the library's default: AltGDMin's cost, minimised by quasi-Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators.altgdmin import AltGDMin
from cobandits.estimators.base import Estimator, HistoryWriter, Solution, free_parameters
from cobandits.estimators.checks import (
    check_at_least,
    check_iterations,
    check_rows,
    starting_basis,
)
from cobandits.estimators.quasinewton import Minimum, Point, Projection
from cobandits.kernels import RidgePenalty
from cobandits.linalg import orthonormal
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

__all__ = ["LowRank"]

Floats = NDArray[np.floating]

_ROUGH = 1e-3  # tolerance of fits that are only compared
_COUNTED = 1.15  # weight of a parameter in generalised cross-validation
_LEAST_SPARE = 0.05  # fewest degrees of freedom of the noise estimate, as a share of rows
_ROUNDS = 2  # of estimating both variances, each followed by a fit
_PATIENCE = 4  # ranks to try beyond the best one
_TIGHT = 2.5  # rows per parameter below which two starts are tried
_TIGHT_IF_SMALL, _SMALL = 4.0, 1000  # the same with fewer rows than this in all
_WARM_UP = 50  # iterations of AltGDMin that lead to the second start
_RUNAWAY = 1e3  # weights this many times the median norm grow without bound
_HOLD = 0.02  # the ridge that bounds them, relative to the curvature of the rows


@dataclass(frozen=True, kw_only=True)
class LowRank(Estimator):
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
        Number of columns of the basis; ``"auto"`` chooses the one with the least generalised
        cross-validation error, see :meth:`choose_rank`.
    ridge : float or "auto"
        Adds ``ridge |theta_t|^2`` to each task's cost, for tasks with few rows. ``"auto"``
        estimates it as the variance of the noise over that of the weights, for features
        divided by their root mean square (empirical Bayes).
    iterations : int
        The most steps to take.
    tolerance : float
        Stop when the predicted decrease of the cost is below this share of it.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> problem = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=15, seed=1)
    >>> estimate = LowRank(rank="auto").fit(problem.tasks, truth=problem.theta)
    >>> estimate.rank, bool(estimate.history.errors[-1] < 1e-3)
    (2, True)
    """

    name: ClassVar[str] = "lowrank"

    rank: int | Literal["auto"] = "auto"
    ridge: float | Literal["auto"] = 0.0
    iterations: int = 500
    tolerance: float = 1e-10

    def __post_init__(self) -> None:
        if not (self.rank == "auto" or isinstance(self.rank, (int, np.integer))):
            raise ConfigurationError(f"rank must be a whole number or 'auto', got {self.rank!r}")
        if isinstance(self.ridge, str):
            if self.ridge != "auto":
                raise ConfigurationError(f"ridge must be a number or 'auto', got {self.ridge!r}")
        else:
            check_at_least("ridge", self.ridge, 0)
        check_iterations(self.iterations)
        check_at_least("tolerance", self.tolerance, 0)

    def _check(self, tasks: TaskData) -> None:
        if self.rank == "auto":
            check_rows(tasks)
        else:
            super()._check(tasks)

    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        cost = Projection.of(tasks, 0.0 if self.ridge == "auto" else self.ridge)
        B = self._start(cost, start)
        if self.ridge == "auto":
            B, ridge = self._empirical_ridge(cost, B)
            cost = cost.with_ridge(ridge)
        found = self._minimised(cost, B, history)
        tight = _is_tight(tasks, B.shape[1])
        if start is None and (tight or found.status.outcome == "refused"):
            other_start = AltGDMin(rank=B.shape[1], iterations=_WARM_UP).fit(tasks).basis
            other = self._minimised(cost, other_start, history)
            found = min(found, other, key=_preference)
        return Solution(found.basis, found.weights, found.status, found.history)

    def _start(self, cost: Projection, start: Estimate | None) -> Floats:
        """Return the basis to start from; a rank of ``"auto"`` is chosen here."""
        if self.rank != "auto":
            if start is not None:
                return starting_basis(start, cost.tasks, self.rank)
            return cost.scaling.start(self.rank)
        _, B = self._best_rank(cost)
        return B if start is None or start.basis.shape != B.shape else start.basis

    def choose_rank(self, tasks: TaskData) -> int:
        """Return the rank with the least generalised cross-validation error.

        ``cost / (1 - 1.15 p / n)^2`` with ``n`` rows in all and ``p`` free parameters, which
        is ``r (d + T - r)`` if every task has at least r rows. A parameter counts 1.15 times,
        since directions are also chosen to fit the noise. Ranks are tried in rising order,
        until 1.15 p reaches n, or until four ranks brought no gain and either the residuals look
        like noise, or these ranks explain no more than noise would. (No gain is not enough: of
        several equally strong directions, only the last lowers the error.)
        """
        check_rows(tasks)
        return self._best_rank(Projection.of(tasks, 0.0 if self.ridge == "auto" else self.ridge))[0]

    def _best_rank(self, cost: Projection) -> tuple[int, Floats]:
        tasks = cost.tasks
        n, rounding = tasks.n_rows, tasks.rounding
        largest = min(tasks.dim, tasks.n_tasks)
        B = cost.scaling.start(1)
        best, (best_cost, best_parameters) = (np.inf, 1, B), (np.inf, 0)
        start = cost.at(B)
        for rank in range(1, largest + 1):
            parameters = free_parameters(tasks, rank)
            if _COUNTED * parameters >= n:
                break
            found = self._roughly(cost, start)
            score = max(found.cost, rounding) / (1 - _COUNTED * parameters / n) ** 2
            if score < best[0]:
                best = (score, rank, found.basis)
                best_cost, best_parameters = found.cost, parameters
            G = tasks.kept(tasks.residuals(found.basis @ found.weights)[0])
            noise, gain = found.cost / (n - parameters), best_cost - found.cost
            is_noise = cost.scaling.strength(G) <= noise
            gains_noise = gain <= noise * (parameters - best_parameters)
            exhausted = rank >= best[1] + _PATIENCE and (is_noise or gains_noise)
            if exhausted or rank == largest or found.cost <= rounding:
                break
            start = self._grown(cost, found.basis, G)
        return best[1:]

    def _grown(self, cost: Projection, B: Floats, G: Floats) -> Point:
        """Return a start with one more column than ``B``.

        It adds the best direction of the residuals; or it is the spectral start, if that has
        the lower cost.
        """
        grown = orthonormal(np.column_stack([B, cost.scaling.directions(G, 1)]))
        starts = cost.at(grown), cost.at(cost.scaling.start(grown.shape[1]))
        return min(starts, key=lambda start: start.fit.cost)

    def _empirical_ridge(self, cost: Projection, B: Floats) -> tuple[Floats, RidgePenalty]:
        """Return a basis and the ridge per feature, (d,), estimated by empirical Bayes.

        With noise of variance s^2 and weights of variance t^2, the most likely weights are
        those with ridge s^2 / t^2. Both variances are estimated from a fit with a small ridge,
        and again from a fit with the ridge that follows.
        """
        tasks, rank = cost.tasks, B.shape[1]
        scale = tasks.penalty_scale()  # (d,)
        spare = tasks.n_rows - _COUNTED * free_parameters(tasks, rank)
        spare = max(spare, _LEAST_SPARE * tasks.n_rows)
        if _is_tight(tasks, rank):  # elsewhere the fits below lead from any start to the same
            B = self._minimised(cost, B, HistoryWriter()).basis
        ridge = cost.scaling.ridge(_HOLD)
        for _ in range(_ROUNDS):
            ridged = cost.with_ridge(ridge)
            found = self._roughly(ridged, ridged.at(B))
            B, Theta = found.basis, found.basis @ found.weights
            noise = float(tasks.residuals(Theta)[1].sum()) / spare
            signal = float((scale @ Theta**2).sum()) / tasks.n_tasks / rank
            if signal > 0:
                ridge = noise / signal * scale
        return B, ridge

    def _minimised(self, cost: Projection, start: Floats, history: HistoryWriter) -> Minimum:
        """Return the minimum that a descent from ``start`` finds.

        The cost has minima at infinity: a direction that only one task uses, with weights
        that grow without bound. If a descent diverges to one, it is repeated from a fit with
        a ridge, which has no such minima; if it diverges again, the fit with the ridge is
        returned.
        """

        def descended(B: Floats) -> Minimum:
            return cost.descend(
                cost.at(B),
                history.restarted(),
                iterations=self.iterations,
                tolerance=self.tolerance,
            )

        found = descended(start)
        sizes = _sizes(found)
        if not _median_is_below(float(sizes.max()) / _RUNAWAY, sizes):
            return found
        ridged = cost.with_ridge(cost.ridge + cost.scaling.ridge(_HOLD))
        held = ridged.descend(
            ridged.at(start), history.restarted(), iterations=self.iterations, tolerance=_ROUGH
        )
        found = descended(held.basis)
        sizes, usual = _sizes(found), _sizes(held)
        grown = sizes * (sizes > _RUNAWAY * usual)
        if not _median_is_below(float(grown.max()) / _RUNAWAY, usual):
            return found
        advice = "a task's weights grow without bound; lower rank, add rows or set ridge"
        return held._replace(status=replace(held.status, outcome="refused", message=advice))

    def _roughly(self, cost: Projection, start: Point) -> Minimum:
        """Return a minimum that is precise enough to be compared with others."""
        return cost.descend(start, HistoryWriter(), iterations=self.iterations, tolerance=_ROUGH)


def _is_tight(tasks: TaskData, rank: int) -> bool:
    """Return whether rows are so few that a single start may lead to a poor local minimum."""
    bound = _TIGHT_IF_SMALL if tasks.n_rows < _SMALL else _TIGHT
    return tasks.n_rows < bound * free_parameters(tasks, rank)


def _preference(found: Minimum) -> tuple[bool, float]:
    """Return a sort key: fits that were not refused first, then by cost."""
    return found.status.outcome == "refused", found.cost


def _sizes(found: Minimum) -> Floats:
    """Return the norm of each task's weights, (T,)."""
    sizes: Floats = np.linalg.norm(found.weights, axis=0)
    return sizes


def _median_is_below(bound: float, sizes: Floats) -> bool:
    """Return whether the median of ``sizes``, (T,), is below ``bound``, by counting.

    NaNs count as below.
    """
    return not 2 * int((sizes >= bound).sum()) >= sizes.shape[0]
