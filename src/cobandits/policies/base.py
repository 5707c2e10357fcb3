"""What all policies have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.decisions import (
    Decisions,
    Round,
    check_decisions,
    check_offers,
    check_rewards,
    check_tasks,
    check_values,
)
from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.policies.propensities import draw
from cobandits.policies.schedules import Schedule
from cobandits.ragged import RaggedArms
from cobandits.randomness import check_generator

__all__ = ["Clock", "Informed", "Policy"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


class Policy(ABC):
    """Decides for many tasks at once, and learns from the rewards.

    A call may be for all tasks, for one of them, or for any of them in any number: each request
    names its task. Deciding does not change what has been learned. Threads may share a policy:
    calls wait for each other.

    Parameters
    ----------
    dim : int
        Features of an arm, d.
    n_tasks : int, optional
        Tasks, T, numbered from 0. Policies that can do without it take tasks as they come.
    """

    name: ClassVar[str]  # on the command line
    grid: ClassVar[dict[str, tuple[float, ...]]] = {}  # values to try when it is tuned
    default_schedule: ClassVar[str | None] = None  # if none is given
    labels: bool = False  # whether tasks are known by labels, not by numbers

    def __init__(self, *, dim: int, n_tasks: int | None = None) -> None:
        _check_whole("dim", dim)
        if n_tasks is not None:
            _check_whole("n_tasks", n_tasks)
        self.dim, self.n_tasks = dim, n_tasks
        self._lock = RLock()  # what is learned is written in place

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=RLock())

    @property
    def most_tasks(self) -> int | None:
        """How many tasks there can be, None for any number."""
        return self.n_tasks

    @property
    def estimate(self) -> Estimate | None:
        """The last fit, None if the policy fits nothing or has not yet."""
        return None

    def decide(
        self,
        tasks: ArrayLike,
        arms: ArrayLike | RaggedArms,
        rng: np.random.Generator,
        *,
        available: ArrayLike | None = None,
    ) -> Decisions:
        """Choose one of the arms for each of the tasks, (m,).

        Parameters
        ----------
        arms : (m, K, d), or (K, d) for each request
            Requests may differ in their number of arms.
        available : (m, K), or (K,) for each request, optional
            Whether each arm can be chosen. Excluded arms keep their numbers.
        """
        if type(rng) is not np.random.Generator:
            check_generator(rng)
        with self._lock:
            asked = self._check_tasks(tasks)
            offers = check_offers(arms, len(asked), self.dim, available)
            if isinstance(offers, RaggedArms):
                check_values(offers.flat)
                chosen, probabilities = self._choose_ragged(asked, offers, rng)
            else:
                check_values(offers)
                chosen, probabilities = self._choose(asked, offers, rng)
        return Decisions(chosen=chosen, probabilities=probabilities, policy=self.name)

    def probabilities(
        self,
        tasks: ArrayLike,
        arms: ArrayLike | RaggedArms,
        *,
        available: ArrayLike | None = None,
    ) -> Floats:
        """Return the probability of each arm, (m, K): what :meth:`decide` draws from.

        K is the largest number of arms; arms that are excluded or do not exist have 0.
        """
        with self._lock:
            asked = self._check_tasks(tasks)
            offers = check_offers(arms, len(asked), self.dim, available)
            if isinstance(offers, RaggedArms):
                check_values(offers.flat)
                return self._ragged_probabilities(asked, offers)
            check_values(offers)
            return self._probabilities(asked, offers)

    def learn(
        self,
        tasks: ArrayLike,
        arms: ArrayLike | RaggedArms,
        decisions: Decisions,
        rewards: ArrayLike,
    ) -> None:
        """Learn from the rewards, (m,), of decisions: from all of them or, on an error, from none.

        Of the arms, (m, K, d) or (K, d) for each request, only the chosen ones are looked at.
        """
        with self._lock:
            self._learn_rows(*self._checked(tasks, arms, decisions, rewards))

    def _checked(
        self,
        tasks: ArrayLike,
        arms: ArrayLike | RaggedArms,
        decisions: Decisions,
        rewards: ArrayLike,
    ) -> tuple[NDArray[Any], Floats, Floats]:
        """Return tasks, the features of the chosen arms, (m, d), and rewards, or refuse them."""
        if type(decisions) is not Decisions:
            check_decisions(decisions)
        asked = self._check_tasks(tasks, learning=True)
        rows = decisions.features(check_offers(arms, len(asked), self.dim))
        check_values(rows)
        return asked, rows, check_rewards(rewards, len(asked))

    def _check_tasks(self, tasks: ArrayLike, *, learning: bool = False) -> NDArray[Any]:
        """Return tasks, (m,), as the policy's own methods take them, or refuse them."""
        return check_tasks(tasks, self.n_tasks)

    def _choose(
        self, tasks: Codes, arms: Floats, rng: np.random.Generator
    ) -> tuple[Codes, Floats | Callable[[], Floats]]:
        """Return the chosen arms and their probabilities, or a function that computes them."""
        return draw(self._probabilities(tasks, arms), rng)

    def _choose_ragged(
        self, tasks: NDArray[Any], arms: RaggedArms, rng: np.random.Generator
    ) -> tuple[Codes, Floats | Callable[[], Floats]]:
        """Do the same for requests that differ in their number of arms, one number at a time."""
        chosen, parts = np.empty(len(tasks), np.int64), []
        for rows, phi, numbers in arms.groups():
            picked, chances = self._choose(tasks[rows], phi, rng)
            chosen[rows] = numbers[np.arange(len(rows)), picked]
            parts.append((rows, chances))
        return chosen, partial(_gathered, parts, len(tasks))

    def _ragged_probabilities(self, tasks: NDArray[Any], arms: RaggedArms) -> Floats:
        """Return the probability of each arm, (m, K), 0 where there is none."""
        table = np.zeros((len(arms), arms.width))
        for rows, phi, numbers in arms.groups():
            table[rows[:, None], numbers] = self._probabilities(tasks[rows], phi)
        return table

    @abstractmethod
    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        """Return the probability of each arm, (m, K)."""

    @abstractmethod
    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        """Learn from the chosen arms, (m, d), and their rewards."""


def _gathered(parts: list[tuple[Codes, Floats | Callable[[], Floats]]], m: int) -> Floats:
    """Return the probabilities of the chosen arms of all requests, (m,), from those of groups."""
    found = np.empty(m)
    for rows, chances in parts:
        found[rows] = chances() if callable(chances) else chances
    return found


class Informed(Policy):
    """A policy that is told what only the environment knows: a reference for all others."""

    @abstractmethod
    def inform(self, asked: Round) -> None:
        """Take what is true in this round."""


class Clock:
    """Counts the rewards of each task, and tells when an epoch ends.

    The number of rounds so far is the largest number of rewards of any task. So epochs mean the
    same whether all tasks ask in each round or one at a time.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._counts = np.zeros(0, np.int64)  # up to the last task that had a reward
        self._end = schedule.next_end(0)

    @property
    def over(self) -> bool:
        """Whether the last epoch has ended, so that later rewards are not learned from."""
        return self._end is None

    @property
    def rewards(self) -> int:
        """How many rewards were counted, of all tasks."""
        return int(self._counts.sum())

    def ends_with(self, tasks: Codes) -> bool:
        """Tell whether an epoch ends with one more reward for each of the tasks."""
        return self._end is not None and self._rounds_with(tasks) >= self._end

    def count(self, tasks: Codes) -> None:
        """Count one more reward for each of the tasks."""
        if self.ends_with(tasks):
            self._end = self._schedule.next_end(self._rounds_with(tasks))
        self._counts = self._with(tasks)

    def _rounds_with(self, tasks: Codes) -> int:
        return int(self._with(tasks).max(initial=0))

    def _with(self, tasks: Codes) -> Codes:
        """Return the counts with one more reward for each of the tasks."""
        counts = np.bincount(tasks, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        return counts


def _check_whole(name: str, value: Any) -> None:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (is_whole and value >= 1):
        raise ConfigurationError(f"{name} must be a whole number from 1 on, got {value!r}")
