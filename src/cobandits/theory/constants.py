"""The constants of a problem that the theorems speak of: sizes, condition, incoherence, noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import ConfigurationError, DataError, RankError
from cobandits.linalg import factor
from cobandits.theory.checks import check_at_least

__all__ = ["Constants"]

Floats = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The constants of a problem. Made from theta by :meth:`of`."""

    dim: int
    n_tasks: int
    rank: int
    sigma_max: float
    sigma_min: float  # the smallest singular value, at the rank
    norm: float  # |Theta|_F
    smallest: float  # min_t |theta_t|
    largest: float  # max_t |theta_t|
    noise_std: float
    C: float = 1.0
    c: float = 1.0

    @classmethod
    def of(
        cls,
        theta: ArrayLike,
        *,
        rank: int | None = None,
        noise_std: float = 0.0,
        C: float = 1.0,
        c: float = 1.0,
    ) -> Self:
        """Return the constants of ``theta``, known or estimated.

        Parameters
        ----------
        theta : (d, T)
            One column per task.
        rank : int, optional
            Use the best approximation of this rank; by default theta at its numerical rank.
        noise_std, C, c : float
            ``sigma_eta``, the standard deviation of the noise, and values for the constants that
            the paper leaves open.
        """
        Theta = _checked(theta, noise_std, C, c)
        _, W = factor(Theta)
        sigmas = np.linalg.norm(W, axis=1)
        r = _checked_rank(rank, sigmas, max(Theta.shape))
        norms = np.linalg.norm(W[:r], axis=0)  # |w_t| = |theta_t|
        return cls(
            dim=Theta.shape[0],
            n_tasks=Theta.shape[1],
            rank=r,
            sigma_max=float(sigmas[0]),
            sigma_min=float(sigmas[r - 1]),
            norm=float(np.linalg.norm(norms)),
            smallest=float(norms.min()),
            largest=float(norms.max()),
            noise_std=float(noise_std),
            C=float(C),
            c=float(c),
        )

    @property
    def condition(self) -> float:
        """``kappa = sigma_max / sigma_min``, the condition number of theta at its rank."""
        return self.sigma_max / self.sigma_min

    @property
    def incoherence(self) -> float:
        """``mu``, the smallest >= 1 with ``|w_t|^2 <= mu^2 (r/T) sigma_max^2`` (Assumption 2)."""
        return max(1.0, self.largest / self.sigma_max * math.sqrt(self.n_tasks / self.rank))

    @property
    def nsr(self) -> float:
        """``NSR = sigma_eta^2 / min_t |theta_t|^2``; infinite if a theta is 0."""
        if self.noise_std == 0:
            return 0.0
        return (self.noise_std / self.smallest) ** 2 if self.smallest > 0 else math.inf

    @property
    def noise_floor(self) -> float:
        """``eps_noise = C kappa^2 sqrt(NSR)``, the error at which a fit stops improving (5.3)."""
        return self.C * self.condition**2 * math.sqrt(self.nsr)

    @property
    def parameters(self) -> int:
        """``r (d + T - r)``, the degrees of freedom of theta."""
        return self.rank * (self.dim + self.n_tasks - self.rank)

    @property
    def rounds(self) -> int:
        """``ceil(r (d + T - r) / T)``, the fewest rounds with as many rows as parameters."""
        return -(-self.parameters // self.n_tasks)

    def oracle_error(self, rows: ArrayLike) -> float:
        """Return the relative error of theta by least squares in the true basis ``B*``.

        ``sigma_eta sqrt(sum_t r / (n_t - r - 1)) / |Theta|_F``, the root of the expected
        squared error, for standard Gaussian features. Infinite if there is noise and a task
        has at most r + 1 rows.

        Parameters
        ----------
        rows : int or (T,)
            Rows per task.

        Examples
        --------
        >>> Constants.of(np.eye(4)[:, :2], noise_std=0.1).oracle_error(7)
        0.1
        """
        counts = np.asarray(rows)
        if counts.shape not in ((), (self.n_tasks,)):
            raise DataError(f"rows must be one number or one for each of {self.n_tasks} tasks")
        spare = np.broadcast_to(counts, self.n_tasks) - self.rank - 1
        if self.noise_std == 0:
            return 0.0
        if spare.min() <= 0:
            return math.inf
        return self.noise_std * math.sqrt(float(np.sum(self.rank / spare))) / self.norm


def _checked(theta: ArrayLike, noise_std: float, C: float, c: float) -> Floats:
    """Return theta as an array, (d, T); refuse it, or constants, that cannot be used."""
    Theta = np.asarray(theta, dtype=np.float64)
    if Theta.ndim != 2 or Theta.size == 0:
        raise DataError(f"theta must be (d, T) with one column per task, got shape {Theta.shape}")
    if not np.isfinite(Theta).all():
        raise DataError("theta holds a NaN or an infinite value; drop that task or fit it again")
    check_at_least("noise_std", noise_std, 0)
    for name, constant in (("C", C), ("c", c)):
        if not 0 < constant < math.inf:
            raise ConfigurationError(f"{name} must be above 0 and finite, got {constant}")
    return Theta


def _checked_rank(rank: int | None, sigmas: Floats, size: int) -> int:
    """Return ``rank``, or the numerical rank; refuse one that theta does not have."""
    numerical = int(np.sum(sigmas > sigmas[0] * size * np.finfo(np.float64).eps))
    if numerical == 0:
        raise RankError("theta must have a rank of at least 1, got all zeros; fit it to other rows")
    if rank is not None and not 1 <= rank <= numerical:
        raise RankError(
            f"rank must be from 1 to the numerical rank of theta = {numerical}, got {rank}; "
            "lower rank, or leave it out to take all of theta"
        )
    return numerical if rank is None else int(rank)
