"""Exploration rules: pure functions from beliefs about arms to the beliefs to sample with.

Beliefs as they are give Thompson sampling, and beliefs without variance a greedy decision.
A new rule is a function beside :func:`needed_beliefs`, and its name in :data:`Explore` and
:data:`RULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.propensities import winning
from cobandits.policies.shared import exploration_config
from cobandits.policies.shared.beliefs import (
    Beliefs,
    neglected_arms,
    similar_rewards,
    worth_trying,
)

__all__ = [
    "RULES",
    "Experience",
    "Explore",
    "chosen_probabilities",
    "needed_beliefs",
    "sampled_probabilities",
    "sampled_values",
    "scaled",
    "winning_probabilities",
    "with_floor",
]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

Explore = Literal["needed", "always", "never", "ucb"]


class Experience(NamedTuple):
    """What a rule knows besides the beliefs."""

    counts: Codes  # (m,), rewards of the task of each request
    seen: int  # rewards of all tasks
    tops: Doubles  # (m,), highest reward so far, less the intercepts of these tasks
    rewards_differ: bool  # whether any two rewards so far were different
    calibration: float  # mean ratio of squared errors to the expected ones, at most 1
    noise: float | None = None  # variance; None where rewards have weights of their own


def needed_beliefs(beliefs: Beliefs, experience: Experience) -> Beliefs:
    """Return the beliefs to sample with where arms are sampled as far as learning pays.

    A task without rewards takes the best arm for the mean of all tasks, and samples arms that are
    equally good for it, as all are where there is no mean. While all rewards are equal, every arm
    is sampled.
    Else an arm is tried if two things hold. Greedy decisions teach little of it, as
    :func:`neglected_arms` says: that is where arms repeat. And it is worth trying: its expected
    improvement on the best arm, as many times as the task has had rewards of such arms (see
    :func:`similar_rewards`), exceeds the expected loss of trying it once. Such an arm is valued
    with optimism: its value is raised by ``OPTIMISM`` times as much as its standard deviation is
    above that of the greedy arm, and drawn with a standard deviation of ``SAMPLED`` times that. The
    part of a variance that is due to noise is scaled by the calibration.

    ``TaskPosteriors.greedy`` is a short cut for requests in which no arm is to be sampled, whatever
    the task has had of such arms: a change has to be made there too, and in C.
    """
    sure, variances = experience.calibration, beliefs.variances
    if not experience.rewards_differ:  # what could be gained is not known yet
        return scaled(beliefs, np.full(variances.shape, sure))
    values, n = beliefs.values, experience.counts
    unseen = np.minimum(beliefs.unseen_variances, variances)
    honest = unseen + sure * (variances - unseen)
    returns = n.astype(np.float64)
    if experience.noise is not None:
        returns = np.minimum(returns, similar_rewards(beliefs, variances, experience.noise))
    tried = worth_trying(values, honest, returns, experience.tops)
    tried &= neglected_arms(beliefs, variances, np.minimum(1, n / experience.seen))
    std = np.sqrt(honest)
    known = np.take_along_axis(std, values.argmax(axis=1)[:, None], axis=1)
    lead = tried * np.maximum(0, std - known)
    equal = values == values.max(axis=1, keepdims=True)
    equal &= np.count_nonzero(equal, axis=1, keepdims=True) > 1
    spread = np.where(n[:, None] == 0, equal * honest, (exploration_config.SAMPLED * lead) ** 2)
    raised = beliefs._replace(values=values + exploration_config.OPTIMISM * lead)
    return scaled(raised, spread / variances)


RULES: dict[Explore, Callable[[Beliefs, Experience], Beliefs]] = {
    "needed": needed_beliefs,
}  # "never" and "ucb" sample nothing and "always" everything, so they need none


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


def sampled_probabilities(beliefs: Beliefs, chosen: Codes, floor: float, n_arms: int) -> Floats:
    """Return the probabilities of the chosen arms, (m,), where all were sampled."""
    return with_floor(winning_probabilities(beliefs, chosen), floor, n_arms)


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
