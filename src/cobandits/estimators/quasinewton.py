"""The variable projection ``f(B) = min_W f(B, W)``, minimised by scaled L-BFGS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Status
from cobandits.estimators.base import Record
from cobandits.kernels import Fit, Ridge
from cobandits.linalg import inverse_cholesky, inverse_definite, leading_left_vectors, orthonormal
from cobandits.tasks import TaskData

__all__ = ["Projection", "Scaling", "Solution"]

Floats = NDArray[np.floating]

_PAIRS = 6  # of L-BFGS
_FIRST_STEP = 0.8  # of the scaled gradient, before there is a pair
_LONGEST_STEP = 1.0  # in B, whose columns have norm 1: a longer one may leave the basin
_SUFFICIENT = 1e-4  # share of the promised fall that a step must give
_CURVATURE = 1e-10  # least cosine between a step and its change of gradient
_MOST_TRIALS = 30  # of step lengths
_STALLED = 1e-6  # share of the cost: a promise below it may be lost in rounding
_LIFT = 1e-10  # of a diagonal, so that a matrix can be inverted


class Solution(NamedTuple):
    """Where a descent ended."""

    basis: Floats  # (d, r), orthonormal
    weights: Floats  # (r, T)
    cost: float
    status: Status
    record: Record


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """The cost as a function of the basis alone: ``f(B) = min_W f(B, W)``, with a ridge.

    The derivative of ``f`` is that of ``f(B, W)`` in ``B`` at the best ``W``, so an
    evaluation is one pass over the rows. ``f`` only depends on the span of ``B``, whose
    columns need not stay orthonormal during a descent.
    """

    tasks: TaskData
    ridge: Ridge
    scaling: Scaling

    @classmethod
    def of(cls, tasks: TaskData, ridge: Ridge) -> Projection:
        """Take the cost of these tasks, with a ridge a task and feature."""
        return cls(tasks=tasks, ridge=ridge, scaling=Scaling.of(tasks, ridge))

    def at(self, B: Floats) -> float:
        """Return the cost at a basis."""
        return float(self.tasks.least_squares(B, self.ridge).costs.sum())

    def descend(
        self, start: Floats, record: Record, *, iterations: int, tolerance: float
    ) -> Solution:
        """Go down from ``start`` until no step promises to lower the cost by much.

        ``B`` is, on the way, the basis for features in units of their root mean square.
        """
        units = self.scaling.units[:, None]  # (d, 1)
        B = orthonormal(start * units)
        fit = self._scaled_fit(B)
        memory = _Memory()
        rounding = self.tasks.rounding
        iteration = 0

        def ended(outcome: Literal["converged", "limit", "refused"], message: str) -> Solution:
            basis = orthonormal(B / units)
            final = self.tasks.least_squares(basis, self.ridge)
            status = Status(outcome=outcome, message=message, iterations=iteration)
            return Solution(basis, final.weights, float(final.costs.sum()), status, record)

        while True:
            cost = float(fit.costs.sum())
            record.note(cost, B / units, fit.weights)
            if cost <= rounding:
                return ended("converged", "the rows are fitted exactly")
            inverse = self.scaling.inverse(fit.weights)
            direction, promise = memory.direction(fit.gradient, inverse)
            if promise <= tolerance * cost:
                return ended("converged", "no step lowers the cost further")
            if iteration >= iterations:
                return ended("limit", "raise iterations")
            found = self._search(B, cost, direction, promise)
            if found is None and memory.pairs:  # once more, along the plain scaled gradient
                memory = _Memory()
                direction, promise = memory.direction(fit.gradient, inverse)
                found = self._search(B, cost, direction, promise)
            if found is None and promise <= _STALLED * cost:
                return ended("converged", "the cost is at the limit of its precision")
            if found is None:
                return ended("refused", "no step lowers the cost; scale the features or set ridge")
            B_next, fit_next = found
            memory.add(B_next - B, fit_next.gradient - fit.gradient)
            B, fit, iteration = B_next, fit_next, iteration + 1

    def _scaled_fit(self, B: Floats) -> Fit:
        """Return the best weights, their costs and half the gradient, for scaled features."""
        units = self.scaling.units[:, None]
        fit = self.tasks.least_squares(B / units, self.ridge)
        return fit._replace(gradient=fit.gradient / units)

    def _search(
        self, B: Floats, cost: float, direction: Floats, promise: float
    ) -> tuple[Floats, Fit] | None:
        """Return the first point along ``direction`` that lowers the cost enough, if any."""
        length = 1.0
        for _ in range(_MOST_TRIALS):
            B_next = B + length * direction
            fit = self._scaled_fit(B_next)
            change = float(fit.costs.sum()) - cost
            if change <= -_SUFFICIENT * length * promise:
                return B_next, fit
            # the least point of the parabola through the two costs and the slope
            excess = change + 2 * length * promise if np.isfinite(change) else np.inf
            length *= min(0.5, max(0.1, length * promise / excess))
        return None


class _Memory:
    """The last pairs of step and change of gradient, and the L-BFGS direction from them."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Floats, Floats, float]] = []  # s, y, 1 / <s, y>

    def add(self, step: Floats, change: Floats) -> None:
        s, y = step.ravel(), change.ravel()
        product = float(s @ y)
        if product > _CURVATURE * float(np.sqrt((s @ s) * (y @ y))):
            self.pairs = [*self.pairs[1 - _PAIRS :], (s, y, 1 / product)]

    def direction(self, gradient: Floats, inverse: _Inverse) -> tuple[Floats, float]:
        """Return the step to try and by how much its full length promises to lower the cost."""
        q = gradient.flatten()
        shares = []
        for s, y, over in reversed(self.pairs):
            share = over * float(s @ q)
            q -= share * y
            shares.append(share)
        p = inverse(q.reshape(gradient.shape)).ravel()
        if self.pairs:  # the length of the last step, in the metric of the scaling
            _, y, over = self.pairs[-1]
            p /= over * float(y @ inverse(y.reshape(gradient.shape)).ravel())
        else:
            p *= _FIRST_STEP
        for (s, y, over), share in zip(self.pairs, reversed(shares), strict=True):
            p += (share - over * float(y @ p)) * s
        p *= _LONGEST_STEP / max(float(np.sqrt(p @ p)), _LONGEST_STEP)
        return -p.reshape(gradient.shape), float(gradient.ravel() @ p)


class _Inverse(NamedTuple):
    """An approximate inverse Hessian: ``G -> C^-1 G (W N W')^-1``."""

    features: Floats  # (d, d)
    weights: Floats  # (r, r)

    def __call__(self, G: Floats) -> Floats:
        return self.features @ G @ self.weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Scaling:
    """Second moments of the features, which make the cost near spherical in ``B``.

    They are those of features in units of their root mean square.
    """

    counts: NDArray[np.int64]  # (T,)
    units: Floats  # (d,), root mean squares of the features
    moments: Floats  # (d, T), covariance of features and reward in each task
    inverse_root: Floats  # (d, d), S with S S' = inverse of the covariance
    inverse_moment: Floats  # (d, d), inverse of the mean of phi phi'

    @classmethod
    def of(cls, tasks: TaskData, ridge: Ridge = 0.0) -> Scaling:
        """Take the moments of the features of all tasks together, with a ridge as if rows."""
        counts = tasks.counts
        means, reward_means, products = tasks.averages()
        C = tasks.covariance(means)
        squares = np.diagonal(C) + means**2 @ counts / tasks.n_rows
        units = np.sqrt(np.where(squares > 0, squares, 1.0))
        C /= np.outer(units, units)
        C[np.diag_indices(tasks.dim)] += _LIFT + ridge / (counts.mean() * units**2)
        inverse_root = inverse_cholesky(C)
        scaled_means = means / units[:, None]
        C += (scaled_means * (counts / tasks.n_rows)) @ scaled_means.T
        return cls(
            counts=counts,
            units=units,
            moments=products - means * reward_means,
            inverse_root=inverse_root,
            inverse_moment=inverse_definite(C),
        )

    def ridge(self, share: float) -> Floats:
        """Return the ridge of each feature, (d,), that weighs as this share of a task's rows."""
        return np.asarray(share * self.counts.mean() * self.units**2)

    def start(self, rank: int) -> Floats:
        """Return the top directions of the tasks' covariances of features and reward.

        The spectral start of Algorithm 2, whitened and with each task's means taken out,
        so that it does not depend on the features' scale, correlation and mean.
        """
        return self.directions(self.moments, rank)

    def directions(self, moments: Floats, rank: int) -> Floats:
        """Return the basis whose span predicts ``moments``, (d, T), best, (d, r)."""
        vectors = leading_left_vectors(self._whitened(moments), rank)
        return orthonormal(self.inverse_root @ vectors / self.units[:, None])

    def strength(self, G: Floats) -> float:
        """Return the variance of a noise whose pulled-back rows would be as strong as ``G``.

        ``G`` is ``[Phi_t' e_t]``, (d, T). For noise of variance v, the whitened columns over
        sqrt(n_t) have independent entries of variance v, and the largest singular value of
        such a matrix is near ``sqrt(v) (sqrt(d) + sqrt(T))``.
        """
        d, T = G.shape
        whitened = self._whitened(G) / np.sqrt(np.maximum(self.counts, 1))
        return float(np.linalg.norm(whitened, 2) / (np.sqrt(d) + np.sqrt(T))) ** 2

    def _whitened(self, moments: Floats) -> Floats:
        return self.inverse_root.T @ (moments / self.units[:, None])

    def inverse(self, W: Floats) -> _Inverse:
        """Return the approximate inverse Hessian at the weights ``W``."""
        weighted = np.asarray(W * self.counts @ W.T, np.float64)  # (r, r)
        weighted.flat[:: len(weighted) + 1] += _LIFT * weighted.trace() or 1.0
        return _Inverse(self.inverse_moment, inverse_definite(weighted))
