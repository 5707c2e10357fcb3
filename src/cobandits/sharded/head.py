"""The tasks of one shard: the shared policy, with a prior that is learned from all shards."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ClusterError, ConfigurationError
from cobandits.policies.shared import Shared, Snapshot
from cobandits.policies.shared.checkpoint import load
from cobandits.policies.shared.empirical_bayes import (
    Coordinates,
    DecomposedPrior,
    PriorFit,
)
from cobandits.policies.shared.empirical_bayes.likelihood import Information, MarginalLikelihood
from cobandits.policies.shared.empirical_bayes.rows import BlockRows, TaskSquares, busiest_slots
from cobandits.policies.shared.pending import pending_limit
from cobandits.policies.shared.refitting import under
from cobandits.policies.shared.state import Refit, State
from cobandits.policies.shared.transitions import stored
from cobandits.ragged import RaggedArms
from cobandits.sharded.messages import Fitted, Noted, Offer, Published, Spread

__all__ = ["Head"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Aside = TypeVar("Aside")


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
        if setting.setdefault("rewards", "gaussian") != "gaussian":
            raise ConfigurationError(
                f"shards learn rewards as any numbers: rewards must be 'gaussian', got "
                f"{setting['rewards']!r}; use Shared for others"
            )
        super().__init__(**setting)
        self._told = 0, 0  # changes that were noted: of all tasks, of single ones
        self._forget()

    def _forget(self) -> None:
        """Forget what was computed aside."""
        self._aside: Snapshot | None = None
        self._stage: _Stage | None = None
        self._rows = self._all_rows = BlockRows([])
        self._squares = TaskSquares(np.zeros(0), np.zeros(0))
        self._likelihood = MarginalLikelihood([], rho=1.0, center=np.zeros(0))
        self._found: Refit | None = None

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        if len(tasks):
            self._observe(*self._state.tasks.number(tasks), self._with_intercept(rows, rewards))

    def published_prior(self) -> DecomposedPrior | None:
        """Return the prior that decides, None before the first reward."""
        return self.prior

    def noted(self) -> Noted:
        """Return what is new since the last time."""
        found = self._news(self._state)
        self._told = len(self._state.changes), len(self._state.task_changes)
        return found

    def noted_prepared(self) -> Noted:
        """Return the same as it will be when what is prepared is installed."""
        return self._news(self._prepared.state)

    def _news(self, state: State) -> Noted:
        changes, changed = self._told
        tasks = state.tasks.tasks if len(state.task_changes) > changed else ()
        return Noted(
            room=pending_limit(len(state.tasks)) - state.n_pending,
            changes=len(state.changes) - changes,
            changed=tuple(tasks[place] for _, place in state.task_changes[changed:]),
        )

    def set_floor(self, floor: float) -> None:
        """Decide with another share of random decisions."""
        self.floor = floor

    def fit(self, setting: dict[str, Any]) -> Fitted:
        """Take the floor of all shards; refuse other parameters that are not as they are here."""
        for name, value in setting.items():
            if name != "floor" and (given := getattr(self, name)) != value:
                raise ConfigurationError(f"a shard has {name}={given!r}, all have {value!r}")
        self.floor = setting["floor"]
        return Fitted(self.noted().room, self.rewards, self.prior is not None)

    # ---- Files

    def restore(self, state: State) -> None:
        """Replace the state by one that was saved; its changes were noted before."""
        super().restore(state)
        self._told = len(state.changes), len(state.task_changes)

    def take_over(self, content: bytes) -> None:
        """Go on with what a file holds, under the parameters that there are."""
        with self._lock:
            self._forget()
            self.restore(load(io.BytesIO(content), lambda _, state: state))

    def saved(self) -> bytes:
        """Return all that was learned, as :meth:`save` writes it."""
        buffer = io.BytesIO()
        self.save(buffer)
        return buffer.getvalue()

    def saved_prepared(self) -> bytes:
        """Return the same as it will be when what is prepared is installed."""
        twin = Head(dim=self.dim, labels=self.labels, explore=self.explore, floor=self.floor)
        twin.restore(self._prepared.state)
        return twin.saved()

    # ---- A prior is learned: nothing that decides changes before the last step

    def stage(self, tasks: NDArray[Any], rows: Floats, rewards: Floats) -> None:
        """Hold new rewards aside; that takes no time."""
        with self._lock:
            numbered = self._state.tasks.number(tasks)
            self._aside = self._state.snapshot(*numbered, self._with_intercept(rows, rewards))

    def offer(self) -> Offer:
        """Store what is held aside, and say what the coordinates of a prior follow from."""
        snapshot = _there(self._aside)
        self._stage = _Stage(snapshot, stored(snapshot))
        state = self._stage.state
        return Offer(state.store.products(), state.selector.without_thetas)

    def take(self, coordinates: Coordinates) -> None:
        """Take the coordinates in which a prior is learned."""
        store = self._staged.state.store
        slots = busiest_slots(store, coordinates.dim)
        self._rows = self._all_rows = BlockRows.of(store, slots, coordinates)

    def spread(self, center: Doubles) -> Spread:
        """Return how large the rewards of the tasks here are, without a mean."""
        self._squares = found = self._all_rows.squares(center)
        return Spread(
            n_tasks=len(found.counts),
            largest=float(found.ratios.max(initial=0.0)),
            n_rows=float(found.counts.sum()),
            reward_squares=self._all_rows.reward_squares(),
        )

    def ratios_below(self, cuts: Doubles) -> Codes:
        """Return how many tasks have a mean square below each cut: medians by counting."""
        return np.searchsorted(np.sort(self._squares.ratios), cuts, side="left")

    def lighten(self, most: float) -> tuple[float, float]:
        """Give tasks less weight whose mean square is larger; return sums of squares and rows."""
        self._rows, squares, counts = self._all_rows.lightened(self._squares, most)
        return squares, counts

    def whiten(self, rho: float, center: Doubles, some: bool) -> tuple[float, float]:
        """Take a ratio of isotropic variance to noise; return sums of rows and squares there."""
        rows = self._rows.some() if some else self._rows
        self._likelihood = rows.likelihood(rho, center)
        return self._likelihood.n_rows, self._likelihood.squares()

    def value(self, L: Doubles, log_noise: float) -> tuple[float, Doubles, float]:
        """Return the part of the tasks here in the likelihood, and in its gradient."""
        return self._likelihood.value(L, log_noise)

    def information(self, L: Doubles, log_noise: float) -> Information:
        """Return what the rewards here say about thetas."""
        return self._likelihood.information(L, log_noise)

    def total(self, L: Doubles, log_noise: float) -> Doubles:
        """Return the sum of the information of the tasks here, times the noise, (p, p)."""
        return self._likelihood.total(L, log_noise)

    def nested(self, L: Doubles, log_noises: Doubles) -> Doubles:
        """Return the part of the tasks here in the likelihood under the first columns of L."""
        return self._likelihood.nested(L, log_noises)

    def prepare(self, published: Published) -> Doubles:
        """Learn every posterior under the published prior, aside.

        Returns by how much the fit moved predictions here, as sums over tasks, (2,).
        """
        (snapshot, state), best = self._staged, published.hyperparameters
        fit = PriorFit.to(self._all_rows.blocks, self._rows, published.priors, best)
        selector = replace(
            state.selector.following(best, fit),
            noise_share=published.noise_share,
            spread=published.spread,
        )
        self._found = under(snapshot, state, selector, fit)
        return fit.movement(best)

    def install_prepared(self) -> None:
        """Decide by the published prior from now on; what is new was asked for before."""
        self.install(self._prepared)
        self._forget()
        self.noted()

    @property
    def _staged(self) -> _Stage:
        return _there(self._stage)

    @property
    def _prepared(self) -> Refit:
        return _there(self._found)

    # ---- Decisions

    def answer(
        self, tasks: NDArray[Any], arms: Floats | RaggedArms, seed: int
    ) -> tuple[Codes, Floats]:
        """Return the chosen arms, (m,), and their probabilities."""
        found = self.decide(tasks, arms, np.random.default_rng(seed))
        return found.chosen, found.probabilities

    def largest_value(self) -> float:
        """Return the largest feature or reward that can be learned under the prior."""
        with self._lock:
            assert self._state.posteriors is not None
            return self._state.posteriors.largest_value

    def learn_rows(self, tasks: NDArray[Any], rows: Floats, rewards: Floats) -> Noted:
        """Learn from chosen arms, (m, d), that were checked, and their rewards."""
        with self._lock:
            self._learn_rows(tasks, rows, rewards)
            return self.noted()

    def thetas(self, tasks: NDArray[Any]) -> Doubles:
        """Return the thetas of tasks with their intercepts, (m, d + 1)."""
        with self._lock:
            posteriors = self._state.posteriors
            assert posteriors is not None
            return posteriors.thetas[self._state.tasks.find(tasks)]


def _there(aside: Aside | None) -> Aside:
    """Return what is held aside; another call may have forgotten it meanwhile."""
    if aside is None:
        raise ClusterError("this refit was given up: its shards went on without it")
    return aside
