"""Every task's theta and posterior under a prior that they share."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.histories import Histories
from cobandits.kernels import blocks
from cobandits.linalg import inverse_triangles
from cobandits.policies.wholes import Wholes, affordable
from cobandits.posteriors import LARGEST, TOO_LARGE, Posteriors
from cobandits.priors import Prior
from cobandits.priors import blocks as rows_of
from cobandits.requests import are_at_most

try:
    from cobandits.compiled import _posterior
except ImportError:  # no compiler at installation
    COMPILED = False
else:
    COMPILED = True

__all__ = ["Heads", "Narrowing"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_A_FEW = 8  # directions besides those that tasks share
_CARRIED = 2**24  # bytes of matrices at a time
_NOTHING = 1e-9  # precision of a direction of which nothing is known, in units of the prior's


class Heads:
    """Thetas of all tasks, and their posteriors in the widest directions of the prior.

    Whenever the prior is learned, and when a task has had a quarter more rewards, thetas are
    learned whole. In between, rewards move them in the widest directions alone: twice as many as
    tasks share, and a few; or in all of them where tasks share none. What is unknown outside of
    these counts as noise until then.

    ``directions @ [phi, 1]`` are the coordinates in which the prior of the weights is ``N(0, I)``.
    Where features are correlated, a direction includes what others predict along with it, so that
    nothing outside is correlated with them. A theta is kept besides its weights, since a
    decision takes far less time with it.
    """

    def __init__(self, *, n_tasks: int, prior: Prior, directions: int | None = None) -> None:
        most = affordable(n_tasks, prior.coordinates.dim)
        q = _needed(prior, most) if directions is None else directions
        self.prior, self._wholes = prior, Wholes(prior=prior, directions=max(q, most))
        self._narrowing = _narrowed(self._wholes, q)
        self.directions = self._narrowing.directions  # (q, d + 1)
        self.posteriors = Posteriors(n_tasks=n_tasks, dim=q, ridge=1.0)
        self.thetas: Doubles = np.zeros((n_tasks, self.directions.shape[1]))  # with the intercept
        self.thetas[:, -1] = prior.offset
        self.noises: Doubles = np.full(n_tasks, self._wholes.noise)  # of rewards, variances
        self.noises += np.trace(self._narrowing.outer)
        self.elsewhere = float(self.noises[0] - prior.noise)  # of an arm's variance, before rewards

    @classmethod
    def of(cls, histories: Histories, prior: Prior, before: Heads | None) -> Heads:
        """Return the heads of all tasks from their rows; without rows, from what they were."""
        heads = cls(n_tasks=len(histories.slots), prior=prior)
        heads.renew(histories, np.flatnonzero(histories.sizes))
        if before is not None:
            unkept = (histories.slots < 0) & (before.posteriors.log_volumes > 0)
            heads._carry_over(before, np.flatnonzero(unkept))
        return heads

    @property
    def second_moment(self) -> Doubles:
        """That of a typical arm in the coordinates of the posteriors, (q, q)."""
        return self._narrowing.second_moment

    @property
    def most_directions(self) -> int:
        """In how many directions :meth:`renew` moves thetas."""
        return self._wholes.dim

    @property
    def are_narrow(self) -> bool:
        """Whether thetas have parts that only :meth:`renew` moves."""
        return self.posteriors.dim < self.most_directions

    def renew(self, histories: Histories, slots: Codes) -> None:
        """Learn the thetas of some slots whole, from all of their rows."""
        order = slots[np.argsort(-histories.sizes[slots], kind="stable")]
        for block in rows_of(histories, order, self.prior.coordinates):
            self._take(histories.tasks[block.slots], self._wholes.posteriors(block))

    def _take(self, tasks: Codes, whole: Posteriors) -> None:
        """Take thetas, and what posteriors in more directions say of these."""
        G, left = self._narrowing.matrix, len(self._narrowing.outer)
        self.thetas[tasks] = self._wholes.thetas(whole)
        self.posteriors.means[tasks] = whole.means @ G.T
        self.posteriors.log_volumes[tasks] = whole.log_volumes
        if not left:
            self.posteriors.roots[tasks] = whole.roots
            return
        rows, columns = np.tril_indices(len(G))
        for block in blocks(len(tasks), 8 * whole.dim**2):
            S = whole.unpacked(np.arange(len(tasks))[block])  # (b, Q, Q), upper triangular
            self.posteriors.roots[tasks[block]] = _upper_root(G @ S)[:, columns, rows]
            outer = S[:, :left]
            unknown = np.einsum("bij,bij->b", outer, self._narrowing.outer @ outer)
            self.noises[tasks[block]] = self._wholes.noise + unknown

    def _carry_over(self, before: Heads, tasks: Codes) -> None:
        """Give tasks whose rows are not kept the posteriors that they had, under another prior.

        A posterior is as good as rows that would lead to it. The part of a theta that does not
        follow from its weights in the directions stays as it is.
        """
        M, ones = self._weights_of(before)
        q, step = len(M), before.prior.offset - self.prior.offset
        known = before.posteriors.means[tasks] @ before._narrowing.matrix @ before._wholes.root.T
        outside = before.thetas[tasks] - known
        outside[:, -1] -= before.prior.offset
        unknown = before.noises[tasks] - before.prior.noise
        change = self.elsewhere / before.elsewhere if before.elsewhere > 0 else 1.0
        size = max(1, _CARRIED // (8 * max(M.shape) ** 2))
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
            rest = unknown[start : start + size] * (1.0 if self.are_narrow else change)
            noises = self.prior.noise + rest
            ratios = np.sqrt(before.noises[some] / noises)[:, None]
            whole = Posteriors(n_tasks=len(some), dim=self._wholes.dim, ridge=1.0)
            whole.settle(np.arange(len(some)), ratios[..., None] * (rows @ M), ratios * targets)
            self._take(some, whole)
        if before.elsewhere > 0:  # it is as well known as what was outside before
            self.noises[tasks] = self.prior.noise + change * unknown
        self.thetas[tasks] += outside

    def _weights_of(self, before: Heads) -> tuple[Doubles, Doubles]:
        """Return what weights before were, of those in all directions now, (q', Q).

        Also by how much an offset that is larger by 1 makes them smaller, (q',). Where there is
        no memory for all directions, features are predicted instead.
        """
        if self._wholes.dim == self.prior.coordinates.dim:
            dual = before._narrowing.matrix @ before._wholes.dual
            return dual @ self._wholes.root, dual[:, -1]
        matrix, spread = self.prior.coordinates.matrix, self.prior.spread
        targets = np.column_stack([self._wholes.root, np.eye(len(matrix))[:, -1]])
        parts = before.directions.T, targets
        old, new = (np.linalg.lstsq(matrix, part, rcond=None)[0] for part in parts)
        both = np.linalg.lstsq(old.T @ spread @ old, old.T @ spread @ new, rcond=1e-10)[0]
        return np.asarray(both[:, :-1], np.float64), np.asarray(both[:, -1], np.float64)

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
                self.elsewhere,
            )
            return chosen, left > 0
        values, factors, own, before = self.beliefs(tasks, arms)
        n = counts[tasks, None]
        variances = np.einsum("mkq,mkq->mk", factors, factors) + own**2
        unknown = (n == 0) | ((n > known) & (variances > known / np.maximum(n, 1) * before))
        left = unknown.any(axis=1)
        return np.where(left, -1, values.argmax(axis=1)), bool(left.any())

    def beliefs(self, tasks: Codes, arms: Floats) -> tuple[Doubles, Doubles, Doubles, Doubles]:
        """Return what :meth:`values` does, what is unknown of the values, and prior variances.

        Shapes (m, K), (m, K, q), (m, K) and (m, K). The second is a root of the covariance in the
        directions. The third is the standard deviation outside of them, taken to be the same for
        all arms and independent between them.
        """
        Z = arms @ self.directions.T[:-1] + self.directions[:, -1]
        own = np.sqrt(np.maximum(0, self.noises[tasks] - self.prior.noise))
        before = np.einsum("mkq,mkq->mk", Z, Z) + self.elsewhere
        own_of_arms = np.broadcast_to(own[:, None], before.shape).copy()
        return self.values(tasks, arms), self.posteriors.spread(tasks, Z), own_of_arms, before

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
        scale = self.directions.size * (self.directions**2).sum() / self.prior.noise
        return float(np.sqrt(LARGEST / max(1.0, scale)))


class Narrowing(NamedTuple):
    """From weights in all coordinates, Q, to those in few directions, q."""

    matrix: Doubles  # (q, Q): turns the ones into the others, both with the prior N(0, I)
    directions: Doubles  # (q, d + 1)
    second_moment: Doubles  # (q, q), of their features
    outer: Doubles  # (Q - q, Q - q), second moment of what is not correlated with these


def _narrowed(wholes: Wholes, q: int) -> Narrowing:
    """Narrow to the q widest directions, and to what of all others goes with them.

    Of features z in all coordinates the last q are z_in, and ``z_out = A' z_in + e`` where e is not
    correlated with z_in. So ``w'z = (w_in + A w_out)'z_in + w_out'e``, and the weights of z_in have
    the prior covariance ``I + A A'``.
    """
    left, M = wholes.dim - q, wholes.second_moment
    if not left:
        return Narrowing(np.eye(q), np.ascontiguousarray(wholes.root.T), M, np.zeros((0, 0)))
    across, inner = M[left:, :left], M[left:, left:]
    A = np.linalg.lstsq(inner, across, rcond=1e-10)[0]  # (q, Q - q)
    root = np.linalg.cholesky(np.eye(q) + A @ A.T)
    matrix = np.linalg.solve(root, np.hstack([A, np.eye(q)]))
    directions = np.ascontiguousarray(root.T @ wholes.root[:, left:].T)
    outer = M[:left, :left] - across.T @ A
    return Narrowing(matrix, directions, root.T @ inner @ root, (outer + outer.T) / 2)


def _upper_root(X: Doubles) -> Doubles:
    """Return upper triangular roots U, (b, q, q), with ``U U' = X X'`` of X, (b, q, Q)."""
    R: Doubles = np.asarray(np.linalg.qr(X[:, ::-1].transpose(0, 2, 1), mode="r"))
    U = R.transpose(0, 2, 1)[:, ::-1, ::-1]
    return np.asarray(U * np.sign(np.einsum("bii->bi", U))[:, None, :])


def _needed(prior: Prior, most: int) -> int:
    """Return in how many directions thetas move between two priors."""
    return min(most, 2 * prior.rank + _A_FEW) if prior.rank else most
