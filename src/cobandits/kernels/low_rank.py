"""The likelihood of rewards under a covariance of low rank, with its gradient, in one pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.linalg import inverse_triangles

try:
    from cobandits.compiled import _pass
except ImportError:  # no compiler at installation
    COMPILED = False
else:
    COMPILED = True

__all__ = ["LowRankTerms", "low_rank_roots"]

Doubles = NDArray[np.float64]


class LowRankTerms:
    """Sums over tasks, with ``A_t = X_t L``, ``M_t = I + A_t'A_t`` and ``x_t`` the rewards.

    With ``w_t = M_t^-1 A_t' x_t`` and ``e_t = x_t - A_t w_t``, tasks add ``log det M_t``, the
    square ``x_t' e_t``, and to the gradient ``X_t' (A_t M_t^-1 - e_t w_t' / noise)``.

    >>> terms = LowRankTerms(np.ones((1, 1)), noise=1.0)
    >>> terms.add(np.ones((1, 1, 1)), np.array([[2.0]]))
    >>> terms.square, terms.gradient.tolist()
    (2.0, [[-0.5]])
    """

    def __init__(self, L: Doubles, *, noise: float) -> None:
        self._L, self._noise = np.ascontiguousarray(L), noise
        self._gradient, self._totals = np.zeros(L.shape[::-1]), np.zeros(2)

    def add(self, X: Doubles, x: Doubles) -> None:
        """Add the rows, (b, n, p), and rewards, (b, n), of tasks."""
        (b, _, p), q = X.shape, self._L.shape[1]
        if not COMPILED:
            self._add_batched(X, x)
            return
        rows, rewards = np.ascontiguousarray(X), np.ascontiguousarray(x)
        sums = self._gradient, self._totals
        if not _pass.low_rank(rows, rewards, self._L, *sums, b, p, q, self._noise):
            raise np.linalg.LinAlgError("rewards have no definite covariance")

    @property
    def log_determinant(self) -> float:
        """The sum of ``log det M_t``."""
        return float(self._totals[0])

    @property
    def square(self) -> float:
        """The sum of ``x_t' e_t``."""
        return float(self._totals[1])

    @property
    def gradient(self) -> Doubles:
        """The half of the gradient of both in L, (p, q), squares over the noise."""
        return self._gradient.T

    def _add_batched(self, X: Doubles, x: Doubles) -> None:
        A, half, log_determinant = low_rank_roots(X, self._L)
        inverse = half.transpose(0, 2, 1) @ half
        w = inverse @ (A.transpose(0, 2, 1) @ x[..., None])  # (b, q, 1)
        errors = x[..., None] - A @ w
        D = A @ inverse
        D -= errors * (w.transpose(0, 2, 1) / self._noise)
        self._totals += log_determinant, float(np.vdot(x, errors))
        self._gradient += D.reshape(-1, D.shape[2]).T @ X.reshape(-1, X.shape[2])


def low_rank_roots(X: Doubles, L: Doubles) -> tuple[Doubles, Doubles, float]:
    """Return A, (b, n, q), H with ``H'H = M^-1``, (b, q, q), and the sum of ``log det M``."""
    (b, n, p), q = X.shape, L.shape[1]
    A = (X.reshape(-1, p) @ L).reshape(b, n, q)
    M, diagonal = A.transpose(0, 2, 1) @ A, np.arange(q)
    M[:, diagonal, diagonal] += 1
    root = np.linalg.cholesky(M)
    log_determinant = 2 * float(np.log(root[:, diagonal, diagonal]).sum())
    return A, np.asarray(inverse_triangles(root, lower=True), np.float64), log_determinant
