"""Theorems 5.1 to 5.4: the start, one iteration, the whole fit, and the regret."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from cobandits.errors import ConfigurationError
from cobandits.theory.checks import check_at_least, check_share
from cobandits.theory.constants import Constants

__all__ = ["SampleSize", "Theory"]


class SampleSize(NamedTuple):
    """The two conditions of a theorem on the rows of an epoch, and the rows that meet both."""

    total: float  # (G_m - G_{m-1}) T >= total: rows of all tasks together
    per_task: float  # G_m - G_{m-1} >= per_task
    rows: int  # the fewest rows per task


@dataclass(frozen=True, kw_only=True)
class Theory(Constants):
    """The constants of a problem, and what the theorems say about it. Made by :meth:`of`.

    The first word of a method names the theorem: ``start`` is Theorem 5.1 (the spectral
    start), ``step`` Theorem 5.2 (one iteration), ``fit`` Theorem 5.3 (all iterations) and
    ``regret`` Theorem 5.4. A ``distance`` is the subspace distance between a basis and
    ``B*``, and ``rows`` are the rows per task in an epoch.

    Examples
    --------
    >>> import numpy as np
    >>> theory = Theory.of(np.diag([2.0, 1.0]), noise_std=0.1)
    >>> theory.rank, theory.condition, theory.parameters
    (2, 2.0, 4)
    >>> round(theory.contraction(step=0.4), 5)
    0.94528
    """

    # ---- Theorem 5.1: the spectral start

    def start_noise(self, distance: float, rows: int) -> float:
        """Return the largest noise std with which the start is within ``distance`` of ``B*``.

        ``sigma_eta^2 <= c delta_0^2 min_t |theta_t|^2 / (r^2 kappa^4 G_1)``.
        """
        check_share("distance", distance)
        check_at_least("rows", rows, 1)
        scale = self.rank * self.condition**2
        return math.sqrt(self.c / rows) * distance * self.smallest / scale

    def start_probability(self, distance: float, rows: int) -> float:
        """Return a lower bound on the probability that the start is within ``distance``.

        ``1 - exp(log T - c G_1) - exp(d - c delta_0^2 G_1 T / (r^2 mu^2 kappa^4))``, or 0
        if that is negative.
        """
        check_share("distance", distance)
        check_at_least("rows", rows, 1)
        by_task = math.log(self.n_tasks) - self.c * rows
        together = self.dim - rows * self.n_tasks / self._start_scale(distance)
        return max(0.0, 1 - math.exp(min(0.0, by_task)) - math.exp(min(0.0, together)))

    def start_rows(self, distance: float, failure: float) -> SampleSize:
        """Return the rows that make :meth:`start_probability` at least ``1 - failure``.

        Each of its two terms gets half of ``failure``:
        ``G_1 T >= (d + log(2 / failure)) r^2 mu^2 kappa^4 / (c delta_0^2)`` and
        ``G_1 >= (log T + log(2 / failure)) / c``.
        """
        check_share("distance", distance)
        check_share("failure", failure)
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
        """``0.02 / (mu sqrt(r) kappa^2)``: within this distance, each step reduces the distance."""
        return 0.02 / (self.incoherence * math.sqrt(self.rank) * self.condition**2)

    def contraction(self, step: float = 0.4) -> float:
        """Return ``1 - 0.5472 c_gamma / kappa^2``, the factor by which a step shrinks the distance.

        It is an upper bound. ``step`` is ``c_gamma``; the theorem holds up to 0.5.
        """
        if not 0 < step <= 0.5:
            raise ConfigurationError(f"step must be above 0 and at most 0.5, got {step}")
        return 1 - 0.5472 * step / self.condition**2

    def step_noise(self, distance: float) -> float:
        """Return the largest noise std for a step from a basis within ``distance``.

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
        """Return the largest noise std with ``rows`` per task in the first epoch.

        ``sigma_eta^2 <= c min_t |theta_t|^2 / (mu r^3 kappa^6 G_1)``, as the theorem states
        it. Its proof has ``mu^2``. The condition of Theorem 5.1 at the distance :attr:`basin`,
        which is :meth:`start_noise` there, gives ``mu^2`` and ``kappa^8``.
        """
        check_at_least("rows", rows, 1)
        scale = self.incoherence * self.rank**3 * self.condition**6
        return math.sqrt(self.c / (scale * rows)) * self.smallest

    def fit_rows(self, error: float) -> SampleSize:
        """Return the rows per epoch for an error of at most ``max(error, noise_floor)``.

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

        With the theorem's step of 0.4, C = 1 / (0.4 * 0.5472) = 4.57 is large enough. The
        result is 0 if the noise floor is 1 or more: the theorem then promises nothing.
        """
        return _ceil(self.C * self.condition**2 * self._digits(error))

    def fit_probability(self, error: float) -> float:
        """Return ``1 - L d^-10``, a lower bound on the probability of that error, at least 0."""
        return max(0.0, 1 - self.fit_iterations(error) * float(self.dim) ** -10)

    # ---- Theorem 5.4: regret

    def regret_bound(self, n_rounds: int, failure: float, *, base: float = 2.0) -> float:
        """Return the bound on the total regret of all tasks in ``n_rounds`` rounds.

        ``2 mu sigma_max sqrt(r N T log(1 / delta)) (1 + log log N)``, where ``failure`` is
        delta. The paper does not say to which ``base`` its ``log log`` is; the factor bounds the
        number of epochs, ``ceil(log2 log2 N)``, so the default is 2. With ``math.e`` it is less.
        """
        if not 1 < base < math.inf:
            raise ConfigurationError(f"base must be finite and above 1, got {base}")
        check_at_least("n_rounds", n_rounds, max(2, base))
        check_share("failure", failure)
        N, T = n_rounds, self.n_tasks
        spread = math.sqrt(self.rank * N * T * math.log(1 / failure))
        epochs = math.log(math.log(N, base), base) if base != 2 else math.log2(math.log2(N))
        return 2 * self.incoherence * self.sigma_max * spread * (1 + epochs)

    def regret_probability(self, failure: float, error: float) -> float:
        """Return ``1 - delta - L d^-10``, a lower bound on the probability of the regret bound.

        ``error`` is the target error of the fits, which gives L.
        """
        check_share("failure", failure)
        return max(0.0, self.fit_probability(error) - failure)

    # ---- what several theorems share

    @property
    def _width(self) -> float:
        return self.rank + math.log(self.n_tasks) + math.log(self.dim)

    def _digits(self, error: float) -> float:
        """Return ``log(1 / max(eps, eps_noise))``, at least 0."""
        check_share("error", error)
        return max(0.0, -math.log(min(1.0, max(error, self.noise_floor))))

    def _size(self, total: float, per_task: float) -> SampleSize:
        return SampleSize(total, per_task, _ceil(max(total / self.n_tasks, per_task)))


def _ceil(value: float) -> int:
    """Round up, but not because of rounding error."""
    return math.ceil(value * (1 - 1e-12))
