"""The E-step: every task's posterior under a prior, and the sums of them that EM needs.

Rows enter EM through :class:`EMRows` alone, whose sums may be over several shards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

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
    "BlockRows",
    "EMRows",
    "EMStatistics",
    "ESums",
    "Robust",
    "busiest_slots",
    "e_statistics",
    "e_step",
    "e_sums",
    "posterior_means",
    "shrunken_moment",
]

Doubles = NDArray[np.float64]
Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


class EMStatistics(NamedTuple):
    """What the E-step returns: all that the M-step needs of the posteriors of all tasks."""

    second_moment: Doubles  # (p, p), of theta - mean, averaged over tasks
    n_tasks: int
    offset: float
    noise: float
    reward_variance: float


class ESums(NamedTuple):
    """What the E-step sums over tasks: those of several shards are added, entry by entry."""

    second: Doubles  # (p, p), of E[theta theta'] - C, centred
    n_tasks: int
    pull: float  # of the offset, and its weight
    weight: float
    totals: Doubles  # (4,): squared residuals, degrees of freedom, squared rewards, rows


Robust = Callable[[int, float], float]  # of the ratio errors (0) or rewards (1), and its mean


class EMRows(Protocol):
    """All that EM asks of the rows of all tasks: sums, so rows may be on several shards."""

    @property
    def n_tasks(self) -> int:
        """How many tasks the prior is learned from."""

    @property
    def n_rows(self) -> int:
        """How many rows they have; of each task no more than are equivalent to all."""

    @property
    def n_own(self) -> int:
        """The most rows in one place: what an iteration takes time for."""

    def e_step(self, prior: Prior) -> EMStatistics:
        """Return the statistics of all posteriors."""

    def mean_step(self, prior: Prior) -> Prior:
        """Return the prior with the mean that has most evidence."""

    def feature_second_moment(self) -> Doubles:
        """Return the second moment of the features, (p, p)."""


class BlockRows(NamedTuple):
    """The rows of some tasks, in this process."""

    blocks: list[TaskBlock]
    n_rows: int
    n_learned: float  # the same before compression

    @classmethod
    def of(cls, store: RowStore, coordinates: Coordinates) -> BlockRows:
        """Return the rows of the busiest tasks of a store, in a prior's coordinates."""
        slots = busiest_slots(store, coordinates.dim)
        n_rows = int(np.minimum(store.sizes[slots], coordinates.dim + 1).sum())
        return cls(list(task_blocks(store, slots, coordinates)), n_rows, store.count(slots))

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return sum(len(block.slots) for block in self.blocks)

    @property
    def n_own(self) -> int:
        """The rows are all in one place."""
        return self.n_rows

    def e_step(self, prior: Prior) -> EMStatistics:
        """Return the statistics of all posteriors."""
        return e_step(self.blocks, prior)

    def mean_step(self, prior: Prior) -> Prior:
        """Return the prior with the mean that has most evidence."""
        return mean_step(self.blocks, prior)

    def feature_products(self) -> Doubles:
        """Return the sum of ``phi phi'`` over all rows, (p, p)."""
        p = self.blocks[0].features.shape[2]
        flat = (block.features.reshape(-1, p) for block in self.blocks)
        return np.asarray(sum(Z.T @ Z for Z in flat), np.float64)

    def feature_second_moment(self) -> Doubles:
        """Return the second moment of the features, (p, p)."""
        return shrunken_moment(self.feature_products(), self.n_learned)


def busiest_slots(store: RowStore, dim: int) -> Codes:
    """Return the slots with most rows, as many as there is time to learn a prior from."""
    slots = np.argsort(-store.sizes, kind="stable")
    slots = slots[store.sizes[slots] > 0]
    work = np.cumsum(np.minimum(store.sizes[slots], dim + 1)) * float(dim) ** 2
    return slots[: max(1, int(np.searchsorted(work, config.EM_WORK / config.EM_FEWEST)))]


def shrunken_moment(products: Doubles, n: float) -> Doubles:
    """Return the second moment of features from the ``products`` of n rows, (p, p).

    Correlations in few rows are mostly chance, so they are shrunken towards 0.
    """
    p, second = len(products), products / n
    alone: Doubles = np.diag(np.diag(second))
    return np.asarray((n * second + p * alone) / (n + p))


def e_step(blocks: list[TaskBlock], prior: Prior) -> EMStatistics:
    """Return the statistics of all posteriors under a prior."""
    sums, ratios = e_sums(blocks, prior)

    def robust(which: int, mean: float) -> float:
        return min(mean, config.OUTLIER_RATIO * float(np.median(ratios[which]))) or mean

    return e_statistics(sums, prior, robust)


def e_sums(blocks: list[TaskBlock], prior: Prior) -> tuple[ESums, Doubles]:
    """Return the sums over tasks, and two ratios per task, (2, T), of which outliers are told.

    The ratios are squared residuals over degrees of freedom, and squared rewards over rows.
    """
    C, noise, center = prior.covariance, prior.noise, prior.center
    p, second, pull, weight = len(C), np.zeros_like(C), 0.0, 0.0
    parts = [np.zeros((4, 0))]  # squared residuals, effective parameters, squared rewards, rows
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
        errors, squares, n = (np.einsum("bn,bn->b", v, v) for v in (residuals, y, one))
        parts.append(np.stack([errors, explained, squares, n]))
        pull, weight = pull + float(np.sum(ones * u)), weight + float(np.sum(ones**2))
    errors, explained, squares, n = np.concatenate(parts, axis=1)
    free = np.maximum(n - explained, config.LEAST_FREE_ROWS * n)
    totals = np.array([part.sum() for part in (errors, free, squares, n)])
    return ESums(second, len(n), pull, weight, totals), np.stack([errors / free, squares / n])


def e_statistics(sums: ESums, prior: Prior, robust: Robust) -> EMStatistics:
    """Return the statistics that sums over all tasks say; MacKay's rule for the noise is fast.

    ``robust`` bounds a mean ratio by a multiple of the median ratio of all tasks.
    """
    T, noise = sums.n_tasks, prior.noise
    errors, free, squares, n = sums.totals
    now = float(robust(0, errors / free))
    now = float(np.clip(now, noise / config.NOISE_STEP, noise * config.NOISE_STEP))
    offset = prior.offset + sums.pull / sums.weight
    second = sums.second / T + prior.covariance
    return EMStatistics(second, T, offset, now, float(robust(1, squares / n)) or 1.0)


def posterior_means(block: TaskBlock, prior: Prior) -> Doubles:
    """Return by how much posterior means of a block's tasks deviate from the prior's, (b, p)."""
    Z, y = block.features, block.rewards - block.features @ prior.center
    ZC = Z @ prior.covariance
    K = reward_covariances(ZC, Z, prior.noise)
    return _times(ZC.transpose(0, 2, 1), np.linalg.solve(K, y[..., None])[..., 0])


def _times(matrices: Floats, vectors: Floats) -> Doubles:
    """Return the products of matrices, (b, n, m), and vectors, (b, m)."""
    return np.asarray((matrices @ vectors[..., None])[..., 0], np.float64)
