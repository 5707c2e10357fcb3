"""From the values of arms to a choice and its propensity."""

from __future__ import annotations

import functools

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.kernels import chunks

try:
    from cobandits.compiled import _propensity
except ImportError:  # no compiler at installation
    COMPILED = False
else:
    COMPILED = True

__all__ = ["COMPILED", "draw", "greedy", "normal_cdf", "winning"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

_POINTS = 512  # over which probabilities are integrated, a power of two
_MANY, _MORE_POINTS = 8, 2048  # arms beyond which more points are needed, and how many
_SMALLEST = 1e-12  # the least probability that is reported
_EQUAL = 1 - 1e-9  # of the largest pivot: rounding must not choose among equal ones
_NONE = np.zeros(0)


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


def normal_cdf(values: Floats) -> Floats:
    """Return the probabilities that ``N(0, 1)`` is below values, of any shape.

    SciPy has it in a part that takes longer to load than a thousand decisions do.

    >>> normal_cdf(np.array([-np.inf, 0.0])).tolist()
    [0.0, 0.5]
    """
    if not COMPILED:
        return np.asarray(scipy.special.ndtr(values))
    x = np.ascontiguousarray(values, np.float64)
    out = np.empty_like(x)
    _propensity.normal_cdf(x, out)
    return out


def winning(values: Floats, factors: Floats, arms: Codes, own: Floats | None = None) -> Floats:
    """Return the probability that an arm has the highest value, (m,), for Gaussian values.

    It is the probability that all leads of the arm are above 0. Along one direction, in which leads
    grow together, it is exact; over the others it is a mean over fixed points that fill the space
    evenly: nothing is drawn. For two arms it is exact. A tie goes to the first arm.

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
    if K == 1:
        return np.ones(m)
    found = np.empty(m)
    if COMPILED:
        _propensity.winning(
            np.ascontiguousarray(values, np.float64),
            np.ascontiguousarray(factors, np.float64),
            _NONE if own is None else np.ascontiguousarray(own, np.float64),
            np.ascontiguousarray(arms, np.int64),
            *(_normal_points(K - 1), found, _SMALLEST),
        )
        return found
    lead, C, first = _leads(values, factors, arms, own)
    for block in chunks(m, 8 * _n_points(K - 1) * K):
        found[block] = _all_above_zero(lead[block], C[block], first[block])
    return np.clip(found, _SMALLEST, 1)


def _leads(
    values: Floats, factors: Floats, arms: Codes, own: Floats | None
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return means, (m, K - 1), and covariances of the leads of arms over all others.

    The last result tells over which others they come first, (m, K - 1).
    """
    m, K = values.shape
    rows = np.arange(m)[:, None]
    others = np.arange(K - 1) + (np.arange(K - 1) >= arms[:, None])  # (m, K - 1)
    lead = values[rows, arms[:, None]] - values[rows, others]
    D = factors[rows, arms[:, None]] - factors[rows, others]  # (m, K - 1, q)
    C = D @ D.transpose(0, 2, 1)
    if own is not None:
        C += (own[rows, arms[:, None]] ** 2)[:, :, None]
        C[:, np.arange(K - 1), np.arange(K - 1)] += own[rows, others] ** 2
    return lead, C, arms[:, None] < others


def _all_above_zero(lead: Floats, C: Floats, first: NDArray[np.bool_]) -> Floats:
    """Return the probability, (m,), that all of Gaussian leads are above 0, or 0 if first.

    Leads are ``lead + c t + rest`` with ``t ~ N(0, 1)``, and a rest that does not depend on t.
    Given the rest, they are above 0 for t in an interval. The direction c is that of the mean of
    the leads, weighted by how likely each is to be below 0.
    """
    variances = np.einsum("mii->mi", C)
    width = variances.max(axis=1, initial=0, keepdims=True)
    certain = variances <= 1e-14 * width
    std = np.sqrt(np.where(certain, 1, variances))
    held = np.where(certain, (lead > 0) | (first & (lead == 0)), True).all(axis=1)
    weights = np.where(certain, 0, (scipy.special.ndtr(-lead / std) + _SMALLEST) / std)
    pulled = np.einsum("mij,mj->mi", C, weights)
    along = np.sqrt(np.maximum(np.einsum("mi,mi->m", weights, pulled), np.finfo(float).tiny))
    c = pulled / along[:, None]
    rest = _rest(C - c[:, :, None] * c[:, None, :], width)  # (m, points, K - 1)
    flat = np.abs(c) <= 1e-7 * np.sqrt(width)
    limits = (lead[:, None] + rest) / np.where(flat, 1, c)[:, None]  # of -t
    if (c > 0).all() and not flat.any():
        return np.asarray(scipy.special.ndtr(limits.min(axis=2)).mean(axis=1))
    low = np.where(((c > 0) & ~flat)[:, None], limits, np.inf).min(axis=2)
    high = np.where(((c < 0) & ~flat)[:, None], limits, -np.inf).max(axis=2)
    above = ((limits > 0) | (~flat | certain)[:, None]).all(axis=2)
    shares = above * np.maximum(0, scipy.special.ndtr(low) - scipy.special.ndtr(high))
    return np.asarray(held * shares.mean(axis=1))


def _rest(C: Floats, width: Floats) -> Floats:
    """Return points, (m, points, k), that stand for N(0, C)."""
    return np.asarray((_root(C, width) @ _normal_points(C.shape[1])).transpose(0, 2, 1))


def _root(C: Floats, width: Floats) -> Floats:
    """Return a root of C, (m, k, k), by Cholesky's method, the largest variance first.

    Variances that are next to nothing of ``width``, (m, 1), are rounding.
    """
    (m, k), left, everyone = C.shape[:2], C.copy(), np.arange(len(C))
    root, waits = np.zeros_like(C), np.ones((m, k), bool)
    for step in range(k):
        variances = np.where(waits, np.einsum("mii->mi", left), -1.0)
        largest = variances.max(axis=1)
        pivots = (variances >= _EQUAL * largest[:, None]).argmax(axis=1)
        wide = largest > 1e-13 * width[:, 0]
        sizes = np.sqrt(np.where(wide, variances[everyone, pivots], 1))
        column = np.where(waits & wide[:, None], left[everyone, pivots] / sizes[:, None], 0)
        root[:, :, step] = column
        waits[everyone, pivots] = False
        left -= column[:, :, None] * column[:, None, :]
    return root


@functools.cache
def _normal_points(n_dims: int) -> Floats:
    """Return points whose distribution is close to N(0, I), (n_dims, points): Sobol's sequence.

    Each coordinate is shifted and replaced by its rank, so that it is as even as can be.
    """
    n_points = _n_points(n_dims)
    places = scipy.stats.qmc.Sobol(n_dims, scramble=False).random(n_points)
    shifted = (places + np.sqrt(2) * np.arange(1, n_dims + 1)) % 1
    ranks = shifted.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    return np.ascontiguousarray(scipy.special.ndtri((ranks.T + 0.5) / n_points))


def _n_points(n_dims: int) -> int:
    """Return over how many points leads over ``n_dims`` other arms are integrated."""
    if n_dims == 1:
        return 1  # one direction is exact
    return _POINTS if n_dims < _MANY else _MORE_POINTS
