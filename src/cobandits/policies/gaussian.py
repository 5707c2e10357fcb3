"""Gaussian posteriors of the thetas of all tasks, updated with each reward.

With rewards ``y = phi' theta + e``, noise of variance 1 and the prior ``theta ~ N(0, I / ridge)``,
task t's posterior is ``N(mu_t, P_t)`` with ``P_t = (ridge I + Phi_t' Phi_t)^-1`` and
``mu_t = P_t Phi_t' y_t``, its ridge regression. Kept are ``mu_t`` and a square root of ``P_t``,
``P_t = S_t S_t'`` with ``S_t`` upper triangular, and the log of its determinant: a root cannot lose
definiteness, half a matrix is half the memory, and a sample is ``mu_t + S_t z``. Learning a reward
is one pass over the root (Carlson's update); nothing is ever factorised or inverted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits import pages
from cobandits.errors import ConfigurationError, DataError
from cobandits.kernels import chunks, turns
from cobandits.linalg import inverse_triangles

try:
    from cobandits.compiled import _posterior
except ImportError:  # no compiler at installation
    COMPILED = False
else:
    COMPILED = True

__all__ = ["COMPILED", "SQUARE_LIMIT", "TOO_LARGE", "GaussianPosteriors"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_MOST_BYTES = 2**38  # 256 GiB
SQUARE_LIMIT = 1e150  # squares of features and rewards up to it can be multiplied
TOO_LARGE = "features or rewards are too large to square; scale them to about 1"


class GaussianPosteriors:
    """The posteriors of all tasks.

    >>> posteriors = GaussianPosteriors(n_tasks=1, dim=1, ridge=1.0)
    >>> posteriors.learn(np.array([0]), np.array([[1.0]]), np.array([4.0]))
    >>> posteriors.means.tolist(), (posteriors.roots**2).round(3).tolist()
    ([[2.0]], [[0.5]])
    """

    def __init__(self, *, n_tasks: int, dim: int, ridge: float) -> None:
        if not (np.isfinite(ridge) and ridge > 0):
            raise ConfigurationError(f"ridge must be a finite number above 0, got {ridge}")
        self.dim, self.ridge = dim, ridge
        _check_room(n_tasks * (dim * (dim + 1) // 2 + dim) * 8, n_tasks, dim)
        self.means: Doubles = np.zeros((n_tasks, dim))  # (T, d)
        self.roots = pages.zeros((n_tasks, dim * (dim + 1) // 2))  # column after column of S
        self.roots[:, np.cumsum(np.arange(1, dim + 1)) - 1] = 1 / np.sqrt(ridge)
        self.log_volumes: Doubles = np.zeros(n_tasks)  # log det(P_t^-1) - log det(ridge I)

    def grow(self, n_tasks: int) -> None:
        """Make room for so many tasks in all; new ones have the prior."""
        _check_room(n_tasks * (self.dim * (self.dim + 1) // 2 + self.dim) * 8, n_tasks, self.dim)
        new = GaussianPosteriors(n_tasks=n_tasks - len(self.means), dim=self.dim, ridge=self.ridge)
        self.means = np.concatenate([self.means, new.means])
        self.roots = np.concatenate([self.roots, new.roots])
        self.log_volumes = np.concatenate([self.log_volumes, new.log_volumes])

    @property
    def nbytes(self) -> int:
        """Memory of the posteriors."""
        return self.means.nbytes + self.roots.nbytes + self.log_volumes.nbytes

    def check(self, rows: Floats, rewards: Floats) -> None:
        """Refuse rows and rewards that :meth:`learn` would refuse."""
        with np.errstate(over="ignore"):
            largest = max(
                np.einsum("md,md->m", rows, rows, dtype=np.float64).max(initial=0) / self.ridge,
                np.abs(rewards).max(initial=0),
            )
        if not largest <= SQUARE_LIMIT:
            raise DataError(TOO_LARGE)

    def learn(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        """Learn rows, (m, d), and their rewards, (m,), one after the other; all or none."""
        self.check(rows, rewards)
        X = np.ascontiguousarray(rows, np.float64)
        y = np.ascontiguousarray(rewards, np.float64)
        if COMPILED:
            _posterior.learn(self.roots, self.means, self.log_volumes, tasks, X, y, self.dim)
            return
        for group in _waves(tasks):
            self._learn_each(tasks[group], X[group], y[group])

    def learn_in_directions(
        self, directions: Doubles, thetas: Doubles, noises: Doubles, tasks: Codes, F: Doubles
    ) -> tuple[Doubles, Doubles]:
        """Learn rows ``[x, y]``, (m, width + 1), where thetas move in some directions alone.

        Rows are learned one after the other. The posteriors are of the weights of
        ``directions x``, with a variance of the noise per task.

        Parameters
        ----------
        directions : (d, width)
        thetas : (T, width)
            What tasks predict ``y`` with; changed in place.
        noises : (T,)
            Variances of the noise.

        Returns
        -------
        squares, expected : (m,)
            Squared errors before each row was learned, and the expected ones.
        """
        squares, expected = np.empty(len(tasks)), np.empty(len(tasks))
        if COMPILED:
            _posterior.learn_in_directions(
                *(self.roots, self.means, self.log_volumes, thetas, noises, directions),
                *(tasks, F, squares, expected),
            )
            return squares, expected
        for group in _waves(tasks):
            some, rows = tasks[group], F[group]
            errors = rows[:, -1] - np.einsum("md,md->m", rows[:, :-1], thetas[some])
            Z = rows[:, :-1] @ directions.T / np.sqrt(noises[some])[:, None]
            means, volumes = self.means[some], self.log_volumes[some]
            targets = np.einsum("md,md->m", Z, means) + errors / np.sqrt(noises[some])
            self._learn_each(some, Z, targets)
            thetas[some] += (self.means[some] - means) @ directions
            squares[group] = errors**2
            expected[group] = noises[some] * np.exp(self.log_volumes[some] - volumes)
        return squares, expected

    def set_from_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        """Set posteriors to those of rows, (m, n, d), and rewards, (m, n), and of no others.

        With the prior as rows above the others, ``R`` of their QR decomposition is a root of
        the precision: nothing is squared.
        """
        m, n, d = rows.shape
        stacked = np.zeros((m, d + n, d + 1))
        stacked[:, np.arange(d), np.arange(d)] = np.sqrt(self.ridge)
        stacked[:, d:, :d], stacked[:, d:, d] = rows, rewards
        triangle: Doubles = np.asarray(np.linalg.qr(stacked, mode="r"))
        S = inverse_triangles(triangle[:, :d, :d])
        self.means[tasks] = np.einsum("mij,mj->mi", S, triangle[:, :d, d])
        S *= np.sign(np.einsum("mii->mi", S))[:, None, :]  # positive on the diagonal
        self.roots[tasks] = S.transpose(0, 2, 1)[(slice(None), *np.tril_indices(d))]
        volumes = -2 * np.log(np.einsum("mii->mi", S)).sum(axis=1)
        self.log_volumes[tasks] = volumes - d * np.log(self.ridge)

    def covariance_factors(self, tasks: Codes, arms: Floats) -> Doubles:
        """Return ``arms S_t`` for the task of each request, (m, K, d).

        The lengths of its rows are the standard deviations of the arms' values, and their inner
        products the covariances.
        """
        phi = np.ascontiguousarray(arms, np.float64)
        out = np.empty_like(phi)
        if COMPILED:
            _posterior.covariance_factors(self.roots, tasks, phi, out, self.dim)
            return out
        for block in chunks(len(tasks), self.dim**2 * 8):
            out[block] = phi[block] @ self.unpacked(tasks[block])
        return out

    def unseen_variances(self, tasks: Codes, factors: Doubles) -> Doubles:
        """Return what rewards without noise would leave of the arms' variances, (m, K).

        Let rewards have no noise, though the posterior is computed as if they had: then the error
        of ``mu_t`` is ``ridge P_t theta``, and of an arm z it has the variance
        ``ridge z' P_t^2 z``. The rest of ``z' P_t z`` is due to noise.

        Parameters
        ----------
        factors : (m, K, d)
            What :meth:`covariance_factors` returned for these tasks and arms.
        """
        out = np.empty(factors.shape[:2])
        if COMPILED:
            _posterior.squared_returns(self.roots, tasks, factors, out, self.dim)
            return self.ridge * out
        for block in chunks(len(tasks), self.dim**2 * 8):
            back = factors[block] @ self.unpacked(tasks[block]).transpose(0, 2, 1)
            out[block] = np.einsum("mkd,mkd->mk", back, back)
        return self.ridge * out

    def _learn_each(self, tasks: Codes, X: Doubles, y: Doubles) -> None:
        """Learn one row for each of different tasks, column by column of their roots."""
        residuals = y - np.einsum("md,md->m", X, self.means[tasks])
        e = np.zeros_like(X)  # (m, d)
        alpha = np.ones(len(tasks))
        for i, end in enumerate(np.cumsum(np.arange(1, self.dim + 1)).tolist()):
            columns = self.roots[tasks, end - i - 1 : end]  # (m, i + 1)
            f = np.einsum("mi,mi->m", columns, X[:, : i + 1])
            following = alpha + f * f
            keep, turn = np.sqrt(alpha / following), f / np.sqrt(alpha * following)
            self.roots[tasks, end - i - 1 : end] = (
                keep[:, None] * columns - turn[:, None] * e[:, : i + 1]
            )
            e[:, : i + 1] += f[:, None] * columns
            alpha = following
        self.means[tasks] += e * (residuals / alpha)[:, None]
        self.log_volumes[tasks] += np.log(alpha)

    def unpacked(self, tasks: Codes) -> Doubles:
        """Return the roots S of some tasks, (m, d, d)."""
        transposed = np.zeros((len(tasks), self.dim, self.dim))
        transposed[(slice(None), *np.tril_indices(self.dim))] = self.roots[tasks]
        return transposed.transpose(0, 2, 1)


def _check_room(needed: int, n_tasks: int, dim: int) -> None:
    """Refuse posteriors that no machine can hold, before memory is taken."""
    if needed > _MOST_BYTES:
        raise ConfigurationError(
            f"posteriors of {n_tasks} tasks with {dim} features need {needed / 2**30:,.0f} GiB; "
            "take fewer features, or a policy that keeps no matrix per task, such as lrrl"
        )


def _waves(tasks: Codes) -> list[Codes]:
    """Split requests into groups with each task once at most; the order per task is kept.

    >>> [wave.tolist() for wave in _waves(np.array([3, 1, 3]))]
    [[0, 1], [2]]
    """
    turn = turns(tasks)
    return [np.flatnonzero(turn == n) for n in range(int(turn.max(initial=-1)) + 1)]
