"""The mean that the thetas of all tasks have in common, as far as there is evidence of one.

With ``theta_t ~ N(m, C)`` and ``m ~ N(0, k C)``, all rewards say ``G m = g``, and the mean is
``(G + (k C)^-1)^-1 g``: generalised least squares, shrunken by k. Where tasks have no mean in
common, any k above 0 would fit noise, above all with fewer tasks than features. So k is the
candidate under which the rewards are most likely, and 0 is among them. The mean counts as known, so
there is none while there are no more tasks than coordinates. The intercept has no part in it: that
is the prior's offset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.blocks import TaskBlock, precision_roots
from cobandits.policies.shared.empirical_bayes.prior import Prior

__all__ = ["information", "mean_step", "with_mean"]

Doubles = NDArray[np.float64]


def mean_step(blocks: list[TaskBlock], prior: Prior) -> Prior:
    """Return the prior with the mean that has most evidence in the rows of these tasks."""
    n_tasks = sum(len(block.slots) for block in blocks)
    return with_mean(prior, n_tasks, lambda: information(blocks, prior))


def with_mean(prior: Prior, n_tasks: int, summed: Callable[[], tuple[Doubles, Doubles]]) -> Prior:
    """Return the prior with the mean that has most evidence, under its covariance and noise.

    In the eigenbasis of ``C^(1/2) G C^(1/2)`` with eigenvalues l, and with ``b = C^(1/2) g`` in it,
    twice the log of the evidence is ``sum_i [b_i^2 k / (1 + k l_i) - log(1 + k l_i)]``, but for a
    constant. ``summed`` returns G and g, the sums of :func:`information` over all tasks.
    """
    mean = np.zeros(len(prior.covariance))
    if n_tasks > len(mean):  # else it is not known well enough
        G, g = summed()
        root = _root(prior.covariance[:-1, :-1])
        values, vectors = np.linalg.eigh(root.T @ G @ root)
        values, b = np.maximum(values, 0), vectors.T @ (root.T @ g)
        k = np.array(config.MEAN_SCALES)[:, None]
        evidence = (b**2 * k / (1 + k * values) - np.log1p(k * values)).sum(axis=1)
        best = config.MEAN_SCALES[int(evidence.argmax())]
        mean[:-1] = root @ (vectors @ (best * b / (1 + best * values)))
    return replace(prior, mean=mean)


def information(blocks: list[TaskBlock], prior: Prior) -> tuple[Doubles, Doubles]:
    """Return G, (p - 1, p - 1), and g, (p - 1,), of all but the intercept."""
    p = len(prior.covariance)
    G, g = np.zeros((p - 1, p - 1)), np.zeros(p - 1)
    for block in blocks:
        Z = block.features
        half = precision_roots(Z @ prior.covariance, Z, prior.noise)
        HZ = (half @ Z[..., :-1]).reshape(-1, p - 1)
        Hy = half @ (block.rewards - prior.offset * Z[..., -1])[..., None]
        G += HZ.T @ HZ
        g += HZ.T @ Hy.ravel()
    return G, g


def _root(C: Doubles) -> Doubles:
    """Return a root R of a semidefinite matrix, ``R R' = C``."""
    values, vectors = np.linalg.eigh(C)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))
