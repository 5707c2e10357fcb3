"""Learn a prior from the rows of all tasks: expectation and maximisation (EM)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.blocks import TaskBlock
from cobandits.policies.shared.empirical_bayes.expectation import (
    BlockRows,
    EMRows,
    EMStatistics,
    e_step,
    posterior_means,
)
from cobandits.policies.shared.empirical_bayes.prior import Coordinates, Prior
from cobandits.policies.shared.row_store import RowStore

__all__ = [
    "EMFit",
    "EMStatistics",
    "Hyperparameters",
    "e_step",
    "fit_em",
    "m_step",
    "posterior_means",
    "prior_of",
    "settled",
]


class Hyperparameters(NamedTuple):
    """What cannot be learned from the rows that a prior is fitted to."""

    shrinkage_pseudo_tasks: float = config.SHRINKAGE_PSEUDO_TASKS[-1]  # of an isotropic covariance
    noise_share: float = config.NOISE_SHARES[1]  # least noise over the rewards' variance
    offset: bool = config.OFFSETS[0]  # whether rewards have a mean that no feature explains


class EMFit(NamedTuple):
    """A prior, the statistics of the posteriors under it, and the rows it was learned from."""

    prior: Prior
    statistics: EMStatistics
    rows: BlockRows

    def under(self, hyperparameters: Hyperparameters) -> Prior:
        """Return the prior under hyperparameters, after a few iterations with them."""
        return settled(self.rows, self.prior, self.statistics, hyperparameters)

    @property
    def blocks(self) -> list[TaskBlock]:
        """The rows, some tasks at a time."""
        return self.rows.blocks


def fit_em(store: RowStore, start: Prior | None, hyperparameters: Hyperparameters) -> EMFit:
    """Fit a prior to the rows of all tasks by EM, from ``start`` or from a vague prior on.

    The E-step finds every task's posterior under the prior, the M-step the covariance and the
    noise that these posteriors suggest. The mean has a step of its own, before and after them. The
    fit shrinks as little as any candidate does. So it goes on learning what tasks share while a
    prior that shrinks more is in use.
    """
    coordinates = Coordinates.of(store)
    prior = Prior.vague(store) if start is None else start.in_coordinates(coordinates)
    rows = BlockRows.of(store, coordinates)
    return EMFit(*prior_of(rows, prior, hyperparameters), rows)


def prior_of(
    rows: EMRows, start: Prior, hyperparameters: Hyperparameters
) -> tuple[Prior, EMStatistics]:
    """Return the prior that EM finds from ``start`` on, and the statistics under it."""
    least = hyperparameters._replace(shrinkage_pseudo_tasks=config.SHRINKAGE_PSEUDO_TASKS[0])
    prior = rows.mean_step(start)
    for _ in range(_iterations(rows, len(prior.covariance))):
        prior = m_step(prior, rows.e_step(prior), least)
    prior = rows.mean_step(prior)
    prior = replace(prior, feature_second_moment=rows.feature_second_moment())
    return prior, rows.e_step(prior)


def settled(
    rows: EMRows, prior: Prior, statistics: EMStatistics, hyperparameters: Hyperparameters
) -> Prior:
    """Return the prior under hyperparameters, after a few iterations with them."""
    prior = rows.mean_step(m_step(prior, statistics, hyperparameters))
    for _ in range(config.EM_FINAL):
        prior = m_step(prior, rows.e_step(prior), hyperparameters)
    return prior


def _iterations(rows: EMRows, dim: int) -> int:
    """Return how many EM iterations suit the number of rows, and there is time for."""
    affordable = config.EM_WORK / (rows.n_own * dim**2)
    most = max(config.EM_FEWEST, min(config.EM_MOST, affordable))
    return int(np.clip(config.EM_ROWS * rows.n_tasks / rows.n_rows, config.EM_FEWEST, most))


def m_step(prior: Prior, statistics: EMStatistics, hyperparameters: Hyperparameters) -> Prior:
    """Return the prior that the statistics suggest, as far as hyperparameters allow.

    The covariance is shrunken towards a multiple of the identity. Otherwise directions of single
    tasks would be taken for shared ones.
    """
    second, T = statistics.second_moment, statistics.n_tasks
    p, nu = len(second), hyperparameters.shrinkage_pseudo_tasks
    isotropic = np.trace(second) / p * np.eye(p)
    covariance = (T / 2 * (second + second.T) + nu * isotropic) / (T + nu)  # exactly symmetric
    share = max(hyperparameters.noise_share, config.LEAST_NOISE)
    least = share * statistics.reward_variance
    least = max(least, config.LEAST_RESOLVED * float(np.trace(covariance)))
    return replace(
        prior,
        covariance=covariance,
        offset=statistics.offset if hyperparameters.offset else 0.0,
        noise=max(statistics.noise, least),
    )
