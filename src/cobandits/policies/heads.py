"""Every task's theta and posterior under a prior that they share."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.histories import Histories
from cobandits.kernels import blocks
from cobandits.linalg import inverse_triangles
from cobandits.policies.wholes import Wholes, affordable
from cobandits.posteriors import LARGEST, TOO_LARGE, Posteriors
from cobandits.priors import Prior
from cobandits.requests import are_at_most

try:
    from cobandits.compiled import _posterior
except ImportError:  # no compiler at installation
    COMPILED = False
else:
    COMPILED = True

__all__ = ["Heads"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_A_FEW = 8  # directions besides those that tasks share
_CARRIED = 2**24  # bytes of matrices at a time
_NOTHING = 1e-9  # precision of a direction of which nothing is known, in units of the prior's


class Heads:
    """Thetas of all tasks, and their posteriors in the widest directions of the prior.

    Whenever the prior is learned, thetas are learned whole. In between, rewards move them in the
    widest directions alone: twice as many as tasks share, and a few; or in all of them where
    tasks share none. What is unknown outside of these counts as noise until then.

    ``directions @ [phi, 1]`` are the coordinates in which the prior of the weights is ``N(0, I)``.
    """

    def __init__(self, *, n_tasks: int, prior: Prior, directions: int | None = None) -> None:
        q = _needed(prior, affordable(n_tasks, prior.coordinates.dim))
        q = q if directions is None else directions
        self.prior = prior
        self.directions: Doubles = np.ascontiguousarray(prior.root(q).T)  # (q, d + 1)
        self.posteriors = Posteriors(n_tasks=n_tasks, dim=q, ridge=1.0)
        self.thetas: Doubles = np.zeros((n_tasks, self.directions.shape[1]))  # with the intercept
        self.thetas[:, -1] = prior.offset
        self._outside = prior.outside(q)  # variance of rewards that is due to other directions
        self.noises: Doubles = np.full(n_tasks, prior.noise + self._outside)  # variances

    @classmethod
    def of(cls, histories: Histories, prior: Prior, before: Heads | None) -> Heads:
        """Return the heads of all tasks from their rows; without rows, from what they were."""
        n_tasks = len(histories.slots)
        heads, wholes = cls(n_tasks=n_tasks, prior=prior), Wholes(n_tasks=n_tasks, prior=prior)
        wholes.learn(histories)
        heads._take(wholes)
        if before is not None:
            unkept = (histories.slots < 0) & (before.posteriors.log_volumes > 0)
            heads._carry_over(before, np.flatnonzero(unkept))
        return heads

    def _take(self, wholes: Wholes) -> None:
        """Take thetas, and what posteriors in more directions say of these."""
        whole, n_tasks = wholes.posteriors, len(self.thetas)
        left = whole.dim - self.posteriors.dim
        self.thetas, self.posteriors.log_volumes = wholes.thetas(), whole.log_volumes
        self.posteriors.means = np.ascontiguousarray(whole.means[:, left:])
        if not left:
            self.posteriors.roots = whole.roots
            return
        M = wholes.second_moment()[:left, :left]
        rows, columns = np.tril_indices(self.posteriors.dim)
        for block in blocks(n_tasks, 8 * whole.dim**2):
            S = whole.unpacked(np.arange(n_tasks)[block])  # (b, Q, Q), upper triangular
            self.posteriors.roots[block] = S[:, left + columns, left + rows]
            outer = S[:, :left]
            self.noises[block] = wholes.noise + np.einsum("bij,bij->b", outer, M @ outer)

    def _carry_over(self, before: Heads, tasks: Codes) -> None:
        """Give tasks whose rows are not kept the posteriors that they had, in other coordinates.

        A posterior is as good as rows that would lead to it. Their features in the new coordinates
        are taken as the best linear prediction from those in the old ones: what was learned
        in directions that are left is lost, but for the part of theta outside of them.
        """
        M, ones = self._from_coordinates_of(before)
        q, step = len(M), before.prior.offset - self.prior.offset
        if before._outside > 0:
            unknown = (before.noises[tasks] - before.prior.noise) / before._outside
            self.noises[tasks] = self.prior.noise + unknown * self._outside
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
            ratios = np.sqrt(before.noises[some] / self.noises[some])[:, None]
            self.posteriors.settle(some, ratios[..., None] * (rows @ M), ratios * targets)
        self.thetas[tasks] = self.posteriors.means[tasks] @ self.directions + before.outside(tasks)
        self.thetas[tasks, -1] += self.prior.offset

    def _from_coordinates_of(self, before: Heads) -> tuple[Doubles, Doubles]:
        """Return what predicts features in these coordinates, (q', q), and the number 1, (q',)."""
        matrix, spread = self.prior.coordinates.matrix, self.prior.spread
        intercept = np.zeros((self.directions.shape[1], 1))
        intercept[-1] = 1
        targets = np.hstack([self.directions.T, intercept])
        parts = before.directions.T, targets
        old, new = (np.linalg.lstsq(matrix, part, rcond=None)[0] for part in parts)
        both = np.linalg.lstsq(old.T @ spread @ old, old.T @ spread @ new, rcond=1e-10)[0]
        return both[:, :-1], both[:, -1]

    def outside(self, tasks: Codes) -> Doubles:
        """Return the part of some thetas that only a new prior moves, (m, d + 1)."""
        parts = self.thetas[tasks] - self.posteriors.means[tasks] @ self.directions
        parts[:, -1] -= self.prior.offset
        return np.asarray(parts)

    def values(self, tasks: Codes, arms: Floats) -> Doubles:
        """Return the expected rewards of the arms, (m, K), but for a constant of the task."""
        return np.asarray(np.einsum("mkd,md->mk", arms, self.thetas[tasks, :-1]))

    def greedy(self, tasks: Codes, arms: Floats, counts: Codes, known: float) -> tuple[Codes, bool]:
        """Return the best arm of each request, (m,), the first one if others are as good.

        It is -1 for tasks without rewards, and where the share of an arm's variance that is
        unknown exceeds ``known`` over the task's rewards; the second result is whether any is.

        Parameters
        ----------
        counts : (T,)
            Rewards of all tasks.
        """
        if COMPILED:
            chosen = np.empty(len(tasks), np.int64)
            phi = np.ascontiguousarray(arms, np.float64)
            left = _posterior.greedy(
                self.posteriors.roots,
                self.thetas,
                self.noises,
                self.directions,
                counts,
                tasks,
                phi,
                chosen,
                known,
                self.prior.noise,
                self._outside,
            )
            return chosen, left > 0
        values, factors, before = self.beliefs(tasks, arms)
        n = counts[tasks, None]
        variances = np.einsum("mkq,mkq->mk", factors, factors)
        unknown = (n == 0) | ((n > known) & (variances > known / np.maximum(n, 1) * before))
        left = unknown.any(axis=1)
        return np.where(left, -1, values.argmax(axis=1)), bool(left.any())

    def beliefs(self, tasks: Codes, arms: Floats) -> tuple[Doubles, Doubles, Doubles]:
        """Return what :meth:`values` does, a root of the values' covariance, and prior variances.

        Shapes (m, K), (m, K, q + K) and (m, K). What is unknown outside of the directions is
        taken to be as much for all arms, and independent between them.
        """
        Z = arms @ self.directions.T[:-1] + self.directions[:, -1]
        rest = np.sqrt(self.noises[tasks] - self.prior.noise)[:, None, None]
        own = np.broadcast_to(rest * np.eye(arms.shape[1]), (*arms.shape[:2], arms.shape[1]))
        factors = np.concatenate([self.posteriors.spread(tasks, Z), own], axis=2)
        before = np.einsum("mkq,mkq->mk", Z, Z) + self._outside
        return self.values(tasks, arms), factors, before

    def foresee(self, tasks: Codes, F: Doubles) -> tuple[Doubles, Doubles]:
        """Return squared errors in predicting rows ``[phi, 1, y]``, (m,), and the expected ones."""
        Z = F[:, None, :-1] @ self.directions.T
        A = self.posteriors.spread(tasks, Z)
        errors = F[:, -1] - np.einsum("md,md->m", F[:, :-1], self.thetas[tasks])
        return errors**2, np.einsum("mkq,mkq->m", A, A) + self.noises[tasks]

    def learn(self, tasks: Codes, F: Doubles) -> tuple[Doubles, Doubles]:
        """Learn rows ``[phi, 1, y]`` one after the other, all or none; return what was foreseen."""
        self.check(F)
        return self.posteriors.learn_along(self.directions, self.thetas, self.noises, tasks, F)

    def check(self, F: Doubles) -> None:
        """Refuse rows that :meth:`learn` would refuse."""
        if not are_at_most(F, self._largest):
            raise DataError(TOO_LARGE)

    @cached_property
    def _largest(self) -> float:
        """The largest feature or reward whose square can be computed in the coordinates."""
        scale = self.directions.size * (self.directions**2).sum() / self.noises.min()
        return float(np.sqrt(LARGEST / max(1.0, scale)))


def _needed(prior: Prior, most: int) -> int:
    """Return in how many directions thetas move between two priors."""
    return min(most, 2 * prior.rank + _A_FEW) if prior.rank else most
