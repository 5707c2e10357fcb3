"""Policies that learn every task separately: Thompson sampling, LinUCB, greedy ridge regression.

All three keep the posteriors of :mod:`cobandits.policies.gaussian`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.decisions import check_tasks
from cobandits.errors import ConfigurationError
from cobandits.policies.base import Clock, Policy
from cobandits.policies.gaussian import GaussianPosteriors
from cobandits.policies.propensities import greedy, winning
from cobandits.policies.schedules import Schedule
from cobandits.policies.task_index import TaskIndex, places_in

__all__ = ["LinUCB", "PerTask", "Ridge", "Thompson", "check_not_negative"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_RIDGES = (1e-6, 1e-4, 1e-2, 0.1, 1.0, 10.0, 30.0, 100.0)


class PerTask(Policy):
    """A policy with a separate posterior per task.

    Parameters
    ----------
    n_tasks : int, optional
        Tasks, numbered from 0, that there is room for. If not given, tasks may come at any time
        and in any number, and ``posteriors`` has them in the order of their first rewards.
    ridge : float
        Precision of the prior, in units of the precision of a reward.
    schedule : Schedule, optional
        Learn only when an epoch ends, as the paper's policy does. If not given, learn after
        every reward.
    """

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int | None = None,
        ridge: float = 1.0,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        self.posteriors = GaussianPosteriors(n_tasks=n_tasks or 1, dim=dim, ridge=ridge)
        self._index = None if n_tasks else TaskIndex()
        self._clock = None if schedule is None else Clock(schedule)
        self._waiting: list[tuple[Codes, Floats, Floats]] = []

    def _check_tasks(self, tasks: ArrayLike, *, learning: bool = False) -> Codes:
        codes = check_tasks(tasks, self.n_tasks)
        if self._index is None:
            return codes
        return places_in(self._index, codes, self.posteriors, learning=learning)

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        if self._clock is None:
            self.posteriors.learn(tasks, rows, rewards)
            return
        self.posteriors.check(rows, rewards)  # now, since an epoch is learned as a whole
        if len(tasks) and not self._clock.over:
            self._waiting.append((tasks.copy(), rows, rewards.copy()))
        if self._clock.ends_with(tasks):
            self._learn_epoch()
        self._clock.count(tasks)

    def _learn_epoch(self) -> None:
        """Learn what waits, task by task, which is faster: a task's posterior stays in cache."""
        owners, rows, rewards = map(np.concatenate, zip(*self._waiting, strict=True))
        order = np.argsort(owners, kind="stable")
        self.posteriors.learn(owners[order], rows[order], rewards[order])
        self._waiting = []

    def _values(self, tasks: Codes, arms: Floats) -> Floats:
        """Return the expected rewards of the arms, (m, K)."""
        values = np.einsum("mkd,md->mk", arms, self.posteriors.means[tasks])
        return np.asarray(values)  # equal arms to the last bit, which matmul does not promise


class Ridge(PerTask):
    """Greedy: the best arm by the ridge regression of its task."""

    name: ClassVar[str] = "ridge"
    grid: ClassVar[dict[str, tuple[float, ...]]] = {"ridge": _RIDGES}

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        return greedy(self._values(tasks, arms))


class Thompson(PerTask):
    """Thompson sampling: the best arm for a theta drawn from the task's posterior.

    The posterior is ``N(mu_t, scale^2 P_t)``; with ``scale`` the standard deviation of the
    noise and the right ``ridge`` it is Bayesian. A smaller scale explores less.

    The theta of a task is ``mu_t + scale S_t z``, with ``z`` the next d normals of the generator.
    """

    name: ClassVar[str] = "thompson"
    grid: ClassVar[dict[str, tuple[float, ...]]] = {
        "scale": (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3),
        "ridge": (1e-4, 1e-2, 0.1, 1.0, 10.0, 30.0),
    }

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int | None = None,
        scale: float = 0.1,
        ridge: float = 1.0,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks, ridge=ridge, schedule=schedule)
        check_not_negative("scale", scale)
        self.scale = scale

    def _choose(
        self, tasks: Codes, arms: Floats, rng: np.random.Generator
    ) -> tuple[Codes, Callable[[], Floats]]:
        values, factors = self._values(tasks, arms), self._factors(tasks, arms)
        z = rng.standard_normal((len(tasks), self.dim))
        chosen = (values + np.einsum("mkd,md->mk", factors, z)).argmax(axis=1)
        return chosen, lambda: winning(values, factors, chosen)

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        values, factors = self._values(tasks, arms), self._factors(tasks, arms)
        m, K = values.shape
        shares = np.stack([winning(values, factors, np.full(m, k)) for k in range(K)], axis=1)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def _factors(self, tasks: Codes, arms: Floats) -> Floats:
        """Return a root of the covariance of the arms' values, (m, K, d)."""
        return self.scale * self.posteriors.covariance_factors(tasks, arms)


class LinUCB(PerTask):
    """Optimism: the arm with the highest upper confidence bound.

    The bound of an arm is ``phi' mu_t + radius sqrt(phi' P_t phi)``.

    Parameters
    ----------
    radius : float or "oful"
        ``"oful"`` takes the radius of Abbasi-Yadkori et al. (2011), Theorem 2:
        ``noise_std sqrt(2 log(1/delta) + log det(P_t^-1)/det(ridge I)) + sqrt(ridge) bound``.
    delta, noise_std, bound : float
        For ``"oful"``: the probability that the bound fails, the standard deviation of the
        noise, and a bound on the norm of every theta.
    """

    name: ClassVar[str] = "linucb"
    grid: ClassVar[dict[str, tuple[float, ...]]] = {
        "radius": (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3),
        "ridge": (1e-4, 1e-2, 0.1, 1.0, 10.0, 30.0),
    }

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int | None = None,
        radius: float | Literal["oful"] = 0.1,
        ridge: float = 1.0,
        delta: float = 0.05,
        noise_std: float = 1.0,
        bound: float = 1.0,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks, ridge=ridge, schedule=schedule)
        if isinstance(radius, str):
            if radius != "oful":
                raise ConfigurationError(f"radius must be a number or 'oful', got {radius!r}")
        else:
            check_not_negative("radius", radius)
        if not 0 < delta < 1:
            raise ConfigurationError(f"delta must be between 0 and 1, got {delta}")
        check_not_negative("noise_std", noise_std)
        check_not_negative("bound", bound)
        self.radius, self.delta, self.noise_std, self.bound = radius, delta, noise_std, bound

    def radii(self, tasks: Codes) -> Floats:
        """Return the radius of each task's confidence set, (m,)."""
        if not isinstance(self.radius, str):
            return np.full(len(tasks), self.radius)
        evidence = 2 * np.log(1 / self.delta) + self.posteriors.log_volumes[tasks]
        prior = np.sqrt(self.posteriors.ridge) * self.bound
        return np.asarray(self.noise_std * np.sqrt(evidence) + prior)

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        A = self.posteriors.covariance_factors(tasks, arms)
        widths = np.sqrt(np.einsum("mkd,mkd->mk", A, A))
        return greedy(self._values(tasks, arms) + self.radii(tasks)[:, None] * widths)


def check_not_negative(name: str, value: float) -> None:
    """Refuse a parameter that is negative or not finite."""
    if not (np.isfinite(value) and value >= 0):
        raise ConfigurationError(f"{name} must be at least 0 and finite, got {value}")
