"""What a refit has fitted: two priors, of which hyperparameters say which one to use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.blocks import TaskBlock
from cobandits.policies.shared.empirical_bayes.factors import Factors
from cobandits.policies.shared.empirical_bayes.likelihood import Information, MarginalLikelihood
from cobandits.policies.shared.empirical_bayes.mean import CommonMean, common_mean
from cobandits.policies.shared.empirical_bayes.prior import Coordinates, Prior
from cobandits.policies.shared.row_store import RowStore

__all__ = ["FittedPrior", "Hyperparameters", "PriorFit", "Priors"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class Hyperparameters(NamedTuple):
    """What cannot be learned from the rows that a prior is fitted to."""

    shared: bool = False  # whether thetas share directions; else each task is learned alone
    offset: bool = False  # whether rewards have a mean that no feature explains


class Priors(NamedTuple):
    """A prior under which thetas share directions, and one without a preferred direction."""

    shared: Prior
    alone: Prior

    @classmethod
    def vague(cls, store: RowStore) -> Priors:
        """Return priors as wide as the rewards of a store."""
        return cls(*(2 * [Prior.vague(store)]))

    def in_coordinates(self, coordinates: Coordinates) -> Priors:
        """Return the same priors in other coordinates."""
        return Priors(*(prior.in_coordinates(coordinates) for prior in self))


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedPrior:
    """A covariance and a noise that were fitted, and what rewards say of the mean under them."""

    factors: Factors
    likelihood: MarginalLikelihood
    start: Prior  # has the coordinates, and the center of the likelihood
    before: Factors  # that the fit started from

    @cached_property
    def information(self) -> Information:
        """What all rewards say about thetas."""
        return self.factors.information(self.likelihood)

    @property
    def n_tasks(self) -> int:
        """The tasks that it was learned from."""
        return sum(len(block.rewards) for block in self.likelihood.blocks)

    def prior(self, *, offset: bool) -> Prior:
        """Return the prior with or without an offset."""
        level, mean = self._level_and_mean(offset)
        return replace(
            self.start,
            covariance=self.factors.covariance,
            mean=mean.mean,
            offset=level,
            noise=self.factors.noise,
        )

    def updated(self, *, offset: bool) -> Prior:
        """Return the prior with the isotropic variance that the rewards suggest."""
        return replace(self.prior(offset=offset), covariance=self.scaled_factors.covariance)

    @property
    def scaled_factors(self) -> Factors:
        """The factors with the isotropic variance that the rewards suggest."""
        return self.factors.suited_to(self.information)

    def mean_covariance(self, *, offset: bool) -> Doubles:
        """Return what is not known of the mean, (p, p)."""
        return self._level_and_mean(offset)[1].covariance

    def thetas(self, *, offset: bool) -> Doubles:
        """Return the posterior means of thetas with intercept, (T, d + 1), in the blocks' order."""
        prior = self.prior(offset=offset)
        return np.asarray(self._means(self.factors, prior.center) @ prior.coordinates.matrix.T)

    def movement(self, *, offset: bool) -> float:
        """Return the mean square by which the fit moved predictions, over that of predictions."""
        after = self._means(self.factors, self.prior(offset=offset).center)
        moved = after - self._means(self.before, self.start.center)
        return _mean_square(moved, self.start) / (_mean_square(after, self.start) or 1.0)

    @property
    def isotropic_is_settled(self) -> bool:
        """Whether the isotropic variance is about what the rewards suggest."""
        change = np.log(self.scaled_factors.rho / self.factors.rho)
        return bool(abs(change) < config.ISOTROPIC_TOLERANCE)

    def _means(self, factors: Factors, center: Doubles) -> Doubles:
        """Return the posterior means of thetas in the coordinates, (T, p)."""
        pulls = self.likelihood.pulls(factors.L, float(np.log(factors.noise)), center)
        return np.asarray(pulls @ factors.covariance / factors.noise + center)

    def _level_and_mean(self, offset: bool) -> tuple[float, CommonMean]:
        return self._with_offset if offset else self._without_offset

    @cached_property
    def _with_offset(self) -> tuple[float, CommonMean]:
        G, g = self._equations
        level = float((g[-1] - G[-1, :-1] @ self.start.mean[:-1]) / G[-1, -1])
        return level, self._mean(level)

    @cached_property
    def _without_offset(self) -> tuple[float, CommonMean]:
        return 0.0, self._mean(0.0)

    @cached_property
    def _equations(self) -> tuple[Doubles, Doubles]:
        """The normal equations of the mean with the offset: G, (p, p), and g, (p,)."""
        G = self.information.total / self.factors.noise
        pulls = self.information.pulls.sum(axis=0) / self.factors.noise
        return G, pulls + G @ self.start.center

    def _mean(self, level: float) -> CommonMean:
        if self.n_tasks <= (p := len(self.start.mean)):
            return CommonMean.none(p)
        G, g = self._equations
        return common_mean(self.factors.covariance, G, g - G[:, -1] * level)


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorFit:
    """The priors of a refit, and the rows that they were learned from."""

    blocks: list[TaskBlock]
    shared: FittedPrior
    alone: FittedPrior  # of the first tasks, where it is not in use

    @property
    def slots(self) -> Codes:
        """The slots of the tasks that both priors were learned from."""
        return np.concatenate([block.slots for block in self.blocks])[: self.alone.n_tasks]

    def under(self, hyperparameters: Hyperparameters) -> Prior:
        """Return the prior to use: its covariance includes what is not known of the mean."""
        fitted, offset = self._fitted(hyperparameters), hyperparameters.offset
        prior = fitted.updated(offset=offset)
        unknown = fitted.mean_covariance(offset=offset)
        return replace(prior, covariance=prior.covariance + unknown)

    def thetas(self, hyperparameters: Hyperparameters) -> Doubles:
        """Return the thetas with intercept that would be learned, (len(slots), d + 1)."""
        fitted = self._fitted(hyperparameters)
        return fitted.thetas(offset=hyperparameters.offset)[: self.alone.n_tasks]

    def is_settled(self, hyperparameters: Hyperparameters) -> bool:
        """Tell whether the fit hardly moved predictions, nor what is isotropic."""
        moved = self.shared.movement(offset=hyperparameters.offset)
        return moved < config.SETTLED_SHARE and self.shared.isotropic_is_settled

    def following(self, hyperparameters: Hyperparameters) -> Priors:
        """Return where the next fit starts."""
        both = (self.shared, self.alone)
        return Priors(*(one.updated(offset=hyperparameters.offset) for one in both))

    def _fitted(self, hyperparameters: Hyperparameters) -> FittedPrior:
        return self.shared if hyperparameters.shared else self.alone


def _mean_square(thetas: Doubles, prior: Prior) -> float:
    """Return the mean square of what thetas, (T, p), predict of typical arms."""
    return float(np.einsum("tp,tp->", thetas @ prior.feature_second_moment, thetas)) / len(thetas)
