"""The mean that the thetas of all tasks have in common, as far as there is evidence of one.

With ``theta_t ~ N(m, C)`` and ``m ~ N(0, k S)``, all rewards say ``G m = g``, and the mean is
``(G + (k S)^-1)^-1 g``: generalised least squares, shrunken by k. Two shapes S are tried: C, where
the mean is one more draw of what tasks have of their own, and I, where tasks hardly differ and C
says nothing of the mean. Where tasks have no mean in common, any k above 0 would fit noise, above
all with fewer tasks than features. So S and k are those under which the rewards are most likely, 0
is among them, and it takes more evidence while there are few tasks. What is not known of the mean,
``(G + (k S)^-1)^-1``, is unknown of every task. The intercept has no part in it: that is the
prior's offset.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config

__all__ = ["CommonMean", "common_mean"]

Doubles = NDArray[np.float64]


class CommonMean(NamedTuple):
    """The mean of all thetas, and its posterior covariance."""

    mean: Doubles  # (p,), 0 for the intercept
    covariance: Doubles  # (p, p)
    evidence: float = 0.0  # twice the log of the likelihood ratio to no mean at all

    @classmethod
    def none(cls, p: int) -> CommonMean:
        """Return a mean of 0 that counts as known."""
        return cls(np.zeros(p), np.zeros((p, p)))


def common_mean(C: Doubles, G: Doubles, g: Doubles, *, n_tasks: int) -> CommonMean:
    """Return the mean that has most evidence, under a covariance of thetas.

    Parameters
    ----------
    C : (p, p)
    G : (p, p)
        The sum of ``Z_t' K_t^-1 Z_t`` over tasks, with ``K_t`` the covariance of their rewards.
    g : (p,)
        The sum of ``Z_t' K_t^-1 y_t``, without the offset.
    n_tasks : int
        With as many as coordinates or fewer, a mean needs ``MEAN_EVIDENCE``. One task has none.
    """
    p = len(C)
    if n_tasks == 1:
        return CommonMean.none(p)
    least = config.MEAN_EVIDENCE if n_tasks <= p else 0.0
    roots = (_root(C[:-1, :-1]), np.eye(p - 1))
    best = max((_mean_of_shape(R, G, g) for R in roots), key=lambda found: found.evidence)
    return best if best.evidence > least else CommonMean.none(p)


def _mean_of_shape(R: Doubles, G: Doubles, g: Doubles) -> CommonMean:
    """Return the mean under ``m ~ N(0, k R R')`` with the k that has most evidence.

    In the eigenbasis of ``R'GR`` with eigenvalues l, and with ``b = R'g`` in it, twice the log of
    the evidence is ``sum_i [b_i^2 k / (1 + k l_i) - log(1 + k l_i)]``, but for a constant. Were all
    l the same, ``mean(b^2) / l^2`` would be about the mean square of m.
    """
    mean, covariance, _ = CommonMean.none(len(G))
    values, vectors = np.linalg.eigh(R.T @ G[:-1, :-1] @ R)
    values, b = np.maximum(values, 0), vectors.T @ (R.T @ g[:-1])
    if not values.any():
        return CommonMean(mean, covariance)
    scales = np.array(config.MEAN_SCALES)[:, None] * np.mean(b**2) / values.mean() ** 2
    evidence = (b**2 * scales / (1 + scales * values) - np.log1p(scales * values)).sum(axis=1)
    best = int(evidence.argmax())
    k, whitened = float(scales[best, 0]), R @ vectors
    left = k / (1 + k * values)
    mean[:-1] = whitened @ (left * b)
    unknown = whitened * left @ whitened.T
    covariance[:-1, :-1] = (unknown + unknown.T) / 2
    return CommonMean(mean, covariance, float(evidence[best]))


def _root(C: Doubles) -> Doubles:
    """Return a root R of a semidefinite matrix, ``R R' = C``."""
    values, vectors = np.linalg.eigh(C)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))
