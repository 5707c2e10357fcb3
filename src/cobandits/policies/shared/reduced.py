"""The directions in which rewards move thetas between two refits: all of them, or the widest few.

Few directions make an update O(d q) in place of O(d^2). That pays from about 100 features on.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cobandits.linalg import inverse_triangles, solve_rows
from cobandits.policies.gaussian import GaussianPosteriors
from cobandits.policies.shared import config

__all__ = [
    "Basis",
    "FullBasis",
    "Learned",
    "ReducedBasis",
    "affordable_directions",
    "basis_of",
    "useful_directions",
]

Doubles = NDArray[np.float64]


class Learned(NamedTuple):
    """Posteriors of b tasks in the directions of a basis, and their means in all directions."""

    means: Doubles  # (b, q)
    roots: Doubles  # (b, q (q + 1) / 2), packed as in GaussianPosteriors
    residual_variances: Doubles  # (b,), of a typical arm's reward, outside of the basis
    deviations: Doubles  # (b, Q), of weights in all directions
    log_volumes: Doubles  # (b,), log of the determinant of the precision in all directions


class Basis(Protocol):
    """Directions in which weights have the prior ``N(0, I)``."""

    @property
    def directions(self) -> Doubles:
        """The matrix from ``[phi, 1]`` to features in the basis, (q, d + 1)."""
        ...

    @property
    def second_moment(self) -> Doubles:
        """The second moment of a typical arm's features in the basis, (q, q)."""
        ...

    @property
    def residual_variance(self) -> float:
        """Variance of a typical arm's reward outside of the basis, before any reward."""
        ...

    def learn(self, Z: Doubles, y: Doubles) -> Learned:
        """Return the posteriors of features in all directions, (b, n, Q), and rewards, (b, n).

        The noise has variance 1.
        """
        ...

    def expand(self, rows: Doubles) -> Doubles:
        """Return features in the basis, (..., q), as features in all directions, (..., Q)."""
        ...


class FullBasis(NamedTuple):
    """All directions: nothing is left outside."""

    directions: Doubles
    second_moment: Doubles
    residual_variance: float = 0.0

    def learn(self, Z: Doubles, y: Doubles) -> Learned:
        """Return the posteriors of features, (b, n, Q), and rewards, (b, n)."""
        (m, n, Q), everyone = Z.shape, np.arange(len(Z))
        full = GaussianPosteriors(n_tasks=m, dim=Q, ridge=1.0)
        if n <= Q // 2:  # faster than a decomposition
            full.learn(np.repeat(everyone, n), Z.reshape(m * n, -1), y.ravel())
        else:
            full.set_from_rows(everyone, Z, y)
        return Learned(full.means, full.roots, np.zeros(m), full.means, full.log_volumes)

    def expand(self, rows: Doubles) -> Doubles:
        """Return the features as they are."""
        return rows


class ReducedBasis(NamedTuple):
    """The widest directions, with the part of all others that is correlated with them."""

    matrix: Doubles  # (q, Q): from weights in all directions to weights in the basis
    directions: Doubles
    second_moment: Doubles
    residual_moment: Doubles  # (Q - q, Q - q), of the other features' uncorrelated part

    @property
    def residual_variance(self) -> float:
        """Variance of a typical arm's reward outside of the basis, before any reward."""
        return float(np.trace(self.residual_moment))

    def learn(self, Z: Doubles, y: Doubles) -> Learned:
        """Return the posteriors of features, (b, n, Q), and rewards, (b, n).

        With ``G`` the matrix, weights are ``w = G'u + v`` with ``u = G w ~ N(0, I)`` and an
        independent ``v ~ N(0, I - G'G)``. Seen from u, rewards have the noise ``Z v + e``, whose
        covariance is ``N = I + V V'`` with ``V = Z (I - G'G)``. With ``R R' = N``, ``X = R^-1 Z``
        and ``B = X G'`` the precision of u is ``I + B'B``, and that of rewards ``N^-1 - N^-1 (Z G')
        cov(u) (Z G')' N^-1``: all is factorised in n and q dimensions.
        """
        G, left = self.matrix, len(self.residual_moment)
        V = Z - (Z @ G.T) @ G
        root, volume = _root(V @ V.transpose(0, 2, 1))  # of I + V V'
        X, r = (np.asarray(one, np.float64) for one in solve_rows(root, Z, y))
        B, outer = X @ G.T, X[..., :left]
        inner, more = _root(B.transpose(0, 2, 1) @ B)
        J = np.asarray(
            inverse_triangles(inner, lower=True), np.float64
        )  # J'J is the covariance of u
        means = _times(J.transpose(0, 2, 1), _times(J, _times(B.transpose(0, 2, 1), r)))
        errors = r - _times(B, means)
        pull, within = (_times(one.transpose(0, 2, 1), errors) for one in (X, B))
        seen = J @ (B.transpose(0, 2, 1) @ outer)
        M = self.residual_moment
        known = np.einsum("bij,bij->b", outer, outer @ M) - np.einsum("bij,bij->b", seen, seen @ M)
        rows, columns = np.tril_indices(len(G))
        return Learned(
            means=means,
            roots=J[:, rows, columns],
            residual_variances=np.maximum(0, self.residual_variance - known),
            deviations=pull + (means - within) @ G,
            log_volumes=volume + more,
        )

    def expand(self, rows: Doubles) -> Doubles:
        """Return features in all directions: of the basis, and what they predict of the rest."""
        return np.asarray(rows @ self.matrix)


def basis_of(root: Doubles, second_moment: Doubles, q: int) -> FullBasis | ReducedBasis:
    """Return the basis of the q widest directions.

    Of features z in all Q directions the last q are z_in, and ``z_out = A' z_in + e`` where e is
    not correlated with z_in. So ``w'z = (w_in + A w_out)'z_in + w_out'e``, and the weights of z_in
    have the prior covariance ``I + A A'``.

    Parameters
    ----------
    root : (d + 1, Q)
        ``[phi, 1] root`` are features whose weights have the prior ``N(0, I)``, the widest last.
    second_moment : (Q, Q)
        Of those features of a typical arm.
    """
    left, M = root.shape[1] - q, second_moment
    if not left:
        return FullBasis(np.ascontiguousarray(root.T), M)
    across, inner = M[left:, :left], M[left:, left:]
    A = np.linalg.lstsq(inner, across, rcond=config.CORRELATION_CUTOFF)[0]  # (q, Q - q)
    L = np.linalg.cholesky(np.eye(q) + A @ A.T)
    outer = M[:left, :left] - across.T @ A
    return ReducedBasis(
        matrix=np.linalg.solve(L, np.hstack([A, np.eye(q)])),
        directions=np.ascontiguousarray(L.T @ root[:, left:].T),
        second_moment=L.T @ inner @ L,
        residual_moment=(outer + outer.T) / 2,
    )


def affordable_directions(n_tasks: int, most: int) -> int:
    """Return how many directions there is memory for, with so many tasks."""
    numbers = config.POSTERIOR_BYTES / 8 / n_tasks
    fitting = int(np.sqrt(2 * numbers + 2.25) - 1.5)
    return min(most, max(config.FEWEST_DIRECTIONS, fitting))


def useful_directions(rank: int, most: int) -> int:
    """Return in how many directions rewards move thetas between two refits."""
    if not rank:
        return most
    return min(most, config.DIRECTIONS_PER_SHARED * rank + config.EXTRA_DIRECTIONS)


def _root(M: Doubles) -> tuple[Doubles, Doubles]:
    """Return the lower triangular root of ``I + M``, (b, n, n), and ``log det (I + M)``, (b,)."""
    diagonal = np.arange(M.shape[1])
    M[:, diagonal, diagonal] += 1
    root = np.asarray(np.linalg.cholesky(M), np.float64)
    return root, 2 * np.log(root[:, diagonal, diagonal]).sum(axis=1)


def _times(matrices: Doubles, vectors: Doubles) -> Doubles:
    """Return the products of matrices, (b, n, m), and vectors, (b, m)."""
    return np.asarray((matrices @ vectors[..., None])[..., 0])
