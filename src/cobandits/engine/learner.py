"""The order of learning: one reward at a time, and a rest when the prior is to be learned."""

from __future__ import annotations

import functools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import Decisions
from cobandits.engine.ahead import Ahead, Deciding
from cobandits.engine.errors import DiskFullError, StoreAwayError
from cobandits.engine.outcomes import Lesson
from cobandits.engine.policies import Learned, SpacePolicy, Staged, close, install, is_lost
from cobandits.errors import ClusterError, CobanditsError
from cobandits.policies.shared import Shared

__all__ = [
    "INLINE",
    "Learner",
    "as_rows",
]

Doubles = NDArray[np.float64]
Features = Callable[[Lesson], tuple[str, Doubles]]  # the task, and the vector of the arm

Rows = tuple[list[str], Doubles, Decisions, list[float]]  # as a policy learns them

# Rewards below which the prior is learned at once, in the same thread: with so few it takes
# milliseconds, and is due after nearly each reward.
INLINE = 32


def as_rows(tasks: Sequence[str], rows: Sequence[Doubles], values: list[float]) -> Rows:
    """Return rewards, with the vectors of their arms, as a policy learns them."""
    return list(tasks), np.array(rows)[:, None, :], _chosen(len(values)), values


@functools.cache
def _chosen(count: int) -> Decisions:
    """Return decisions for requests with one arm each."""
    return Decisions(
        chosen=np.zeros(count, np.int64), probabilities=np.ones(count), policy="engine"
    )


class Learner:
    """A policy, the rewards that it has yet to learn, and the name of its state.

    A state is known by the event that it began with (``base``) and the number of rewards learned
    since: two states with the same name have the same bits. Where a prior is due, the policy rests
    until it is installed, and a stand-in may decide and learn meanwhile.
    """

    def __init__(self, policy: SpacePolicy, features: Features, base: int) -> None:
        self.policy = policy
        self.waiting: deque[Lesson] = deque()
        self.base = base
        self.learned = 0
        self.frozen = False  # what waits is learned later
        self.stand_in: Ahead | None = None  # where it is there, it decides
        self.successor: Ahead | None = None  # a policy with the new prior, not installed yet
        self._features = features

    @property
    def version(self) -> str:
        """The name of the policy's state, such as ``"v412+1873"``."""
        return Deciding(self.policy, self.base, self.learned).version

    @property
    def deciding(self) -> Deciding:
        """What decides: the policy, or its stand-in."""
        if self.stand_in is None:
            return Deciding(self.policy, self.base, self.learned)
        return Deciding(self.stand_in.policy, self.base, self.learned + self.stand_in.learned)

    @property
    def n_unlearned(self) -> int:
        """How many rewards what decides has yet to learn."""
        return len(self.waiting) - (self.stand_in.learned if self.stand_in else 0)

    @property
    def ready(self) -> bool:
        """Whether rewards wait that may be learned now."""
        return bool(self.waiting) and not self.frozen

    @property
    def refit_due(self) -> bool:
        """Whether the next reward waits until the prior is learned with it."""
        return self.ready and self.policy.rewards >= INLINE and self.policy.refit_due()

    def add(self, lessons: Iterable[Lesson]) -> None:
        """Take rewards to learn, in order."""
        self.waiting.extend(lessons)

    def step(self, most: int | None = None) -> bool:
        """Learn rewards that wait and need no refit, at most so many; tell whether it did.

        As many are learned in one call as have the bits of one at a time.
        """
        if not self.ready or self.refit_due:
            return False
        count = min(len(self.waiting), self.policy.run_length)
        self._learn(count if most is None else min(count, most))
        return True

    def advance(self, learned: int) -> None:
        """Learn until what decides has learned so many rewards since the base."""
        while self.learned < learned and self.step(learned - self.learned):
            pass
        if self.learned < learned and self.refit_due and isinstance(self.policy, Shared):
            if self.stand_in is None:
                self.go_ahead(self.policy.stand_in())
            while (left := learned - self.deciding.learned) > 0 and self.step_ahead(left):
                pass

    def catch_up(self) -> None:
        """Learn all that waits, but for priors."""
        self.advance(self.learned + len(self.waiting))

    def finish(self) -> None:
        """Learn all that waits, refits among it."""
        while self.waiting:
            self._learn()

    def _learn(self, count: int = 1) -> None:
        self._pop(self._taught(self.policy, 0, count))

    def _pop(self, count: int) -> None:
        """Take rewards that the policy has learned from those that wait."""
        for _ in range(count):
            self.waiting.popleft()
        self.learned += count

    def _taught(self, policy: SpacePolicy, start: int, count: int) -> int:
        """Teach a policy some of what waits, at most ``count``; return how many it has learned."""
        try:
            policy.learn(*self._rows(start, count))
        except (StoreAwayError, DiskFullError, ClusterError):  # not in a replay
            raise
        except CobanditsError as error:  # the same in every replay
            if count > 1:
                return self._taught(policy, start, 1)  # the others are not to suffer
            if self.stand_in is None or policy is not self.stand_in.policy:  # it is said once
                logging.getLogger("cobandits").warning("a reward is left out: %s", error)
        return count

    def _rows(self, start: int = 0, count: int = 1) -> Rows:
        """Return rewards that wait as a policy takes them."""
        lessons = [self.waiting[place] for place in range(start, start + count)]
        tasks, rows = zip(*map(self._features, lessons), strict=True)
        return as_rows(tasks, rows, [one.value for one in lessons])

    def following(self) -> tuple[str, Doubles, float]:
        """Return task, vector and value of the next reward."""
        return *self._features(self.waiting[0]), self.waiting[0].value

    # ---- While the prior is learned

    def go_ahead(self, stand_in: Shared) -> None:
        """Let a copy of the policy that has no refits decide and learn, if none does yet."""
        if self.stand_in is None:
            stand_in.floor = self.policy.floor
            self.stand_in = Ahead(stand_in, 0)

    def succeed(self, successor: Shared) -> None:
        """Let a copy of what is to be installed learn what waits, before it is installed."""
        successor.floor = self.policy.floor
        self.successor = Ahead(successor, 1)  # the reward that made the prior due

    @property
    def can_step_ahead(self) -> bool:
        """Whether stand-in or successor may learn some of what waits now."""
        return self._following_ahead() is not None

    def step_ahead(self, most: int | None = None) -> bool:
        """Let stand-in or successor learn some of what waits; tell whether one did."""
        if (one := self._following_ahead()) is None:
            return False
        count = one.run_length(len(self.waiting))
        one.learned += self._taught(one.policy, one.learned, min(count, most or count))
        return True

    def _following_ahead(self) -> Ahead | None:
        """Return the one that is to learn next: the successor first, since it is waited for."""
        for one in (self.successor, self.stand_in):
            if one is not None and self.ready and one.run_length(len(self.waiting)):
                return one
        return None

    @property
    def has_caught_up(self) -> bool:
        """Whether the successor has learned as much as what decides, or all that it may."""
        one, other = self.successor, self.stand_in
        if one is None or other is None or one.learned >= other.learned:
            return True
        return not one.run_length(len(self.waiting))

    def take_over(self) -> None:
        """Go on with the successor, which has learned some of the rewards that wait."""
        if self.successor is not None:
            self.policy = self.successor.policy
            self._pop(self.successor.learned - 1)
            self.successor = None

    def _return(self) -> None:
        """Let the policy itself decide."""
        self.stand_in = self.successor = None

    def set_floor(self, floor: float) -> None:
        """Set the share of decisions at random, of all that decide or will."""
        for ahead in (self, self.stand_in, self.successor):
            if ahead is not None:
                ahead.policy.floor = floor

    def freeze(self, frozen: bool) -> None:
        """Learn nothing until it is called again; what waits is learned then."""
        self.frozen = frozen
        if frozen:
            self._return()

    # ---- The prior

    def snapshot(self) -> Staged:
        """Return what another thread needs to learn the prior with the next reward."""
        return self.policy.snapshot(*self._rows())

    def install(self, number: int, found: Learned | None = None) -> None:
        """Begin a version: with what was learned elsewhere, or learn it here, with the same bits.

        ``number`` is that of the event.
        """
        if found is None:
            while self.step():
                pass
            self._learn()
        else:
            install(self.policy, found)
            self.waiting.popleft()
        self.base, self.learned, self.stand_in = number, 0, None

    def begin(
        self, number: int, policy: SpacePolicy, waiting: Iterable[Lesson] | None = None
    ) -> None:
        """Begin a version with another policy; what waits, or is given, is learned by it."""
        self.replace(policy)
        self.base, self.learned = number, 0
        self.waiting = self.waiting if waiting is None else deque(waiting)

    # ---- Where the policy lives

    @property
    def lost(self) -> bool:
        """Whether what was learned is lost with a process, and must be learned from the log."""
        return is_lost(self.policy)

    def replace(self, policy: SpacePolicy) -> None:
        """Go on with a policy, and end the processes of another one."""
        if policy is not self.policy:
            close(self.policy)
        self.policy = policy
        self._return()

    # ---- Files

    def saved(self) -> dict[str, Any]:
        """Return all but the policy, as JSON can hold it."""
        return {
            "base": self.base,
            "learned": self.learned,
            "waiting": list(self.waiting),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take what :meth:`saved` returned."""
        self.base, self.learned = int(saved["base"]), int(saved["learned"])
        self.waiting = deque(Lesson(*one) for one in saved["waiting"])
