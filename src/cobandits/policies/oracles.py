"""Reference policies: a random one, and two that know what only the environment knows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import Decisions, Round
from cobandits.errors import ConfigurationError
from cobandits.policies.base import Informed, Policy
from cobandits.policies.pertask import Ridge
from cobandits.policies.propensities import draw, greedy
from cobandits.policies.schedules import Schedule
from cobandits.ragged import RaggedArms

__all__ = ["Oracle", "Random", "SubspaceOracle"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


class Random(Policy):
    """Choose arms uniformly at random."""

    name: ClassVar[str] = "random"

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        return np.full(arms.shape[:2], 1 / arms.shape[1])

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        """Learn nothing."""


class Oracle(Informed):
    """Choose the best arm, from the expected rewards, which it knows."""

    name: ClassVar[str] = "oracle"
    _means: Floats | None = None

    def inform(self, asked: Round) -> None:
        """Take the expected rewards of this round."""
        if not np.isfinite(asked.means).all():
            raise ConfigurationError(
                "nobody knows the best arm in this environment; leave out the policy oracle"
            )
        self._means = asked.means

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        if self._means is None or self._means.shape != arms.shape[:2]:
            raise ConfigurationError("call inform first, with the round that is asked")
        return greedy(self._means)

    def _choose_ragged(
        self, tasks: Codes, arms: RaggedArms, rng: np.random.Generator
    ) -> tuple[Codes, Floats]:
        return draw(self._ragged_probabilities(tasks, arms), rng)

    def _ragged_probabilities(self, tasks: Codes, arms: RaggedArms) -> Floats:
        if self._means is None or self._means.shape != (len(arms), arms.width):
            raise ConfigurationError("call inform first, with the round that is asked")
        known = self._means[arms.owners, arms.numbers]
        return greedy(arms.spread(known, missing=-np.inf))

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        """Learn nothing: all is known."""


class SubspaceOracle(Informed):
    """Greedy ridge regression per task in the span of ``B*``, which it knows."""

    name: ClassVar[str] = "subspace-oracle"
    grid: ClassVar[dict[str, tuple[float, ...]]] = {"ridge": (1e-6, 1e-4, 1e-2, 0.1, 1.0)}

    def __init__(
        self,
        *,
        dim: int,
        n_tasks: int | None = None,
        ridge: float = 1e-4,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        self._ridge, self._schedule = ridge, schedule
        self._inner: Ridge | None = None

    def inform(self, asked: Round) -> None:
        """Take the basis of this round; if it has changed, the tasks' weights in it stay."""
        if asked.truth is None:
            raise ConfigurationError(
                "this environment has no true basis; leave out the policy subspace-oracle"
            )
        self._basis = asked.truth.basis
        if self._inner is None:
            self._inner = Ridge(
                dim=self._basis.shape[1],
                n_tasks=self.n_tasks,
                ridge=self._ridge,
                schedule=self._schedule,
            )

    @property
    def _ridge_in_basis(self) -> Ridge:
        if self._inner is None:
            raise ConfigurationError("call inform first, with the round that is asked")
        return self._inner

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        return self._ridge_in_basis.probabilities(tasks, arms @ self._basis)

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        only = Decisions(
            chosen=np.zeros(len(tasks), np.int64),
            probabilities=np.ones(len(tasks)),
            policy=self.name,
        )
        self._ridge_in_basis.learn(tasks, (rows @ self._basis)[:, None, :], only, rewards)
