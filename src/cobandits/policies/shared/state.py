"""The state of the shared policy, and its transitions.

:meth:`State.observe` learns a reward in place: it moves one posterior, after checks that leave
nothing to fail. All that takes longer is computed aside and returned as another state, which the
policy takes in one assignment: :func:`absorb` stores pending rewards and tests them for drift,
:func:`refit` learns the prior again. So an error or an interrupt leaves the state as it was; only
thetas that ``absorb`` learns again are written in place, at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.estimate import Estimate, Status
from cobandits.policies.shared import config
from cobandits.policies.shared.carry_over import carry_over
from cobandits.policies.shared.change import OnChange, return_evidence
from cobandits.policies.shared.drift import DriftDetector
from cobandits.policies.shared.empirical_bayes import (
    DecomposedPrior,
    HyperparameterSelector,
    fit_em,
)
from cobandits.policies.shared.pending import Pending, pending_limit
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore

__all__ = ["Refit", "Snapshot", "State", "absorb", "refit", "undone"]

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
    counts: Codes  # (T,), rewards per task
    full_counts: Codes  # (T,), the same when each theta was last learned in all directions
    lowest: float = np.inf  # reward so far
    highest: float = -np.inf  # reward so far
    pending: list[Pending] = field(default_factory=list)
    n_pending: int = 0  # rewards in pending
    seen: int = 0  # rewards since tasks last changed
    due: int = 1  # value of seen at which a refit is due
    rewards: int = 0  # in all
    changes: tuple[int, ...] = ()  # rewards in all at which tasks changed
    on_change: OnChange = "adapt"
    before: State | None = None  # kept from before the tasks changed
    return_evidence: float = 0.0  # that this predicts better

    @classmethod
    def fresh(cls, *, n_tasks: int, dim: int, on_change: OnChange = "adapt") -> State:
        """Return the state before the first reward."""
        return cls(
            store=RowStore.empty(n_tasks=n_tasks, dim=dim),
            selector=HyperparameterSelector(),
            detector=DriftDetector.fresh(n_tasks),
            posteriors=None,
            estimate=None,
            counts=np.zeros(n_tasks, np.int64),
            full_counts=np.zeros(n_tasks, np.int64),
            on_change=on_change,
        )

    def refit_due(self, n_rewards: int) -> bool:
        """Tell whether a refit is due with ``n_rewards`` more."""
        return n_rewards > 0 and (self.posteriors is None or self.seen + n_rewards >= self.due)

    @property
    def must_absorb(self) -> bool:
        """Whether so many rewards are pending that :func:`absorb` has to come first."""
        return self.n_pending >= pending_limit(len(self.counts))

    @property
    def deciding(self) -> State:
        """The state that decides: the kept one while all rewards since the change are equal."""
        return self.before if self.before is not None and self.lowest == self.highest else self

    def observe(self, tasks: Codes, F: Doubles) -> None:
        """Learn rows ``[phi, 1, y]`` in place, all or none; no refit may be due."""
        assert self.posteriors is not None
        self.pending.append(Pending(tasks.copy(), F, *self.posteriors.learn(tasks, F)))
        self.n_pending += len(tasks)
        self.rewards += len(tasks)
        self.count(tasks, F[:, -1])

    def count(self, tasks: Codes, rewards: Doubles) -> None:
        """Count the rewards, (m,), of tasks, (m,), and note their range."""
        np.add.at(self.counts, tasks, 1)
        numbers = rewards.tolist()
        self.lowest = min(self.lowest, *numbers)
        self.highest = max(self.highest, *numbers)
        self.seen += len(numbers)

    def snapshot(self, tasks: Codes, F: Doubles) -> Snapshot:
        """Return what a refit with these new rows ``[phi, 1, y]`` needs; it never changes."""
        if self.posteriors is None:
            squares, expected = np.zeros(len(F)), np.ones(len(F))
        else:
            squares, expected = self.posteriors.predict_errors(tasks, F)
        new = Pending(tasks.copy(), F, squares, expected)
        news = Pending.joined([*self.pending, new])
        state = replace(self, store=self.store.snapshot(), counts=self.counts.copy(), pending=[])
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
    other = _after_change(state, following, news, n_new=0)
    if other is not None:
        return other
    _relearn_grown(following, news.tasks)
    return following


def refit(snapshot: Snapshot) -> Refit:
    """Learn the prior from the stored rows and the new ones, and all posteriors under it.

    If the rewards say that tasks have changed, all is learned from the pending and the new ones
    alone. A pure function of the snapshot: it gives the same bits in any thread.
    """
    state, news, n_new = snapshot.state, snapshot.news, snapshot.n_new
    following = _compared(state, news)
    found = _after_change(state, following, news, n_new=n_new)
    if found is None:
        found = _refitted(following, news, n_new)
    return Refit(found, state.rewards, snapshot.origin)


def _compared(state: State, news: Pending) -> State:
    """Return the state after drift detection, scoring candidates, and storing rows."""
    detector, store, posteriors = state.detector, state.store, state.posteriors
    if posteriors is not None:
        n_active = int(np.count_nonzero(state.counts))
        detector = detector.after(news.tasks, news.squares, news.expected, n_active=n_active)
    selector = state.selector.scored(store.slots[news.tasks], news.rows)
    following = replace(
        state,
        detector=detector,
        selector=selector,
        store=store.added(news.tasks, news.rows),
        pending=[],
        n_pending=0,
    )
    if detector.raised and state.on_change == "alert":
        following.detector = DriftDetector.fresh(len(state.counts))
        following.changes = (*state.changes, state.rewards - state.n_pending)
    _compare_with_kept(following, news)
    return following


def _compare_with_kept(state: State, news: Pending) -> None:
    """Weigh whether the state from before a change predicts better, or drop it when it is old."""
    kept = state.before
    if kept is None:
        return
    theirs = _predicted_by(kept, news)
    gain = return_evidence(news.squares, theirs.squares, float(kept.detector.baseline[0]))
    state.return_evidence = max(0.0, state.return_evidence + gain)
    if state.seen >= kept.seen:
        state.before, state.return_evidence = None, 0.0


def _predicted_by(kept: State, news: Pending) -> Pending:
    """Return the same rewards with the errors of another state."""
    assert kept.posteriors is not None
    squares, expected = kept.posteriors.predict_errors(news.tasks, news.rows)
    return news._replace(squares=squares, expected=expected)


def _after_change(state: State, following: State, news: Pending, *, n_new: int) -> State | None:
    """Return the state after a change of the tasks, or None where ``following`` shows none."""
    if following.before is not None and following.return_evidence > config.RETURN_THRESHOLD:
        theirs = _predicted_by(following.before, news)
        found = _refitted(_compared(following.before, theirs), theirs, len(news.tasks))
        onset = 0
    elif following.detector.raised:
        fresh = State.fresh(
            n_tasks=len(state.counts), dim=state.store.width - 2, on_change=state.on_change
        )
        onset = state.detector.onset(news.squares, news.expected)
        recent = news.part(slice(onset, None))
        found = _refitted(_compared(fresh, recent), recent, len(recent.tasks))
        found.before = _kept(state, news, n_new, onset) if state.on_change == "adapt" else None
    else:
        return None
    changes = (*state.changes, state.rewards - state.n_pending + onset)
    return replace(found, rewards=state.rewards + n_new, changes=changes)


def _kept(state: State, news: Pending, n_new: int, onset: int) -> State:
    """Return what to keep from before a change: the state without it, or the one that it keeps.

    That is the one that has learned more. Where rewards are broken twice, the good state stays.
    """
    if state.before is not None and state.before.seen >= state.seen:
        return state.before
    assert state.posteriors is not None
    learned = len(news.tasks) - n_new  # of the news, in place
    counts, posteriors = state.counts.copy(), state.posteriors.copy()
    old = news.part(slice(onset))
    np.subtract.at(counts, news.tasks[:learned], 1)
    np.add.at(counts, old.tasks, 1)
    store = state.store.added(old.tasks, old.rows)
    slots = store.slots[np.unique(news.tasks)]
    posteriors.relearn(store, slots[slots >= 0])
    return replace(
        state,
        store=store,
        posteriors=posteriors,
        counts=counts,
        full_counts=np.minimum(state.full_counts, counts),
        seen=int(counts.sum()),
        pending=[],
        n_pending=0,
        before=None,
        return_evidence=0.0,
    )


def undone(state: State) -> State | None:
    """Return the state from before the last change, None where there is none."""
    if state.before is None:
        return None
    return replace(state.before, rewards=state.rewards, changes=(*state.changes, state.rewards))


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
        estimate=_estimate(posteriors),
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


def _estimate(posteriors: TaskPosteriors) -> Estimate:
    """Return the thetas of all tasks, without intercepts; the widest directions come first."""
    thetas = posteriors.thetas[:, :-1]
    basis, _ = np.linalg.qr(posteriors.batch.root[:-1, ::-1])
    return Estimate(
        basis=basis,
        weights=basis.T @ thetas.T,
        labels=tuple(range(len(thetas))),
        status=Status(outcome="converged", message="prior learned", iterations=1),
    )
