"""What a refit has fitted: two priors, of which hyperparameters say which one to use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import calibration_config, config
from cobandits.policies.shared.empirical_bayes.blocks import TaskBlock
from cobandits.policies.shared.empirical_bayes.calibration import Calibration
from cobandits.policies.shared.empirical_bayes.factors import Factors
from cobandits.policies.shared.empirical_bayes.hyperparameters import Hyperparameters
from cobandits.policies.shared.empirical_bayes.likelihood import (
    Information,
    MarginalLikelihood,
    SummedLikelihood,
)
from cobandits.policies.shared.empirical_bayes.mean import CommonMean, common_mean
from cobandits.policies.shared.empirical_bayes.prior import Coordinates, Prior, Products
from cobandits.policies.shared.empirical_bayes.rows import BlockRows
from cobandits.policies.shared.reader import Reader

__all__ = [
    "FittedPrior",
    "FittedPriors",
    "PriorFit",
    "Priors",
    "is_explained",
    "unexplained_share",
]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class Priors(NamedTuple):
    """A prior under which thetas share directions, and one without a preferred direction."""

    shared: Prior
    alone: Prior

    @classmethod
    def vague(cls, rows: Products) -> Priors:
        """Return priors as wide as the rewards."""
        return cls(*(2 * [Prior.vague(rows)]))

    def in_coordinates(self, coordinates: Coordinates) -> Priors:
        """Return the same priors in other coordinates; both are in the same ones."""
        M = coordinates.from_others(self.shared.coordinates)
        return Priors(*(prior.in_coordinates(coordinates, M) for prior in self))

    @classmethod
    def read(cls, reader: Reader, prior: Prior) -> Priors:
        """Read the priors of a file; ``prior`` is the one in use, in the same coordinates."""
        shared = replace(
            prior,
            covariance=reader.doubles("covariance", prior.covariance.shape),
            mean=reader.doubles("mean", prior.mean.shape),
            offset=reader.number("offset"),
            noise=reader.variance("noise"),
        )
        alone = replace(
            prior,
            covariance=np.eye(len(prior.mean)) * reader.variance("alone_variance"),
            mean=reader.doubles("alone_mean", prior.mean.shape),
            offset=reader.number("alone_offset"),
            noise=reader.variance("alone_noise"),
        )
        return cls(shared, alone)


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedPrior:
    """A covariance and a noise that were fitted, and what rewards say of the mean under them."""

    factors: Factors
    information: Information  # what all rewards say about thetas
    total: Doubles  # of the information, times the noise, (p, p)
    start: Prior  # has the coordinates, and the center of the information
    before: Factors  # that the fit started from
    clear: FittedPrior | None = None  # with directions alone that stand out, where some do not

    @classmethod
    def of(
        cls, factors: Factors, likelihood: SummedLikelihood, *, start: Prior, before: Factors
    ) -> FittedPrior:
        """Return factors that were fitted by a likelihood, with what that says under them."""
        return cls(
            factors=factors,
            information=factors.information(likelihood),
            total=factors.total(likelihood),
            start=start,
            before=before,
        )

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

    def likelihood(self, rows: BlockRows) -> MarginalLikelihood:
        """Return the likelihood of rows that the factors were fitted by."""
        return rows.likelihood(self.factors.rho, self.start.center)

    def thetas(self, likelihood: MarginalLikelihood, *, offset: bool) -> Doubles:
        """Return the posterior means of thetas with intercept, (T, d + 1), of a likelihood."""
        prior = self.prior(offset=offset)
        thetas = self.factors.thetas(likelihood, prior.center)
        return np.asarray(thetas @ prior.coordinates.matrix.T)

    def movement(self, likelihood: MarginalLikelihood, *, offset: bool) -> Doubles:
        """Return sums over tasks, (2,): squares by which the fit moved predictions, and of these.

        Predictions are of typical arms.
        """
        after = self.factors.thetas(likelihood, self.prior(offset=offset).center)
        moved = after - self.before.thetas(likelihood, self.start.center)
        M = self.start.feature_second_moment
        return np.array([np.einsum("tp,tp->", X @ M, X) for X in (moved, after)])

    def growth(self, movement: Doubles, *, unexplained: float) -> float:
        """Return by which factor rewards grow until the next refit.

        More where the fit hardly moved predictions, and there is little left to gain. That is where
        what is isotropic hardly moved either, or where predictions leave next to nothing of the
        rewards unexplained, as a share of their variance.
        """
        moved, explained = movement[0] / (movement[1] or 1.0), is_explained(unexplained)
        settled = (explained or self._isotropic_is_settled) and moved < config.SETTLED_SHARE
        return config.SETTLED_GROWTH if settled else config.REFIT_GROWTH

    @property
    def _isotropic_is_settled(self) -> bool:
        """Whether the isotropic variance is about what the rewards suggest."""
        change = np.log(self.scaled_factors.rho / self.factors.rho)
        return bool(abs(change) < config.ISOTROPIC_TOLERANCE)

    def _level_and_mean(self, offset: bool) -> tuple[float, CommonMean]:
        return self._with_offset if offset else self._without_offset

    @cached_property
    def _with_offset(self) -> tuple[float, CommonMean]:
        C, (G, g) = self.factors.covariance, self._equations
        level = float((g[-1] - G[-1, :-1] @ self.start.mean[:-1]) / G[-1, -1])
        rest, n_tasks = (g - G[:, -1] * level)[:-1], self.information.n_tasks
        mean = common_mean(C[:-1, :-1], G[:-1, :-1], rest, n_tasks=n_tasks)
        return level, mean.with_known_intercept()

    @cached_property
    def _without_offset(self) -> tuple[float, CommonMean]:
        C, n_tasks = self.factors.covariance, self.information.n_tasks
        return 0.0, common_mean(C, *self._equations, n_tasks=n_tasks)

    @cached_property
    def _equations(self) -> tuple[Doubles, Doubles]:
        """The normal equations of the mean with the offset: G, (p, p), and g, (p,)."""
        G = self.total / self.factors.noise
        pull = self.information.pull / self.factors.noise
        return G, pull + G @ self.start.center


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedPriors:
    """The priors of a refit; they hold sums over tasks, and nothing of a single one."""

    shared: FittedPrior
    alone: FittedPrior  # of the first tasks, where it is not in use

    def chosen(self, hyperparameters: Hyperparameters) -> FittedPrior:
        """Return the fitted prior to use."""
        if not hyperparameters.shared:
            return self.alone
        return (hyperparameters.clear and self.shared.clear) or self.shared

    def under(self, hyperparameters: Hyperparameters) -> Prior:
        """Return the prior to use: its covariance includes what is not known of the mean."""
        fitted = self.chosen(hyperparameters)
        prior = fitted.updated(offset=hyperparameters.offset)
        unknown = fitted.mean_covariance(offset=hyperparameters.offset)
        return replace(prior, covariance=prior.covariance + unknown)

    def following(self, hyperparameters: Hyperparameters) -> Priors:
        """Return where the next fit starts."""
        both = (self.shared, self.alone)
        return Priors(*(one.updated(offset=hyperparameters.offset) for one in both))


@dataclass(frozen=True, kw_only=True, eq=False)
class PriorFit(FittedPriors):
    """The same with the rows of the tasks that they were learned from."""

    blocks: list[TaskBlock]
    likelihoods: tuple[MarginalLikelihood, MarginalLikelihood]  # of both priors

    @classmethod
    def to(
        cls,
        blocks: list[TaskBlock],
        lighter: BlockRows,
        priors: FittedPriors,
        used: Hyperparameters,
    ) -> PriorFit:
        """Return priors that were fitted to more tasks, with the rows of those that are here.

        In the ``lighter`` rows tasks with outliers have less weight.
        """
        shared, alone = priors.shared, priors.alone
        some = lighter.some() if used.shared else lighter
        both = shared.likelihood(lighter), alone.likelihood(some)
        return cls(shared=shared, alone=alone, blocks=blocks, likelihoods=both)

    @property
    def slots(self) -> Codes:
        """The slots of the tasks that both priors were learned from."""
        none = np.zeros(0, np.int64)
        slots = np.concatenate([none, *(block.slots for block in self.blocks)])
        return slots[: self.likelihoods[1].n_tasks]

    def thetas(self, hyperparameters: Hyperparameters) -> Doubles:
        """Return the thetas with intercept that would be learned, (len(slots), d + 1)."""
        (shared, alone), offset = self.likelihoods, hyperparameters.offset
        if hyperparameters.shared:
            return self.chosen(hyperparameters).thetas(shared, offset=offset)[: alone.n_tasks]
        return self.alone.thetas(alone, offset=offset)

    def expected_theta(self, hyperparameters: Hyperparameters) -> Doubles:
        """Return the theta with intercept that is expected of a task without rewards, (d + 1,)."""
        return self.chosen(hyperparameters).prior(offset=hyperparameters.offset).theta

    def calibration(
        self, hyperparameters: Hyperparameters, before: Calibration | None
    ) -> Calibration | None:
        """Return how large errors are beside what priors expect; ``before`` is of the last fit.

        None where the noise is known, or where rows cannot be factorised.
        """
        some = BlockRows(self.blocks).sample(calibration_config.LEFT_OUT_NUMBERS).blocks
        if hyperparameters.noise is not None or not some:
            return None
        used = sharing = self.under(hyperparameters)
        if not hyperparameters.shared:
            sharing = self.under(hyperparameters._replace(shared=True))
        fitted = self.chosen(hyperparameters._replace(shared=True))
        known, q = self.likelihoods[0], fitted.factors.n_columns
        try:
            return Calibration.after(
                before,
                some,
                used=used,
                sharing=sharing,
                n_rewards=known.n_rows,
                n_unknowns=q * (len(sharing.mean) + known.n_tasks - q),
            )
        except np.linalg.LinAlgError:
            return None

    def movement(self, hyperparameters: Hyperparameters) -> Doubles:
        """Return by how much the fit moved predictions, as sums over these tasks, (2,)."""
        return self.shared.movement(self.likelihoods[0], offset=hyperparameters.offset)

    def growth(self, hyperparameters: Hyperparameters, *, unexplained: float) -> float:
        """Return by which factor rewards grow until the next refit."""
        return self.shared.growth(self.movement(hyperparameters), unexplained=unexplained)


def unexplained_share(rows: Products, error: float) -> float:
    """Return a mean squared error over the variance of all rewards; 1 where there is no error."""
    (n, total), (_, squares) = rows.products()[-2:, -2:]
    variance = float(squares / n - (total / n) ** 2)
    return error / variance if error > 0 and variance > 0 else 1.0


def is_explained(unexplained: float) -> bool:
    """Tell whether next to nothing is left of rewards, given the share of their variance."""
    return unexplained < config.SETTLED_SHARE
