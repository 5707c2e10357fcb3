"""Beliefs about the arms of requests, and what there is to gain from arms that are little known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.policies.shared import config

__all__ = ["Beliefs", "neglected_shares", "worth_trying"]

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


def neglected_shares(beliefs: Beliefs, variances: Doubles) -> Doubles:
    """Return the share of each arm's variance, (m, K), that greedy decisions do not reduce.

    A greedy decision teaches of its own arm. Where arms are diverse, as much is unknown of it, as a
    share of the prior variance, as of the other arms: what is learned of one is learned of all.
    Where arms repeat, the greedy arm becomes known and the others never do. So an arm is neglected
    as far as more than ``REPEAT_RATIO`` times that share is unknown of it.
    """
    unknown = variances / np.maximum(beliefs.prior_variances, _TINY)
    greedy = beliefs.values.argmax(axis=1)
    taught = config.REPEAT_RATIO * unknown[np.arange(len(greedy)), greedy]
    return np.asarray(np.maximum(0, 1 - taught[:, None] / unknown))


def worth_trying(
    values: Doubles, variances: Doubles, counts: Codes, tops: Doubles
) -> NDArray[np.bool_]:
    """Tell which arms, (m, K), may gain more than trying them once is expected to lose.

    What an arm may gain is its expected improvement on the best arm, as many times as the task has
    had rewards. Improvements beyond ``tops``, (m,), do not count.
    """
    best = values.max(axis=1, keepdims=True)
    std, most = np.sqrt(variances), np.maximum(best, tops[:, None])
    gains = _expected_improvement(values, std, best) - _expected_improvement(values, std, most)
    return np.asarray(counts[:, None] * gains > best - values)


def _expected_improvement(values: Doubles, std: Doubles, level: Doubles) -> Doubles:
    """Return ``E max(v - level, 0)`` of Gaussian values v, (m, K)."""
    u = (values - level) / std
    return np.asarray(std * (np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi) + u * scipy.special.ndtr(u)))
