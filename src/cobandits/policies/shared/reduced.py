"""The directions in which rewards move thetas between two refits: all of them, or the widest few.

Few directions make an update O(d q) in place of O(d^2). That pays from about 100 features on.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels import chunks
from cobandits.policies.gaussian import GaussianPosteriors
from cobandits.policies.shared import config

__all__ = [
    "Basis",
    "FullBasis",
    "Projected",
    "ReducedBasis",
    "affordable_directions",
    "basis_of",
    "useful_directions",
]

Doubles = NDArray[np.float64]


class Projected(NamedTuple):
    """Posteriors of b tasks in the directions of a basis."""

    means: Doubles  # (b, q)
    roots: Doubles  # (b, q (q + 1) / 2), packed as in GaussianPosteriors
    residual_variances: Doubles  # (b,), of a typical arm's reward, outside of the basis


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

    def project(self, full: GaussianPosteriors) -> Projected:
        """Return posteriors in all directions as posteriors in the basis."""
        ...

    def expand(self, rows: Doubles) -> Doubles:
        """Return features in the basis, (..., q), as features in all directions, (..., Q)."""
        ...


class FullBasis(NamedTuple):
    """All directions: nothing is left outside."""

    directions: Doubles
    second_moment: Doubles
    residual_variance: float = 0.0

    def project(self, full: GaussianPosteriors) -> Projected:
        """Return the posteriors as they are."""
        return Projected(full.means, full.roots, np.zeros(len(full.means)))

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

    def project(self, full: GaussianPosteriors) -> Projected:
        """Return the posteriors of the weights in the basis, and what is unknown outside of it."""
        G, left = self.matrix, len(self.residual_moment)
        m, q = len(full.means), len(self.matrix)
        rows, columns = np.tril_indices(q)
        roots, residual = np.empty((m, len(rows))), np.empty(m)
        for block in chunks(m, 8 * full.dim**2):
            S = full.unpacked(np.arange(m)[block])  # (b, Q, Q), upper triangular
            roots[block] = _upper_root(G @ S)[:, columns, rows]
            outer = S[:, :left]
            residual[block] = np.einsum("bij,bij->b", outer, self.residual_moment @ outer)
        return Projected(full.means @ G.T, roots, residual)

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


def _upper_root(X: Doubles) -> Doubles:
    """Return upper triangular roots U, (b, q, q), with ``U U' = X X'`` of X, (b, q, Q)."""
    R: Doubles = np.asarray(np.linalg.qr(X[:, ::-1].transpose(0, 2, 1), mode="r"))
    U = R.transpose(0, 2, 1)[:, ::-1, ::-1]
    return np.asarray(U * np.sign(np.einsum("bii->bi", U))[:, None, :])
