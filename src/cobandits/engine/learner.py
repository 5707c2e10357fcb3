"""The order of learning: one reward at a time, and a rest when the prior is to be learned."""

from __future__ import annotations

import functools
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import Decisions
from cobandits.engine.errors import DiskFullError, StoreAwayError
from cobandits.engine.outcomes import Lesson
from cobandits.engine.policies import Learned, SpacePolicy, Staged, close, install, is_lost
from cobandits.errors import ClusterError, CobanditsError

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
    since: two states with the same name have the same bits.
    """

    def __init__(self, policy: SpacePolicy, features: Features, base: int) -> None:
        self.policy = policy
        self.waiting: deque[Lesson] = deque()
        self.base = base
        self.learned = 0
        self.frozen = False  # what waits is learned later
        self._features = features

    @property
    def version(self) -> str:
        """The name of the state, such as ``"v412+1873"``."""
        return f"v{self.base}+{self.learned}"

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

    def advance(self, learned: int) -> bool:
        """Learn until so many rewards were learned since the base; tell whether that is so."""
        while self.learned < learned and self.step(learned - self.learned):
            pass
        return self.learned == learned

    def finish(self) -> None:
        """Learn all that waits, refits among it."""
        while self.waiting:
            self._learn()

    def _learn(self, count: int = 1) -> None:
        try:
            self.policy.learn(*self._rows(count))
        except (StoreAwayError, DiskFullError, ClusterError):  # not in a replay
            raise
        except CobanditsError as error:  # the same in every replay
            if count > 1:
                return self._learn()  # the others are not to suffer
            logging.getLogger("cobandits").warning("a reward is left out: %s", error)
        for _ in range(count):
            self.waiting.popleft()
        self.learned += count

    def _rows(self, count: int = 1) -> Rows:
        """Return the next rewards as the policy takes them."""
        lessons = list(islice(self.waiting, count))
        tasks, rows = zip(*map(self._features, lessons), strict=True)
        return as_rows(tasks, rows, [one.value for one in lessons])

    def following(self) -> tuple[str, Doubles, float]:
        """Return task, vector and value of the next reward."""
        return *self._features(self.waiting[0]), self.waiting[0].value

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
        self.base, self.learned = number, 0

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
