"""What the paper proves, as functions of theta: Theorems 5.1 to 5.4.

The paper leaves its constants open: ``C`` stands for one that is large enough, ``c`` for one
that is small enough, and each theorem has its own. Both are 1 here unless given, so what
depends on them tells how a bound grows, not what it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import ConfigurationError, DataError, RankError
from cobandits.linalg import factor

__all__ = ["SampleSize", "Theory"]

Floats = NDArray[np.floating]


class SampleSize(NamedTuple):
    """The two conditions of a theorem on the rows of an epoch, and the rows that meet both."""

    total: float  # (G_m - G_{m-1}) T >= total: rows of all tasks together
    per_task: float  # G_m - G_{m-1} >= per_task
    rows: int  # the fewest rows a task


@dataclass(frozen=True, kw_only=True)
class Theory:
    """The constants of a problem, and what the theorems say of it. Made by :meth:`of`.

    Methods are named by what they speak of: ``start`` is Theorem 5.1 (the spectral start),
    ``step`` Theorem 5.2 (one iteration), ``fit`` Theorem 5.3 (all of them) and ``regret``
    Theorem 5.4. A ``distance`` is a subspace distance between a basis and ``B*``, and
    ``rows`` are the rows of each task in an epoch.

    Examples
    --------
    >>> theory = Theory.of(np.diag([2.0, 1.0]), noise_std=0.1)
    >>> theory.rank, theory.condition, theory.parameters
    (2, 2.0, 4)
    >>> round(theory.contraction(step=0.4), 5)
    0.94528
    """

    dim: int
    n_tasks: int
    rank: int
    sigma_max: float
    sigma_min: float  # the smallest of the rank's singular values
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
    ) -> Theory:
        """Return the constants of ``theta``, (d, T), known or estimated.

        Parameters
        ----------
        theta : (d, T)
            One column a task.
        rank : int, optional
            Use the best approximation of this rank; by default all of theta, at its
            numerical rank.
        noise_std : float
            ``sigma_eta``, the standard deviation of the noise.
        C, c : float
            What to put for the constants that the paper leaves open.
        """
        Theta = _checked(theta)
        _check_at_least("noise_std", noise_std, 0)
        for name, constant in (("C", C), ("c", c)):
            if not 0 < constant < math.inf:
                raise ConfigurationError(f"{name} must be above 0 and finite, got {constant}")
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

    # ---- the problem

    @property
    def condition(self) -> float:
        """``kappa = sigma_max / sigma_min``, the condition number of theta at its rank."""
        return self.sigma_max / self.sigma_min

    @property
    def incoherence(self) -> float:
        """``mu``, the least one >= 1 with ``|w_t|^2 <= mu^2 (r/T) sigma_max^2`` (Assumption 2)."""
        return max(1.0, self.largest / self.sigma_max * math.sqrt(self.n_tasks / self.rank))

    @property
    def nsr(self) -> float:
        """``NSR = sigma_eta^2 / min_t |theta_t|^2``; infinite if noise meets a theta of zero."""
        if self.noise_std == 0:
            return 0.0
        return (self.noise_std / self.smallest) ** 2 if self.smallest > 0 else math.inf

    @property
    def noise_floor(self) -> float:
        """``eps_noise = C kappa^2 sqrt(NSR)``, where the error stops falling (Theorem 5.3)."""
        return self.C * self.condition**2 * math.sqrt(self.nsr)

    @property
    def parameters(self) -> int:
        """``r (d + T - r)``, the degrees of freedom of theta."""
        return self.rank * (self.dim + self.n_tasks - self.rank)

    @property
    def rounds(self) -> int:
        """``ceil(r (d + T - r) / T)``, the fewest rounds that give as many rows as parameters."""
        return -(-self.parameters // self.n_tasks)

    def oracle_error(self, rows: ArrayLike) -> float:
        """Return the relative error of theta by least squares for one who knows ``B*``.

        ``sigma_eta sqrt(sum_t r / (n_t - r - 1)) / |Theta|_F``, the root of the expected
        squared error, for standard Gaussian features. Infinite, as the expectation is,
        where there is noise and a task has no more than r + 1 rows.

        Parameters
        ----------
        rows : int or (T,)
            Rows of each task.

        Examples
        --------
        >>> Theory.of(np.eye(4)[:, :2], noise_std=0.1).oracle_error(7)
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

    # ---- Theorem 5.1: the spectral start

    def start_noise(self, distance: float, rows: int) -> float:
        """Return the largest noise std for a start within ``distance``.

        ``sigma_eta^2 <= c delta_0^2 min_t |theta_t|^2 / (r^2 kappa^4 G_1)``.
        """
        _check_share("distance", distance)
        _check_at_least("rows", rows, 1)
        scale = self.rank * self.condition**2
        return math.sqrt(self.c / rows) * distance * self.smallest / scale

    def start_probability(self, distance: float, rows: int) -> float:
        """Return how probable a start within ``distance`` is at least; 0 where nothing is said.

        ``1 - exp(log T - c G_1) - exp(d - c delta_0^2 G_1 T / (r^2 mu^2 kappa^4))``.
        """
        _check_share("distance", distance)
        _check_at_least("rows", rows, 1)
        by_task = math.log(self.n_tasks) - self.c * rows
        together = self.dim - rows * self.n_tasks / self._start_scale(distance)
        return max(0.0, 1 - math.exp(min(0.0, by_task)) - math.exp(min(0.0, together)))

    def start_rows(self, distance: float, failure: float) -> SampleSize:
        """Return the rows with which :meth:`start_probability` is at least ``1 - failure``.

        Half of ``failure`` for each of its two terms:
        ``G_1 T >= (d + log(2 / failure)) r^2 mu^2 kappa^4 / (c delta_0^2)`` and
        ``G_1 >= (log T + log(2 / failure)) / c``.
        """
        _check_share("distance", distance)
        _check_share("failure", failure)
        margin = math.log(2 / failure)
        return self._size(
            (self.dim + margin) * self._start_scale(distance),
            (math.log(self.n_tasks) + margin) / self.c,
        )

    def _start_scale(self, distance: float) -> float:
        scale = self.rank * self.incoherence * self.condition**2 / distance
        return scale**2 / self.c

    # ---- Theorem 5.2: one iteration

    @property
    def basin(self) -> float:
        """``0.02 / (mu sqrt(r) kappa^2)``, the largest distance from which a step must gain."""
        return 0.02 / (self.incoherence * math.sqrt(self.rank) * self.condition**2)

    def contraction(self, step: float = 0.4) -> float:
        """Return ``1 - 0.5472 c_gamma / kappa^2``, which a step shrinks the distance by at least.

        ``step`` is ``c_gamma``; the theorem holds up to 0.5.
        """
        if not 0 < step <= 0.5:
            raise ConfigurationError(f"step must be above 0 and at most 0.5, got {step}")
        return 1 - 0.5472 * step / self.condition**2

    def step_noise(self, distance: float) -> float:
        """Return the largest noise std for a step that starts within ``distance``.

        ``sigma_eta^2 <= (r / T) delta^2 sigma_min^2``.
        """
        if not 0 < distance <= self.basin:
            raise ConfigurationError(
                f"distance must be above 0 and at most {self.basin:.3g}, got {distance}; "
                "from further away the theorem says nothing"
            )
        return math.sqrt(self.rank / self.n_tasks) * distance * self.sigma_min

    def step_rows(self) -> SampleSize:
        """Return the rows that a step needs.

        ``(G_m - G_{m-1}) T >= C mu^2 kappa^4 (d + r) r`` and
        ``G_m - G_{m-1} >= C (r + log T + log d)``.
        """
        scale = (self.incoherence * self.condition**2) ** 2
        return self._size(self.C * scale * (self.dim + self.rank) * self.rank, self.C * self._width)

    # ---- Theorem 5.3: all iterations

    def fit_noise(self, rows: int) -> float:
        """Return the largest noise std with ``rows`` of each task in the first epoch.

        ``sigma_eta^2 <= c min_t |theta_t|^2 / (mu r^3 kappa^6 G_1)``, as the theorem states
        it. Its proof has ``mu^2``; and :attr:`basin` put into the condition of Theorem 5.1
        gives ``mu^2`` and ``kappa^8``, which is :meth:`start_noise` at that distance.
        """
        _check_at_least("rows", rows, 1)
        scale = self.incoherence * self.rank**3 * self.condition**6
        return math.sqrt(self.c / (scale * rows)) * self.smallest

    def fit_rows(self, error: float) -> SampleSize:
        """Return the rows an epoch needs for an error of at most ``max(error, noise_floor)``.

        With ``l = log(1 / max(eps, eps_noise))``,
        ``(G_m - G_{m-1}) T >= C mu^2 kappa^6 d r^2 (mu^2 kappa^2 r + l)`` and
        ``G_m - G_{m-1} >= C kappa^2 (r + log T + log d) l``.
        """
        digits, mu2, kappa2 = self._digits(error), self.incoherence**2, self.condition**2
        scale = self.C * mu2 * kappa2**3 * self.dim * self.rank**2
        return self._size(
            scale * (mu2 * kappa2 * self.rank + digits), self.C * kappa2 * self._width * digits
        )

    def fit_iterations(self, error: float) -> int:
        """Return ``L = C kappa^2 log(1 / max(eps, eps_noise))``, rounded up.

        With the theorem's step of 0.4, C = 4.57 is large enough: 1 / (0.4 * 0.5472). None
        are needed where the noise floor is 1 or more, as the theorem then promises nothing.
        """
        return _ceil(self.C * self.condition**2 * self._digits(error))

    def fit_probability(self, error: float) -> float:
        """Return ``1 - L d^-10``, how probable that error is at least; 0 where nothing is said."""
        return max(0.0, 1 - self.fit_iterations(error) * float(self.dim) ** -10)

    # ---- Theorem 5.4: regret

    def regret_bound(self, n_rounds: int, failure: float) -> float:
        """Return the bound on the regret of all tasks together in ``n_rounds`` rounds.

        ``2 mu sigma_max sqrt(r N T log(1 / delta)) (1 + log2 log2 N)``, where ``failure`` is
        delta. The paper writes ``log log N``; the factor bounds the number of epochs,
        ``ceil(log2 log2 N)``, so the base is 2.
        """
        _check_at_least("n_rounds", n_rounds, 2)
        _check_share("failure", failure)
        N, T = n_rounds, self.n_tasks
        spread = math.sqrt(self.rank * N * T * math.log(1 / failure))
        return 2 * self.incoherence * self.sigma_max * spread * (1 + math.log2(math.log2(N)))

    def regret_probability(self, failure: float, error: float) -> float:
        """Return ``1 - delta - L d^-10``, how probable :meth:`regret_bound` is at least.

        ``error`` is the one that the fits aim at, which gives L.
        """
        _check_share("failure", failure)
        return max(0.0, self.fit_probability(error) - failure)

    # ---- what several theorems share

    @property
    def _width(self) -> float:
        return self.rank + math.log(self.n_tasks) + math.log(self.dim)

    def _digits(self, error: float) -> float:
        """Return ``log(1 / max(eps, eps_noise))``, at least 0."""
        _check_share("error", error)
        return max(0.0, -math.log(min(1.0, max(error, self.noise_floor))))

    def _size(self, total: float, per_task: float) -> SampleSize:
        return SampleSize(total, per_task, _ceil(max(total / self.n_tasks, per_task)))


def _ceil(value: float) -> int:
    """Round up what is above a whole number by more than rounding error."""
    return math.ceil(value * (1 - 1e-12))


def _checked(theta: ArrayLike) -> Floats:
    Theta = np.asarray(theta, dtype=np.float64)
    if Theta.ndim != 2 or Theta.size == 0:
        raise DataError(f"theta must be (d, T) with one column a task, got shape {Theta.shape}")
    if not np.isfinite(Theta).all():
        raise DataError("theta holds a NaN or an infinite value; drop that task or fit it again")
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


def _check_share(name: str, value: float) -> None:
    """Refuse a distance, an error or a probability that says nothing or is impossible."""
    if not 0 < value < 1:
        raise ConfigurationError(f"{name} must be above 0 and below 1, got {value}")


def _check_at_least(name: str, value: float, bound: float) -> None:
    if not bound <= value < math.inf:
        raise ConfigurationError(f"{name} must be at least {bound} and finite, got {value}")
