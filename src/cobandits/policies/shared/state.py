"""The state of the shared policy, and its transitions.

:meth:`State.observe` learns a reward in place: it moves one posterior, after checks that leave
nothing to fail. All that takes longer is computed aside and returned as another state, which the
policy takes in one assignment: :func:`absorb` stores pending rewards and tests them for drift,
:func:`refit` learns the prior again. So an error or an interrupt leaves the state as it was; only
thetas that ``absorb`` learns again are written in place, at its end.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.estimate import Estimate, Status
from cobandits.policies.shared import config
from cobandits.policies.shared.carry_over import carry_over
from cobandits.policies.shared.drift import DriftDetector
from cobandits.policies.shared.empirical_bayes import (
    DecomposedPrior,
    HyperparameterSelector,
    fit_em,
)
from cobandits.policies.shared.pending import Pending, pending_limit
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.policies.task_index import TaskIndex, room_for

__all__ = ["Refit", "Snapshot", "State", "absorb", "refit"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(kw_only=True, eq=False, slots=True)
class State:
    """All that was learned from the rewards since the tasks last changed."""

    store: RowStore
    selector: HyperparameterSelector
    detector: DriftDetector
    posteriors: TaskPosteriors | None  # None before the first reward
    estimate: Estimate | None  # the thetas of the last refit
    tasks: TaskIndex  # T of them, by place
    reserved: int | None  # tasks that are expected
    counts: Codes  # (room,), rewards per place; there is room for more places than tasks
    full_counts: Codes  # (room,), the same when each theta was last learned in all directions
    lowest: float = np.inf  # reward so far
    highest: float = -np.inf  # reward so far
    pending: list[Pending] = field(default_factory=list)
    n_pending: int = 0  # rewards in pending
    seen: int = 0  # rewards since tasks last changed
    due: int = 1  # value of seen at which a refit is due
    rewards: int = 0  # in all
    changes: tuple[int, ...] = ()  # rewards in all at which tasks changed

    @classmethod
    def fresh(
        cls, *, dim: int, reserved: int | None = None, tasks: TaskIndex | None = None
    ) -> State:
        """Return the state before the first reward of any task."""
        tasks = TaskIndex() if tasks is None else tasks
        room = room_for(len(tasks), reserved)
        return cls(
            store=RowStore.empty(n_tasks=room, dim=dim),
            selector=HyperparameterSelector(),
            detector=DriftDetector(),
            posteriors=None,
            estimate=None,
            tasks=tasks,
            reserved=reserved,
            counts=np.zeros(room, np.int64),
            full_counts=np.zeros(room, np.int64),
        )

    def grow(self, n_tasks: int) -> None:
        """Make room for so many tasks and one more place; nothing that is known changes."""
        room, before = room_for(n_tasks, self.reserved), len(self.counts)
        if room <= before:
            return
        self.store = self.store.with_tasks(room)
        if self.posteriors is not None:
            self.posteriors.grow(room)
        more = np.zeros(room - before, np.int64)
        self.counts = np.concatenate([self.counts, more])
        self.full_counts = np.concatenate([self.full_counts, more])

    def refit_due(self, n_rewards: int) -> bool:
        """Tell whether a refit is due with ``n_rewards`` more."""
        return n_rewards > 0 and (self.posteriors is None or self.seen + n_rewards >= self.due)

    @property
    def must_absorb(self) -> bool:
        """Whether so many rewards are pending that :func:`absorb` has to come first."""
        return self.n_pending >= pending_limit(len(self.tasks))

    def observe(self, places: Codes, new: tuple[Hashable, ...], F: Doubles) -> None:
        """Learn rows ``[phi, 1, y]`` in place, all or none; no refit may be due.

        ``new`` are the tasks that get their first reward, in the order of their places.
        """
        assert self.posteriors is not None
        if new:
            self.grow(len(self.tasks) + len(new))
        self.pending.append(Pending(places.copy(), F, *self.posteriors.learn(places, F)))
        if new:
            self.tasks.add(new)
        self.n_pending += len(places)
        self.rewards += len(places)
        self.count(places, F[:, -1])

    def count(self, places: Codes, rewards: Doubles) -> None:
        """Count the rewards, (m,), of tasks, (m,), and note their range."""
        np.add.at(self.counts, places, 1)
        numbers = rewards.tolist()
        self.lowest = min(self.lowest, *numbers)
        self.highest = max(self.highest, *numbers)
        self.seen += len(numbers)

    def snapshot(self, places: Codes, new: tuple[Hashable, ...], F: Doubles) -> Snapshot:
        """Return what a refit with these new rows ``[phi, 1, y]`` needs; it never changes."""
        self.grow(len(self.tasks) + len(new))
        if self.posteriors is None:
            squares, expected = np.zeros(len(F)), np.ones(len(F))
        else:
            squares, expected = self.posteriors.predict_errors(places, F)
        news = Pending.joined([*self.pending, Pending(places.copy(), F, squares, expected)])
        tasks = self.tasks.copy()
        tasks.add(new)
        state = replace(
            self, tasks=tasks, store=self.store.snapshot(), counts=self.counts.copy(), pending=[]
        )
        if self.posteriors is not None and self.store.may_drop(len(news.tasks)):
            state.posteriors = self.posteriors.copy()  # a refit needs those of dropped tasks
        return Snapshot(self, state, news, len(F))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that :func:`refit` needs: a state, and the rewards that make a refit due."""

    origin: State  # the live one; a refit does not look at it
    state: State
    news: Pending  # pending rewards, and then the new ones
    n_new: int


@dataclass(frozen=True, eq=False)
class Refit:
    """The result of :func:`refit`: a state, and what it follows on."""

    state: State
    after: int  # rewards in all
    origin: State  # the state that the snapshot was taken of


def absorb(state: State) -> State:
    """Return the state with its pending rewards stored and tested for drift.

    Where a task has had a quarter more rewards, and a few, since its theta was last learned in all
    directions, it is learned so again. If all tasks ask equally often, a refit comes first.
    """
    news = Pending.joined(state.pending)
    following = _compared(state, news)
    if following.detector.raised:
        return _started_over(state, news, n_new=0)
    _relearn_grown(following, news.tasks)
    return following


def refit(snapshot: Snapshot) -> Refit:
    """Learn the prior from the stored rows and the new ones, and all posteriors under it.

    If the rewards say that tasks have changed, all is learned from the pending and the new ones
    alone. A pure function of the snapshot: it gives the same bits in any thread.
    """
    state, news, n_new = snapshot.state, snapshot.news, snapshot.n_new
    following = _compared(state, news)
    if following.detector.raised:
        return Refit(_started_over(state, news, n_new=n_new), state.rewards, snapshot.origin)
    return Refit(_refitted(following, news, n_new), state.rewards, snapshot.origin)


def _compared(state: State, news: Pending) -> State:
    """Return the state after drift detection, scoring candidates, and storing rows."""
    detector, store, posteriors = state.detector, state.store, state.posteriors
    if posteriors is not None:
        n_active = int(np.count_nonzero(state.counts))
        detector = detector.after(news.tasks, news.squares, news.expected, n_active=n_active)
    selector = state.selector.scored(store.slots[news.tasks], news.rows)
    store = store.added(news.tasks, news.rows)
    return replace(
        state, detector=detector, selector=selector, store=store, pending=[], n_pending=0
    )


def _started_over(state: State, news: Pending, *, n_new: int) -> State:
    """Return a state that has forgotten all but ``news``, since tasks have changed."""
    settled = state.rewards - state.n_pending
    fresh = State.fresh(
        dim=state.store.width - 2, reserved=state.reserved, tasks=state.tasks.copy()
    )
    following = _refitted(_compared(fresh, news), news, len(news.tasks))
    changes = (*state.changes, settled)
    return replace(following, rewards=state.rewards + n_new, changes=changes)


def _refitted(state: State, news: Pending, n_new: int) -> State:
    """Return the state with a prior learned from its rows; counts the last ``n_new`` of news."""
    seen = state.seen + n_new
    due = int(np.ceil(seen * config.REFIT_GROWTH))
    store = state.store.compressed(config.COMPRESSION * state.store.width).sorted()
    best = state.selector.best()
    try:
        fit = fit_em(store, state.selector.prior, best)
        selector = state.selector.following(best, fit)
        posteriors = TaskPosteriors.of(store, DecomposedPrior.of(fit.under(best)))
        _learn_dropped(posteriors, state, store.dropped, news, n_new)
    except np.linalg.LinAlgError as error:
        raise DataError(
            f"features or rewards differ too much in size to be learned from ({error}); "
            "scale them to about 1"
        ) from error
    following = replace(
        state,
        store=store.with_room(max(0, min(due - seen, store.most - store.used))),
        selector=selector,
        posteriors=posteriors,
        estimate=_estimate(posteriors, state.tasks),
        counts=state.counts.copy(),
        due=due,
        rewards=state.rewards + n_new,
    )
    following.count(news.tasks[-n_new:], news.rows[-n_new:, -1])
    following.full_counts = following.counts.copy()
    return following


def _learn_dropped(
    posteriors: TaskPosteriors, state: State, dropped: Codes, news: Pending, n_new: int
) -> None:
    """Carry over the posteriors of dropped tasks, and teach them their new rewards."""
    if not len(dropped):
        return
    if state.posteriors is not None:
        known = dropped[state.posteriors.weights.log_volumes[dropped] > 0]
        carry_over(posteriors, state.posteriors, known)
    unlearned = np.flatnonzero(np.isin(news.tasks[-n_new:], dropped)) - n_new
    posteriors.learn(news.tasks[unlearned], news.rows[unlearned])


def _relearn_grown(state: State, tasks: Codes) -> None:
    """Learn thetas in all directions where tasks have had many more rewards since last time."""
    posteriors, store, counts = state.posteriors, state.store, state.counts
    if posteriors is None or not posteriors.is_reduced:
        return
    enough = config.REFIT_GROWTH * state.full_counts[tasks] + config.EXTRA_REWARDS
    grown = np.unique(tasks[counts[tasks] > enough])
    if len(grown):
        slots = np.sort(store.slots[grown])
        slots = slots[slots >= 0]
        relearned, found = store.tasks[slots], list(posteriors.relearned(store, slots))
        for part in found:  # in place, now that nothing is left to fail
            posteriors.set_part(part)
        state.full_counts[relearned] = counts[relearned]


def _estimate(posteriors: TaskPosteriors, tasks: TaskIndex) -> Estimate:
    """Return the thetas of all tasks, without intercepts; the widest directions come first."""
    thetas = posteriors.thetas[: len(tasks), :-1]
    basis, _ = np.linalg.qr(posteriors.batch.root[:-1, ::-1])
    return Estimate(
        basis=basis,
        weights=basis.T @ thetas.T,
        labels=tasks.tasks,
        status=Status(outcome="converged", message="prior learned", iterations=1),
    )
