"""Every task's posterior in as many directions as there is memory for, from all of its rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.histories import Histories
from cobandits.posteriors import Posteriors
from cobandits.priors import Prior, blocks

__all__ = ["Wholes", "affordable"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_MOST_BYTES = 2**28  # of the posteriors
_FEWEST = 4  # directions


class Wholes:
    """Posteriors of all tasks in the widest directions of the prior, in few tasks in all of them.

    Where memory does not suffice for that, what is outside of them counts as noise.
    ``[phi, 1] root`` are the coordinates in which the prior of the weights is ``N(0, I)``.
    """

    def __init__(self, *, n_tasks: int, prior: Prior) -> None:
        q = affordable(n_tasks, prior.coordinates.dim)
        self.prior, self.noise = prior, prior.noise + prior.outside(q)
        self.root = prior.root(q)  # (d + 1, q)
        self.posteriors = Posteriors(n_tasks=n_tasks, dim=q, ridge=1.0)

    def thetas(self) -> Doubles:
        """Return the expected thetas with their intercepts, (T, d + 1)."""
        thetas = self.posteriors.means @ self.root.T
        thetas[:, -1] += self.prior.offset
        return np.asarray(thetas)

    def second_moment(self) -> Doubles:
        """Return that of a typical arm in these coordinates, (q, q)."""
        L = self.prior.whitening(self.posteriors.dim)
        return np.asarray(L.T @ self.prior.spread @ L)

    def learn(self, histories: Histories) -> None:
        """Learn the rows of all tasks."""
        short = histories.sizes <= self.posteriors.dim // 2  # faster learned than settled
        self._learn_short(histories, short)
        self._settle_long(histories, np.flatnonzero(~short))

    def _learn_short(self, histories: Histories, short: NDArray[np.bool_]) -> None:
        owners, F = histories.flat
        of_short = short[owners]
        rows, std = F[of_short], np.sqrt(self.noise)
        self.posteriors.learn(
            histories.tasks[owners[of_short]],
            rows[:, :-1] @ (self.root / std),
            (rows[:, -1] - self.prior.offset) / std,
        )

    def _settle_long(self, histories: Histories, long: Codes) -> None:
        std, L = np.sqrt(self.noise), self.prior.whitening(self.posteriors.dim)
        order = long[np.argsort(-histories.sizes[long], kind="stable")]
        for block in blocks(histories, order, self.prior.coordinates):
            self.posteriors.settle(
                histories.tasks[block.slots],
                block.features @ (L / std),
                (block.rewards - self.prior.offset * block.features[..., -1]) / std,
            )


def affordable(n_tasks: int, most: int) -> int:
    """Return how many directions the posteriors of so many tasks can have."""
    numbers = _MOST_BYTES / 8 / n_tasks
    return min(most, max(_FEWEST, int(np.sqrt(2 * numbers + 2.25) - 1.5)))
