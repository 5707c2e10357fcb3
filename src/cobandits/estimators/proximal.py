"""Accelerated proximal gradient descent for least squares with a trace-norm penalty."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.linalg import spectral_norm, triangle
from cobandits.randomness import generator
from cobandits.tasks import TaskData

__all__ = ["Point", "ProximalGradient", "largest_curvature", "shrunk"]

Floats = NDArray[np.floating]

_CHECK_EVERY = 10  # iterations between two duality gaps
_POWER_ITERATIONS = 30
_MARGIN = 1.05  # on the curvature, which power iterations approach from below
_ROUNDING = float(np.finfo(np.float64).eps)
_GRAM_RESOLVES = 1e-5  # smallest singular value that a Gram matrix resolves, over the largest


class Point(NamedTuple):
    """A theta, with the cost and its gradient there."""

    left: Floats  # (d, k)
    right: Floats  # (k, T)
    Theta: Floats  # (d, T), left times right
    nuclear: float  # sum of its singular values
    gradient: Floats  # (d, T), of the loss
    loss: float  # squared residuals over 2 n_rows

    def value(self, penalty: float) -> float:
        """Return the cost."""
        return self.loss + penalty * self.nuclear


class ProximalGradient:
    """Accelerated proximal gradient descent (FISTA) from point to point.

    It minimises the cost of :class:`cobandits.estimators.tracenorm.TraceNorm`. The loss is
    quadratic, so the gradient at an extrapolated point follows from those at the last two
    points, and an iteration is one pass over the data.
    """

    point: Point

    def __init__(self, tasks: TaskData, note: Callable[[Point], None]) -> None:
        self._tasks, self._note = tasks, note
        self._curvature = _MARGIN * largest_curvature(tasks)
        self._null_loss = float(tasks.squares.sum()) / (2 * tasks.n_rows)

    def begin(self, Theta: Floats) -> None:
        """Move to ``Theta``."""
        self.point = self._at(*shrunk(Theta, 0.0))
        self._note(self.point)

    def descend(self, penalty: float, tolerance: float, limit: int) -> int:
        """Descend until the duality gap is small; return the number of iterations."""
        Y, gradient, momentum = self.point.Theta, self.point.gradient, 1.0
        for iteration in range(limit):
            if iteration % _CHECK_EVERY == 0 and self.is_done(penalty, tolerance):
                return iteration
            last, self.point = self.point, self._stepped(Y, gradient, penalty)
            moved = self.point.Theta - last.Theta
            if np.vdot(Y - self.point.Theta, moved) > 0:  # the momentum leads uphill
                momentum = 1.0
            grown = (1 + float(np.sqrt(1 + 4 * momentum**2))) / 2
            share, momentum = (momentum - 1) / grown, grown
            Y = self.point.Theta + share * moved
            gradient = self.point.gradient + share * (self.point.gradient - last.gradient)
            self._note(self.point)
        return limit

    def gap(self, penalty: float) -> float:
        """Return the duality gap: a bound on how far the cost is above its minimum.

        With residuals ``e``, the dual point is ``s e / n_rows``. Its value is
        ``s <e, y> / n_rows - s^2 |e|^2 / (2 n_rows)`` for the best feasible ``s``:
        ``|s| |[Phi_t' e_t]_t|_op <= penalty n_rows``.
        """
        Theta, gradient, loss = self.point.Theta, self.point.gradient, self.point.loss
        against = 2 * loss - float(np.vdot(gradient, Theta))  # <e, y> / n_rows
        norm = spectral_norm(gradient)
        bound = penalty / norm if norm > 0 else np.inf
        s = float(np.clip(against / (2 * loss), -bound, bound)) if loss > 0 else 0.0
        return self.point.value(penalty) - (s * against - s**2 * loss)

    def is_done(self, penalty: float, tolerance: float) -> bool:
        """Return whether the gap is within the tolerance, or only rounding error."""
        rounding = 10 * float(np.finfo(self._tasks.dtype).eps) * self._null_loss
        return self.gap(penalty) <= max(tolerance * self.point.value(penalty), rounding)

    def _stepped(self, Y: Floats, gradient: Floats, penalty: float) -> Point:
        descended = Y - gradient.astype(np.float64) / self._curvature
        return self._at(*shrunk(descended, penalty / self._curvature))

    def _at(self, left: Floats, right: Floats, nuclear: float) -> Point:
        n, right = self._tasks.n_rows, self._tasks.kept(right)
        Theta = left @ right
        G, costs = self._tasks.residuals(Theta)
        gradient = self._tasks.kept(G / n)
        return Point(left, right, Theta, nuclear, gradient, float(costs.sum()) / (2 * n))


def shrunk(Z: Floats, threshold: float) -> tuple[Floats, Floats, float]:
    """Return factors of ``Z`` with singular values lowered by ``threshold``, and their sum.

    They come from the smaller Gram matrix, which is faster than an SVD, or from a QR
    decomposition if the threshold is too small for that.
    """
    if Z.shape[0] > Z.shape[1] and isinstance(Z, np.ndarray):
        right, left, nuclear = shrunk(Z.T, threshold)
        return left.T, right.T, nuclear
    values, U = np.linalg.eigh(Z @ Z.T)
    s = np.sqrt(np.maximum(values, 0))
    if threshold < _GRAM_RESOLVES * s[-1]:
        U, s, _ = np.linalg.svd(triangle(Z).T, full_matrices=False)
        threshold = max(threshold, _ROUNDING * max(Z.shape) * float(s[0]))
    U, s = U[:, s > threshold], s[s > threshold]
    right = (1 - threshold / s)[:, None] * (U.T @ Z)
    return U, right, float(np.sum(s - threshold))


def largest_curvature(tasks: TaskData) -> float:
    """Return a lower bound on the largest eigenvalue of any ``Phi_t' Phi_t / n_rows``.

    By power iterations on all tasks at once. A product is a difference of gradients, at
    thetas that predict rewards of the usual size, so that no digits are lost.
    """
    X = tasks.repeated(generator(None).standard_normal(tasks.dim))
    with np.errstate(all="ignore"):  # what is not finite is refused below
        reward, feature = tasks.squares.sum() / tasks.n_rows, tasks.mean_squares().sum()
        size = np.sqrt(reward / feature) if reward > 0 and feature > 0 else 1.0
        at_zero = tasks.residuals(0 * X)[0].astype(np.float64)
        for _ in range(_POWER_ITERATIONS):
            lengths = np.linalg.norm(X, axis=0)
            X = X / (lengths + (lengths == 0))
            X = (tasks.residuals(size * X)[0] - at_zero) / size
        curvature = float(np.linalg.norm(X, axis=0).max()) / tasks.n_rows
    if not np.isfinite(curvature) or (curvature == 0 and tasks.moments().any()):
        extent = "small" if curvature == 0 else "large"
        raise DataError(f"the features are too {extent} to square; scale them to about 1")
    return curvature
