"""The cost of a pair of balanced factors, ``Theta = B W``, and gradient steps in both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.linalg import factor
from cobandits.tasks import TaskData

__all__ = ["FactoredCost", "FactoredPoint", "balanced"]

Floats = NDArray[np.floating]


class FactoredPoint(NamedTuple):
    """Two factors, with the cost and its gradient there."""

    B: Floats  # (d, r)
    W: Floats  # (r, T), times the roots
    gradient: Floats  # (d, T), of the first term in B W
    residual: float  # sum of squared residuals
    value: float  # both terms


@dataclass(frozen=True, kw_only=True, eq=False)
class FactoredCost:
    """The cost of :class:`cobandits.estimators.altgd.AltGD` as a function of both factors.

    The factors are scaled so that the cost is equally curved for all tasks.
    """

    tasks: TaskData
    roots: NDArray[np.float64]  # (T,), sqrt(n_t / n)
    feature_square: float  # mean square of the features
    size: float  # n times feature_square
    rounding: float  # the residual that is no more than rounding error

    @classmethod
    def of(cls, tasks: TaskData) -> FactoredCost:
        """Return the cost of these tasks."""
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

    def at(self, B: Floats, W: Floats) -> FactoredPoint:
        """Return the point with its gradient and costs, which may be infinite."""
        G, costs = self.tasks.residuals(B @ (W / self.roots))
        gradient = self.tasks.kept(G / (self.size * self.roots))
        residual = float(costs.sum())
        D = B.T @ B - W @ W.T
        value = residual / (2 * self.size) + float(np.vdot(D, D)) / 8
        return FactoredPoint(B, W, gradient, residual, value)

    def stepped(self, point: FactoredPoint, step: float) -> FactoredPoint:
        """Return the point after one gradient step in both factors.

        Its value is infinite if the step overflows.
        """
        B, W, G = point.B, point.W, point.gradient
        BB, WW = B.T @ B, W @ W.T  # (r, r)
        curvature = float(np.linalg.eigvalsh(BB)[-1] + np.linalg.eigvalsh(WW)[-1]) / 2
        if curvature <= 0:  # the factors are zero: so is the gradient
            return point
        rate, D = step / curvature, BB - WW
        with np.errstate(over="ignore", invalid="ignore"):
            B_next = B - rate * (G @ W.T + B @ D / 2)
            W_next = self.tasks.kept(W - rate * (B.T @ G - D @ W / 2))
            trial = self.at(B_next, W_next)
        return trial if np.isfinite(trial.value) else trial._replace(value=np.inf)

    def precision(self, point: FactoredPoint) -> float:
        """Return the rounding error of the value."""
        relative = 100 * float(np.finfo(self.tasks.dtype).eps) * point.value
        return max(relative, self.rounding / (2 * self.size))


def balanced(Theta: Floats, rank: int) -> tuple[Floats, Floats]:
    """Return ``U S^1/2`` and ``S^1/2 V'`` of the leading part of ``Theta = U S V'``."""
    U, scaled = factor(Theta, rank)
    roots = np.sqrt(np.linalg.norm(scaled, axis=1))  # (r,)
    inverse = np.divide(1, roots, out=np.zeros_like(roots), where=roots > 0)
    return U * roots, scaled * inverse[:, None]
