"""The marginal likelihood of all rewards under a prior of low rank plus isotropic.

With ``theta_t ~ N(m, L L' + tau^2 I)``, ``y_t = Z_t theta_t + e`` and ``e ~ N(0, s I)``, thetas are
integrated out: what the mean leaves of a task's rewards, ``r_t = y_t - Z_t m``, is

    r_t ~ N(0, s Q_t),  Q_t = I + rho Z_t Z_t' + Z_t L L' Z_t' / s,  rho = tau^2 / s.

The isotropic part is taken out once, by the Cholesky root ``R_t R_t' = I + rho Z_t Z_t'``. With
``X_t = R_t^-1 Z_t``, ``x_t = R_t^-1 r_t``, ``A_t = X_t L / sqrt(s)`` and ``M_t = I + A_t' A_t``,

    -2 log p = sum_t [n_t log s + log det R_t R_t' + log det M_t + |x_t|^2 / s
                      - b_t' M_t^-1 b_t / s] + constant,  b_t = A_t' x_t.

So while rho stays, an evaluation with its gradient costs O(rows p q) for q columns of L, in two
products of all rows at once, and nothing larger than q x q is factorised per task. All of it are
sums over tasks, so tasks may be on several shards (:class:`SummedLikelihood`).
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels import LowRankTerms, low_rank_roots
from cobandits.linalg import solve_rows, solve_triangles
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.blocks import TaskBlock

__all__ = ["Information", "MarginalLikelihood", "SummedLikelihood", "WhitenedBlock"]

Doubles = NDArray[np.float64]


class WhitenedBlock(NamedTuple):
    """Rows of tasks after the isotropic part of the prior is taken out; padded with zeros."""

    features: Doubles  # X, (b, n, p)
    rewards: Doubles  # R^-1 y, (b, n), with the mean

    @classmethod
    def of(cls, block: TaskBlock, rho: float) -> WhitenedBlock:
        """Whiten a block; ``rho`` is the isotropic variance over that of the noise."""
        Z, y = block.features, block.rewards
        K, diagonal = Z @ Z.transpose(0, 2, 1), np.arange(Z.shape[1])
        K *= rho
        K[:, diagonal, diagonal] += 1
        R = np.asarray(np.linalg.cholesky(K), np.float64)
        return cls(*(np.asarray(one, np.float64) for one in solve_rows(R, Z, y)))


class _Roots(NamedTuple):
    """What follows of a block from L and the noise."""

    A: Doubles  # (b, n, q)
    half: Doubles  # H with H'H = M^-1, (b, q, q)


class _At:
    """What follows from one L and noise; it is computed once."""

    def __init__(self, scaled: Doubles, roots: list[_Roots]) -> None:
        self.scaled, self.roots = scaled, roots
        self.sums: tuple[Information, Doubles] | None = None


class Information(NamedTuple):
    """What all rewards say about thetas, with ``K_t = s Q_t`` the covariance of a task's rewards.

    A task pulls by ``g_t = s Z_t' K_t^-1 r_t``. The noise is a factor of the trace and of pulls:
    they are s times as large as the information itself. All are sums over tasks: those of several
    shards are added, entry by entry.
    """

    trace: float  # of the sum of s Z_t' K_t^-1 Z_t
    pull_products: Doubles  # sum of g_t g_t', (p, p)
    pull: Doubles  # sum of g_t, (p,)
    n_tasks: int

    def isotropic_ratio(self, noise: float, rho: float, expected: float) -> float:
        """Return the factor of MacKay's rule by which the isotropic variance grows.

        Before any reward, ``rho / expected`` has an F distribution with k and k degrees of freedom.
        Where L explains all that is expected, that is its limit, which draws rho to 0.
        """
        k = config.SIGNAL_FREEDOM
        gained = np.trace(self.pull_products) / noise + k / rho
        return float(gained / (self.trace + 2 * k / (expected + rho)))


class SummedLikelihood(Protocol):
    """All that a fit asks of the rewards of all tasks, at one ``rho`` and mean: sums over tasks."""

    @property
    def n_rows(self) -> float:
        """How many rewards there are; those of outliers count less."""

    def value(self, L: Doubles, log_noise: float) -> tuple[float, Doubles, float]:
        """Return ``-log p`` but for a constant, its gradient in L, (p, q), and in the log noise."""

    def information(self, L: Doubles, log_noise: float) -> Information:
        """Return what the rewards say about thetas under L and the noise."""

    def total(self, L: Doubles, log_noise: float) -> Doubles:
        """Return the sum of ``s Z_t' K_t^-1 Z_t``, (p, p); it takes O(rows p^2)."""

    def nested(self, L: Doubles, log_noises: Doubles) -> Doubles:
        """Return ``-log p`` but for a constant, under the first 0, 1, ... columns of L.

        It is (noises, columns + 1).
        """

    def squares(self) -> float:
        """Return the sum of ``|x_t|^2``."""


class MarginalLikelihood:
    """The likelihood of the rows of some blocks, for any L and noise, at one ``rho`` and mean."""

    def __init__(self, blocks: list[TaskBlock], *, rho: float, center: Doubles) -> None:
        self.blocks = [WhitenedBlock.of(block, rho) for block in blocks]
        self.n_rows = float(sum((block.features[..., -1] ** 2).sum() for block in blocks))
        self._residuals = [b.rewards - b.features @ center for b in self.blocks]
        self._kept: list[_At] = []  # of the last few L and noises, the latest last

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return sum(len(block.rewards) for block in self.blocks)

    def value(self, L: Doubles, log_noise: float) -> tuple[float, Doubles, float]:
        """Return ``-log p`` but for a constant, its gradient in L, (p, q), and in the log noise.

        The determinants of ``R_t R_t'``, which depend on rho alone, are part of the constant.
        """
        scaled, noise = L * np.exp(-log_noise / 2), float(np.exp(log_noise))
        terms = LowRankTerms(scaled, noise=noise)
        for (X, _), x in zip(self.blocks, self._residuals, strict=True):
            terms.add(X, x)
        gradient, squares = terms.gradient, terms.square
        in_noise = (self.n_rows - squares / noise) / 2 - 0.5 * float(np.sum(scaled * gradient))
        value = self.n_rows * log_noise + terms.log_determinant + squares / noise
        return value / 2, gradient * np.exp(-log_noise / 2), in_noise

    def information(self, L: Doubles, log_noise: float) -> Information:
        """Return what the rewards say about thetas under L and the noise."""
        return self._sums(self._at(L, log_noise))[0]

    def total(self, L: Doubles, log_noise: float) -> Doubles:
        """Return the sum of ``s Z_t' K_t^-1 Z_t``, (p, p); it takes O(rows p^2)."""
        return np.asarray(self._products - self._sums(self._at(L, log_noise))[1])

    def _sums(self, at: _At) -> tuple[Information, Doubles]:
        """Return the information, and what L takes off the sum of ``X_t' X_t``, (p, p)."""
        if at.sums is not None:
            return at.sums
        p = len(at.scaled)
        trace, products, pull, taken = 0.0, np.zeros((p, p)), np.zeros(p), np.zeros((p, p))
        for (X, _), x, (A, half) in zip(self.blocks, self._residuals, at.roots, strict=True):
            B = _flat(half @ (A.transpose(0, 2, 1) @ X))  # (b q, p)
            pulls = _pulls(X, x, A, half)
            trace += float(np.vdot(X, X) - np.vdot(B, B))
            products += pulls.T @ pulls
            pull += pulls.sum(axis=0)
            if len(B):
                taken += B.T @ B
        at.sums = Information(trace, products, pull, self.n_tasks), taken
        return at.sums

    def nested(self, L: Doubles, log_noises: Doubles) -> Doubles:
        """Return ``-log p`` but for a constant, under the first 0, 1, ... columns of L.

        It is (noises, columns + 1). The leading part of a Cholesky root is the root of that part,
        so one product of all rows, and one decomposition per task and noise, are enough for all.
        """
        noises = np.exp(log_noises)
        gains = np.zeros((len(noises), L.shape[1]))
        for (X, _), x in zip(self.blocks, self._residuals, strict=True):
            A = (_flat(X) @ L).reshape(*x.shape, -1)
            G, b = A.transpose(0, 2, 1) @ A, _times(A.transpose(0, 2, 1), x)
            gains += [_gains(G, b, noise) for noise in noises]
        none = self.n_rows * log_noises + self.squares() / noises
        return np.asarray(none[:, None] - np.pad(np.cumsum(gains, axis=1), ((0, 0), (1, 0)))) / 2

    def pulls(self, L: Doubles, log_noise: float, center: Doubles) -> Doubles:
        """Return the pull of each task, (T, p), with another mean, (p,)."""
        found = [np.zeros((0, len(L)))]
        for (X, y), (A, half) in zip(self.blocks, self._at(L, log_noise).roots, strict=True):
            found.append(_pulls(X, y - X @ center, A, half))
        return np.concatenate(found)

    @cached_property
    def _products(self) -> Doubles:
        """The sum of ``X_t' X_t``, (p, p), or 0 where there are no tasks."""
        return np.asarray(sum((_flat(X).T @ _flat(X) for X, _ in self.blocks), start=0.0))

    def _at(self, L: Doubles, log_noise: float) -> _At:
        """Return what follows from L and the noise; a fit asks for a few of them by turns."""
        scaled = L * np.exp(-log_noise / 2)
        for at in self._kept:
            if np.array_equal(scaled, at.scaled):
                return at
        at = _At(scaled, [_Roots(*low_rank_roots(X, scaled)[:2]) for X, _ in self.blocks])
        self._kept = [*self._kept, at][-config.KEPT_ROOTS :]
        return at

    def squares(self) -> float:
        """Return the sum of ``|x_t|^2``."""
        return float(sum((x**2).sum() for x in self._residuals))


def _pulls(X: Doubles, x: Doubles, A: Doubles, half: Doubles) -> Doubles:
    """Return ``X' (I + A A')^-1 x``, (b, p)."""
    w = _times(half.transpose(0, 2, 1), _times(half, _times(A.transpose(0, 2, 1), x)))
    return _times(X.transpose(0, 2, 1), x - _times(A, w))


def _gains(G: Doubles, b: Doubles, noise: float) -> Doubles:
    """Return by how much each column raises twice the log-likelihood, (q,), after those before it.

    ``G`` are the products of the columns in the rows of each task, (b, q, q), and ``b`` those with
    the residuals, (b, q).
    """
    diagonal = np.arange(b.shape[1])
    M = G.copy()
    M[:, diagonal, diagonal] += noise
    R = np.asarray(np.linalg.cholesky(M), np.float64)
    z = np.asarray(solve_triangles(R, b[..., None]), np.float64)[..., 0]
    determinants = 2 * np.log(R[:, diagonal, diagonal] / np.sqrt(noise))
    return np.asarray((z**2 / noise - determinants).sum(axis=0))


def _flat(arrays: Doubles) -> Doubles:
    return arrays.reshape(-1, arrays.shape[-1])


def _times(matrices: Doubles, vectors: Doubles) -> Doubles:
    """Return the products of matrices, (b, n, m), and vectors, (b, m)."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])
