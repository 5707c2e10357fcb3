"""Beliefs about the arms of requests, and what there is to gain from arms that are little known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.propensities import normal_cdf
from cobandits.policies.shared import exploration_config

__all__ = ["Beliefs", "neglected_arms", "similar_rewards", "worth_trying"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_TINY = float(np.finfo(float).tiny)


class Beliefs(NamedTuple):
    """Gaussian beliefs about the values of arms, for m requests of K arms."""

    values: Doubles  # (m, K), means, up to a constant per task
    factors: Doubles  # (m, K, q), a root of the covariance in the basis
    residual_std: Doubles  # (m, K), outside of the basis, taken as independent between arms
    prior_variances: Doubles  # (m, K), before any reward
    unseen_variances: Doubles  # (m, K), of variances: what rewards without noise would leave

    @property
    def variances(self) -> Doubles:
        """Posterior variances of the values, (m, K)."""
        within = np.einsum("mkq,mkq->mk", self.factors, self.factors)
        return np.asarray(np.maximum(within + self.residual_std**2, _TINY))


def neglected_arms(beliefs: Beliefs, variances: Doubles, own: Doubles) -> NDArray[np.bool_]:
    """Tell of which arms, (m, K), greedy decisions teach little.

    A greedy decision teaches of its own arm. Where arms are diverse, as much is unknown of it, as a
    share of the prior variance, as of the other arms: what is learned of one is learned of all.
    Where arms repeat, the greedy arm becomes known and the others never do. So an arm is neglected
    where more than ``REPEAT_RATIO`` times that share is unknown of it.

    ``own``, (m,), is the task's share of all rewards. As far as the prior was learned from this
    very task, it knows the greedy arm by its rewards; so before them that arm was, to this share,
    as unknown as the most unknown one.
    """
    before = np.maximum(beliefs.prior_variances, _TINY)
    greedy = beliefs.values.argmax(axis=1)[:, None]
    first = np.take_along_axis(before, greedy, axis=1)
    first = first + own[:, None] * (before.max(axis=1, keepdims=True) - first)
    taught = exploration_config.REPEAT_RATIO * np.take_along_axis(variances, greedy, axis=1) / first
    neglected = variances > taught * before
    np.put_along_axis(neglected, greedy, False, axis=1)
    return np.asarray(neglected)


def similar_rewards(beliefs: Beliefs, variances: Doubles, noise: float) -> Doubles:
    """Return how many rewards of the arms of each request a task has had, in effect, (m,).

    Of an arm a task knows as much as that many rewards of this very arm would tell. Where all
    requests have the same arms, it is about all rewards of the task; where they have few arms of
    many, it is as many as had these.
    """
    before = np.maximum(beliefs.prior_variances, _TINY)
    return np.asarray(noise * np.maximum(0, 1 / variances - 1 / before).sum(axis=1))


def worth_trying(
    values: Doubles, variances: Doubles, returns: Doubles | Codes, tops: Doubles
) -> NDArray[np.bool_]:
    """Tell which arms, (m, K), may gain more than trying them once is expected to lose.

    What an arm may gain is its expected improvement on the best arm, as many times as it is
    expected to come back, ``returns``, (m,). Improvements beyond ``tops``, (m,), do not count.
    """
    best = values.max(axis=1, keepdims=True)
    std, most = np.sqrt(variances), np.maximum(best, tops[:, None])
    gains = _expected_improvement(values, std, best) - _expected_improvement(values, std, most)
    return np.asarray(returns[:, None] * gains > best - values)


def _expected_improvement(values: Doubles, std: Doubles, level: Doubles) -> Doubles:
    """Return ``E max(v - level, 0)`` of Gaussian values v, (m, K)."""
    u = (values - level) / std
    return np.asarray(std * (np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi) + u * normal_cdf(u)))
