"""Greedy play with the most likely basis, which is told the rank and the noise: a reference.

Weights are standard Gaussian and integrated out. With ``A_t = Phi_t B`` and
``M_t = s I + A_t' A_t``, the rewards of a task are ``y_t ~ N(0, s I + A_t A_t')``, and

    -2 log p = sum_t [log det M_t + y_t' (y_t - A_t w_t) / s] + constant,  w_t = M_t^-1 A_t' y_t.

The entries of B have a Gaussian prior of variance 1 / d, which is that of orthonormal columns: at
first B has more numbers than there are rewards.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from cobandits.policies.base import Policy
from cobandits.policies.propensities import greedy

__all__ = ["MostLikelyBasis", "Rewards"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_COOLING = 0.6  # of the standard deviation of the noise, from one fit to the next
_ITERATIONS = 30  # of L-BFGS in each
_PAIRS = 20  # of steps and gradients that it remembers


class Rewards(NamedTuple):
    """The rewards of all tasks so far; where a task did not ask there are zeros."""

    rows: Doubles  # (n, T, d)
    rewards: Doubles  # (n, T)

    def weights(self, basis: Doubles, noise_std: float) -> Doubles:
        """Return the posterior means of all weights, (T, r), under a basis, (d, r)."""
        A, M = self._reduced(basis, noise_std)
        return np.asarray(np.linalg.solve(M, self._pulls(A))[..., 0])

    def cost(self, flat: Doubles, noise_std: float) -> tuple[float, Doubles]:
        """Return ``-log p`` of B and rewards, but for a constant, and its gradient; B is flat."""
        d, s = self.rows.shape[2], noise_std**2
        B = flat.reshape(d, -1)
        A, M = self._reduced(B, noise_std)  # (T, n, r), (T, r, r)
        inverse = np.linalg.inv(M)
        w = inverse @ self._pulls(A)  # (T, r, 1)
        errors = self.rewards.T - (A @ w)[..., 0]  # (T, n)
        value = np.linalg.slogdet(M)[1].sum() + np.vdot(self.rewards.T, errors) / s
        D = A @ inverse - errors[..., None] * (w.swapaxes(1, 2) / s)  # (T, n, r)
        G = self.rows.reshape(-1, d).T @ D.swapaxes(0, 1).reshape(-1, B.shape[1])
        return 0.5 * float(value + d * np.vdot(B, B)), (G + d * B).ravel()

    def curvature(self, basis: Doubles, noise_std: float) -> Doubles:
        """Return that of the cost, (d r, d r), by Gauss and Newton: weights are as expected."""
        d, s = len(basis), noise_std**2
        A, M = self._reduced(basis, noise_std)
        w, total = self.weights(basis, noise_std), d * np.eye(basis.size)
        for t in range(len(A)):
            J = np.einsum("nd,r->ndr", self.rows[:, t], w[t]).reshape(len(A[t]), -1)
            inside = A[t].T @ J
            total += (J.T @ J - inside.T @ np.linalg.solve(M[t], inside)) / s
        return np.asarray(total)

    def _reduced(self, basis: Doubles, noise_std: float) -> tuple[Doubles, Doubles]:
        """Return A, (T, n, r), and M, (T, r, r)."""
        (n, T, d), r = self.rows.shape, basis.shape[1]
        products = (self.rows.reshape(-1, d) @ basis).reshape(n, T, r)
        A = np.ascontiguousarray(products.swapaxes(0, 1))
        return A, A.swapaxes(1, 2) @ A + noise_std**2 * np.eye(r)

    def _pulls(self, A: Doubles) -> Doubles:
        """Return ``A_t' y_t``, (T, r, 1)."""
        return np.asarray(A.swapaxes(1, 2) @ self.rewards.T[..., None])


class MostLikelyBasis(Policy):
    """Greedy on the posterior mean under the basis that maximises the marginal likelihood.

    L-BFGS goes on from the basis before, in each round. The noise is annealed: it begins with the
    size of the errors of predicting the latest rewards, and ends with the true one.
    """

    name: ClassVar[str] = "most likely basis"

    def __init__(
        self, *, dim: int, n_tasks: int, rank: int, noise_std: float, rounds: int, seed: int = 0
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        self.noise_std = noise_std
        self._all = Rewards(np.zeros((rounds, n_tasks, dim)), np.zeros((rounds, n_tasks)))
        self._n = 0
        drawn = np.random.default_rng(seed).standard_normal((dim, rank))
        self.basis, self.thetas = drawn / np.sqrt(dim), np.zeros((n_tasks, dim))

    @property
    def seen(self) -> Rewards:
        """All rewards so far."""
        return Rewards(self._all.rows[: self._n], self._all.rewards[: self._n])

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        return greedy(np.einsum("mkd,md->mk", arms, self.thetas[tasks]))

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        errors = rewards - np.einsum("md,md->m", rows, self.thetas[tasks])
        self._all.rows[self._n, tasks], self._all.rewards[self._n, tasks] = rows, rewards
        self._n += 1
        noise_std = float(np.sqrt(np.mean(errors**2)))
        while noise_std > self.noise_std:
            self._fit(noise_std)
            noise_std *= _COOLING
        self._fit(self.noise_std)
        self._predict()

    def _fit(self, noise_std: float) -> None:
        """Move the basis towards the most likely one under this noise."""
        found = scipy.optimize.minimize(
            self.seen.cost,
            self.basis.ravel(),
            args=(noise_std,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _ITERATIONS, "maxcor": _PAIRS},
        )
        self.basis = found.x.reshape(self.basis.shape)

    def _predict(self) -> None:
        self.thetas = self.seen.weights(self.basis, self.noise_std) @ self.basis.T
