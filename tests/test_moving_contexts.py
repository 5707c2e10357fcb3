"""Contexts that are not identically distributed after the first epoch, as the paper leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from cobandits.decisions import Round
from cobandits.environments import Synthetic
from cobandits.policies import Random, Shared, make
from cobandits.simulate import simulate

D, T, ROUNDS = 10, 20, 80
FIRST = ROUNDS // 4  # rounds of the first epoch


@dataclass(frozen=True)
class Moving:
    """Tasks whose arms, after the first epoch, have other scales in every round, and a mean."""

    whole: Synthetic
    name: ClassVar[str] = "moving"

    @property
    def dim(self) -> int:
        """Features of an arm, d."""
        return self.whole.dim

    @property
    def n_tasks(self) -> int:
        """Tasks that may ask, T."""
        return self.whole.n_tasks

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of rewards."""
        return self.whole.noise_std

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        """Yield rounds; a wave of large and small features moves through the later ones."""
        phases = np.linspace(0, 2 * np.pi, self.dim, endpoint=False)
        for n, now in enumerate(self.whole.rounds(n_rounds, seed=seed, trial=trial)):
            if n < FIRST or now.truth is None:
                yield now
                continue
            scales = 1 + 0.9 * np.sin(n / 5 + phases)
            arms = now.arms * scales + np.cos(n / 7 + phases)
            means = np.einsum("mkd,dm->mk", arms, now.truth.theta[:, now.tasks])
            rewards = means + now.rewards - now.means
            yield replace(now, arms=arms, means=means, rewards=rewards)


@pytest.mark.parametrize("name", ["lrrl", "shared"])
def test_what_was_learned_of_first_contexts_serves_others(name: str) -> None:
    """Regret after the first epoch is a tenth of that of random decisions, and no alarm is raised.

    Greedy decisions see arms of one kind only, but theta is the same for all of them.
    """
    world = Moving(Synthetic(dim=D, n_tasks=T, rank=2, noise_std=0.1))
    later, random = 0.0, 0.0
    for seed in range(3):
        policy = make(name, rounds=ROUNDS, dim=D, n_tasks=T, rank=2)
        later += float(simulate(policy, world, ROUNDS, seed).regret[FIRST:].sum())
        blind = Random(dim=D, n_tasks=T)
        random += float(simulate(blind, world, ROUNDS, seed).regret[FIRST:].sum())
        if isinstance(policy, Shared):
            assert policy.changes == ()
            assert policy.task_changes == ()
    assert later < 0.1 * random
