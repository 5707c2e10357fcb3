"""Take posteriors from one prior to another, for tasks whose rows were dropped.

A posterior is turned into pseudo-rows that lead to it. Learned under the other prior, these give
what the dropped rows would have given, as far as the posterior still holds it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cobandits.linalg import inverse_triangles
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import TaskBlock
from cobandits.policies.shared.posteriors import TaskPosteriors

__all__ = ["carry_over", "pseudo_rows"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


def carry_over(after: TaskPosteriors, before: TaskPosteriors, tasks: Codes) -> None:
    """Set posteriors ``after`` a refit to those ``before`` it, for tasks whose rows were dropped.

    The part of a theta outside of the basis stays as it is, and as uncertain as it was relative
    to the prior.
    """
    inside = before.basis.expand(before.weights.means[tasks]) @ before.batch.root.T
    outside = before.thetas[tasks] - before.prior.theta - inside
    unknown = before.noises[tasks] - before.prior.noise
    change = 1.0
    if before.residual_variance > 0:
        change = after.residual_variance / before.residual_variance
    noises = after.prior.noise + unknown * (1.0 if after.is_reduced else change)
    scales = np.sqrt(before.noises[tasks] / noises * after.batch.noise)
    width = max(after.batch.dim, before.thetas.shape[1])  # of a pseudo-row, and of a root
    size = max(1, config.BLOCK_BYTES // (8 * after.batch.dim * width))
    for start in range(0, len(tasks), size):
        some = slice(start, start + size)
        X, y = pseudo_rows(before, tasks[some], scales[some])
        block = TaskBlock(tasks[some], X @ after.prior.coordinates.matrix, y)
        after.set_part(after.learned(tasks[some], block))
    if before.residual_variance > 0:
        after.noises[tasks] = after.prior.noise + change * unknown
    after.thetas[tasks] += outside


def pseudo_rows(
    posteriors: TaskPosteriors, tasks: Codes, scales: Doubles
) -> tuple[Doubles, Doubles]:
    """Return rows ``[phi, 1]``, (m, q, d + 1), and rewards, (m, q), that lead to posteriors.

    With noise of standard deviation s and the prior ``N(0, I)``, features ``s l_i v_i`` with
    rewards ``s (l_i + 1 / l_i) v_i'mean`` lead to ``N(mean, S S')``. Here ``l_i^2`` and ``v_i`` are
    the eigenvalues and eigenvectors of ``(S S')^-1 - I``, and ``scales``, (m,), has s per task.
    """
    held, weights_of_theta = posteriors.weights, posteriors.batch.weights_of_theta
    J = inverse_triangles(held.unpacked(tasks))
    values, vectors = np.linalg.eigh(J.transpose(0, 2, 1) @ J - np.eye(held.dim))
    lengths = np.sqrt(np.where(values > config.LEAST_PRECISION, values, 0))  # (m, q)
    inverse = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    weights = np.einsum("mji,mj->mi", vectors, held.means[tasks])
    Z = (scales[:, None] * lengths)[..., None] * vectors.transpose(0, 2, 1)
    X = posteriors.basis.expand(Z) @ weights_of_theta
    y = scales[:, None] * (lengths + inverse) * weights + X @ posteriors.prior.theta
    return X, y
