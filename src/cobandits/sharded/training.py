"""The prior of all tasks, learned from sums over shards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import (
    Coordinates,
    DecomposedPrior,
    Hyperparameters,
    Prior,
)
from cobandits.policies.shared.empirical_bayes.em import EMStatistics, prior_of, settled
from cobandits.policies.shared.empirical_bayes.expectation import (
    ESums,
    e_statistics,
    shrunken_moment,
)
from cobandits.policies.shared.empirical_bayes.mean import with_mean
from cobandits.policies.shared.empirical_bayes.selection import best_of
from cobandits.sharded.head import Counts, Moments, Offer, Published
from cobandits.sharded.heads import Heads

__all__ = ["ShardRows", "call", "learn_prior", "median_by_counting"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_CUTS = 64  # values that are compared with in each round of counting


def call(heads: Heads, method: str, *arguments: object) -> list[Any]:
    """Call a method of every shard with the same arguments."""
    return heads.each(method, [arguments] * len(heads))


class Summed(NamedTuple):
    """The products of rows that are on several shards."""

    total: Doubles

    def products(self) -> Doubles:
        """Return the products of all rows."""
        return self.total


class ShardRows:
    """The rows of all shards, as EM asks for them: a call of every shard for each sum."""

    def __init__(self, heads: Heads, base: Prior) -> None:
        self._heads = heads
        found: list[Counts] = call(heads, "take", base)
        self.n_tasks = sum(one.n_tasks for one in found)
        self.n_rows = sum(one.n_rows for one in found)
        self.n_own = max(one.n_rows for one in found)
        self._n_learned = sum(one.n_learned for one in found)
        self._products = sum(one.feature_products for one in found)

    def e_step(self, prior: Prior) -> EMStatistics:
        """Return the statistics of all posteriors."""
        sums = ESums(*_added(call(self._heads, "e_sums", Moments.of(prior))))
        return e_statistics(sums, prior, self._robust)

    def mean_step(self, prior: Prior) -> Prior:
        """Return the prior with the mean that has most evidence."""

        def summed() -> tuple[Doubles, Doubles]:
            G, g = _added(call(self._heads, "information", Moments.of(prior)))
            return G, g

        return with_mean(prior, self.n_tasks, summed)

    def feature_second_moment(self) -> Doubles:
        """Return the second moment of the features, (p, p)."""
        return shrunken_moment(np.asarray(self._products), self._n_learned)

    def _robust(self, which: int, mean: float) -> float:
        """Return the mean ratio, at most a multiple of the median; one count tells which."""

        def below(cuts: Doubles) -> Codes:
            counts = call(self._heads, "ratios_below", which, cuts)
            return np.asarray(np.sum(counts, axis=0))

        (fewer,) = below(np.array([mean / config.OUTLIER_RATIO])).tolist()
        if 2 * fewer < self.n_tasks:
            return mean
        return min(mean, config.OUTLIER_RATIO * median_by_counting(below, self.n_tasks)) or mean


def learn_prior(heads: Heads, offers: Sequence[Offer], start: Prior | None) -> DecomposedPrior:
    """Learn the prior of all tasks and have every shard prepare it.

    Shards must have staged the rows. Returns the prior that they will decide by.
    """
    rows = Summed(np.sum([offer.products for offer in offers], axis=0))
    coordinates = Coordinates.of(rows)
    base = Prior.vague(rows) if start is None else start.in_coordinates(coordinates)
    known = [offer.errors for offer in offers if offer.errors is not None]
    best = best_of(np.sum(known, axis=0)) if known else Hyperparameters()
    over = ShardRows(heads, base)
    fitted, statistics = prior_of(over, base, best)
    prior = settled(over, fitted, statistics, best)
    published = Published(
        fitted=Moments.of(fitted),
        statistics=statistics,
        hyperparameters=best,
        moments=Moments.of(prior),
        feature_second_moment=fitted.feature_second_moment,
    )
    call(heads, "prepare", published)
    return DecomposedPrior.of(prior)


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
