"""Exploration rules: pure functions from beliefs about arms to how much of them is sampled.

A rule returns the share of each arm's variance to sample with: 1 is Thompson sampling, 0 is greedy.
A new rule is a function beside :func:`needed_shares`, and its name in :data:`Explore` and
:data:`RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from cobandits.policies.propensities import winning
from cobandits.policies.shared import config
from cobandits.policies.shared.posteriors import Beliefs

__all__ = [
    "RULES",
    "Experience",
    "Explore",
    "all_shares",
    "chosen_probabilities",
    "known_ratio",
    "needed_shares",
    "sampled_values",
    "scaled",
    "winning_probabilities",
    "with_floor",
]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

Explore = Literal["needed", "always", "never"]


class Experience(NamedTuple):
    """What a rule knows besides the beliefs."""

    counts: Codes  # (m,), rewards of the task of each request
    intercepts: Doubles  # (m,), of the thetas of these tasks
    highest: float  # highest reward so far
    rewards_differ: bool  # whether any two rewards so far were different
    calibration: float  # mean ratio of squared errors to the expected ones, at most 1
    n_directions: int  # of the prior


def known_ratio(n_directions: int) -> int:
    """Return c such that n rewards from diverse arms leave ``c / n`` of the prior variance."""
    return config.KNOWN_REWARDS_PER_DIRECTION * n_directions


def needed_shares(beliefs: Beliefs, experience: Experience) -> Doubles:
    """Return the share of each arm's variance to sample with, (m, K), where learning pays.

    A task without rewards takes the best arm for the mean of all tasks, and samples arms that are
    equally good for it, as all are where there is no mean. While all rewards are equal, every arm
    is sampled.
    After n rewards of a task an arm is sampled if two things hold. Of its prior variance more than
    ``known_ratio / n`` is left, which is never so before the ``known_ratio``-th reward. And its
    expected improvement on the best arm, n times, exceeds the expected loss of trying it once.
    Sampled is what is left beyond that share. Improvements beyond the highest reward so far do not
    count, and variances are scaled by the calibration.

    ``TaskPosteriors.greedy`` is a short cut for requests in which no arm is to be sampled: a change
    of the first condition has to be made there too.
    """
    values, sure, n = beliefs.values, experience.calibration, experience.counts[:, None]
    if not experience.rewards_differ:  # what could be gained is not known yet
        return np.full(values.shape, sure)
    variances = np.maximum(beliefs.variances, np.finfo(float).tiny)
    left = np.where(n > 0, known_ratio(experience.n_directions) / np.maximum(n, 1), 0)
    known = left * beliefs.prior_variances
    best = values.max(axis=1, keepdims=True)
    most = np.maximum(best, experience.highest - experience.intercepts[:, None])
    std = np.sqrt(sure * variances)
    gains = _expected_improvement(values, std, best) - _expected_improvement(values, std, most)
    equal = (values == best) & (np.count_nonzero(values == best, axis=1, keepdims=True) > 1)
    worth = np.where(n == 0, equal, n * gains > best - values)
    return np.asarray(sure * worth * np.maximum(0, 1 - known / variances))


def all_shares(beliefs: Beliefs, experience: Experience) -> Doubles:
    """Return 1 for every arm, (m, K): Thompson sampling."""
    return np.ones_like(beliefs.values)


RULES: dict[Explore, Callable[[Beliefs, Experience], Doubles]] = {
    "needed": needed_shares,
    "always": all_shares,
}  # "never" samples nothing, so it needs none


def scaled(beliefs: Beliefs, shares: Doubles) -> Beliefs:
    """Return beliefs whose variances are scaled by shares, (m, K)."""
    roots = np.sqrt(shares)
    return beliefs._replace(
        factors=beliefs.factors * roots[:, :, None], residual_std=beliefs.residual_std * roots
    )


def sampled_values(beliefs: Beliefs, rng: np.random.Generator) -> Doubles:
    """Draw values of the arms from the beliefs, (m, K)."""
    factors, residual = beliefs.factors, beliefs.residual_std
    z = rng.standard_normal((len(beliefs.values), factors.shape[2]))
    drawn = beliefs.values + np.einsum("mkq,mq->mk", factors, z)
    return np.asarray(
        drawn + residual * rng.standard_normal(residual.shape) if residual.any() else drawn
    )


def winning_probabilities(beliefs: Beliefs, arms: Codes) -> Floats:
    """Return the probability that an arm, (m,), has the highest of the sampled values."""
    return winning(beliefs.values, beliefs.factors, arms, beliefs.residual_std)


def chosen_probabilities(
    best: Codes, beliefs: Beliefs | None, chosen: Codes, floor: float, n_arms: int
) -> Floats:
    """Return the probabilities of the chosen arms, (m,); ``best`` is -1 where it was sampled."""
    chances = (chosen == best).astype(np.float64)
    if beliefs is not None:
        sampled = best < 0
        chances[sampled] = winning_probabilities(beliefs, chosen[sampled])
    return with_floor(chances, floor, n_arms)


def with_floor(probabilities: Floats, floor: float, n_arms: int) -> Floats:
    """Return the probabilities of arms if a share ``floor`` of decisions is uniformly random."""
    return (1 - floor) * probabilities + floor / n_arms


def _expected_improvement(values: Doubles, std: Doubles, level: Doubles) -> Doubles:
    """Return ``E max(v - level, 0)`` of Gaussian values v, (m, K)."""
    u = (values - level) / std
    return np.asarray(std * (np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi) + u * ndtr(u)))
