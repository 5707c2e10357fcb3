"""Clicks and counts: what is learned is the optimum of the penalised likelihood."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError, DataError
from cobandits.policies import Shared, refit
from cobandits.policies.shared.empirical_bayes import Coordinates, DecomposedPrior, Prior
from cobandits.policies.shared.likelihoods import LIKELIHOODS, Likelihood, Rewards, mode
from cobandits.policies.shared.posteriors import TaskPosteriors
from cobandits.policies.shared.row_store import RowStore
from cobandits.policies.shared.working_rows import (
    Reweighting,
    learn_rewards,
    n_outliers,
    reinterpreted,
    robust_weights,
    weighted_rows,
)
from cobandits.simulate import simulate
from tests.shared_states import assert_same, made, saved

Doubles = NDArray[np.float64]

LINKED = [LIKELIHOODS["binary"], LIKELIHOODS["count"]]
linked = pytest.mark.parametrize("likelihood", LINKED, ids=lambda one: one.name)


def drawn_rewards(likelihood: Likelihood, etas: Doubles, rng: np.random.Generator) -> Doubles:
    if likelihood.name == "binary":
        return np.asarray(rng.random(len(etas)) < 1 / (1 + np.exp(-etas)), np.float64)
    return rng.poisson(np.exp(etas)).astype(np.float64)


def negative_log_likelihood(likelihood: Likelihood, eta: Doubles, y: Doubles) -> float:
    """Written down again: Bernoulli and Poisson, without the constant."""
    if likelihood.name == "binary":
        return float(-(y * np.log(1 / (1 + np.exp(-eta))) + (1 - y) * -np.log1p(np.exp(eta))).sum())
    return float((np.exp(eta) - y * eta).sum())


def known_prior(d: int, rng: np.random.Generator) -> DecomposedPrior:
    root = rng.standard_normal((d + 1, d + 1)) / 2
    return DecomposedPrior.of(
        Prior(
            coordinates=Coordinates(matrix=np.eye(d + 1)),
            covariance=root @ root.T + 0.1 * np.eye(d + 1),
            mean=0.1 * rng.standard_normal(d + 1),
            offset=-1.0,
            noise=1.0,
            feature_second_moment=np.eye(d + 1),
        )
    )


def optimum(likelihood: Likelihood, prior: Prior, F: Doubles) -> tuple[Doubles, Doubles]:
    """Return the most likely theta of one task, and the inverse Hessian there, by SciPy."""
    P = np.linalg.inv(prior.covariance)

    def height(theta: Doubles) -> float:
        off = theta - prior.center
        fit = negative_log_likelihood(likelihood, F[:, :-1] @ theta, F[:, -1])
        return fit + 0.5 * float(off @ P @ off)

    found = scipy.optimize.minimize(height, prior.center, method="BFGS", options={"gtol": 1e-7}).x
    h, d = 1e-4, len(found)
    steps = h * np.eye(d)
    H = np.array(
        [
            [
                height(found + a + b)
                - height(found + a - b)
                - height(found - a + b)
                + height(found - a - b)
                for b in steps
            ]
            for a in steps
        ]
    ) / (4 * h * h)
    return found, np.asarray(np.linalg.inv(H), np.float64)


def rows_of(likelihood: Likelihood, n: int, d: int, rng: np.random.Generator) -> Doubles:
    X = np.c_[rng.standard_normal((n, d)), np.ones(n)]
    y = drawn_rewards(likelihood, X @ np.r_[rng.standard_normal(d), -0.5], rng)
    return np.asarray(np.c_[X, y])


@linked
@given(mean=st.floats(-8, 8), variance=st.floats(1e-6, 1e3), y=st.sampled_from([0.0, 1.0]))
def test_the_mode_along_an_arm_is_the_root(
    likelihood: Likelihood, mean: float, variance: float, y: float
) -> None:
    def slope(eta: float) -> float:
        logistic = likelihood.name == "binary"
        mu = (1 + np.tanh(eta / 2)) / 2 if logistic else np.exp(min(eta, 12))
        return float(mu + (eta - mean) / variance - y)

    reach = variance * (np.exp(8) + 1) + 1
    expected = scipy.optimize.brentq(slope, mean - reach, mean + reach, xtol=1e-12)
    found = mode(likelihood, np.array([mean]), np.array([variance]), np.array([y]))
    assert found[0] == pytest.approx(expected, abs=1e-6)


@linked
@given(eta=st.floats(-20, 20), y=st.integers(0, 1))
def test_a_reward_is_recovered_from_its_working_reward(
    likelihood: Likelihood, eta: float, y: int
) -> None:
    count = y if likelihood.name == "binary" else 7 * y
    working = likelihood.working(np.array([eta]), np.array([float(count)]))
    assert likelihood.recovered(working).tolist() == [count]


@linked
@pytest.mark.parametrize("eta", [-3.0, 0.0, 1.7])
def test_slopes_and_losses_are_derivatives(likelihood: Likelihood, eta: float) -> None:
    at, h = np.array([eta - 1e-5, eta, eta + 1e-5]), 2e-5
    means, losses = likelihood.mean(at), likelihood.losses(at, np.ones(3))
    assert (means[2] - means[0]) / h == pytest.approx(likelihood.slope(means)[1], rel=1e-6)
    assert (losses[2] - losses[0]) / h == pytest.approx(means[1] - 1, rel=1e-5, abs=1e-8)
    assert likelihood.link(float(means[1])) == pytest.approx(eta)


@linked
@pytest.mark.parametrize("seed", range(3))
def test_weighting_rows_again_leads_to_the_optimum(likelihood: Likelihood, seed: int) -> None:
    rng, d = np.random.default_rng(seed), 3
    prior, F, tasks = known_prior(d, rng), rows_of(likelihood, 25, d, rng), np.zeros(25, np.int64)
    rows = weighted_rows(likelihood, None, tasks, F)
    store = RowStore.empty(n_tasks=1, dim=d).added(tasks, rows).sorted()
    steps = Reweighting(likelihood, store)
    posteriors = TaskPosteriors.of(store, prior)
    for _ in range(30):
        posteriors = TaskPosteriors.of(steps.step(posteriors), prior)
    theta, covariance = optimum(likelihood, prior, F)
    np.testing.assert_allclose(posteriors.thetas[0], theta, atol=1e-5)
    S = posteriors.weights.unpacked(np.zeros(1, np.int64))[0]
    root = posteriors.directions.T @ S
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-3, atol=1e-4)


@linked
def test_rewards_one_after_the_other_come_near_the_optimum(likelihood: Likelihood) -> None:
    off, size = [], []
    for seed in range(10):
        rng, d = np.random.default_rng(100 + seed), 3
        prior, F = known_prior(d, rng), rows_of(likelihood, 40, d, rng)
        posteriors = TaskPosteriors(n_tasks=1, prior=prior)
        for row in F:
            learn_rewards(likelihood, posteriors, np.zeros(1, np.int64), row[None])
        theta, covariance = optimum(likelihood, prior, F)
        gap = posteriors.thetas[0] - theta
        off.append(gap @ np.linalg.solve(covariance, gap))
        size.append(d + 1)
    assert np.mean(off) < 0.3 * np.mean(size)  # squared standard errors; 0.09 and less was seen


def test_rewards_of_one_batch_are_learned_one_after_the_other() -> None:
    likelihood, rng = LIKELIHOODS["binary"], np.random.default_rng(3)
    prior, F = known_prior(2, rng), rows_of(LIKELIHOODS["binary"], 7, 2, rng)
    tasks = np.array([0, 1, 0, 0, 1, 2, 1])
    together, singly = (TaskPosteriors(n_tasks=3, prior=prior) for _ in range(2))
    errors = learn_rewards(likelihood, together, tasks, F)
    each = [learn_rewards(likelihood, singly, tasks[i : i + 1], F[i : i + 1]) for i in range(7)]
    np.testing.assert_allclose(together.thetas, singly.thetas, rtol=1e-10)
    np.testing.assert_allclose(errors[0], [one[0][0] for one in each], rtol=1e-10)
    assert (errors[1] > 0).all()


@linked
def test_rows_are_the_same_after_another_likelihood_and_back(likelihood: Likelihood) -> None:
    rng, gaussian = np.random.default_rng(5), LIKELIHOODS["gaussian"]
    F, tasks = rows_of(likelihood, 30, 3, rng), np.repeat([0, 1, 2], 10)
    plain = RowStore.empty(n_tasks=3, dim=3).added(tasks, F)
    other = reinterpreted(gaussian, likelihood, plain)
    assert not np.allclose(other.flat[1], F)
    np.testing.assert_allclose(reinterpreted(likelihood, gaussian, other).flat[1], F, atol=1e-9)


def test_compressed_rows_are_those_of_a_straight_line() -> None:
    """Under another likelihood they say what rows near the mean of all would say."""
    rng, d = np.random.default_rng(6), 2
    gaussian, binary = LIKELIHOODS["gaussian"], LIKELIHOODS["binary"]
    F, tasks = rows_of(binary, 60, d, rng), np.zeros(60, np.int64)
    store = RowStore.empty(n_tasks=2, dim=d).added(tasks, F)
    more = rows_of(binary, 3, d, rng)
    store = store.compressed(10).added(np.ones(3, np.int64), more)
    found = reinterpreted(gaussian, binary, store)
    owners, rows = found.flat
    center = (F[:, -1].sum() + more[:, -1].sum() + 0.5) / 64
    weight = center * (1 - center)
    z = np.log(center / (1 - center)) + (F[:, -1] - center) / weight
    expected = np.sqrt(weight) * np.c_[F[:, :-1], z]
    mine = rows[owners == 0]
    np.testing.assert_allclose(mine.T @ mine, expected.T @ expected, rtol=1e-9)


def world(outcome: str, rate: float, **parameters: object) -> Synthetic:
    sizes = {"dim": 6, "n_tasks": 8, "rank": 2, "n_arms": 4, **parameters}
    return Synthetic(outcome=outcome, rate=rate, **sizes)  # type: ignore[arg-type]


def played(policy: Shared, environment: Synthetic, rounds: int = 30, seed: int = 0) -> Shared:
    simulate(policy, environment, rounds, seed)
    return policy


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        (world("clicks", 0.05), "binary"),
        (world("clicks", 0.6), "gaussian"),
        (world("counts", 0.8), "count"),
        (world("gaussian", 0.5), "gaussian"),
    ],
    ids=["clicks", "coins", "counts", "numbers"],
)
def test_what_rewards_are_is_found_out(environment: Synthetic, found: str) -> None:
    assert played(Shared(dim=6), environment).likelihood == found


def test_ratings_are_not_counts() -> None:
    """Their variance is a third of their mean."""
    ratings = 3 * [3, 3, 4, 4, 4, 5]
    policy, rng = Shared(dim=3), np.random.default_rng(0)
    for _ in range(60):
        arms = rng.standard_normal((4, 3, 3))
        decisions = policy.decide(range(4), arms, rng)
        policy.learn(range(4), arms, decisions, rng.choice([0.0, *ratings], size=4))
    assert policy.likelihood == "gaussian"


def test_a_guess_is_taken_back_by_a_reward_that_contradicts_it() -> None:
    policy, rng = played(Shared(dim=6), world("clicks", 0.05)), np.random.default_rng(1)
    assert policy.likelihood == "binary"
    arms = rng.standard_normal((8, 4, 6))
    before = saved(policy)
    policy.learn(range(8), arms, policy.decide(range(8), arms, rng), np.full(8, 2.5))
    assert policy.refit_due(1)
    policy.learn([0], arms[:1], policy.decide([0], arms[:1], rng), [0.3])
    assert policy.likelihood == "gaussian"
    rows = saved(policy).arrays["store.rows"]  # some are compressed, which changes no sum
    clicks = np.concatenate([before.arrays["store.rows"], before.arrays["pending.rows"]])[:, -1] > 0
    products = rows.T @ rows
    assert products[-2, -2] == pytest.approx(len(clicks) + 9)
    assert products[-2, -1] == pytest.approx(clicks.sum() + 8 * 2.5 + 0.3)


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [("binary", 2.0, "0 or 1"), ("count", -1.0, "whole numbers of at least 0")],
)
def test_rewards_that_were_said_to_be_others_are_refused(
    kind: str, wrong: float, said: str
) -> None:
    policy, arms = Shared(dim=2, rewards=kind), np.ones((1, 2, 2))  # type: ignore[arg-type]
    policy.learn([0], arms, made([0]), [1.0])
    with pytest.raises(DataError, match=f"must be {said} with rewards='{kind}', got {wrong:g}"):
        policy.learn([0], arms, made([0]), [wrong])
    assert policy.rewards == 1
    with pytest.raises(ConfigurationError, match="rewards must be one of auto, gaussian"):
        Shared(dim=2, rewards="clicks")  # type: ignore[arg-type]


@pytest.mark.parametrize(("outcome", "rate", "most"), [("clicks", 0.1, 1.0), ("counts", 2.0, 1e9)])
def test_expected_rewards_are_in_range(outcome: str, rate: float, most: float) -> None:
    kind: Rewards = "binary" if outcome == "clicks" else "count"
    policy = played(Shared(dim=6, rewards=kind, explore="never"), world(outcome, rate))
    arms = np.random.default_rng(0).standard_normal((8, 50, 6))
    values = policy.expected_rewards(range(8), 30 * arms)
    assert ((values >= 0) & (values <= most)).all()
    assert np.ptp(values) > 0.5
    values = policy.expected_rewards(range(8), arms)
    theirs = policy.probabilities(range(8), arms).argmax(axis=1)
    np.testing.assert_array_equal(values.argmax(axis=1), theirs)
    with pytest.raises(DataError, match="before the first reward"):
        Shared(dim=6).expected_rewards(range(8), arms)


def test_expected_rewards_of_numbers_are_near_the_truth() -> None:
    environment = world("gaussian", 0.5)
    policy = played(Shared(dim=6), environment)
    (last,) = list(environment.rounds(31, seed=0))[-1:]
    np.testing.assert_allclose(policy.expected_rewards(range(8), last.arms), last.means, atol=0.05)


@pytest.mark.parametrize(("outcome", "rate"), [("clicks", 0.05), ("counts", 0.5)])
def test_a_saved_policy_goes_on_to_the_last_bit(outcome: str, rate: float, tmp_path: Path) -> None:
    environment = world(outcome, rate)
    policy = played(Shared(dim=6), environment, rounds=20)
    policy.save(tmp_path / "policy")
    again = Shared.load(tmp_path / "policy")
    assert again.likelihood == policy.likelihood != "gaussian"
    for one in (policy, again):
        played(one, environment, rounds=12, seed=1)
    assert_same(policy, again)


def test_a_refit_elsewhere_gives_the_same_bits() -> None:
    environment = world("clicks", 0.05)
    here, there = (played(Shared(dim=6), environment, rounds=20) for _ in range(2))
    rng = np.random.default_rng(2)
    for _ in range(12):
        arms = rng.standard_normal((8, 4, 6))
        decisions, rewards = here.decide(range(8), arms, rng), (rng.random(8) < 0.2) * 1.0
        here.learn(range(8), arms, decisions, rewards)
        if there.refit_due(8):
            there.install(refit(there.snapshot(range(8), arms, decisions, rewards)))
        else:
            there.learn(range(8), arms, decisions, rewards)
    assert here.likelihood == "binary"
    assert_same(here, there)


def test_uncertainty_is_that_of_the_log_odds() -> None:
    found = played(Shared(dim=6), world("clicks", 0.05)).explain(3)
    assert "uncertainty of the log-odds of a reward" in str(found)
    assert found.scale == "log-odds of a reward"


def test_clicks_that_are_said_to_be_clicks_do_not_diverge() -> None:
    """With few clicks per task every arm can seem certain."""
    environment = Synthetic(dim=10, n_tasks=20, rank=2, outcome="clicks", rate=0.03)
    policy = Shared(dim=10, rewards="binary")
    simulate(policy, environment, 60, seed=1)
    assert policy.likelihood == "binary"
    assert policy.explain(1).uncertainty_before < 20


@pytest.mark.statistical
def test_clicks_cost_less_when_they_are_learned_as_clicks() -> None:
    environment = Synthetic(dim=10, n_tasks=20, rank=2, outcome="clicks", rate=0.03)
    ratios = []
    for seed in range(8):
        regrets = [
            simulate(Shared(dim=10, rewards=kind), environment, 200, seed).regret_per_task
            for kind in ("auto", "gaussian")
        ]
        ratios.append(regrets[0] / regrets[1])
    assert np.mean(ratios) < 0.95


# ---- Outliers, heavy tails, noise by task


def test_a_row_is_weighted_by_its_error_and_by_the_noise_of_its_task() -> None:
    rng, d, n = np.random.default_rng(0), 2, 400
    prior, tasks = replace(known_prior(d, rng), noise=0.04), np.repeat([0, 1], n)
    X = np.c_[rng.standard_normal((2 * n, d)), np.ones(2 * n)]
    noise = np.where(tasks == 0, 0.1, 0.3) * rng.standard_normal(2 * n)
    noise[7] = 5.0
    F = np.c_[X, X @ np.array([1.0, -2.0, 0.5]) + noise]
    store = RowStore.empty(n_tasks=2, dim=d).added(tasks, F).sorted()
    found = robust_weights(TaskPosteriors.of(store, prior), tasks, F)
    np.testing.assert_array_equal(found.rewards, F[:, -1])
    quiet, loud = np.median(found.weights[:n]), np.median(found.weights[n:])
    assert 5 < quiet / loud < 9  # 9 is the true ratio, and weights are drawn to each other
    assert found.weights[7] < 0.01 * quiet
    assert (found.weights[:n] == quiet).mean() > 0.98


def test_outliers_are_counted_by_their_median() -> None:
    rng = np.random.default_rng(0)
    squares, expected = rng.standard_normal(2000) ** 2, np.ones(2000)
    rewards = 3 * rng.standard_normal(2000)
    assert n_outliers(squares, expected, rewards) == 0
    assert n_outliers(100 * squares, expected, rewards) == 0  # the model is overconfident, no more
    squares[:20] = 200
    assert n_outliers(squares, expected, rewards) == 20
    assert n_outliers(squares, expected, 10 * rewards) == 0  # no larger than rewards differ by
    assert n_outliers(np.zeros(9), np.ones(9), np.ones(9)) == 0
    assert n_outliers(np.ones(1), np.ones(1), np.ones(1)) == 0


def test_rewards_of_few_values_have_no_outliers() -> None:
    """Most are right and some wrong, with a little noise; or few buy, for any price."""
    rng = np.random.default_rng(1)
    predicted = 1 + 0.1 * rng.standard_normal(2000)
    right = np.where(rng.random(2000) < 0.03, 0.0, 1.0) + 0.001 * rng.standard_normal(2000)
    bought = np.where(rng.random(2000) < 0.02, rng.gamma(2, 10, 2000), 0.0)
    expected = np.full(2000, 0.01)
    assert n_outliers((right - predicted) ** 2, expected, right) == 0
    assert n_outliers((bought - (predicted - 0.9)) ** 2, expected, bought) == 0


@pytest.mark.parametrize(
    ("outcome", "found"),
    [("outliers", "robust"), ("heavy-tails", "robust"), ("gaussian", "gaussian")],
)
def test_outliers_are_found_out(outcome: str, found: str) -> None:
    environment = world(outcome, 0.5, noise_std=0.1, n_tasks=20)
    assert played(Shared(dim=6), environment, rounds=60).likelihood == found


def test_a_robust_policy_goes_on_to_the_last_bit_when_saved(tmp_path: Path) -> None:
    environment = world("outliers", 0.5, noise_std=0.1)
    policy = played(Shared(dim=6, rewards="robust"), environment, rounds=20)
    policy.save(tmp_path / "policy")
    again = Shared.load(tmp_path / "policy")
    for one in (policy, again):
        played(one, environment, rounds=12, seed=1)
    assert_same(policy, again)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("outcome", "noise_std", "most"), [("outliers", 0.1, 0.7), ("own-noise", 0.3, 0.97)]
)
def test_outliers_cost_less_where_they_are_noticed(
    outcome: str, noise_std: float, most: float
) -> None:
    environment = world(outcome, 0.5, dim=20, n_tasks=40, noise_std=noise_std, n_arms=5)
    regrets = np.array(
        [
            [
                simulate(Shared(dim=20, rewards=kind), environment, 150, seed).regret_per_task
                for kind in ("auto", "gaussian")
            ]
            for seed in range(2000, 2008)
        ]
    )
    assert regrets[:, 0].mean() < most * regrets[:, 1].mean()
