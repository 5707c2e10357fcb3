"""The prior of all tasks, and the policy that learns it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from cobandits import priors
from cobandits.decisions import Decisions
from cobandits.environments import Synthetic
from cobandits.policies import Shared, make
from cobandits.posteriors import Posteriors
from cobandits.priors import Prior, improved
from cobandits.schedules import OneEpoch
from cobandits.simulate import simulate
from cobandits.tasks import TaskStatistics

Floats = NDArray[np.floating]


def drawn(
    *, d: int = 5, T: int = 8, n: int = 6, rank: int = 5, noise: float = 0.3, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Draw stacked rows and rewards, and the thetas behind them."""
    rng = np.random.default_rng(seed)
    Theta = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, T))  # (d, T)
    Phi = rng.standard_normal((T, n, d))
    y = np.einsum("tnd,dt->tn", Phi, Theta) + noise * rng.standard_normal((T, n))
    return Phi, y, Theta


def likelihood(prior: Prior, Phi: Floats, y: Floats) -> float:
    """Return the log likelihood of all rewards, by their covariance matrices."""
    R = prior.root
    return sum(
        float(multivariate_normal(cov=X @ R @ R.T @ X.T + prior.noise * np.eye(len(X))).logpdf(v))
        for X, v in zip(Phi, y, strict=True)
    )


def test_every_step_makes_the_rewards_more_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(priors, "_ISOTROPIC", 0.0)
    Phi, y, _ = drawn(rank=2)
    tasks = TaskStatistics.from_stacked(Phi, y)
    prior = Prior.vague(tasks)
    told = [likelihood(prior, Phi, y)]
    for _ in range(15):
        prior = improved(tasks, prior, iterations=1)
        told.append(likelihood(prior, Phi, y))
    assert (np.diff(told) > -1e-9).all()
    assert told[-1] > told[0] + 10


def test_posteriors_are_those_of_gaussian_regression() -> None:
    """Against ``C Phi' (Phi C Phi' + noise I)^-1 y`` and its covariance."""
    Phi, y, _ = drawn()
    tasks = TaskStatistics.from_stacked(Phi, y)
    prior = improved(tasks, None, iterations=3)
    heads = Posteriors(n_tasks=8, dim=5, ridge=1.0)
    moments = prior.whitened(tasks.moments().T)
    heads.settle(np.arange(8), prior.precisions(tasks.grams), moments)
    C = prior.root @ prior.root.T
    for t, (X, v) in enumerate(zip(Phi, y, strict=True)):
        gain = C @ X.T @ np.linalg.inv(X @ C @ X.T + prior.noise * np.eye(len(X)))
        np.testing.assert_allclose(prior.root @ heads.means[t], gain @ v, atol=1e-9)
        A = heads.spread(np.array([t]), prior.root[None])[0]  # rows of the root as arms
        np.testing.assert_allclose(A @ A.T, C - gain @ X @ C, atol=1e-9)


def test_heads_that_learn_reward_by_reward_agree_with_those_that_are_settled() -> None:
    Phi, y, _ = drawn()
    tasks = TaskStatistics.from_stacked(Phi, y)
    prior = improved(tasks, None, iterations=2)
    settled, learned = (Posteriors(n_tasks=8, dim=5, ridge=1.0) for _ in range(2))
    moments = prior.whitened(tasks.moments().T)
    settled.settle(np.arange(8), prior.precisions(tasks.grams), moments)
    std = np.sqrt(prior.noise)
    for n in range(y.shape[1]):
        learned.learn(np.arange(8), Phi[:, n] @ prior.root / std, y[:, n] / std)
    np.testing.assert_allclose(settled.means, learned.means, atol=1e-9)
    np.testing.assert_allclose(settled.roots, learned.roots, atol=1e-9)
    np.testing.assert_allclose(settled.log_volumes, learned.log_volumes, atol=1e-9)


def test_a_shared_subspace_is_found_and_the_order_of_the_noise() -> None:
    """The noise is taken for too small: what counts as five tasks without a subspace has some."""
    Phi, y, Theta = drawn(d=12, T=200, n=10, rank=2, noise=0.1)
    prior = improved(TaskStatistics.from_stacked(Phi, y), None, iterations=60)
    spectrum = prior.spectrum
    assert spectrum[1] > 30 * spectrum[2]
    assert 0.05 < np.sqrt(prior.noise) < 0.11
    C = prior.root @ prior.root.T
    np.testing.assert_allclose(C, Theta @ Theta.T / 200, atol=0.15 * np.trace(C))


def test_tasks_with_nothing_in_common_get_no_preferred_direction() -> None:
    rng = np.random.default_rng(1)
    Theta, Phi = rng.standard_normal((6, 300)), rng.standard_normal((300, 8, 6))
    y = np.einsum("tnd,dt->tn", Phi, Theta) + 0.1 * rng.standard_normal((300, 8))
    spectrum = improved(TaskStatistics.from_stacked(Phi, y), None, iterations=30).spectrum
    assert spectrum[0] < 1.6 * spectrum[-1]


def test_units_of_features_do_not_matter() -> None:
    Phi, y, _ = drawn()
    scales = np.array([1e-3, 1.0, 50.0, 1e4, 0.2])
    plain = improved(TaskStatistics.from_stacked(Phi, y), None, iterations=4)
    scaled = improved(TaskStatistics.from_stacked(Phi * scales, y), None, iterations=4)
    C = scales[:, None] * (scaled.root @ scaled.root.T) * scales
    np.testing.assert_allclose(C, plain.root @ plain.root.T, rtol=1e-6, atol=1e-9)
    assert scaled.noise == pytest.approx(plain.noise, rel=1e-6)


def test_rewards_that_are_all_zero_and_features_that_are_always_zero() -> None:
    policy, rng = Shared(dim=3, n_tasks=2), np.random.default_rng(0)
    arms = rng.standard_normal((2, 4, 3))
    arms[..., 1] = 0
    for _ in range(6):
        decided = policy.decide([0, 1], arms, rng)
        policy.learn([0, 1], arms, decided, [0.0, 0.0])
    assert np.isfinite(policy.probabilities([0, 1], arms)).all()
    assert policy.estimate is not None
    np.testing.assert_allclose(policy.estimate.theta, 0, atol=1e-12)


def test_a_refit_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Shared(dim=3, n_tasks=2, schedule=OneEpoch(rounds=3))
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((2, 4, 3))
    made = Decisions(chosen=[0, 1], probabilities=[1.0, 1.0], policy="x")
    for _ in range(2):
        policy.learn([0, 1], arms, made, [1.0, 2.0])
    before = policy.probabilities([0, 1], arms)

    def fails(*_: object, **__: object) -> Prior:
        raise np.linalg.LinAlgError("no")

    with monkeypatch.context() as patch:
        patch.setattr("cobandits.policies.shared.improved", fails)
        with pytest.raises(np.linalg.LinAlgError):
            policy.learn([0, 1], arms, made, [1.0, 2.0])
    np.testing.assert_array_equal(policy.probabilities([0, 1], arms), before)
    policy.learn([0, 1], arms, made, [1.0, 2.0])
    assert policy.prior is not None


def regret(name: str, world: Synthetic, rounds: int, trials: int) -> float:
    """Return the regret a task of a policy, mean over trials."""
    setting = {"dim": world.dim, "n_tasks": world.n_tasks, "rank": world.rank}
    parameters = {"ridge": 1e-2} if name == "ridge" else {}
    return float(
        np.mean(
            [
                simulate(
                    make(name, parameters, rounds=rounds, **setting), world, rounds, 7, trial=trial
                ).regret_per_task
                for trial in range(trials)
            ]
        )
    )


def test_related_tasks_are_learned_far_faster_than_alone() -> None:
    world = Synthetic(dim=30, n_tasks=20, rank=2)
    assert regret("shared", world, 60, 3) < 0.5 * regret("ridge", world, 60, 3)


@pytest.mark.statistical
@pytest.mark.parametrize(("T", "r", "most"), [(10, 2, 0.6), (10, 8, 1.0), (25, 4, 0.5)])
def test_shared_against_greedy_ridge(T: int, r: int, most: float) -> None:
    world = Synthetic(dim=100, n_tasks=T, rank=r)
    assert regret("shared", world, 200, 10) < most * regret("ridge", world, 200, 10)


@pytest.mark.statistical
def test_unrelated_tasks_lose_at_most_a_third() -> None:
    """Measured: 1.20. With a prior of few tasks' own directions it is still too sure of itself."""
    world = Synthetic(dim=100, n_tasks=20, rank=4, unrelated=True)
    assert regret("shared", world, 200, 5) < 1.33 * regret("ridge", world, 200, 5)
