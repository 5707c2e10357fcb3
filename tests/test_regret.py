"""What the paper's policy and its baselines cost, over many trials: run by `make statistical`."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.environments import Synthetic
from cobandits.policies import make
from cobandits.simulate import simulate

pytestmark = pytest.mark.statistical

TRIALS, TUNING = range(20), range(-5, 0)  # tuned on other trials than those that are compared
DIM, ROUNDS = 100, 200


@cache
def regrets(
    T: int, r: int, policy: str, trials: range = TRIALS, **parameters: float | str
) -> NDArray[np.float64]:
    """Return the regret per task of every trial, in the paper's first synthetic setting."""
    world = Synthetic(dim=DIM, n_tasks=T, rank=r, noise_std=1e-3)
    setting = {"dim": DIM, "n_tasks": T, "rank": r, "noise_std": 1e-3}
    return np.array(
        [
            simulate(
                make(policy, parameters, rounds=ROUNDS, **setting), world, ROUNDS, 7, trial=trial
            ).regret_per_task
            for trial in trials
        ]
    )


def relative(T: int, r: int, policy: str, **parameters: float | str) -> float:
    """Return a policy's regret over that of random play, which evens out how long thetas are."""
    ratios = regrets(T, r, policy, **parameters) / regrets(T, r, "random")
    return float(ratios.mean())


def tuned(T: int, r: int, policy: str, parameter: str, values: tuple[float, ...]) -> float:
    """Return the value with the least regret on the tuning trials."""
    means = [regrets(T, r, policy, TUNING, **{parameter: value}).mean() for value in values]
    return values[int(np.argmin(means))]


@pytest.mark.parametrize(("T", "r", "expected"), [(100, 2, 73), (50, 4, 110), (100, 8, 160)])
def test_lrrl_costs_its_random_first_epoch(T: int, r: int, expected: float) -> None:
    ours = regrets(T, r, "lrrl")
    assert ours.mean() == pytest.approx(expected, rel=0.05)
    # after the first epoch nothing is lost: the same as with the true basis, to within 1 %
    informed = regrets(T, r, "subspace-oracle", schedule="equal-4")
    np.testing.assert_allclose(ours, informed, rtol=0.01)


@pytest.mark.parametrize(
    ("T", "r", "expected"), [(10, 2, 46 / 261), (25, 4, 79 / 459), (50, 2, 47 / 274)]
)
def test_greedy_ridge_and_thompson_sampling_a_task(T: int, r: int, expected: float) -> None:
    ridge = tuned(T, r, "ridge", "ridge", (1e-4, 1e-2, 0.1, 1.0, 10.0))
    assert relative(T, r, "ridge", ridge=ridge) == pytest.approx(expected, rel=0.08)
    scale = tuned(T, r, "thompson", "scale", (1e-3, 3e-3, 1e-2, 0.03, 0.1))
    ours, best = regrets(T, r, "thompson", scale=scale), regrets(T, r, "ridge", ridge=ridge)
    assert ours.mean() <= 1.05 * best.mean()
