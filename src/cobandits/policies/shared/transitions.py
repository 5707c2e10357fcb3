"""From one state to the next: rewards are stored and tested for drift, and the prior is learned.

All is computed aside and returned as another state, which the policy takes in one assignment:
:func:`absorb` stores pending rewards and tests them for drift, :func:`refit` learns the prior
again. So an error or an interrupt leaves the state as it was; only thetas that ``absorb`` learns
again are written in place, at its end.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import change_config, config, reward_config
from cobandits.policies.shared.change import return_evidence
from cobandits.policies.shared.drift import DriftDetector
from cobandits.policies.shared.empirical_bayes import HyperparameterSelector
from cobandits.policies.shared.likelihoods import LIKELIHOODS
from cobandits.policies.shared.mending import before_new, forgotten, set_restarted, watched
from cobandits.policies.shared.pending import Pending
from cobandits.policies.shared.posteriors import PosteriorPart, TaskPosteriors
from cobandits.policies.shared.refitting import refitted, sorted_rows
from cobandits.policies.shared.reward_kinds import decided, taken_for
from cobandits.policies.shared.state import Refit, Snapshot, State
from cobandits.policies.shared.task_drift import TaskDrift, is_general
from cobandits.policies.shared.working_rows import (
    n_outliers,
    predict_errors,
    weighted_rows,
)
from cobandits.threads import one_thread

__all__ = ["absorb", "refit", "stored", "undone"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


def absorb(state: State) -> State:
    """Return the state with its pending rewards stored and tested for drift.

    Where a task has had half as many rewards again, and a few, since its theta was last learned in
    all directions, it is learned so again.
    """
    news = Pending.joined(state.pending)
    following = _compared(state, news)
    other = _after_change(state, following, news, n_new=0)
    if other is not None:
        return other
    following, restarts = watched(following, news)
    following = forgotten(following, restarts, news.tasks[:0])
    if following.posteriors is not None:
        parts = _relearned(following, following.posteriors, news.tasks)
        set_restarted(following.posteriors, restarts)  # in place, now that nothing is left to fail
        _set_relearned(following, following.posteriors, parts)
    if following.on_change == "adapt" and following.forgetting.is_late:
        following.due = min(following.due, following.seen)
    return following


@one_thread()
def refit(snapshot: Snapshot) -> Refit:
    """Learn the prior from the stored rows and the new ones, and all posteriors under it.

    If the rewards say that tasks have changed, all is learned from the pending and the new ones
    alone. A pure function of the snapshot: it gives the same bits in any thread.
    """
    state, news, n_new = snapshot.state, snapshot.news, snapshot.n_new
    if not state.likelihood.admits(news.rows[:, -1]):
        state = taken_for(state, LIKELIHOODS["gaussian"])
    following = _compared(state, news)
    found = None
    if state is snapshot.state:
        found = _after_change(state, following, news, n_new=n_new)
    if found is None:
        following = _mended(following, news, news.tasks[len(news.tasks) - n_new :])
        found = refitted(decided(following, news), news, n_new)
    return Refit(found, state.rewards, snapshot.origin)


def _mended(state: State, news: Pending, new: Codes) -> State:
    """Return the state with tasks that changed alone started again, and nothing left in place.

    ``new``, (m,), are the tasks of rewards that are not counted yet.
    """
    state, restarts = watched(state, news)
    restarts = before_new(state, restarts, new)
    state = forgotten(state, restarts, new)
    if restarts and state.posteriors is not None:
        state.posteriors = state.posteriors.copy()
        set_restarted(state.posteriors, restarts)
    return replace(state, task_drift=state.task_drift.written())


def _compared(state: State, news: Pending) -> State:
    """Return the state after drift detection, scoring candidates, and storing rows."""
    store, posteriors = state.store, state.posteriors
    detector, task_drift = _tested(state, news)
    likelihood = state.likelihood
    rows = weighted_rows(likelihood, posteriors, news.tasks, news.rows)
    selector = _scored(state, news, rows)
    following = replace(
        state,
        forgetting=state.forgetting.scored(likelihood, news, float(detector.baseline[0])),
        detector=detector,
        task_drift=task_drift,
        selector=selector,
        store=store.added(news.tasks, rows),
        pending=[],
        n_pending=0,
    )
    if not likelihood.weighs and not state.whole and state.seen >= reward_config.FEWEST_TO_TELL:
        following.judged += len(news.tasks)
        following.outliers += n_outliers(news.squares, news.expected, news.rows[:, -1])
    if state.on_change == "alert" and _all_changed(state, following, news):
        following.detector = DriftDetector()
        following.changes = (*state.changes, state.rewards - state.n_pending)
    _compare_with_kept(following, news)
    return following


def _tested(state: State, news: Pending) -> tuple[DriftDetector, TaskDrift]:
    """Return the tests for drift, of all tasks and of each, after the errors of rewards."""
    detector, task_drift = state.detector, state.task_drift
    if state.posteriors is None:
        return detector, task_drift
    n_active = int(np.count_nonzero(state.counts))
    errors = news.tasks, news.resolved_squares, news.expected
    if n_active > 1 and detector.rows >= change_config.DRIFT_LEAST_ROWS:
        task_drift = task_drift.after(*errors, usual=detector.baseline)
    else:
        task_drift = task_drift.write()  # these errors raise nothing
    return detector.after(*errors, n_active=n_active), task_drift


def _all_changed(state: State, following: State, news: Pending) -> bool:
    """Tell whether tasks have changed, and not only a few of them."""
    if not following.detector.raised:
        return False
    onset = state.detector.onset(news.resolved_squares, news.expected)
    since = news.part(slice(onset, None))
    sums = following.detector.sums(since.tasks, since.resolved_squares, since.expected)
    evidence = np.maximum(sums, following.task_drift.evidence(since.tasks))
    return is_general(evidence[np.unique(since.tasks, return_index=True)[1]])


def _scored(state: State, news: Pending, rows: Doubles) -> HyperparameterSelector:
    """Return the selector with the errors of rewards; outliers have the weights of their rows."""
    selector, slots = state.selector, state.store.slots[news.tasks]
    if state.likelihood.noise is not None:
        losses = state.likelihood.losses
        return selector.scored(slots, news.rows, news.squares, news.expected, losses)
    return selector.scored(slots, rows, news.squares * rows[:, -2] ** 2, news.expected)


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
    """Return the same rewards with the errors of a kept state; later tasks are new to it."""
    assert kept.posteriors is not None
    places = np.minimum(news.tasks, len(kept.tasks))
    squares, expected = predict_errors(kept.likelihood, kept.posteriors, places, news.rows)
    return news._replace(squares=squares, expected=expected)


def _extended(kept: State, state: State) -> State:
    """Return a kept state with room for the tasks that have come since.

    The kept one stays as it is: a copy of the state may keep it too.
    """
    assert kept.posteriors is not None
    found = replace(
        kept,
        tasks=state.tasks.copy(),
        posteriors=kept.posteriors.copy(),
        store=kept.store.snapshot(),
        task_drift=kept.task_drift.written(),
    )
    found.grow(len(found.tasks))
    return found


def _after_change(state: State, following: State, news: Pending, *, n_new: int) -> State | None:
    """Return the state after a change of the tasks, or None where ``following`` shows none."""
    if following.before is not None and following.return_evidence > change_config.RETURN_THRESHOLD:
        theirs, kept = _predicted_by(following.before, news), _extended(following.before, state)
        found = refitted(_compared(kept, theirs), theirs, len(news.tasks))
        onset = 0
    elif _all_changed(state, following, news):
        fresh = State.fresh(
            dim=state.store.width - 2,
            reserved=state.reserved,
            tasks=state.tasks.copy(),
            on_change=state.on_change,
            kind=state.kind,
            likelihood=state.likelihood,
        )
        onset = state.detector.onset(news.resolved_squares, news.expected)
        recent = news.part(slice(onset, None))
        found = refitted(_compared(fresh, recent), recent, len(recent.tasks))
        found.before = _kept(state, news, n_new, onset) if state.on_change == "adapt" else None
    else:
        return None
    changes = (*state.changes, state.rewards - state.n_pending + onset)
    return replace(
        found,
        rewards=state.rewards + n_new,
        changes=changes,
        task_changes=state.task_changes,
        task_drift=found.task_drift.written(),
    )


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
    rows = weighted_rows(state.likelihood, posteriors, old.tasks, old.rows)
    store = state.store.added(old.tasks, rows)
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
    n_tasks = len(state.before.tasks)  # it does not know those that came later
    return replace(
        state.before.fork(),  # a copy of the state may keep it too
        rewards=state.rewards,
        changes=(*state.changes, state.rewards),
        task_changes=tuple(one for one in state.task_changes if one[1] < n_tasks),
    )


def stored(snapshot: Snapshot) -> State:
    """Return the state with all rows of a snapshot stored, ready to learn a prior from."""
    state, news = snapshot.state, snapshot.news
    if len(news.tasks):
        state = _mended(
            _compared(state, news), news, news.tasks[len(news.tasks) - snapshot.n_new :]
        )
    return sorted_rows(state)


def _relearned(state: State, posteriors: TaskPosteriors, tasks: Codes) -> list[PosteriorPart]:
    """Learn thetas in all directions where tasks have had many more rewards since last time."""
    if not posteriors.is_reduced:
        return []
    known = state.full_counts[tasks]
    more = (config.RELEARN_GROWTH - 1) * np.minimum(known, state.store.memory)
    enough = known + more + config.EXTRA_REWARDS
    grown = np.unique(tasks[state.counts[tasks] > enough])
    slots = np.sort(state.store.slots[grown])
    slots = slots[slots >= 0]
    return list(posteriors.relearned(state.store, slots)) if len(slots) else []


def _set_relearned(state: State, posteriors: TaskPosteriors, parts: list[PosteriorPart]) -> None:
    """Set thetas that were learned in all directions, in place."""
    for part in parts:
        posteriors.set_part(part)
        state.full_counts[part.tasks] = state.counts[part.tasks]
