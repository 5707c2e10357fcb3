"""What every environment promises."""

from __future__ import annotations

import numpy as np
import pytest

from cobandits.datasets import ChoiceTable
from cobandits.decisions import Round
from cobandits.environments import Environment, Synthetic, available
from cobandits.environments.choices import Choices
from cobandits.environments.pairs import ClassPairs, DigitPairs
from cobandits.environments.replay import Replay
from cobandits.evaluation import collect
from cobandits.policies import Random
from cobandits.simulate import simulate

_RNG = np.random.default_rng(0)
_WORLD = Synthetic(dim=3, n_tasks=4, rank=2)
_TABLE = ChoiceTable(
    tasks=np.arange(30) % 4, arms=_RNG.standard_normal((30, 3, 2)), rewards=_RNG.random((30, 3))
)
ENVIRONMENTS: dict[str, Environment] = {
    "choices": Choices(table=_TABLE),
    "classification": ClassPairs(dataset="iris"),
    "digits": DigitPairs(n_tasks=3),
    "replay": Replay(log=collect(Random(dim=3, n_tasks=4), _WORLD, 20, 0)),
    "synthetic": _WORLD,
}


def same(one: list[Round], other: list[Round]) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True)
        for a, b in zip(one, other, strict=True)
        for name in ("tasks", "arms", "means", "rewards")
    )


def test_all_are_tested() -> None:
    """MNIST is of the same class as digits, and may not be there."""
    assert {*ENVIRONMENTS, "mnist"} == set(available())


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_rounds_have_the_shapes_that_are_said(name: str) -> None:
    environment = ENVIRONMENTS[name]
    assert environment.name == name
    assert np.isfinite(environment.noise_std)
    rounds = list(environment.rounds(7, seed=0))
    assert len(rounds) == 7
    for asked in rounds:
        m, K, d = asked.arms.shape
        assert d == environment.dim
        assert asked.tasks.shape == (m,)
        assert asked.means.shape == asked.rewards.shape == (m, K)
        assert 0 <= asked.tasks.min() <= asked.tasks.max() < environment.n_tasks
        assert np.isfinite(asked.arms).all()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_rounds_depend_on_seed_and_trial_alone(name: str) -> None:
    environment = ENVIRONMENTS[name]
    first = list(environment.rounds(5, seed=1, trial=2))
    assert same(first, list(environment.rounds(5, seed=1, trial=2)))
    assert same(first[:3], list(environment.rounds(3, seed=1, trial=2)))
    if name != "replay":  # whose decisions are all kept, as they were uniform
        assert not same(first, list(environment.rounds(5, seed=1, trial=3)))
        assert not same(first, list(environment.rounds(5, seed=2, trial=2)))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_simulation_ends_with_the_rounds_there_are(name: str) -> None:
    environment = ENVIRONMENTS[name]
    there = getattr(environment, "n_rounds", 40)
    policy = Random(dim=environment.dim, n_tasks=environment.n_tasks)
    assert len(simulate(policy, environment, 40, 0).asked) == min(40, there)
