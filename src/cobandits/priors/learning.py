"""Learn a prior from the rows of all tasks: expectation and maximisation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.histories import Histories
from cobandits.linalg import inverse_triangles
from cobandits.priors.prior import Coordinates, Prior

__all__ = [
    "ISOTROPIC",
    "LEAST_NOISE",
    "OFFSET",
    "Block",
    "Learned",
    "Settings",
    "Suggestion",
    "blocks",
    "improved",
    "means",
    "taken",
]

Doubles = NDArray[np.float64]
Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

ISOTROPIC = (3.0, 12.0, 1e6)  # tasks that a covariance with no preferred direction counts as
LEAST_NOISE = (0.0, 0.03, 0.3)  # share of the rewards' variance
OFFSET = (False, True)  # whether rewards have a mean that no feature explains

_RESOLVED = 1e-12  # share of the thetas' variance, at least: less would be lost in rounding
_TINY_NOISE = 1e-10  # share of the rewards' variance, at least
_LEAST_FREE = 1e-3  # share of the rows that no weight explains, at least
_FAR = 10.0  # times what is usual for a task: a mean over all tasks is at most that
_LARGEST_STEP = 10.0  # of the noise, in one iteration
_EFFORT, _FEWEST, _MOST = 150, 5, 40  # iterations: so many over the rows a task, within bounds
_SETTLING = 5  # iterations of the prior in use, which shares as much or less
_MOST_WORK = 4e9  # multiplications of all iterations; beyond it the busiest tasks are taken
_BLOCK_BYTES = 2**23


class Settings(NamedTuple):
    """What a prior cannot learn from the rows that it explains."""

    isotropic: float = ISOTROPIC[-1]
    least_noise: float = LEAST_NOISE[1]
    offset: bool = OFFSET[0]


class Suggestion(NamedTuple):
    """What the posteriors of all tasks say of their prior."""

    second: Doubles  # (p, p), mean of E[theta theta']
    n_tasks: int
    offset: float
    noise: float
    variance: float  # of the rewards


class Block(NamedTuple):
    """Tasks with about as many rows, in a prior's coordinates; rows of zeros at the end."""

    slots: Codes
    features: Doubles  # (b, n, p)
    rewards: Doubles  # (b, n)


def blocks(histories: Histories, slots: Codes, coordinates: Coordinates) -> Iterator[Block]:
    """Yield the rows of slots that are ordered by how many they hold, most first."""
    p, start = coordinates.dim, 0
    while start < len(slots):
        n = int(histories.sizes[slots[start]])
        some = slots[start : start + max(1, _BLOCK_BYTES // (8 * n * max(p, histories.width)))]
        F = histories.rows(some, n)
        Z, y = F[..., :-1] @ coordinates.matrix, F[..., -1]
        if n > p + 1:  # as many rows as coordinates say the same
            both: Doubles = np.concatenate([Z, y[..., None]], axis=2)
            both = np.asarray(np.linalg.qr(both, mode="r"))
            Z, y = both[..., :-1], both[..., -1]
        yield Block(some, Z, y)
        start += len(some)


class Learned(NamedTuple):
    """A prior, what the posteriors under it suggest, and the rows that it was learned from."""

    prior: Prior
    suggestion: Suggestion
    blocks: list[Block]

    def under(self, settings: Settings) -> Prior:
        """Return the prior that the settings make of it, with the noise and width that suit it."""
        prior = taken(self.prior, self.suggestion, settings)
        for _ in range(_SETTLING):
            prior = taken(prior, expected(self.blocks, prior), settings)
        return prior


def improved(histories: Histories, prior: Prior | None, settings: Settings) -> Learned:
    """Return a prior under which the rewards of all tasks are more likely.

    Expectation and maximisation: every task's posterior under the prior, then the covariance
    and the noise that these posteriors suggest. It shares as much as any rival does, so that it
    goes on learning what tasks share while another one is in use.
    """
    sharing = settings._replace(isotropic=ISOTROPIC[0])
    coordinates = Coordinates.of(histories)
    prior = Prior.vague(histories) if prior is None else prior.seen_in(coordinates)
    slots = experienced(histories, coordinates.dim)
    held = list(blocks(histories, slots, coordinates))
    rows = sum(block.rewards.size for block in held)
    n = histories.count(slots)
    most = min(_MOST, _MOST_WORK / (rows * coordinates.dim**2))
    for _ in range(int(np.clip(_EFFORT * len(slots) / rows, _FEWEST, max(_FEWEST, most)))):
        prior = taken(prior, expected(held, prior), sharing)
    prior = replace(prior, spread=_spread(held, n))
    return Learned(prior, expected(held, prior), held)


def _spread(held: list[Block], n: float) -> Doubles:
    """Return the second moment of the features, (p, p), whose n rows were compressed.

    Of few rows, correlations are mostly chance: they are drawn to 0.
    """
    p = held[0].features.shape[2]
    flat = (block.features.reshape(-1, p) for block in held)
    second: Doubles = np.asarray(sum(Z.T @ Z for Z in flat), np.float64) / n
    alone: Doubles = np.diag(np.diag(second))
    return np.asarray((n * second + p * alone) / (n + p))


def experienced(histories: Histories, dim: int) -> Codes:
    """Return the slots with most rows, as many as a prior can be learned from in time."""
    slots = np.argsort(-histories.sizes, kind="stable")
    slots = slots[histories.sizes[slots] > 0]
    work = np.cumsum(np.minimum(histories.sizes[slots], dim + 1)) * float(dim) ** 2
    return slots[: max(1, int(np.searchsorted(work, _MOST_WORK / _FEWEST)))]


def taken(prior: Prior, suggestion: Suggestion, settings: Settings) -> Prior:
    """Return the prior that is suggested, as far as the settings go with it.

    The covariance is drawn towards a multiple of the identity, else a few tasks would
    be explained by directions of their own.
    """
    second, T, nu = suggestion.second, suggestion.n_tasks, settings.isotropic
    p = len(second)
    isotropic = np.trace(second) / p * np.eye(p)
    covariance = (T / 2 * (second + second.T) + nu * isotropic) / (T + nu)  # rounding is not even
    least = max(settings.least_noise, _TINY_NOISE) * suggestion.variance
    least = max(least, _RESOLVED * float(np.trace(covariance)))
    return replace(
        prior,
        covariance=covariance,
        offset=suggestion.offset if settings.offset else 0.0,
        noise=max(suggestion.noise, least),
    )


def expected(held: list[Block], prior: Prior) -> Suggestion:
    """Return what the posteriors suggest; of the noise by MacKay's rule, which is fast."""
    C, noise = prior.covariance, prior.noise
    p, T = len(C), sum(len(block.slots) for block in held)
    second = T * C  # sum of E[theta theta']
    pull = weight = 0.0
    parts = []  # by task: rows, those that weights explain, squared residuals and rewards
    for block in held:
        Z, one = block.features, block.features[..., -1]
        y = block.rewards - prior.offset * one
        ZC = Z @ C
        half = inverse_triangles(np.linalg.cholesky(_covariances(ZC, Z, noise)), lower=True)
        A, u, ones = half @ ZC, _times(half, y), _times(half, one)  # H'H is K^-1
        flat = A.reshape(-1, p)
        theta = np.einsum("bnp,bn->bp", A, u)
        second += theta.T @ theta - flat.T @ flat
        residuals = noise * np.einsum("bnm,bn->bm", half, u)
        explained = y.shape[1] - noise * np.einsum("bnm,bnm->b", half, half)
        squares = (np.einsum("bn,bn->b", v, v) for v in (residuals, y))
        parts.append(np.stack([np.einsum("bn,bn->b", one, one), explained, *squares]))
        pull, weight = pull + float(np.sum(ones * u)), weight + float(np.sum(ones**2))
    n, explained, errors, squares = np.concatenate(parts, axis=1)
    now = _robust_ratio(errors, np.maximum(n - explained, _LEAST_FREE * n))
    now = float(np.clip(now, noise / _LARGEST_STEP, noise * _LARGEST_STEP))
    offset = prior.offset + pull / weight
    return Suggestion(second / T, T, offset, now, _robust_ratio(squares, n) or 1.0)


def _robust_ratio(sums: Doubles, counts: Doubles) -> float:
    """Return the mean over all tasks, (T,), unless a few make it far larger than most have it."""
    mean = float(sums.sum() / counts.sum())
    return min(mean, _FAR * float(np.median(sums / counts))) or mean


def means(block: Block, prior: Prior) -> Doubles:
    """Return the posterior means of tasks under a prior, (b, p)."""
    Z, y = block.features, block.rewards - prior.offset * block.features[..., -1]
    ZC = Z @ prior.covariance
    K = _covariances(ZC, Z, prior.noise)
    return _times(ZC.transpose(0, 2, 1), np.linalg.solve(K, y[..., None])[..., 0])


def _times(matrices: Floats, vectors: Floats) -> Doubles:
    """Return the products of matrices, (b, n, m), and vectors, (b, m)."""
    return np.asarray((matrices @ vectors[..., None])[..., 0], np.float64)


def _covariances(ZC: Doubles, Z: Doubles, noise: float) -> Doubles:
    """Return the covariances of the rewards, (b, n, n)."""
    K = ZC @ Z.transpose(0, 2, 1)
    diagonal = np.arange(K.shape[1])
    K[:, diagonal, diagonal] += noise
    return np.asarray(K)
