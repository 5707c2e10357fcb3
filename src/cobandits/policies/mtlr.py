"""Optimism over all tasks together (Hu et al. 2021)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimators import Estimator, LowRank
from cobandits.policies.gaussian import GaussianPosteriors
from cobandits.policies.pertask import check_not_negative
from cobandits.policies.propensities import draw, greedy
from cobandits.policies.refitted import Refitted
from cobandits.policies.schedules import GrowingEpochs, Schedule
from cobandits.ragged import RaggedArms

__all__ = ["MTLROFUL"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_PRICES = 40  # prices of uncertainty that are tried
_ROUNDING = 1e-12  # share of a bound up to which a gain is rounding


class MTLROFUL(Refitted):
    """MTLR-OFUL: one confidence set for the thetas of all tasks.

    The set is ``sum_t |theta_t - theta^_t|^2 in the norm of V_t <= radius^2``, with
    ``V_t = ridge I + Phi_t' Phi_t`` and a low-rank least-squares fit ``Theta^`` of all rows so
    far. The arms of all tasks that ask are chosen together, to maximise the sum of their values
    under the best Theta in the set:
    ``sum_t phi_t' theta^_t + radius sqrt(sum_t phi_t' V_t^-1 phi_t)``. The choice found is one that
    no single task can improve; for a task that asks alone it is the maximum.

    Two things differ from the original. It assumes the optimal low-rank fit, which is intractable;
    here the fit is by :class:`LowRank` at the end of each epoch, while ``V_t`` takes every row at
    once. And it maximises over the low-rank Theta in the set; here it is over all Theta in the set,
    which gives a larger bound in closed form.

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
        super().__init__(
            dim=dim,
            n_tasks=n_tasks,
            schedule=GrowingEpochs() if schedule is None else schedule,
            estimator=LowRank(rank=rank, ridge="auto") if estimator is None else estimator,
            memory="all",
        )
        if not isinstance(radius, str):
            check_not_negative("radius", radius)
        elif radius != "theory":
            raise ConfigurationError(f"radius must be a number or 'theory', got {radius!r}")
        check_not_negative("noise_std", noise_std)
        check_not_negative("bound", bound)
        self.rank, self.noise_std, self.bound = rank, noise_std, bound
        self._given_radius = radius
        self._posteriors = GaussianPosteriors(n_tasks=n_tasks, dim=dim, ridge=ridge)

    @property
    def radius(self) -> float:
        """The radius of the confidence set."""
        if not isinstance(self._given_radius, str):
            return self._given_radius
        n_tasks = self.theta.shape[1]
        noise = self.rank * (n_tasks + self.dim) * np.log1p(self._clock.rewards)
        prior = self._posteriors.ridge * n_tasks * self.bound**2
        return float(np.sqrt(self.noise_std**2 * noise + prior))

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        A = self._posteriors.covariance_factors(tasks, arms)
        variances = np.einsum("mkd,mkd->mk", A, A)
        return greedy(_best_responses(self._values(tasks, arms), variances, self.radius))

    def _choose_ragged(
        self, tasks: Codes, arms: RaggedArms, rng: np.random.Generator
    ) -> tuple[Codes, Floats]:
        return draw(self._ragged_probabilities(tasks, arms), rng)

    def _ragged_probabilities(self, tasks: Codes, arms: RaggedArms) -> Floats:
        """Choose for all requests together, however many arms each has."""
        values = np.full((len(arms), arms.width), -np.inf)
        variances = np.zeros(values.shape)
        for rows, phi, numbers in arms.groups():
            A = self._posteriors.covariance_factors(tasks[rows], phi)
            found = np.einsum("mkd,mkd->mk", A, A)
            variances[rows] = found[:, :1]  # of arms that are not there: changes no range
            variances[rows[:, None], numbers] = found
            values[rows[:, None], numbers] = self._values(tasks[rows], phi)
        return greedy(_best_responses(values, variances, self.radius))

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        self._posteriors.check(rows, rewards)
        super()._learn_rows(tasks, rows, rewards)
        self._posteriors.learn(tasks, rows, rewards)


def _best_responses(values: Floats, variances: Floats, radius: float) -> Floats:
    """Return the joint bound for each arm of each task, (m, K), given the others' choice.

    Bounds are ``V + radius sqrt(U)``, with V and U summed over tasks, up to a constant per task.
    The choice starts from the best by a price of uncertainty. It is then changed for one task after
    the other as long as that raises the bound.

    >>> _best_responses(np.array([[1.0, 0.6, 0.0]]), np.array([[0.0, 0.25, 1.0]]), 1.0).tolist()
    [[1.0, 1.1, 1.0]]
    """
    if not len(values):
        return values
    rows = np.arange(len(values))
    chosen = _best_by_price(values, variances, radius)
    while True:
        others = variances[rows, chosen].sum() - variances[rows, chosen]  # (m,)
        bounds = values + radius * np.sqrt(np.maximum(others, 0)[:, None] + variances)
        gains = bounds.max(axis=1) - bounds[rows, chosen]
        task = int(gains.argmax())
        if gains[task] <= _ROUNDING * np.abs(bounds[np.isfinite(bounds)]).max():
            return np.asarray(bounds)
        chosen[task] = bounds[task].argmax()


def _best_by_price(values: Floats, variances: Floats, radius: float) -> Codes:
    """Return the arms with the highest ``value + price variance``, (m,), for the best price.

    The joint bound rises by ``radius / (2 sqrt(U))`` for each unit of U: near the best choice that
    is the price. Prices are tried over the range that U can have.
    """
    most, least = variances.max(axis=1).sum(), variances.min(axis=1).sum()
    if radius == 0 or most <= 0:
        return np.asarray(values.argmax(axis=1))
    rows = np.arange(len(values))
    found: list[tuple[float, Codes]] = []
    for total in np.geomspace(max(least, 1e-12 * most), most, _PRICES).tolist():
        best = (values + radius / (2 * np.sqrt(total)) * variances).argmax(axis=1)
        bound = values[rows, best].sum() + radius * np.sqrt(variances[rows, best].sum())
        found.append((float(bound), best))
    return max(found, key=lambda candidate: candidate[0])[1]
