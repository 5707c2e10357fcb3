"""What becomes of a task that has changed alone: it starts again from the prior of all tasks.

Evidence that a task's errors have grown only nominates it. Then its rewards since the onset are
predicted once more, one after the other, as if it had been new at the onset. If that predicts them
clearly better than what was known of it, the rows from before the onset are dropped. So outliers
and noise change nothing, however large: a new task cannot predict them either.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import change_config
from cobandits.policies.shared.likelihoods import Likelihood, Working
from cobandits.policies.shared.pending import Pending
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.policies.shared.state import State
from cobandits.policies.shared.working_rows import learn_rewards, weighted_rows

__all__ = ["Restart", "before_new", "forgotten", "restarted_tasks", "set_restarted", "watched"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class Restart(NamedTuple):
    """A task that starts again: its rows since the onset, and the posterior that follows."""

    place: int
    rows: Doubles  # (k, d + 2), [phi, 1, y]
    posterior: TaskPosteriors  # of one task


def restarted_tasks(state: State, news: Pending) -> list[Restart]:
    """Return the tasks that changed alone, of those with enough evidence of it."""
    found = []
    for place in state.task_drift.raised.tolist():
        one = np.array([place])
        rows = _latest_rows(state, news, place, int(state.task_drift.since(one)[0]))
        if rows is None:
            continue
        assert state.posteriors is not None
        fresh = state.posteriors.fresh(1)
        squares, _ = learn_rewards(state.likelihood, fresh, np.zeros(len(rows), np.int64), rows)
        if squares.sum() < change_config.RESTART_SHARE * state.task_drift.squares(one)[0]:
            found.append(Restart(place, rows, fresh))
    return found


def watched(state: State, news: Pending) -> tuple[State, list[Restart]]:
    """Return the state after its evidence was looked at, and the tasks that start again.

    The errors of a task that is not found to have changed for long get a new baseline.
    With ``on_change="alert"`` none does: it is noted, and its errors get a new baseline.
    """
    if not len(raised := state.task_drift.raised):
        return state, []
    found = restarted_tasks(state, news)
    changed = np.array([one.place for one in found], np.int64)
    stale = raised[state.task_drift.since(raised) >= change_config.TASK_PATIENCE]
    state = replace(state, task_drift=state.task_drift.reset(np.union1d(changed, stale)))
    if found:
        state.task_changes = _noted(state, changed)
    return state, [] if state.on_change == "alert" else found


def before_new(state: State, found: list[Restart], new: Codes) -> list[Restart]:
    """Return tasks that start again, without their new rewards where a refit will teach these.

    That is where their rows are not stored. ``new``, (m,), are the tasks of these rewards.
    """
    n_new = np.bincount(new, minlength=len(state.counts))
    return [
        _without_last(state, one, int(n_new[one.place]))
        if state.store.slots[one.place] < 0 < n_new[one.place]
        else one
        for one in found
    ]


def forgotten(state: State, found: list[Restart], new: Codes) -> State:
    """Return the state without the rows of tasks from before they changed.

    ``new``, (m,), are the tasks of rewards that are stored, and not counted yet.
    """
    if not found:
        return state
    assert state.posteriors is not None
    places = np.array([one.place for one in found])
    kept = np.array([len(one.rows) for one in found])
    counts, full = state.counts.copy(), state.full_counts.copy()
    counts[places] = np.maximum(0, kept - np.bincount(new, minlength=len(counts))[places])
    full[places] = 0
    removed = int(state.counts.sum() - counts.sum())
    slots = state.store.slots[places]
    store = state.store.with_latest(slots[slots >= 0], kept[slots >= 0])
    return replace(
        state,
        store=_reweighted(state.likelihood, store, found),
        selector=state.selector.without(slots[slots >= 0]),
        forgetting=state.forgetting.without(places),
        forgetful=state.forgetful.without(places, slots),
        counts=counts,
        full_counts=full,
        seen=state.seen - removed,
        due=max(1, state.due - removed),
    )


def set_restarted(posteriors: TaskPosteriors, found: list[Restart]) -> None:
    """Set the posteriors of tasks that start again, in place; nothing is left to fail."""
    for place, _, fresh in found:
        posteriors.thetas[place], posteriors.noises[place] = fresh.thetas[0], fresh.noises[0]
        for name in ("means", "roots", "log_volumes"):
            getattr(posteriors.weights, name)[place] = getattr(fresh.weights, name)[0]


def _latest_rows(state: State, news: Pending, place: int, n: int) -> Doubles | None:
    """Return the last n rows ``[phi, 1, y]`` of a task, None where they are no longer known.

    That is where they were compressed. Of a task whose rows are not stored, only the news are.
    """
    slot = state.store.slots[place]
    if slot < 0:
        rows = news.rows[news.tasks == place][-n:]
        return rows if len(rows) == n else None
    owners, F = state.store.flat
    rows = F[np.flatnonzero(owners == slot)[-n:]]
    if len(rows) < n or (rows[:, -2] <= 0).any():
        return None
    found = rows / rows[:, -2:-1]
    found[:, -1] = state.likelihood.recovered(Working(found[:, -1].copy(), rows[:, -2] ** 2))
    return np.asarray(found)


def _without_last(state: State, one: Restart, n: int) -> Restart:
    """Return a task that starts again with a posterior that lacks its last n rows."""
    assert state.posteriors is not None
    rows, fresh = one.rows[: max(0, len(one.rows) - n)], state.posteriors.fresh(1)
    learn_rewards(state.likelihood, fresh, np.zeros(len(rows), np.int64), rows)
    return one._replace(posterior=fresh)


def _reweighted(likelihood: Likelihood, store: RowStore, found: list[Restart]) -> RowStore:
    """Return the store with rows of tasks that start again, weighted near their new thetas."""
    if not likelihood.weighs:
        return store
    (owners, _), F = store.flat, store.row_buffer.copy()
    for place, rows, fresh in found:
        if (slot := store.slots[place]) >= 0:
            everyone = np.zeros(len(rows), np.int64)
            F[: store.used][owners == slot] = weighted_rows(likelihood, fresh, everyone, rows)
    return replace(store, row_buffer=F)


def _noted(state: State, places: Codes) -> tuple[tuple[int, int], ...]:
    """Return the changes of single tasks so far, with these."""
    more = ((state.rewards, place) for place in places.tolist())
    return (*state.task_changes, *more)[-change_config.TASK_CHANGES_KEPT :]
