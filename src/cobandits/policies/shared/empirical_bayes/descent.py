"""A few steps of L-BFGS, of which the last number stays within bounds.

SciPy has such a method too, but loading its part ``optimize`` takes as long as the refits of a
short play, and more memory than all that the policy holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bounds", "descend"]

Doubles = NDArray[np.float64]
Objective = Callable[[Doubles], tuple[float, Doubles]]

_SUFFICIENT, _CURVATURE = 1e-3, 0.9  # of the line search: Armijo's condition and Wolfe's
_LEAST_CURVATURE = 1e-15  # of a step, over the square of the change of the gradient
_LONGER = 4.0  # factor of a step that is too short
_MOST_TRIALS = 20  # lengths of one step


class Bounds(NamedTuple):
    """The least and the largest value of the last number."""

    least: float
    most: float

    def moved(self, x: Doubles, step: Doubles) -> Doubles:
        """Return where a step leads to, within the bounds."""
        there = x + step
        there[-1] = min(max(there[-1], self.least), self.most)
        return there

    def n_free(self, x: Doubles, gradient: Doubles) -> int:
        """Return how many numbers may move: not the last one, where it would leave the bounds."""
        low, high = x[-1] <= self.least, x[-1] >= self.most
        pinned = (low and gradient[-1] > 0) or (high and gradient[-1] < 0)
        return len(x) - bool(pinned)


class _Point(NamedTuple):
    x: Doubles
    value: float
    gradient: Doubles


def descend(
    objective: Objective, start: Doubles, bounds: Bounds, *, steps: int, tolerance: float
) -> Doubles:
    """Return where some steps lead to, fewer if one gains less than a share ``tolerance``.

    ``objective`` returns a value and its gradient; the value is infinite where there is none.

    >>> bowl = lambda x: (float(x @ x), 2 * x)
    >>> descend(bowl, np.array([3.0, 4.0]), Bounds(1, 9), steps=9, tolerance=1e-9).round(6).tolist()
    [0.0, 1.0]
    """
    at = _Point(start, *objective(start))
    pairs: list[tuple[Doubles, Doubles]] = []  # steps and changes of the gradient
    for _ in range(steps):
        n = bounds.n_free(at.x, at.gradient)
        direction = np.zeros_like(start)
        direction[:n] = -_scaled([(s[:n], y[:n]) for s, y in pairs], at.gradient[:n])
        if not at.gradient @ direction < 0:
            break
        length = 1.0 if pairs else 1 / max(1.0, float(np.linalg.norm(direction)))
        found = _searched(objective, at, bounds, direction, length)
        if found is None:
            break
        s, y = found.x - at.x, found.gradient - at.gradient
        pairs.append((s, y))
        gain, size = at.value - found.value, max(abs(at.value), abs(found.value), 1.0)
        at = found
        if gain <= tolerance * size:
            break
    return at.x


def _searched(
    objective: Objective, at: _Point, bounds: Bounds, direction: Doubles, length: float
) -> _Point | None:
    """Return a point along a direction at which the value is lower and the slope less steep."""
    slope = float(at.gradient @ direction)
    shortest, longest, best = 0.0, np.inf, None
    for _ in range(_MOST_TRIALS):
        x = bounds.moved(at.x, length * direction)
        found = _Point(x, *objective(x))
        change = found.value - at.value
        if not change <= _SUFFICIENT * float(at.gradient @ (x - at.x)):
            longest = length
            curve = change - length * slope  # of the parabola through both values and the slope
            least = -slope * length**2 / (2 * curve) if np.isfinite(curve) else 0.0
            span = longest - shortest
            length = float(np.clip(least, shortest + 0.1 * span, longest - 0.1 * span))
            if best is not None:
                return best
        elif found.gradient @ direction < _CURVATURE * slope and longest == np.inf:
            shortest, best, length = length, found, _LONGER * length
        else:
            return found
    return best


def _scaled(pairs: list[tuple[Doubles, Doubles]], gradient: Doubles) -> Doubles:
    """Return the gradient times the approximate inverse of the second derivatives."""
    found, shares = gradient.copy(), []
    pairs = [(s, y) for s, y in pairs if s @ y > _LEAST_CURVATURE * (y @ y)]
    for s, y in reversed(pairs):
        shares.append(float(s @ found) / float(s @ y))
        found -= shares[-1] * y
    if pairs:
        s, y = pairs[-1]
        found *= float(s @ y) / float(y @ y)
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        found += (share - float(y @ found) / float(s @ y)) * s
    return found
