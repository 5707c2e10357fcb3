"""The prior of all tasks, learned from sums over shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import DecomposedPrior
from cobandits.policies.shared.empirical_bayes.fit import fit_both, start_of
from cobandits.policies.shared.empirical_bayes.fitted import FittedPriors, unexplained_share
from cobandits.policies.shared.empirical_bayes.likelihood import Information
from cobandits.policies.shared.empirical_bayes.rows import Scale, least_variance
from cobandits.sharded.messages import Offer, Published, Spread

__all__ = ["Called", "LearnedPrior", "ShardRows", "call", "learn_prior", "median_by_counting"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_CUTS = 64  # values that are compared with in each round of counting


class Called(Protocol):
    """Shards that can be called."""

    def __len__(self) -> int:
        """Return how many shards there are."""

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard with its own arguments."""


def call(heads: Called, method: str, *arguments: object) -> list[Any]:
    """Call a method of every shard with the same arguments."""
    return heads.each(method, [arguments] * len(heads))


class Summed(NamedTuple):
    """The products of rows that are on several shards."""

    total: Doubles

    def products(self) -> Doubles:
        """Return the products of all rows."""
        return self.total


class ShardLikelihood:
    """The marginal likelihood of the rewards of all shards: a call of each for every sum."""

    def __init__(self, heads: Called, rho: float, center: Doubles, *, some: bool) -> None:
        self._heads = heads
        self.n_rows: float
        self._squares: float
        self.n_rows, self._squares = _added(call(heads, "whiten", rho, center, some))

    def value(self, L: Doubles, log_noise: float) -> tuple[float, Doubles, float]:
        """Return ``-log p`` but for a constant, its gradient in L, (p, q), and in the log noise."""
        value, gradient, in_noise = _added(call(self._heads, "value", L, log_noise))
        return value, gradient, in_noise

    def information(self, L: Doubles, log_noise: float) -> Information:
        """Return what the rewards say about thetas under L and the noise."""
        return Information(*_added(call(self._heads, "information", L, log_noise)))

    def total(self, L: Doubles, log_noise: float) -> Doubles:
        """Return the sum of ``s Z_t' K_t^-1 Z_t``, (p, p)."""
        return np.asarray(np.sum(call(self._heads, "total", L, log_noise), axis=0))

    def nested(self, L: Doubles, log_noises: Doubles) -> Doubles:
        """Return ``-log p`` but for a constant, under the first columns of L, of each noise."""
        return np.asarray(np.sum(call(self._heads, "nested", L, log_noises), axis=0))

    def squares(self) -> float:
        """Return the sum of ``|x_t|^2``."""
        return self._squares


class ShardRows:
    """The rows of all shards, as a fit asks for them.

    A shard whitens its rows for one likelihood at a time, the last that was asked for.
    """

    def __init__(self, heads: Called, *, some: bool = False) -> None:
        self._heads, self._some = heads, some

    def some(self) -> ShardRows:
        """Return the rows of the first tasks of each shard."""
        return ShardRows(self._heads, some=True)

    def likelihood(self, rho: float, center: Doubles) -> ShardLikelihood:
        """Return the likelihood at a ratio of isotropic variance to noise, and a mean, (p,)."""
        return ShardLikelihood(self._heads, rho, center, some=self._some)

    def without_outliers(self, center: Doubles) -> tuple[ShardRows, Scale]:
        """Have shards give tasks with outliers less weight; return how many rows, and how large.

        A task has outliers if its mean square is far above the median. One count tells whether
        any has; only then the median is searched for.
        """
        found: list[Spread] = call(self._heads, "spread", center)
        n_tasks, largest = sum(one.n_tasks for one in found), max(one.largest for one in found)

        def below(cuts: Doubles) -> Codes:
            return np.asarray(np.sum(call(self._heads, "ratios_below", cuts), axis=0))

        least = least_variance(
            sum(one.reward_squares for one in found), sum(one.n_rows for one in found)
        )
        most = np.inf
        if 2 * below(np.array([largest / config.OUTLIER_RATIO]))[0] >= n_tasks:
            most = config.OUTLIER_RATIO * median_by_counting(below, n_tasks)
        squares, n_rows = _added(call(self._heads, "lighten", most if most > least else np.inf))
        return self, Scale(max(least, squares / n_rows), n_rows)


class LearnedPrior(NamedTuple):
    """The prior that shards are prepared to decide by."""

    prior: DecomposedPrior
    growth: float  # of the number of rewards until the next refit, as a factor


def learn_prior(heads: Called, offers: Sequence[Offer]) -> LearnedPrior:
    """Learn the prior of all tasks and have every shard prepare it.

    Shards must have staged the rows.
    """
    rows = Summed(np.sum([offer.products for offer in offers], axis=0))
    selector = offers[0].selector.joined([offer.selector for offer in offers[1:]])
    best = selector.best(rows)
    start = start_of(rows, selector.start(best))
    call(heads, "take", start.shared.coordinates)
    shared, alone = fit_both(ShardRows(heads), start, best, least_noise=selector.least_noise)
    priors = FittedPriors(shared=shared.prior, alone=alone.prior)
    prior = priors.under(best)
    spread = selector.next_spread(prior.noise)
    movement = call(heads, "prepare", Published(priors, best, selector.next_share, spread))
    unexplained = unexplained_share(rows, selector.recent_error)
    growth = priors.shared.growth(np.sum(movement, axis=0), unexplained=unexplained)
    scaled = replace(selector, spread=spread).scaled(prior)
    return LearnedPrior(DecomposedPrior.of(scaled), growth)


def median_by_counting(below: Callable[[Doubles], Codes], n: int) -> float:
    """Return the median of ``n`` numbers from 0 on, exactly, by counting those below cuts.

    Numbers from 0 on are ordered as their bits are, so a search over the 2^63 bit patterns with 64
    cuts at a time ends after eleven rounds.

    >>> values = np.array([0.5, 3.0, 1e9, 0.0])
    >>> median_by_counting(lambda cuts: np.searchsorted(np.sort(values), cuts), 4)
    1.75
    """
    return 0.5 * _smallest(below, (n - 1) // 2) + 0.5 * _smallest(below, n // 2)


def _smallest(below: Callable[[Doubles], Codes], rank: int) -> float:
    """Return the number of this rank, from 0 for the smallest."""
    low, high = 0, int(np.array(np.inf).view(np.int64))  # low <= the answer's bits < high
    while high - low > 1:
        step = -(-(high - low) // _CUTS)
        bits = np.arange(low + step, high, step, dtype=np.int64)
        if not len(bits):
            break
        enough = below(bits.view(np.float64)) > rank  # the answer is below the cut
        first = int(enough.argmax()) if enough.any() else len(bits)
        low, high = (
            low if first == 0 else int(bits[first - 1]),
            int(bits[first]) if first < len(bits) else high,
        )
    return float(np.array(low, np.int64).view(np.float64))


def _added(parts: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the sum of tuples, entry by entry."""
    return reduce(lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)), parts)
