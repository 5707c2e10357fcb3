"""The tasks of one shard: the shared policy, with a prior that is learned from all shards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.policies.shared import Shared, Snapshot
from cobandits.policies.shared.empirical_bayes import (
    DecomposedPrior,
    EMFit,
    Hyperparameters,
    Prior,
)
from cobandits.policies.shared.empirical_bayes.em import EMStatistics
from cobandits.policies.shared.empirical_bayes.expectation import BlockRows, ESums, e_sums
from cobandits.policies.shared.empirical_bayes.mean import information
from cobandits.policies.shared.policy import with_intercept
from cobandits.policies.shared.state import Refit, State
from cobandits.policies.shared.transitions import stored, under

__all__ = ["Counts", "Head", "Moments", "Offer", "Published"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class Moments(NamedTuple):
    """What changes of a prior in an iteration: all that a shard is sent for its E-step."""

    covariance: Doubles  # (p, p)
    mean: Doubles  # (p,)
    offset: float
    noise: float

    @classmethod
    def of(cls, prior: Prior) -> Moments:
        """Return the moments of a prior."""
        return cls(prior.covariance, prior.mean, prior.offset, prior.noise)

    def under(self, prior: Prior) -> Prior:
        """Return the prior with these moments."""
        return replace(prior, **self._asdict())


class Offer(NamedTuple):
    """What a shard says before a prior is learned."""

    products: Doubles  # (d + 2, d + 2), of its rows
    errors: Doubles | None  # of the candidates of each hyperparameter; None without predictions


class Counts(NamedTuple):
    """How much a shard adds to the E-step; counts of several shards are added."""

    n_tasks: int
    n_rows: int
    n_learned: float
    feature_products: Doubles  # (p, p)


class Published(NamedTuple):
    """A prior that was learned from all shards."""

    fitted: Moments  # before hyperparameters were selected; the next fit starts from it
    statistics: EMStatistics
    hyperparameters: Hyperparameters
    moments: Moments  # the prior that decides
    feature_second_moment: Doubles  # (p, p)


class _Stage(NamedTuple):
    """What is computed aside until a prior is installed."""

    snapshot: Snapshot
    state: State


class Head(Shared):
    """The shared policy for the tasks of one shard.

    It learns rewards by itself, and refits never: :class:`~cobandits.sharded.ShardedShared` has it
    :meth:`stage` new rewards, asks it for the sums of every step, and has it :meth:`install` the
    prior that all shards agree on. A change of the tasks is noted in :attr:`changes`; learning
    goes on.
    """

    def __init__(self, **setting: Any) -> None:
        if setting.setdefault("on_change", "alert") != "alert":
            raise ConfigurationError(
                f"shards learn on when tasks change: on_change must be 'alert', got "
                f"{setting['on_change']!r}"
            )
        super().__init__(**setting)
        self._stage: _Stage | None = None
        self._rows = BlockRows([], 0, 0.0)
        self._base: Prior | None = None  # in the coordinates of the prior that is being learned
        self._ratios: Doubles = np.zeros((2, 0))
        self._found: Refit | None = None

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        if len(tasks):
            self._observe(*self._state.tasks.number(tasks), with_intercept(rows, rewards))

    def fitted_prior(self) -> Prior | None:
        """Return the prior that the next fit starts from, None before the first."""
        return self._state.selector.prior

    def published_prior(self) -> DecomposedPrior | None:
        """Return the prior that decides, None before the first reward."""
        return self.prior

    def changes_so_far(self) -> tuple[int, ...]:
        """Return after how many rewards the tasks here were found to have changed."""
        return self.changes

    # ---- A prior is learned: nothing that decides changes before the last step

    def stage(self, tasks: NDArray[Any], rows: Floats, rewards: Floats) -> Offer:
        """Store new rewards aside, and say what the coordinates of a prior follow from."""
        with self._lock:
            numbered = self._state.tasks.number(tasks)
            snapshot = self._state.snapshot(*numbered, with_intercept(rows, rewards))
            self._stage = _Stage(snapshot, stored(snapshot))
        selector = self._stage.state.selector
        errors = selector.errors if len(selector.thetas) else None
        return Offer(self._stage.state.store.products(), errors)

    def take(self, base: Prior) -> Counts:
        """Take the prior from which learning starts; return how many rows it is learned from."""
        store, p = self._staged.state.store, base.coordinates.dim
        self._base, self._rows = base, BlockRows.of(store, base.coordinates)
        rows = self._rows
        products = rows.feature_products() if rows.blocks else np.zeros((p, p))
        return Counts(rows.n_tasks, rows.n_rows, rows.n_learned, products)

    def e_sums(self, moments: Moments) -> ESums:
        """Return the sums of the E-step over the tasks here."""
        assert self._base is not None
        sums, self._ratios = e_sums(self._rows.blocks, moments.under(self._base))
        return sums

    def ratios_below(self, which: int, cuts: Doubles) -> Codes:
        """Return how many of the last E-step's ratios are below each cut: medians by counting."""
        return np.searchsorted(np.sort(self._ratios[which]), cuts, side="left")

    def information(self, moments: Moments) -> tuple[Doubles, Doubles]:
        """Return what the rows here say of a mean in common."""
        assert self._base is not None
        return information(self._rows.blocks, moments.under(self._base))

    def prepare(self, published: Published) -> None:
        """Learn every posterior under the published prior, aside."""
        assert self._base is not None
        snapshot, state = self._staged
        base = replace(self._base, feature_second_moment=published.feature_second_moment)
        fitted, chosen = published.fitted.under(base), published.hyperparameters
        selector = state.selector
        if self._rows.blocks:
            selector = selector.following(chosen, EMFit(fitted, published.statistics, self._rows))
        else:
            selector = replace(selector, hyperparameters=chosen, prior=fitted)
        prior = DecomposedPrior.of(published.moments.under(base))
        self._found = under(snapshot, state, selector, prior)

    def install_prepared(self) -> None:
        """Decide by the published prior from now on."""
        assert self._found is not None
        self.install(self._found)
        self._stage = self._base = self._found = None
        self._rows, self._ratios = BlockRows([], 0, 0.0), np.zeros((2, 0))

    @property
    def _staged(self) -> _Stage:
        assert self._stage is not None
        return self._stage

    # ---- Decisions

    def answer(self, tasks: NDArray[Any], arms: Floats, seed: int) -> tuple[Codes, Floats]:
        """Return the chosen arms, (m,), and their probabilities."""
        found = self.decide(tasks, arms, np.random.default_rng(seed))
        return found.chosen, found.probabilities

    def largest_value(self) -> float:
        """Return the largest feature or reward that can be learned under the prior."""
        with self._lock:
            assert self._state.posteriors is not None
            return self._state.posteriors.largest_value

    def learn_rows(self, tasks: NDArray[Any], rows: Floats, rewards: Floats) -> None:
        """Learn from chosen arms, (m, d), that were checked, and their rewards."""
        with self._lock:
            self._learn_rows(tasks, rows, rewards)

    def thetas(self, tasks: NDArray[Any]) -> Doubles:
        """Return the thetas of tasks with their intercepts, (m, d + 1)."""
        with self._lock:
            posteriors = self._state.posteriors
            assert posteriors is not None
            return posteriors.thetas[self._state.tasks.find(tasks)]
