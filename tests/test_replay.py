"""Replay: what a log shows to a policy, and that it is worth what it says."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits.environments import Synthetic, available
from cobandits.environments.replay import Replay
from cobandits.errors import ConfigurationError, ModelFileError
from cobandits.evaluation import collect
from cobandits.logs import Log
from cobandits.policies import Informed, Random, Ridge, Thompson, make
from cobandits.policies import available as policies
from cobandits.simulate import simulate

ENVIRONMENT = Synthetic(dim=4, n_tasks=3, rank=1, noise_std=0.3, n_arms=3)
Floats = NDArray[np.floating]


def log_of(codes: list[int], K: int = 3, probabilities: Floats | None = None) -> Log:
    n = len(codes)
    rng = np.random.default_rng(0)
    return Log(
        tasks=np.array(codes),
        arms=rng.standard_normal((n, K, 2)),
        chosen=rng.integers(K, size=n),
        probabilities=np.full(n, 1 / K) if probabilities is None else probabilities,
        rewards=np.arange(1.0, n + 1),
    )


def random_log(rounds: int = 60, seed: int = 0) -> Log:
    return collect(Random(dim=4, n_tasks=3), ENVIRONMENT, rounds, seed)


def test_it_is_found_by_name() -> None:
    assert available()["replay"] is Replay


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30), st.integers(1, 40))
def test_requests_come_in_order_and_no_task_twice_in_a_round(codes: list[int], n: int) -> None:
    log = log_of(codes)
    rounds = list(Replay(log=log).rounds(n, seed=0))
    assert len(rounds) <= n
    shown = np.concatenate([asked.tasks for asked in rounds]).tolist()
    assert shown == codes[: len(shown)]
    assert len(rounds) == n or len(shown) == len(codes)
    assert all(len(set(asked.tasks.tolist())) == len(asked.tasks) for asked in rounds)
    for asked, following in pairwise(rounds):  # as long as they can be
        assert following.tasks[0] in asked.tasks
    np.testing.assert_array_equal(
        np.concatenate([asked.arms for asked in rounds]), log.arms[: len(shown)]
    )


def test_only_the_logged_arm_pays() -> None:
    log = log_of([0, 1, 0, 1, 1])
    rounds = list(Replay(log=log).rounds(10, seed=0))
    rewards = np.concatenate([asked.rewards for asked in rounds])
    expected = np.full((5, 3), np.nan)
    expected[np.arange(5), log.chosen] = log.rewards
    np.testing.assert_array_equal(rewards, expected)
    assert all(np.isnan(asked.means).all() and asked.truth is None for asked in rounds)


def test_rounds_of_a_simulation_come_back_as_they_were() -> None:
    log = random_log(rounds=7)
    assert [asked.tasks.tolist() for asked in Replay(log=log).rounds(9, seed=0)] == [[0, 1, 2]] * 7


def test_the_policy_that_made_a_log_earns_all_of_it() -> None:
    """The same stream draws the same arms, so every decision is the logged one."""
    log = random_log()
    trace = simulate(Random(dim=4, n_tasks=3), Replay(log=log), rounds=60, seed=0)
    assert trace.rewarded.sum() == len(log)
    assert trace.mean_reward == pytest.approx(log.rewards.mean())


@pytest.mark.parametrize(
    "name", sorted(n for n, p in policies().items() if not issubclass(p, Informed))
)
def test_every_policy_can_be_simulated_on_a_log(name: str) -> None:
    environment = Replay(log=random_log(rounds=40))
    policy = make(
        name,
        rounds=40,
        dim=environment.dim,
        n_tasks=environment.n_tasks,
        rank=1,
        noise_std=environment.noise_std,
    )
    trace = simulate(policy, environment, rounds=1000, seed=1)
    assert len(trace.asked) == 40
    assert trace.decisions == 120
    assert 0 < trace.rewarded.sum() < 120
    assert np.isnan(trace.regret[0]).all()
    assert np.isfinite(trace.mean_reward)


def test_a_file_does_as_the_log_in_it(tmp_path: Path) -> None:
    log = random_log()
    log.save(tmp_path / "log.npz")
    one, other = (
        simulate(Thompson(dim=4, n_tasks=3), environment, rounds=60, seed=3)
        for environment in (Replay(log=log), Replay(file=str(tmp_path / "log.npz")))
    )
    np.testing.assert_array_equal(one.rewards, other.rewards)


def test_a_log_or_a_file_must_be_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="one of the two"):
        Replay()
    with pytest.raises(ConfigurationError, match="one of the two"):
        Replay(log=random_log(), file="log.npz")
    with pytest.raises(ModelFileError, match="there is no file"):
        _ = Replay(file=tmp_path / "log.npz").dim


def test_noise_is_measured_within_tasks() -> None:
    log = log_of([0, 0, 2, 2])  # rewards 1 2 and 3 4
    assert Replay(log=log).noise_std == pytest.approx(0.5)


def test_decisions_pay_by_their_probability() -> None:
    probabilities = np.tile([0.2, 0.4, 0.8], 2000)
    log = log_of([0, 1, 2] * 2000, probabilities=probabilities)
    environment = Replay(log=log)
    np.testing.assert_allclose(environment.paying[:3], [1.0, 0.5, 0.25])
    rounds = list(environment.rounds(2000, seed=4))
    shares = np.mean([np.isfinite(asked.rewards).any(axis=1) for asked in rounds], axis=0)
    # 5 standard errors of a share of 2000: a false alarm in two million
    np.testing.assert_allclose(shares, [1.0, 0.5, 0.25], atol=5 * 0.5 / np.sqrt(2000))


def test_which_decisions_pay_depends_on_seed_and_trial_alone() -> None:
    log = log_of([0] * 50, probabilities=np.linspace(0.1, 1, 50))

    def paid(seed: int, trial: int) -> list[bool]:
        rounds = Replay(log=log).rounds(50, seed=seed, trial=trial)
        return [bool(np.isfinite(asked.rewards).any()) for asked in rounds]

    assert paid(1, 0) == paid(1, 0)
    assert paid(1, 0) != paid(1, 1)
    assert paid(1, 0) != paid(2, 0)


class Biased(Random):
    """Prefers the longest arm, which pays the most if it is the right one."""

    name = "biased"

    def _probabilities(self, tasks: NDArray[np.int64], arms: Floats) -> Floats:
        lengths = np.linalg.norm(arms, axis=2)
        return np.where(lengths == lengths.max(axis=1, keepdims=True), 0.8, 0.1)


def fixed_ridge() -> Ridge:
    policy = Ridge(dim=4, n_tasks=3)
    simulate(policy, ENVIRONMENT, rounds=30, seed=0)
    return policy


def replayed(log: Log, target: Ridge) -> Floats:
    """Return the rewards that come to a fixed policy."""
    rng = np.random.default_rng(1)
    outcomes = (
        asked.outcome(target.decide(asked.tasks, asked.arms, rng))
        for asked in Replay(log=log).rounds(len(log), seed=5)
    )
    return np.concatenate([paid.rewards for paid in outcomes])


def true_rewards(target: Ridge, rounds: int) -> Floats:
    """Return the expected rewards of what a fixed policy decides."""
    rng, means = np.random.default_rng(1), []
    for asked in ENVIRONMENT.rounds(rounds, seed=0):
        decided = target.decide(asked.tasks, asked.arms, rng)
        means.append(asked.means[np.arange(len(decided)), decided.chosen])
    return np.concatenate(means)


def off_by(log: Log) -> float:
    """Return how far the replayed value of a policy is from the true one, in standard errors."""
    target = fixed_ridge()
    paid, true = replayed(log, target), true_rewards(target, len(log) // 3)
    error = np.hypot(np.std(paid) / np.sqrt(len(paid)), np.std(true) / np.sqrt(len(true)))
    return float(abs(paid.mean() - true.mean()) / error)


@pytest.mark.parametrize("logger", [Random, Biased])
def test_replay_is_worth_what_the_policy_earns(logger: type[Random]) -> None:
    """Within 4 standard errors: level 6e-5."""
    log = collect(logger(dim=4, n_tasks=3), ENVIRONMENT, 3000, seed=0, learning=False)
    assert off_by(log) < 4


def test_probabilities_are_what_corrects_a_biased_log() -> None:
    log = collect(Biased(dim=4, n_tasks=3), ENVIRONMENT, 3000, seed=0, learning=False)
    assert off_by(replace(log, probabilities=np.full(len(log), 1 / 3))) > 5
