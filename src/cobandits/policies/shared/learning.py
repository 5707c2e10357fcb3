"""How the shared policy learns: in line, or with refits in another thread while it decides."""

from __future__ import annotations

import copy
import sys
from collections.abc import Hashable
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.decisions import Decisions
from cobandits.errors import ConfigurationError, DataError
from cobandits.policies.base import Policy
from cobandits.policies.shared.holding import Held
from cobandits.policies.shared.likelihoods import Rewards, check_admitted
from cobandits.policies.shared.state import Refit, Snapshot, State, warn_of_changes
from cobandits.policies.shared.transitions import absorb, refit

__all__ = ["LearningPolicy"]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class LearningPolicy(Policy):
    """A policy whose state learns from rewards; another state replaces it in one assignment."""

    _state: State
    _kind: Rewards  # what rewards were said to be
    _refits = True

    def refit_due(self, n_rewards: int = 1) -> bool:
        """Tell whether learning ``n_rewards`` more includes a refit, which takes longer.

        When tasks are found to have changed there is one too, from the few rewards since then.
        """
        return self._refits and self._state.refit_due(n_rewards)

    @property
    def run_length(self) -> int:
        """How many of the next rewards one :meth:`learn` takes with the bits of one call each."""
        return self._state.run_length

    def snapshot(
        self, tasks: ArrayLike, arms: ArrayLike, decisions: Decisions, rewards: ArrayLike
    ) -> Snapshot:
        """Return all that a refit with these rewards needs; arguments are as in :meth:`learn`.

        It is cheap, and what is learned later does not change it. :meth:`install` takes what
        ``refit(snapshot)`` returns; until then this policy decides as before.
        """
        with self._lock:
            codes, rows, y = self._checked(tasks, arms, decisions, rewards)
            if not len(codes):
                raise DataError("a refit learns from new rewards, got none; give at least one")
            F = self._with_intercept(rows, y)
            return self._state.snapshot(*self._state.tasks.number(codes), F)

    def install(self, found: Refit) -> None:
        """Take what :func:`refit` returned, in one assignment.

        Where a refit was due, the bits are those of :meth:`learn`; else it is an early refit.
        """
        if not isinstance(found, Refit):
            raise ConfigurationError(f"install takes what refit(snapshot) returned, got {found!r}")
        with self._lock:
            found.check_follows(self._state)
            self._take(found.state)

    def stand_in(self) -> Self:
        """Return a copy that learns under the prior that it has, and has no refits.

        It decides and learns in place of this policy while that waits for :meth:`install`.
        """
        twin = copy.copy(self)
        with self._lock:
            if self._state.posteriors is None:
                raise DataError("there is no prior yet to learn under; learn a reward first")
            vars(twin).update(_state=replace(self._state.fork(), due=sys.maxsize), _refits=False)
        return twin

    def _take(self, state: State) -> None:
        warn_of_changes(state, self._state)
        self._state = state

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        if not len(tasks):
            return
        F, (places, new) = self._with_intercept(rows, rewards), self._state.tasks.number(tasks)
        if self.refit_due(len(tasks)):
            self.install(refit(self._state.snapshot(places, new, F, at_once=True)))
        else:
            self._observe(places, new, F)

    def _observe(self, places: Codes, new: tuple[Hashable, ...], F: Doubles) -> None:
        """Learn rows ``[phi, 1, y]`` under the prior that there is."""
        before = self._state
        if not before.must_absorb:
            before.observe(places, new, F)
            return
        assert before.posteriors is not None
        before.posteriors.check(F)
        before.grow(len(before.tasks) + len(new))
        held = Held.of(before)
        try:
            following = absorb(before)
            following.observe(places, new, F)
        except BaseException:
            held.put_back(before)
            raise
        self._state = following
        warn_of_changes(following, before)

    def _with_intercept(self, rows: Floats, rewards: Floats) -> Doubles:  # [phi, 1, y]
        F = np.empty((len(rows), rows.shape[1] + 2))
        F[:, :-2], F[:, -2], F[:, -1] = rows, 1, rewards
        check_admitted(self._kind, F[:, -1])
        return F
