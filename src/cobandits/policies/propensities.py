"""From the values of arms to a choice and its propensity."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

__all__ = ["draw", "greedy", "winning"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_POINTS = 64  # of the lattice over which probabilities are integrated
_SMALLEST = 1e-12  # the least probability that is reported


def greedy(values: Floats) -> Floats:
    """Return the probabilities of a greedy choice, (m, K); ties are broken uniformly.

    >>> greedy(np.array([[1.0, 3.0], [2.0, 2.0]])).tolist()
    [[0.0, 1.0], [0.5, 0.5]]
    """
    best = values == values.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def draw(probabilities: Floats, rng: np.random.Generator) -> tuple[Codes, Floats]:
    """Draw an arm for each row of probabilities, (m, K); return it and its probability."""
    m = len(probabilities)
    heights = np.cumsum(probabilities, axis=1)
    thrown = rng.random((m, 1)) * heights[:, -1:]
    passed = (heights <= thrown) & (heights < heights[:, -1:])  # never to one of probability 0
    chosen = passed.sum(axis=1)
    return chosen, probabilities[np.arange(m), chosen]


def winning(values: Floats, factors: Floats, arms: Codes, own: Floats | None = None) -> Floats:
    """Return the probability that an arm has the highest value, (m,), for Gaussian values.

    It is the orthant probability of the differences, by Genz's separation of variables on a fixed
    lattice: nothing is drawn. For two arms it is exact; the error is below 1 % of the probability
    for five arms and up to 6 % for fifteen. A tie goes to the first arm.

    Parameters
    ----------
    values : (m, K)
        Means.
    factors : (m, K, q)
        A root of the covariance: ``cov(values) = factors factors'``.
    arms : (m,)
        The arm of each row whose probability is wanted.
    own : (m, K), optional
        Standard deviations of further parts of the values, independent between arms.

    Examples
    --------
    >>> winning(np.zeros((1, 2)), np.eye(2)[None], np.array([0])).tolist()
    [0.5]
    """
    m, K = values.shape
    lead, others, L = _hardest_first(values, factors, arms, own)
    points = _lattice(max(0, K - 2))  # (points, K - 2)
    normal = np.zeros((m, len(points), K - 1))
    share = np.ones((m, len(points)))
    for k in range(K - 1):
        # lead_k + sum_{j <= k} L_kj z_j > 0, given z_1 .. z_(k-1)
        rest = lead[:, k, None] + np.einsum("mpj,mj->mp", normal[:, :, :k], L[:, k, :k])
        holds = _upper_share(rest, L[:, k, k, None], (arms < others[:, k])[:, None])
        share *= holds
        if k < K - 2:
            normal[:, :, k] = -ndtri(np.clip(points[:, k] * holds, 1e-300, 1 - 1e-16))
    return np.asarray(np.clip(share.mean(axis=1), _SMALLEST, 1))


def _hardest_first(
    values: Floats, factors: Floats, arms: Codes, own: Floats | None
) -> tuple[Floats, Codes, Floats]:
    """Return the leads of arms over all others, (m, K - 1), which these are, and a root.

    The root, (m, K - 1, K - 1), is that of the covariance of the leads. The others come in the
    order of how likely they are to have higher values: then the integration is most accurate.
    """
    m, K = values.shape
    rows = np.arange(m)
    others = np.arange(K - 1) + (np.arange(K - 1) >= arms[:, None])  # (m, K - 1)
    lead = values[rows, arms][:, None] - values[rows[:, None], others]
    D = factors[rows, arms][:, None, :] - factors[rows[:, None], others]  # (m, K - 1, q)
    C = D @ D.transpose(0, 2, 1)
    if own is not None:
        C += (own[rows, arms] ** 2)[:, None, None]
        C[:, np.arange(K - 1), np.arange(K - 1)] += own[rows[:, None], others] ** 2
    hardest = np.argsort(lead / np.sqrt(np.einsum("mii->mi", C) + _SMALLEST), axis=1)  # first
    lead, others = lead[rows[:, None], hardest], others[rows[:, None], hardest]
    L = _cholesky(C[rows[:, None, None], hardest[:, :, None], hardest[:, None, :]])
    return lead, others, L


def _upper_share(rest: Floats, deviation: Floats, first: NDArray[np.bool_]) -> Floats:
    """Return ``P(rest + deviation z > 0)``; without deviation a tie goes to the first arm."""
    certain = deviation <= 0
    held = ndtr(rest / np.where(certain, 1.0, deviation))
    return np.where(certain, (rest > 0) | (first & (rest == 0)), held)


def _cholesky(C: Floats) -> Floats:
    """Return lower triangular roots of semidefinite matrices, (m, k, k)."""
    k = C.shape[1]
    L = np.zeros_like(C)
    scale = np.einsum("mii->mi", C)
    for i in range(k):
        for j in range(i + 1):
            left = C[:, i, j] - np.einsum("mj,mj->m", L[:, i, :j], L[:, j, :j])
            if i == j:
                L[:, i, i] = np.sqrt(np.where(left > 1e-14 * scale[:, i], left, 0))
            else:
                pivot = L[:, j, j]
                np.divide(left, pivot, out=L[:, i, j], where=pivot > 0)
    return L


@functools.cache
def _lattice(n_dims: int) -> Floats:
    """Return a folded Kronecker lattice, which fills the unit cube evenly, (points, n_dims).

    Each coordinate is replaced by its rank among the points, so that it is as even as can be.
    """
    if n_dims == 0:
        return np.zeros((1, 0))
    golden = 1.5  # the root of x^(n_dims + 1) = x + 1 above 1
    for _ in range(30):
        golden = (1 + golden) ** (1 / (n_dims + 1))
    steps = golden ** -np.arange(1, n_dims + 1)
    places = (0.5 + np.arange(1, _POINTS + 1)[:, None] * steps) % 1
    ranks = np.abs(2 * places - 1).argsort(axis=0).argsort(axis=0)
    return np.asarray((ranks + 0.5) / _POINTS)
