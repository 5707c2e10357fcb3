"""Plain bandits: arms are unit vectors and never change, for one task and for several."""

from __future__ import annotations

import numpy as np
import pytest

from cobandits.policies import Shared


def regret(n_tasks: int, n_arms: int, *, noise: float, rounds: int, seed: int) -> float:
    """Return the regret per task and round of arms with standard normal values."""
    rng = np.random.default_rng(seed)
    values, tasks = rng.standard_normal((n_tasks, n_arms)), np.arange(n_tasks)
    policy, arms = Shared(dim=n_arms), np.tile(np.eye(n_arms), (n_tasks, 1, 1))
    lost = 0.0
    for _ in range(rounds):
        decisions = policy.decide(tasks, arms, rng)
        taken = values[tasks, decisions.chosen]
        lost += float((values.max(axis=1) - taken).sum())
        policy.learn(tasks, arms, decisions, taken + noise * rng.standard_normal(n_tasks))
    return lost / n_tasks / rounds


@pytest.mark.parametrize("n_tasks", [1, 5])
def test_the_best_arm_of_a_plain_bandit_is_found(n_tasks: int) -> None:
    """Random arms cost 1.5 a round; one arm for good would cost as much, whichever it is."""
    found = [regret(n_tasks, 10, noise=0.5, rounds=150, seed=seed) for seed in range(6)]
    assert np.mean(found) < 0.75
