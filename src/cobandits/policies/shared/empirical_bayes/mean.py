"""The mean that the thetas of all tasks have in common, as far as there is evidence of one.

With ``theta_t ~ N(m, C)`` and ``m ~ N(0, k C)``, all rewards say ``G m = g``, and the mean is
``(G + (k C)^-1)^-1 g``: generalised least squares, shrunken by k. Where tasks have no mean in
common, any k above 0 would fit noise, above all with fewer tasks than features. So k is the
candidate under which the rewards are most likely, and 0 is among them. What is not known of the
mean, ``(G + (k C)^-1)^-1``, is unknown of every task. The intercept has no part in it: that is the
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

    @classmethod
    def none(cls, p: int) -> CommonMean:
        """Return a mean of 0 that counts as known."""
        return cls(np.zeros(p), np.zeros((p, p)))


def common_mean(C: Doubles, G: Doubles, g: Doubles) -> CommonMean:
    """Return the mean that has most evidence, under a covariance of thetas.

    In the eigenbasis of ``C^(1/2) G C^(1/2)`` with eigenvalues l, and with ``b = C^(1/2) g`` in it,
    twice the log of the evidence is ``sum_i [b_i^2 k / (1 + k l_i) - log(1 + k l_i)]``, but for a
    constant.

    Parameters
    ----------
    C : (p, p)
    G : (p, p)
        The sum of ``Z_t' K_t^-1 Z_t`` over tasks, with ``K_t`` the covariance of their rewards.
    g : (p,)
        The sum of ``Z_t' K_t^-1 y_t``, without the offset.
    """
    mean, covariance = CommonMean.none(len(C))
    root = _root(C[:-1, :-1])
    values, vectors = np.linalg.eigh(root.T @ G[:-1, :-1] @ root)
    values, b = np.maximum(values, 0), vectors.T @ (root.T @ g[:-1])
    k = np.array(config.MEAN_SCALES)[:, None]
    evidence = (b**2 * k / (1 + k * values) - np.log1p(k * values)).sum(axis=1)
    best = config.MEAN_SCALES[int(evidence.argmax())]
    if best:
        whitened = root @ vectors
        left = best / (1 + best * values)
        mean[:-1] = whitened @ (left * b)
        unknown = whitened * left @ whitened.T
        covariance[:-1, :-1] = (unknown + unknown.T) / 2
    return CommonMean(mean, covariance)


def _root(C: Doubles) -> Doubles:
    """Return a root R of a semidefinite matrix, ``R R' = C``."""
    values, vectors = np.linalg.eigh(C)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))
