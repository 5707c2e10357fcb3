"""The state that follows a refit: a prior from the rows of a state, and all posteriors under it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cobandits.estimate import Estimate, Status
from cobandits.policies.shared import change_config, config, reward_config
from cobandits.policies.shared.carry_over import carry_over
from cobandits.policies.shared.discount import discount_of
from cobandits.policies.shared.empirical_bayes import HyperparameterSelector, PriorFit
from cobandits.policies.shared.forgetful import ForgetfulPrior
from cobandits.policies.shared.laplace import (
    Learned,
    learn_all,
    posteriors_under,
    sizes_named,
)
from cobandits.policies.shared.pending import Pending
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.policies.shared.state import Refit, Snapshot, State
from cobandits.policies.shared.working_rows import learn_rewards
from cobandits.policies.task_index import TaskIndex

__all__ = ["refitted", "sorted_rows", "under"]

Codes = NDArray[np.int64]


def refitted(state: State, news: Pending, n_new: int) -> State:
    """Return the state with a prior learned from its rows; counts the last ``n_new`` of news.

    Where changes are followed, rows lose weight with the half-life that has predicted best. Those
    that it is compared with learn from the rows as they were: compressed ones have no age.
    """
    adapts = state.on_change == "adapt"
    forgetting, forgetful = state.forgetting, state.forgetful.scored(state.store)
    if adapts:
        forgetting = forgetting.taken(drifts=forgetful.drifts)
    store = replace(state.store, discount=discount_of(forgetting.half_life))
    state = replace(state, forgetting=forgetting, store=store)
    with sizes_named():
        learned = learn_all(sorted_rows(state))
        found = _following(state, news, n_new, learned)
        if adapts:
            found.forgetting = forgetting.following(store, learned.posteriors, found.counts)
            found.forgetful = _forgetful(found, forgetful, store, learned)
            found.due = min(found.due, found.seen + found.forgetful.most_rewards(found.counts))
    return found


def _forgetful(
    found: State, before: ForgetfulPrior, store: RowStore, learned: Learned
) -> ForgetfulPrior:
    """Return the prior that forgets after a refit: none where rows have weights of their own."""
    if found.likelihood.weighs or store.discount < 1:
        return ForgetfulPrior.none(store.width - 2)
    thetas = learned.posteriors.thetas
    return before.following(store, learned.store, thetas, learned.selector, found.counts)


def under(
    snapshot: Snapshot, state: State, selector: HyperparameterSelector, fit: PriorFit
) -> Refit:
    """Return the refit with priors that were learned elsewhere from what :func:`stored` returned.

    Every task's posterior is learned again under the one that the selector selects.
    """
    with sizes_named():
        posteriors = posteriors_under(state.store, selector, fit)
        learned = Learned(state.store.snapshot(), selector, posteriors, config.REFIT_GROWTH)
        found = _following(state, snapshot.news, snapshot.n_new, learned)
    return Refit(found, snapshot.state.rewards, snapshot.origin)


def sorted_rows(state: State) -> State:
    """Return the state with its rows compressed, and ordered by task.

    Single rows are kept for longer where they may yet be weighted, or where a task seems to have
    changed and may yet start again from the last of them.
    """
    undecided = state.kind in ("auto", "binary") and state.seen < reward_config.FEWEST_TO_TELL
    weighs = state.likelihood.weighs or undecided
    factor = reward_config.LINKED_COMPRESSION if weighs else config.COMPRESSION
    longest = int(factor * state.store.width)
    evidence = state.task_drift.evidence(state.store.tasks)
    spared = np.flatnonzero(evidence > change_config.GENERAL_EVIDENCE)
    return replace(state, store=state.store.compressed(longest, spared).sorted())


def _following(state: State, news: Pending, n_new: int, learned: Learned) -> State:
    """Return the state with what was learned from it; counts the last ``n_new`` of news."""
    store, selector, posteriors, growth = learned
    if state.likelihood.weighs:  # errors of weighted rows do not tell those of rewards
        selector = replace(selector, calibration=None)
    seen = state.seen + n_new
    weight = float(np.minimum(state.counts, store.memory).sum()) + n_new  # of all rewards
    due = seen + min(int(np.ceil((growth - 1) * weight)), _most_new(store))
    _learn_dropped(posteriors, state, store.dropped, news, n_new)
    following = replace(
        state,
        store=store.with_room(_room(store, due - seen)),
        selector=selector,
        posteriors=posteriors,
        estimate=_estimate(posteriors, state.tasks),
        counts=state.counts.copy(),
        due=due,
        rewards=state.rewards + n_new,
    )
    if n_new:
        following.count(news.tasks[-n_new:], news.rows[-n_new:, -1])
    following.full_counts = following.counts.copy()
    return following


def _most_new(store: RowStore) -> int:
    """Return how many new rows may wait for the refit that compresses them."""
    return max(store.used, config.NEW_ROW_BYTES // (8 * store.width))


def _room(store: RowStore, n_rewards: int) -> int:
    """Return for how many more rows to take memory, of those until the next refit."""
    return max(0, min(n_rewards, store.used // 2 + 1, store.most - store.used))


def _learn_dropped(
    posteriors: TaskPosteriors, state: State, dropped: Codes, news: Pending, n_new: int
) -> None:
    """Carry over the posteriors of dropped tasks, and teach them their new rewards."""
    if not len(dropped):
        return
    if state.posteriors is not None:
        known = dropped[state.posteriors.weights.log_volumes[dropped] > 0]
        carry_over(posteriors, state.posteriors, known)
    new = news.tasks[len(news.tasks) - n_new :]
    unlearned = np.flatnonzero(np.isin(new, dropped)) - n_new
    learn_rewards(state.likelihood, posteriors, news.tasks[unlearned], news.rows[unlearned])


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
