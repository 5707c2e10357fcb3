"""The variable projection ``f(B) = min_W f(B, W)``, minimised by scaled L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.estimate import Status
from cobandits.estimators.base import HistoryWriter, ended
from cobandits.kernels import RidgePenalty
from cobandits.linalg import (
    inverse_cholesky,
    inverse_definite,
    leading_left_vectors,
    orthonormal,
    spectral_norm,
)
from cobandits.tasks import RidgedLeastSquares, TaskData, TaskFit

__all__ = ["Minimum", "Point", "Projection", "Scaling"]

Floats = NDArray[np.floating]

_PAIRS = 6  # memory of L-BFGS
_LONGEST_STEP = 1.0  # in B, whose columns have norm 1: longer ones may leave the basin
_SUFFICIENT = 1e-4  # share of the predicted decrease that a step must achieve (Armijo)
_CURVATURE = 1e-10  # least cosine between a step and its change of gradient
_MOST_TRIALS = 30  # step lengths tried in a line search
_STALLED = 1e-6  # share of the cost; a smaller predicted decrease may be rounding error
_SMALL_MEANS = 0.5  # between-task second moment below which means are ignored
_LIFT = 1e-10  # added to a diagonal, so that the matrix can be inverted


class Minimum(NamedTuple):
    """Where a descent ended."""

    basis: Floats  # (d, r), orthonormal
    weights: Floats  # (r, T)
    cost: float
    status: Status
    history: HistoryWriter


class Point(NamedTuple):
    """A basis for features divided by their root mean square, and the best weights there."""

    basis: Floats  # (d, r), C-contiguous
    fit: TaskFit


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """The cost as a function of the basis alone: ``f(B) = min_W f(B, W)``, with a ridge.

    The derivative of ``f`` is that of ``f(B, W)`` in ``B`` at the best ``W``, so an
    evaluation is one pass over the rows. ``f`` only depends on the span of ``B``, whose
    columns need not stay orthonormal during a descent.
    """

    tasks: TaskData
    ridge: RidgePenalty
    scaling: Scaling
    passes: RidgedLeastSquares  # over the tasks

    @classmethod
    def of(cls, tasks: TaskData, ridge: RidgePenalty) -> Projection:
        """Return the cost of these tasks with a ridge, one number or one per feature."""
        scaling = Scaling.of(tasks, ridge)
        return cls(tasks=tasks, ridge=ridge, scaling=scaling, passes=tasks.packed())

    def with_ridge(self, ridge: RidgePenalty) -> Projection:
        """Return the cost of the same tasks with another ridge."""
        return replace(self, ridge=ridge, scaling=self.scaling.with_ridge(ridge))

    def at(self, B: Floats) -> Point:
        """Return where a descent from a basis begins, with its cost."""
        scaled = np.ascontiguousarray(orthonormal(B * self.scaling.units[:, None]))
        return Point(scaled, self._scaled_fit(scaled))

    def descend(
        self, start: Point, history: HistoryWriter, *, iterations: int, tolerance: float
    ) -> Minimum:
        """Descend from ``start`` until the predicted decrease is small.

        During the descent ``B`` is the basis for features divided by their root mean square.
        """
        units = self.scaling.units[:, None]  # (d, 1)
        B, fit = start
        cost = fit.cost
        memory, rounding = _Memory(B.size), self.tasks.rounding
        iteration, status = 0, None
        while status is None:
            history.note(cost, B / units, fit.weights)
            if cost <= rounding:
                status = ended("converged", "the rows are fitted exactly", iteration)
                continue
            inverse = self.scaling.inverse(fit.weighted)
            direction, decrease = memory.direction(fit.gradient, inverse)
            if decrease <= tolerance * cost:
                status = ended("converged", "no step lowers the cost further", iteration)
                continue
            if iteration >= iterations:
                status = ended("limit", "raise iterations", iteration)
                continue
            found = self._search(B, cost, direction, decrease)
            if found is None and len(memory.steps):  # once more, along the plain scaled gradient
                memory = _Memory(B.size)
                direction, decrease = memory.direction(fit.gradient, inverse)
                found = self._search(B, cost, direction, decrease)
            if found is None:
                status = _without_a_step(decrease, cost, iteration)
                continue
            B_next, fit_next, cost = found
            memory.add(B_next - B, fit_next.gradient - fit.gradient)
            B, fit, iteration = B_next, fit_next, iteration + 1
        return self._minimum(B, fit, cost, status, history)

    def _minimum(
        self, B: Floats, fit: TaskFit, cost: float, status: Status, history: HistoryWriter
    ) -> Minimum:
        """Return the end of a descent, with an orthonormal basis for the features as they are."""
        units = self.scaling.units[:, None]
        basis = orthonormal(B / units)
        if fit.determined:
            weights = basis.T @ (B / units) @ fit.weights
            return Minimum(basis, weights, cost, status, history)
        final = self.passes.least_squares(basis, self.ridge)  # of least norm in this basis
        return Minimum(basis, final.weights, final.cost, status, history)

    def _scaled_fit(self, B: Floats) -> TaskFit:
        """Return the best weights, their costs and half the gradient, for scaled features."""
        units = self.scaling.units[:, None]
        fit = self.passes.least_squares(B / units, self.ridge)
        return fit._replace(gradient=np.divide(fit.gradient, units, order="C"))

    def _search(
        self, B: Floats, cost: float, direction: Floats, decrease: float
    ) -> tuple[Floats, TaskFit, float] | None:
        """Return the first point along ``direction`` with a sufficiently lower cost."""
        length = 1.0
        for _ in range(_MOST_TRIALS):
            B_next = B + length * direction
            fit = self._scaled_fit(B_next)
            change = fit.cost - cost
            if change <= -_SUFFICIENT * length * decrease:
                return B_next, fit, fit.cost
            # the least point of the parabola through the two costs and the slope
            excess = change + 2 * length * decrease if np.isfinite(change) else np.inf
            length *= min(0.5, max(0.1, length * decrease / excess))
        return None


def _without_a_step(decrease: float, cost: float, iteration: int) -> Status:
    """Return the status of a descent that finds no step to take."""
    if decrease <= _STALLED * cost:
        return ended("converged", "the cost is at the limit of its precision", iteration)
    advice = "no step lowers the cost; scale the features or set ridge"
    return ended("refused", advice, iteration)


class _Memory:
    """The last pairs of step and change of gradient, and the L-BFGS direction from them."""

    def __init__(self, size: int) -> None:
        self.steps: Floats = np.empty((0, size))  # (pair, d r), the oldest first
        self.changes: Floats = np.empty((0, size))
        self.products: Floats = np.empty((0, 0))  # <step i, change k>, (pair, pair)

    def add(self, step: Floats, change: Floats) -> None:
        s, y = step.reshape(1, -1), change.reshape(1, -1)
        if np.vdot(s, y) > _CURVATURE * np.sqrt(np.vdot(s, s) * np.vdot(y, y)):
            self.steps = np.concatenate([self.steps[1 - _PAIRS :], s])
            self.changes = np.concatenate([self.changes[1 - _PAIRS :], y])
            self.products = self.steps @ self.changes.T

    def direction(self, gradient: Floats, inverse: _Inverse) -> tuple[Floats, float]:
        """Return the step to try, and the decrease of the cost that it predicts to first order."""
        g = gradient.ravel()
        p = self._two_loops(g, inverse) if len(self.steps) else inverse(g)
        p *= _LONGEST_STEP / max(float(np.sqrt(p @ p)), _LONGEST_STEP)
        return -p.reshape(gradient.shape), float(g @ p)

    def _two_loops(self, g: Floats, inverse: _Inverse) -> Floats:
        """Return the result of the two-loop recursion, with each loop as a triangular system."""
        S, Y, R = self.steps, self.changes, self.products
        dtrtrs = scipy.linalg.lapack.dtrtrs
        shares = dtrtrs(R, S @ g)[0]
        p = inverse(g - shares @ Y)
        # the usual initial scaling from the last pair, but at least 1
        p *= max(float(R[-1, -1] / (Y[-1] @ inverse(Y[-1]))), 1.0)
        p += dtrtrs(R, R.diagonal() * shares - Y @ p, trans=1)[0] @ S
        return p


class _Inverse(NamedTuple):
    """An approximate inverse Hessian: ``G -> C^-1 G (W N W')^-1``, from and to (d r,)."""

    features: Floats  # (d, d)
    weights: Floats  # (r, r)

    def __call__(self, g: Floats) -> Floats:
        G = g.reshape(len(self.features), -1)
        return (self.features @ G @ self.weights).ravel()


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling:
    """Second moments of the features, which precondition the cost in ``B``.

    They are those of features divided by their root mean square.
    """

    units: Floats  # (d,), root mean squares of the features
    tasks: TaskData
    moments: Floats  # (d, T), covariance of features and reward in each task
    covariance: Floats  # (d, d), around the tasks' means, or around 0 if these are small
    between: Floats | None  # (d, d), second moment of the tasks' means; None if small
    inverse_root: Floats  # (d, d), S with S S' = inverse of the covariance
    inverse_moment: Floats  # (d, d), inverse of the mean of phi phi'

    @classmethod
    def of(cls, tasks: TaskData, ridge: RidgePenalty = 0.0) -> Scaling:
        """Compute the moments over all tasks; a ridge counts like rows."""
        averages = tasks.averages()
        units = np.sqrt(np.where(averages.squares > 0, averages.squares, 1.0))
        means = averages.features / units[:, None]
        between = (means * (tasks.counts / tasks.n_rows)) @ means.T
        small = float(np.linalg.norm(between)) <= _SMALL_MEANS
        C = tasks.covariance(averages, centred=not small)
        C /= np.outer(units, units)
        unknown = np.empty((0, 0))  # until there is a ridge
        return cls(
            tasks=tasks,
            units=units,
            moments=tasks.kept(averages.products - averages.features * averages.rewards),
            covariance=C,
            between=None if small else between,
            inverse_root=unknown,
            inverse_moment=unknown,
        ).with_ridge(ridge)

    def with_ridge(self, ridge: RidgePenalty) -> Scaling:
        """Return the same moments with another ridge."""
        tasks, C = self.tasks, self.covariance.copy()
        rows = tasks.n_rows / tasks.n_tasks
        C[np.diag_indices(tasks.dim)] += _LIFT + ridge / (rows * self.units**2)
        S = inverse_cholesky(C)
        moment = S @ S.T if self.between is None else inverse_definite(C + self.between)
        return replace(self, inverse_root=S, inverse_moment=moment)

    def ridge(self, share: float) -> Floats:
        """Return the ridge per feature, (d,), that weighs as this share of a task's rows."""
        return np.asarray(share * self.tasks.n_rows / self.tasks.n_tasks * self.units**2)

    def start(self, rank: int) -> Floats:
        """Return the top directions of the covariances of features and reward, (d, r).

        This is the spectral start of Algorithm 2 with whitened features and without each
        task's means, so that it does not depend on the features' scale, correlation and mean.
        """
        return self.directions(self.moments, rank)

    def directions(self, moments: Floats, rank: int) -> Floats:
        """Return the (d, r) basis whose span best predicts ``moments``, (d, T)."""
        vectors = leading_left_vectors(self._whitened(moments), rank)
        return orthonormal(self.inverse_root @ vectors / self.units[:, None])

    def strength(self, G: Floats) -> float:
        """Return the variance of noise that would give a ``G`` of this size.

        ``G`` is ``[Phi_t' e_t]``, (d, T). For noise of variance v, the whitened columns over
        sqrt(n_t) have independent entries of variance v, and the largest singular value of
        such a matrix is near ``sqrt(v) (sqrt(d) + sqrt(T))``.
        """
        d, T = G.shape
        whitened = self._whitened(G) / np.sqrt(np.maximum(self.tasks.counts, 1))
        return float(spectral_norm(whitened) / (np.sqrt(d) + np.sqrt(T))) ** 2

    def _whitened(self, moments: Floats) -> Floats:
        return self.inverse_root.T @ (moments / self.units[:, None])

    def inverse(self, second_moment: Floats) -> _Inverse:
        """Return the approximate inverse Hessian at weights with this ``W diag(n) W'``, (r, r)."""
        weighted = np.array(second_moment, np.float64)
        weighted.flat[:: len(weighted) + 1] += _LIFT * weighted.trace() or 1.0
        return _Inverse(self.inverse_moment, np.linalg.inv(weighted))
