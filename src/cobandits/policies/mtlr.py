"""Optimism over all tasks together (Hu et al. 2021)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimators import Estimator, LowRank
from cobandits.policies.base import Clock, Policy
from cobandits.policies.choice import greedy
from cobandits.posteriors import Posteriors
from cobandits.schedules import GrowingEpochs, Schedule
from cobandits.tasks import TaskRows

__all__ = ["MTLROFUL"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_PRICES = 40  # of uncertainty that are tried


class MTLROFUL(Policy):
    """MTLR-OFUL: one confidence set for the thetas of all tasks.

    The set is ``sum_t |theta_t - theta^_t|^2 in the norm of V_t <= radius^2``, with
    ``V_t = ridge I + Phi_t' Phi_t`` and a low-rank least-squares fit ``Theta^`` of all rows so
    far. The arms of all tasks that ask are chosen together, so that the sum of their values is
    highest for the best Theta in the set:
    ``sum_t phi_t' theta^_t + radius sqrt(sum_t phi_t' V_t^-1 phi_t)``.

    Two things differ from the original. It assumes the optimal low-rank fit, which nobody can
    compute; here it is :class:`LowRank`, refitted when an epoch ends. And it takes the best
    low-rank Theta in the set; here any Theta in the set may be the best, which is a
    larger set, and the maximum has a closed form.

    Parameters
    ----------
    radius : float or "theory"
        ``"theory"`` takes ``noise_std^2 (r T + d r) log(1 + n) + ridge T bound^2`` as its square,
        the order of Lemma 1 of Hu et al. for n rewards.
    """

    name: ClassVar[str] = "mtlr-oful"
    grid: ClassVar[dict[str, tuple[float, ...]]] = {"radius": (1e-3, 1e-2, 0.1, 1.0, 10.0)}

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int,
        rank: int,
        radius: float | Literal["theory"] = "theory",
        ridge: float = 1.0,
        noise_std: float = 1.0,
        bound: float = 1.0,
        schedule: Schedule | None = None,
        estimator: Estimator | None = None,
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        if isinstance(radius, str) and radius != "theory":
            raise ConfigurationError(f"radius must be a number or 'theory', got {radius!r}")
        self.rank, self.noise_std, self.bound = rank, noise_std, bound
        self._given_radius = radius
        self.estimator = LowRank(rank=rank, ridge="auto") if estimator is None else estimator
        self.theta: Floats = np.zeros((dim, n_tasks))
        self._posteriors = Posteriors(n_tasks=n_tasks, dim=dim, ridge=ridge)
        self._clock = Clock(n_tasks, GrowingEpochs() if schedule is None else schedule)
        self._rows = TaskRows(dim)

    @property
    def radius(self) -> float:
        """The radius of the confidence set."""
        if not isinstance(self._given_radius, str):
            return self._given_radius
        noise = self.rank * (self.n_tasks + self.dim) * np.log1p(self._rows.n_rows)
        prior = self._posteriors.ridge * self.n_tasks * self.bound**2
        return float(np.sqrt(self.noise_std**2 * noise + prior))

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        A = self._posteriors.spread(tasks, arms)
        variances = np.einsum("mkd,mkd->mk", A, A)
        values = (arms @ self.theta.T[tasks][:, :, None])[..., 0]
        return greedy(values + _best_price(values, variances, self.radius) * variances)

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        if not len(tasks):
            return
        self._posteriors.learn(tasks, rows, rewards)
        self._rows.add(rows, rewards, tasks)
        if self._clock.epoch_ends(tasks) and self._rows.n_tasks >= self.rank:
            self.estimate = self.estimator.fit(self._rows, start=self.estimate, rng=0)
            if self.estimate.status.outcome != "refused":
                self.theta[:, np.array(self._rows.labels)] = self.estimate.theta


def _best_price(values: Floats, variances: Floats, radius: float) -> float:
    """Return the price p for which each task's best arm by ``value + p variance`` is jointly best.

    The joint bound ``V + radius sqrt(U)``, with V and U summed over tasks, rises by
    ``radius / (2 sqrt(U))`` for each unit of U: at the best choice that is the price. Prices
    are tried over the range that U can have.

    >>> _best_price(np.array([[1.0, 0.9]]), np.array([[0.0, 1.0]]), 1.0) > 0.1
    True
    """
    most, least = variances.max(axis=1).sum(), variances.min(axis=1).sum()
    if radius == 0 or most <= 0:
        return 0.0
    totals = np.geomspace(max(least, 1e-12 * most), most, _PRICES)
    prices = radius / (2 * np.sqrt(totals))
    rows = np.arange(len(values))
    bounds = []
    for price in prices.tolist():
        best = (values + price * variances).argmax(axis=1)
        spread = variances[rows, best].sum()
        bounds.append(values[rows, best].sum() + radius * np.sqrt(spread))
    return float(prices[int(np.argmax(bounds))])
