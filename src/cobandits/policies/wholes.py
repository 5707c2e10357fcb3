"""Posteriors of tasks from all of their rows, in as many directions as there is memory for."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cobandits.posteriors import Posteriors
from cobandits.priors import Block, Prior

__all__ = ["Wholes", "affordable"]

Doubles = NDArray[np.float64]

_MOST_BYTES = 2**28  # of the posteriors of all tasks
_FEWEST = 4  # directions


class Wholes:
    """How posteriors come from rows, in the widest directions of a prior.

    For few tasks these are all directions. Where memory does not suffice for that, what is outside
    of them counts as noise. ``[phi, 1] root`` are the coordinates in which the prior of the
    weights is ``N(0, I)``.
    """

    def __init__(self, *, prior: Prior, directions: int) -> None:
        self.prior, self.dim = prior, directions
        self.noise = prior.noise + prior.outside(directions)
        self.root = prior.root(directions)  # (d + 1, q)
        self._whitening = prior.whitening(directions)  # (p, q)
        self.second_moment = self._whitening.T @ prior.spread @ self._whitening  # of an arm, (q, q)

    @cached_property
    def dual(self) -> Doubles:
        """What turns a theta without its offset into weights in these coordinates, (q, d + 1)."""
        widths = np.sqrt(self.prior.spectrum[: self.dim][::-1])  # the widest last
        return np.asarray(self.prior.to_directions[-self.dim :] / widths[:, None])

    def posteriors(self, block: Block) -> Posteriors:
        """Return the posteriors of the tasks of a block, in its order."""
        m, n = block.rewards.shape
        std, everyone = np.sqrt(self.noise), np.arange(m)
        Z = block.features @ (self._whitening / std)  # (m, n, q)
        y = (block.rewards - self.prior.offset * block.features[..., -1]) / std
        posteriors = Posteriors(n_tasks=m, dim=self.dim, ridge=1.0)
        if n <= self.dim // 2:  # faster than a decomposition
            posteriors.learn(np.repeat(everyone, n), Z.reshape(m * n, -1), y.ravel())
        else:
            posteriors.settle(everyone, Z, y)
        return posteriors

    def thetas(self, posteriors: Posteriors) -> Doubles:
        """Return the expected thetas with their intercepts, (m, d + 1)."""
        thetas = posteriors.means @ self.root.T
        thetas[:, -1] += self.prior.offset
        return np.asarray(thetas)


def affordable(n_tasks: int, most: int) -> int:
    """Return how many directions the posteriors of so many tasks can have."""
    numbers = _MOST_BYTES / 8 / n_tasks
    return min(most, max(_FEWEST, int(np.sqrt(2 * numbers + 2.25) - 1.5)))
