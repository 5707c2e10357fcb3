"""Learn a prior from the rows of all tasks: expectation and maximisation (EM)."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.blocks import (
    TaskBlock,
    precision_roots,
    reward_covariances,
    task_blocks,
)
from cobandits.policies.shared.empirical_bayes.mean import mean_step
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
]

Doubles = NDArray[np.float64]
Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


class Hyperparameters(NamedTuple):
    """What cannot be learned from the rows that a prior is fitted to."""

    shrinkage_pseudo_tasks: float = config.SHRINKAGE_PSEUDO_TASKS[-1]  # of an isotropic covariance
    noise_share: float = config.NOISE_SHARES[1]  # least noise over the rewards' variance
    offset: bool = config.OFFSETS[0]  # whether rewards have a mean that no feature explains
    noise: float | None = None  # variance, where it is known


class EMStatistics(NamedTuple):
    """What the E-step returns: all that the M-step needs of the posteriors of all tasks."""

    second_moment: Doubles  # (p, p), of theta - mean, averaged over tasks
    n_tasks: int
    offset: float
    noise: float
    reward_variance: float


class EMFit(NamedTuple):
    """A prior, the statistics of the posteriors under it, and the rows it was learned from."""

    prior: Prior
    statistics: EMStatistics
    blocks: list[TaskBlock]

    def under(self, hyperparameters: Hyperparameters) -> Prior:
        """Return the prior under hyperparameters, after a few iterations with them."""
        prior = m_step(self.prior, self.statistics, hyperparameters)
        prior = mean_step(self.blocks, prior)
        for _ in range(config.EM_FINAL):
            prior = m_step(prior, e_step(self.blocks, prior), hyperparameters)
        return prior


def fit_em(
    store: RowStore,
    start: Prior | None,
    hyperparameters: Hyperparameters,
    coordinates: Coordinates | None = None,
) -> EMFit:
    """Fit a prior to the rows of all tasks by EM, from ``start`` or from a vague prior on.

    The E-step finds every task's posterior under the prior, the M-step the covariance and the
    noise that these posteriors suggest. The mean has a step of its own, before and after them. The
    fit shrinks as little as any candidate does. So it goes on learning what tasks share while a
    prior that shrinks more is in use.
    """
    least = hyperparameters._replace(shrinkage_pseudo_tasks=config.SHRINKAGE_PSEUDO_TASKS[0])
    coordinates = Coordinates.of(store) if coordinates is None else coordinates
    prior = Prior.vague(store) if start is None else start.in_coordinates(coordinates)
    slots = busiest_slots(store, coordinates.dim)
    blocks = list(task_blocks(store, slots, coordinates))
    prior = mean_step(blocks, prior)
    for _ in range(_iterations(blocks, len(slots), coordinates.dim)):
        prior = m_step(prior, e_step(blocks, prior), least)
    prior = mean_step(blocks, prior)
    moment = _feature_second_moment(blocks, store.count(slots))
    prior = replace(prior, feature_second_moment=moment)
    return EMFit(prior, e_step(blocks, prior), blocks)


def _iterations(blocks: list[TaskBlock], n_tasks: int, dim: int) -> int:
    """Return how many EM iterations suit the number of rows, and there is time for."""
    rows = sum(block.rewards.size for block in blocks)
    most = max(config.EM_FEWEST, min(config.EM_MOST, config.EM_WORK / (rows * dim**2)))
    return int(np.clip(config.EM_ROWS * n_tasks / rows, config.EM_FEWEST, most))


def _feature_second_moment(blocks: list[TaskBlock], n: float) -> Doubles:
    """Return the second moment of the features, (p, p), of n rows before compression.

    Correlations in few rows are mostly chance, so they are shrunken towards 0.
    """
    p = blocks[0].features.shape[2]
    flat = (block.features.reshape(-1, p) for block in blocks)
    second: Doubles = np.asarray(sum(Z.T @ Z for Z in flat), np.float64) / n
    alone: Doubles = np.diag(np.diag(second))
    return np.asarray((n * second + p * alone) / (n + p))


def busiest_slots(store: RowStore, dim: int) -> Codes:
    """Return the slots with most rows, as many as there is time to learn a prior from."""
    slots = np.argsort(-store.sizes, kind="stable")
    slots = slots[store.sizes[slots] > 0]
    work = np.cumsum(np.minimum(store.sizes[slots], dim + 1)) * float(dim) ** 2
    return slots[: max(1, int(np.searchsorted(work, config.EM_WORK / config.EM_FEWEST)))]


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
    known = hyperparameters.noise
    return replace(
        prior,
        covariance=covariance,
        offset=statistics.offset if hyperparameters.offset else 0.0,
        noise=max(statistics.noise, least) if known is None else known,
    )


def e_step(blocks: list[TaskBlock], prior: Prior) -> EMStatistics:
    """Return the statistics of all posteriors; MacKay's rule for the noise converges fast."""
    C, noise = prior.covariance, prior.noise
    p, T = len(C), sum(len(block.slots) for block in blocks)
    center, second = prior.center, T * C  # the latter is the sum of E[theta theta'], centred
    pull = weight = 0.0
    parts = []  # per task: rows, effective parameters, squared residuals, squared rewards
    for block in blocks:
        Z, one = block.features, block.features[..., -1]
        y = block.rewards - Z @ center
        ZC = Z @ C
        half = precision_roots(ZC, Z, noise)  # H, with H'H = K^-1
        A, u, ones = half @ ZC, _times(half, y), _times(half, one)
        flat = A.reshape(-1, p)
        theta = np.einsum("bnp,bn->bp", A, u)
        second += theta.T @ theta - flat.T @ flat
        residuals = noise * np.einsum("bnm,bn->bm", half, u)
        explained = y.shape[1] - noise * np.einsum("bnm,bnm->b", half, half)
        squares = (np.einsum("bn,bn->b", v, v) for v in (residuals, y))
        parts.append(np.stack([np.einsum("bn,bn->b", one, one), explained, *squares]))
        pull, weight = pull + float(np.sum(ones * u)), weight + float(np.sum(ones**2))
    n, explained, errors, squares = np.concatenate(parts, axis=1)
    now = _robust_ratio(errors, np.maximum(n - explained, config.LEAST_FREE_ROWS * n))
    now = float(np.clip(now, noise / config.NOISE_STEP, noise * config.NOISE_STEP))
    offset = prior.offset + pull / weight
    return EMStatistics(second / T, T, offset, now, _robust_ratio(squares, n) or 1.0)


def _robust_ratio(sums: Doubles, counts: Doubles) -> float:
    """Return the ratio of the sums over all tasks, (T,), at most a multiple of the median ratio."""
    mean = float(sums.sum() / counts.sum())
    return min(mean, config.OUTLIER_RATIO * float(np.median(sums / counts))) or mean


def posterior_means(block: TaskBlock, prior: Prior) -> Doubles:
    """Return by how much posterior means of a block's tasks deviate from the prior's, (b, p)."""
    Z, y = block.features, block.rewards - block.features @ prior.center
    ZC = Z @ prior.covariance
    K = reward_covariances(ZC, Z, prior.noise)
    return _times(ZC.transpose(0, 2, 1), np.linalg.solve(K, y[..., None])[..., 0])


def _times(matrices: Floats, vectors: Floats) -> Doubles:
    """Return the products of matrices, (b, n, m), and vectors, (b, m)."""
    return np.asarray((matrices @ vectors[..., None])[..., 0], np.float64)
