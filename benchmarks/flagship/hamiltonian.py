"""Greedy play by the posterior mean, with the basis sampled by Hamiltonian Monte Carlo."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from benchmarks.flagship.most_likely import MostLikelyBasis

__all__ = ["SampledBasis"]

Doubles = NDArray[np.float64]

_SAMPLES, _DROPPED = 80, 20  # in every round, and how many of the first do not count
_LEAPS = 10  # of a trajectory
_LONGER, _SHORTER = 1.05, 0.9  # factors of a leap where it is accepted, or not: 2 in 3 are


class SampledBasis(MostLikelyBasis):
    """Greedy on the posterior mean of theta over B and weights; rank and noise are known.

    In every round a chain begins at the most likely basis. Momenta have the curvature there, by
    Gauss and Newton, as their covariance.
    """

    name: ClassVar[str] = "posterior mean"

    def __init__(
        self, *, dim: int, n_tasks: int, rank: int, noise_std: float, rounds: int, seed: int = 0
    ) -> None:
        super().__init__(
            dim=dim, n_tasks=n_tasks, rank=rank, noise_std=noise_std, rounds=rounds, seed=seed
        )
        self._rng = np.random.default_rng([seed, 1])
        self.leap = 0.3

    def _predict(self) -> None:
        curvature = self.seen.curvature(self.basis, self.noise_std)
        root = np.asarray(np.linalg.cholesky(curvature), np.float64)
        flat, total = self.basis.ravel(), np.zeros_like(self.thetas)
        for n in range(_SAMPLES):
            flat = self._moved(flat, root)
            if n >= _DROPPED:
                B = flat.reshape(self.basis.shape)
                total += self.seen.weights(B, self.noise_std) @ B.T
        self.thetas = total / (_SAMPLES - _DROPPED)

    def _moved(self, flat: Doubles, root: Doubles) -> Doubles:
        """Return the next sample of the chain: the end of a trajectory, or where it began.

        Positions are ``R'^-1 q`` and momenta ``R p``, with ``R R'`` the curvature.
        """

        def slope(at: Doubles) -> tuple[float, Doubles]:
            value, gradient = self.seen.cost(at, self.noise_std)
            return value, solve_triangular(root, gradient, lower=True)

        p = self._rng.standard_normal(len(flat))
        value, gradient = slope(flat)
        energy, at = value + 0.5 * p @ p, flat
        for _ in range(_LEAPS):
            p = p - 0.5 * self.leap * gradient
            at = at + self.leap * solve_triangular(root, p, lower=True, trans=1)
            value, gradient = slope(at)
            p = p - 0.5 * self.leap * gradient
        accepted = np.log(self._rng.random()) < energy - value - 0.5 * p @ p
        self.leap *= _LONGER if accepted else _SHORTER
        return at if accepted else flat
