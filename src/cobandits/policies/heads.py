"""Every task's posterior under a prior that they share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.histories import Histories
from cobandits.linalg import inverse_triangles
from cobandits.posteriors import Posteriors
from cobandits.priors import Prior, blocks

__all__ = ["Heads"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_MOST_BYTES = 2**28  # of the posteriors
_FEWEST = 4  # directions
_CARRIED = 2**24  # bytes of matrices at a time
_NOTHING = 1e-9  # precision of a direction of which nothing is known, in units of the prior's


class Heads:
    """Posteriors of all tasks, in the widest directions of the prior.

    In few tasks these are all directions. Where memory does not suffice for that, what is outside
    of them counts as noise. ``[phi, 1] root`` are the coordinates in which the prior of the
    weights is ``N(0, I)``.
    """

    def __init__(self, *, n_tasks: int, prior: Prior) -> None:
        q = _affordable(n_tasks, prior.coordinates.dim)
        self.prior, self.noise = prior, prior.noise + prior.outside(q)
        self.root = prior.root(q)  # (d + 1, q)
        self.posteriors = Posteriors(n_tasks=n_tasks, dim=q, ridge=1.0)

    @classmethod
    def of(cls, histories: Histories, prior: Prior, before: Heads | None) -> Heads:
        """Return the heads of all tasks from their rows; without rows, from what they were."""
        heads = cls(n_tasks=len(histories.slots), prior=prior)
        heads._learn_short(histories)
        heads._settle_long(histories)
        if before is not None:
            unkept = (histories.slots < 0) & (before.posteriors.log_volumes > 0)
            heads._carry_over(before, np.flatnonzero(unkept))
        return heads

    def _is_short(self, histories: Histories) -> NDArray[np.bool_]:
        """Tell which slots have so few rows that they are learned faster than settled."""
        return np.asarray(histories.sizes <= self.posteriors.dim // 2)

    def _learn_short(self, histories: Histories) -> None:
        owners, F = histories.flat
        short = self._is_short(histories)[owners]
        self.learn(histories.tasks[owners[short]], F[short])

    def _settle_long(self, histories: Histories) -> None:
        std, L = np.sqrt(self.noise), self.prior.whitening(self.posteriors.dim)
        long = np.flatnonzero(~self._is_short(histories))
        order = long[np.argsort(-histories.sizes[long], kind="stable")]
        for block in blocks(histories, order, self.prior.coordinates):
            self.posteriors.settle(
                histories.tasks[block.slots],
                block.features @ (L / std),
                (block.rewards - self.prior.offset * block.features[..., -1]) / std,
            )

    def thetas(self, tasks: Codes) -> Doubles:
        """Return the expected thetas of some tasks with their intercepts, (m, d + 1)."""
        thetas = self.posteriors.means[tasks] @ self.root.T
        thetas[:, -1] += self.prior.offset
        return np.asarray(thetas)

    def values(self, tasks: Codes, arms: Floats) -> Doubles:
        """Return the expected rewards of the arms, (m, K), but for a constant of the task."""
        return np.asarray(np.einsum("mkd,md->mk", arms, self.thetas(tasks)[:, :-1]))

    def beliefs(self, tasks: Codes, arms: Floats) -> tuple[Doubles, Doubles, Doubles]:
        """Return what :meth:`values` does, a root of the values' covariance, and prior variances.

        Shapes (m, K), (m, K, q) and (m, K).
        """
        Z = arms @ self.root[:-1] + self.root[-1]
        values = np.einsum("mkq,mq->mk", Z, self.posteriors.means[tasks])
        return values, self.posteriors.spread(tasks, Z), np.einsum("mkq,mkq->mk", Z, Z)

    def foresee(self, tasks: Codes, F: Doubles) -> tuple[Doubles, Doubles]:
        """Return squared errors in predicting rows ``[phi, 1, y]``, and the values' variances."""
        values, A, _ = self.beliefs(tasks, F[:, None, :-2])
        errors = F[:, -1] - self.prior.offset - values[:, 0]
        return errors**2, np.einsum("mkq,mkq->m", A, A)

    def check(self, F: Doubles) -> None:
        """Refuse rows that :meth:`learn` would refuse."""
        self.posteriors.check(*self._scaled(F))

    def learn(self, tasks: Codes, F: Doubles) -> None:
        """Learn rows ``[phi, 1, y]``; all or none."""
        self.posteriors.learn(tasks, *self._scaled(F))

    def _scaled(self, F: Doubles) -> tuple[Doubles, Doubles]:
        """Return features and rewards of rows, such that prior and noise have variance 1."""
        std = np.sqrt(self.noise)
        return F[:, :-1] @ (self.root / std), (F[:, -1] - self.prior.offset) / std

    def _carry_over(self, before: Heads, tasks: Codes) -> None:
        """Give tasks whose rows are not kept the posteriors that they had, in other coordinates.

        A posterior is as good as rows that would lead to it. Their features in the new coordinates
        are taken as the best linear prediction from those in the old ones: what was learned
        in directions that are left is lost.
        """
        M, ones = self._from_coordinates_of(before)
        q = len(M)
        step = before.prior.offset - self.prior.offset
        ratio = np.sqrt(before.noise / self.noise)
        size = max(1, _CARRIED // (8 * q * q))
        for start in range(0, len(tasks), size):
            some = tasks[start : start + size]
            means = before.posteriors.means[some]
            J = inverse_triangles(before.posteriors.unpacked(some))
            values, vectors = np.linalg.eigh(J.transpose(0, 2, 1) @ J - np.eye(q))
            lengths = np.sqrt(np.where(values > _NOTHING, values, 0))
            rows = lengths[:, :, None] * vectors.transpose(0, 2, 1)
            # rows' rows = data, rows' targets = (data + I) mean
            pull = np.einsum("bji,bj->bi", vectors, means)
            inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
            targets = (lengths + inverse) * pull + step * (rows @ ones)
            self.posteriors.settle(some, ratio * (rows @ M), ratio * targets)

    def _from_coordinates_of(self, before: Heads) -> tuple[Doubles, Doubles]:
        """Return what predicts features in these coordinates, (q', q), and the number 1, (q',)."""
        matrix, spread = self.prior.coordinates.matrix, self.prior.spread
        intercept = np.zeros((len(self.root), 1))
        intercept[-1] = 1
        targets = np.hstack([self.root, intercept])
        old, new = (np.linalg.lstsq(matrix, part, rcond=None)[0] for part in (before.root, targets))
        both = np.linalg.lstsq(old.T @ spread @ old, old.T @ spread @ new, rcond=1e-10)[0]
        return both[:, :-1], both[:, -1]


def _affordable(n_tasks: int, most: int) -> int:
    """Return how many directions the posteriors of so many tasks can have."""
    numbers = _MOST_BYTES / 8 / n_tasks
    return min(most, max(_FEWEST, int(np.sqrt(2 * numbers + 2.25) - 1.5)))
