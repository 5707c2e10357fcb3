"""The state of the shared policy: all that it has learned.

:meth:`State.observe` learns a reward in place: it moves one posterior, after checks that leave
nothing to fail. All that takes longer is in ``transitions``, which return another state.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.policies.gaussian import COMPILED
from cobandits.policies.shared.change import OnChange
from cobandits.policies.shared.drift import DriftDetector
from cobandits.policies.shared.empirical_bayes import HyperparameterSelector
from cobandits.policies.shared.forgetful import ForgetfulPrior
from cobandits.policies.shared.forgetting import Forgetting
from cobandits.policies.shared.likelihoods import LIKELIHOODS, Likelihood, Rewards
from cobandits.policies.shared.pending import Pending, pending_limit
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.policies.shared.task_drift import TaskChange, TaskDrift
from cobandits.policies.shared.working_rows import first_selector, learn_rewards, predict_errors
from cobandits.policies.task_index import TaskIndex, room_for

__all__ = ["Refit", "Snapshot", "State", "warn_of_changes"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(kw_only=True, eq=False, slots=True)
class State:
    """All that was learned from the rewards since the tasks last changed."""

    store: RowStore
    selector: HyperparameterSelector
    detector: DriftDetector
    task_drift: TaskDrift
    posteriors: TaskPosteriors | None  # None before the first reward
    estimate: Estimate | None  # the thetas of the last refit
    tasks: TaskIndex  # T of them, by place
    reserved: int | None  # tasks that are expected
    counts: Codes  # (room,), rewards per place; there is room for more places than tasks
    full_counts: Codes  # (room,), the same when each theta was last learned in all directions
    forgetful: ForgetfulPrior
    forgetting: Forgetting = field(default_factory=Forgetting)
    lowest: float = np.inf  # reward so far
    highest: float = -np.inf  # reward so far
    pending: list[Pending] = field(default_factory=list)
    n_pending: int = 0  # rewards in pending
    seen: int = 0  # rewards since tasks last changed
    due: int = 1  # value of seen at which a refit is due
    rewards: int = 0  # in all
    changes: tuple[int, ...] = ()  # rewards in all at which tasks changed
    task_changes: tuple[tuple[int, int], ...] = ()  # the same, and the place of a single task
    on_change: OnChange = "adapt"
    kind: Rewards = "auto"  # what rewards were said to be
    likelihood: Likelihood = LIKELIHOODS["gaussian"]  # what they are taken to be
    whole: bool = True  # whether all rewards so far were whole numbers
    judged: int = 0  # errors that were looked at for outliers
    outliers: int = 0  # and how many of them were such
    before: State | None = None  # kept from before the tasks changed
    return_evidence: float = 0.0  # that this predicts better

    @classmethod
    def fresh(
        cls,
        *,
        dim: int,
        reserved: int | None = None,
        tasks: TaskIndex | None = None,
        on_change: OnChange = "adapt",
        kind: Rewards = "auto",
        likelihood: Likelihood | None = None,
    ) -> State:
        """Return the state before the first reward of any task."""
        tasks = TaskIndex() if tasks is None else tasks
        if likelihood is None:
            # With few clicks per task any arm can seem certain, and the prior would follow.
            likelihood = LIKELIHOODS["gaussian" if kind in ("auto", "binary") else kind]
        room = room_for(len(tasks), reserved)
        return cls(
            store=RowStore.empty(n_tasks=room, dim=dim),
            selector=first_selector(likelihood),
            detector=DriftDetector(),
            task_drift=TaskDrift.none(room),
            posteriors=None,
            estimate=None,
            tasks=tasks,
            reserved=reserved,
            counts=np.zeros(room, np.int64),
            full_counts=np.zeros(room, np.int64),
            forgetful=ForgetfulPrior.none(dim),
            on_change=on_change,
            kind=kind,
            likelihood=likelihood,
        )

    def grow(self, n_tasks: int) -> None:
        """Make room for so many tasks and one more place; nothing that is known changes."""
        room, before = room_for(n_tasks, self.reserved), len(self.counts)
        if room <= before:
            return
        self.store = self.store.with_tasks(room)
        if self.posteriors is not None:
            self.posteriors.grow(room)
        self.task_drift = self.task_drift.grown(room)
        more = np.zeros(room - before, np.int64)
        self.counts = np.concatenate([self.counts, more])
        self.full_counts = np.concatenate([self.full_counts, more])

    def refit_due(self, n_rewards: int) -> bool:
        """Tell whether a refit is due with ``n_rewards`` more."""
        return n_rewards > 0 and (self.posteriors is None or self.seen + n_rewards >= self.due)

    @property
    def run_length(self) -> int:
        """How many rewards can be learned in one call with the bits of one call each, at least 1.

        A refit, and :func:`absorb`, come where they would come one at a time. Only the compiled
        pass takes rows one after the other; rows with weights are learned side by side.
        """
        if not COMPILED or self.posteriors is None or self.likelihood.weighs:
            return 1
        room = pending_limit(len(self.tasks)) - self.n_pending
        return max(1, min(room, self.due - 1 - self.seen))

    @property
    def must_absorb(self) -> bool:
        """Whether so many rewards are pending that :func:`absorb` has to come first."""
        return self.n_pending >= pending_limit(len(self.tasks))

    @property
    def deciding(self) -> State:
        """The state that decides: the kept one while all rewards since the change are equal."""
        return self.before if self.before is not None and self.lowest == self.highest else self

    @property
    def named_task_changes(self) -> tuple[TaskChange, ...]:
        """The single tasks that have changed, by number or label."""
        tasks = self.tasks.tasks
        return tuple(TaskChange(rewards, tasks[place]) for rewards, place in self.task_changes)

    @property
    def top(self) -> float:
        """The highest value that is worth hoping for, on the scale of thetas."""
        return self.likelihood.top(self.highest)

    @property
    def calibration(self) -> float:
        """By how much variances are scaled that are due to noise; where that is known, it is 1."""
        return self.detector.calibration if self.likelihood.noise is None else 1.0

    def observe(self, places: Codes, new: tuple[Hashable, ...], F: Doubles) -> None:
        """Learn rows ``[phi, 1, y]`` in place, all or none; no refit may be due.

        ``new`` are the tasks that get their first reward, in the order of their places.
        """
        assert self.posteriors is not None
        if new:
            self.grow(len(self.tasks) + len(new))
        errors = learn_rewards(self.likelihood, self.posteriors, places, F)
        self.pending.append(Pending(places.copy(), F, *errors))
        if new:
            self.tasks.add(new)
        self.n_pending += len(places)
        self.rewards += len(places)
        self.count(places, F[:, -1])
        if self.likelihood.noise is not None and not self.likelihood.admits(F[:, -1]):
            self.due = self.seen  # a refit with the next rewards takes the likelihood back

    def count(self, places: Codes, rewards: Doubles) -> None:
        """Count the rewards, (m,), of tasks, (m,), and note their range."""
        np.add.at(self.counts, places, 1)
        numbers = rewards.tolist()
        self.lowest = min(self.lowest, *numbers)
        self.highest = max(self.highest, *numbers)
        self.whole = self.whole and all(map(float.is_integer, numbers))
        self.seen += len(numbers)

    def fork(self) -> State:
        """Return a copy: what either learns does not change the other.

        Both keep the same state from before a change, which nothing changes.
        """
        store = self.store.snapshot()
        return replace(
            self,
            tasks=self.tasks.copy(),
            store=store.with_room(min(store.used // 8, store.most - store.used)),
            task_drift=self.task_drift.written(),
            posteriors=None if self.posteriors is None else self.posteriors.copy(),
            counts=self.counts.copy(),
            full_counts=self.full_counts.copy(),
            pending=list(self.pending),
        )

    def snapshot(
        self, places: Codes, new: tuple[Hashable, ...], F: Doubles, *, at_once: bool = False
    ) -> Snapshot:
        """Return what a refit with these new rows ``[phi, 1, y]`` needs; it never changes.

        A refit ``at_once``, before this state learns anything, adds rows to the memory of its own.
        """
        self.grow(len(self.tasks) + len(new))
        if self.posteriors is None:
            squares, expected = np.zeros(len(F)), np.ones(len(F))
        else:
            squares, expected = predict_errors(self.likelihood, self.posteriors, places, F)
        news = Pending.joined([*self.pending, Pending(places.copy(), F, squares, expected)])
        tasks = self.tasks.copy()
        tasks.add(new)
        state = replace(
            self,
            tasks=tasks,
            store=self.store if at_once else self.store.snapshot(),
            task_drift=self.task_drift.written(),
            counts=self.counts.copy(),
            pending=[],
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

    def check_follows(self, state: State) -> None:
        """Refuse a state that this refit does not follow on."""
        if self.after != state.rewards:
            raise ConfigurationError(
                f"a refit that follows on {self.after} rewards cannot be installed after "
                f"{state.rewards}; learn nothing between snapshot and install"
            )
        if self.origin is not state:
            raise ConfigurationError(
                "this refit is of another policy, or was installed before; install it once"
            )


def warn_of_changes(state: State, before: State) -> None:
    """Log which tasks have changed since the state before, and what that leads to."""
    warn = logging.getLogger("cobandits").warning
    if len(state.changes) > len(before.changes):
        warn("after %d rewards the tasks are %s", state.changes[-1], _what_follows(state))
    if state.task_changes != before.task_changes:
        known = set(before.task_changes)
        alert = "learning goes on, as on_change is 'alert'"
        follows = alert if state.on_change == "alert" else "it starts again from what all share"
        new = (one for one in state.task_changes if one not in known)
        for rewards, task in replace(state, task_changes=tuple(new)).named_task_changes:
            warn("after %d rewards task %r is no longer what it was: %s", rewards, task, follows)


def _what_follows(state: State) -> str:
    """Say what a change of the tasks leads to."""
    if state.on_change == "alert":
        return "no longer what they were: learning goes on, as on_change is 'alert'"
    if state.on_change == "adapt" and state.before is None:
        return "again what they were before: returning to what was learned then"
    return "no longer what they were: starting over"
