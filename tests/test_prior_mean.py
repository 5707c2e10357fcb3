"""The mean that the thetas of all tasks have in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from cobandits.environments import Synthetic
from cobandits.policies import Shared
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import Prior
from cobandits.policies.shared.empirical_bayes.mean import CommonMean, common_mean
from tests.multitask import ALONE, SHARED, fitted, rows, stored

Doubles = NDArray[np.float64]


def tasks_around(
    mean: Doubles, *, n_tasks: int, n: int, width: float, seed: int
) -> tuple[Doubles, Doubles]:
    """Draw rows, (T, n, d), and rewards, (T, n), of tasks whose thetas are around a mean."""
    rng = np.random.default_rng(seed)
    thetas = mean + width * rng.standard_normal((n_tasks, len(mean)))
    Phi = rng.standard_normal((n_tasks, n, len(mean)))
    y = np.einsum("tnd,td->tn", Phi, thetas) + 0.3 * rng.standard_normal((n_tasks, n))
    return Phi, y


def some_prior(Phi: Doubles, y: Doubles, seed: int = 0) -> Prior:
    """Return a prior with a covariance that no learning would lead to."""
    prior = Prior.vague(stored(Phi, y))
    root = np.random.default_rng(seed).standard_normal(prior.covariance.shape)
    return replace(prior, covariance=root @ root.T / len(root), offset=0.4, noise=0.2)


def stepped(prior: Prior, Phi: Doubles, y: Doubles) -> CommonMean:
    """Return the mean under the covariance of a prior, by its normal equations."""
    p = len(prior.covariance)
    G, g = np.zeros((p, p)), np.zeros(p)
    for X, v in zip(rows(Phi, y)[..., :-1], y, strict=True):
        Z = X @ prior.coordinates.matrix
        K = Z @ prior.covariance @ Z.T + prior.noise * np.eye(len(Z))
        G += Z.T @ np.linalg.solve(K, Z)
        g += Z.T @ np.linalg.solve(K, v - prior.offset)
    return common_mean(prior.covariance, G, g)


def log_density(prior: Prior, scale: float, Phi: Doubles, y: Doubles) -> float:
    """Return the log density of all rewards together, with ``m ~ N(0, scale C)``, by definition."""
    X = rows(Phi, y)[..., :-1]
    Z = X @ prior.coordinates.matrix
    T, n, _ = Z.shape
    C = prior.covariance.copy()
    C[-1], C[:, -1] = 0, 0  # the mean has no intercept
    flat = Z.reshape(T * n, -1)
    cov = scale * flat @ C @ flat.T + prior.noise * np.eye(T * n)
    for t in range(T):
        part = slice(t * n, (t + 1) * n)
        cov[part, part] += Z[t] @ prior.covariance @ Z[t].T
    return float(multivariate_normal(mean=np.full(T * n, prior.offset), cov=cov).logpdf(y.ravel()))


@pytest.mark.parametrize("width", [0.1, 1.0])
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_the_mean_has_the_variance_that_makes_all_rewards_most_likely(
    monkeypatch: pytest.MonkeyPatch, width: float, size: float
) -> None:
    """Each variance alone gives a mean; the one that is taken is that of the largest density."""
    Phi, y = tasks_around(size * np.arange(1.0, 4.0), n_tasks=6, n=4, width=width, seed=1)
    prior = some_prior(Phi, y)
    scales = config.MEAN_SCALES
    densities = [log_density(prior, scale, Phi, y) for scale in scales]
    found = stepped(prior, Phi, y)
    monkeypatch.setattr(config, "MEAN_SCALES", (scales[int(np.argmax(densities))],))
    np.testing.assert_allclose(found.mean, stepped(prior, Phi, y).mean, rtol=1e-10)


def test_the_mean_is_that_of_generalised_least_squares_with_a_prior(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That is, the most likely one of all means without an intercept, found by a search."""
    monkeypatch.setattr(config, "MEAN_SCALES", (3.0,))
    Phi, y = tasks_around(np.array([1.0, -2.0]), n_tasks=5, n=3, width=0.5, seed=2)
    prior = some_prior(Phi, y)
    C = 3.0 * prior.covariance[:-1, :-1]

    def cost(m: Doubles) -> float:
        total = 0.5 * float(m @ np.linalg.solve(C, m))
        for X, v in zip(rows(Phi, y)[..., :-1], y, strict=True):
            Z = X @ prior.coordinates.matrix
            K = Z @ prior.covariance @ Z.T + prior.noise * np.eye(len(Z))
            error = v - prior.offset - Z[:, :-1] @ m
            total += 0.5 * float(error @ np.linalg.solve(K, error))
        return total

    best = minimize(cost, np.zeros(2), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(stepped(prior, Phi, y).mean, [*best, 0.0], atol=1e-5)


def test_the_covariance_of_the_mean_is_its_posterior_covariance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That is, of a Gaussian density of the mean given all rewards, by its Hessian."""
    monkeypatch.setattr(config, "MEAN_SCALES", (3.0,))
    Phi, y = tasks_around(np.array([1.0, -2.0]), n_tasks=5, n=3, width=0.5, seed=2)
    prior = some_prior(Phi, y)
    precision = np.linalg.inv(3.0 * prior.covariance[:-1, :-1])
    for X in rows(Phi, y)[..., :-1]:
        Z = X @ prior.coordinates.matrix
        K = Z @ prior.covariance @ Z.T + prior.noise * np.eye(len(Z))
        precision += Z[:, :-1].T @ np.linalg.solve(K, Z[:, :-1])
    found = stepped(prior, Phi, y).covariance
    np.testing.assert_allclose(found[:-1, :-1], np.linalg.inv(precision), rtol=1e-9)
    assert not found[-1].any()


@pytest.mark.parametrize(("n_tasks", "has_mean"), [(1, False), (3, False), (4, True)])
def test_it_takes_more_tasks_than_coordinates(n_tasks: int, has_mean: bool) -> None:
    """There are three: two features and the intercept."""
    Phi, y = tasks_around(np.array([5.0, 5.0]), n_tasks=n_tasks, n=30, width=0.1, seed=0)
    fit = fitted(stored(Phi, y))
    for used in (SHARED, ALONE):
        assert fit.under(used).mean.any() == has_mean


def test_the_center_and_theta_are_the_mean_with_the_offset_in_coordinates_and_features() -> None:
    Phi, y = tasks_around(np.ones(3), n_tasks=4, n=5, width=0.1, seed=3)
    prior = replace(some_prior(Phi, y), mean=np.array([1.0, 2.0, 3.0, 0.0]))
    np.testing.assert_array_equal(prior.center, [1, 2, 3, 0.4])
    X = rows(Phi, y)[0, :, :-1]
    np.testing.assert_allclose(X @ prior.theta, X @ prior.coordinates.matrix @ prior.center)
    other = Prior.vague(stored(2 * Phi, y)).coordinates
    np.testing.assert_allclose(prior.in_coordinates(other).theta, prior.theta, rtol=1e-10)


def played(mean: Doubles, seed: int, *, rounds: int = 20, n_tasks: int = 200) -> Shared:
    """Return a policy after rounds in which all tasks but the last, around a mean, had rewards."""
    rng = np.random.default_rng(seed)
    thetas = mean + 0.1 * rng.standard_normal((n_tasks, len(mean)))
    policy, tasks = Shared(dim=len(mean), n_tasks=n_tasks + 1), np.arange(n_tasks)
    for _ in range(rounds):
        arms = rng.standard_normal((n_tasks, 4, len(mean)))
        decisions = policy.decide(tasks, arms, rng)
        chosen = arms[tasks, decisions.chosen]
        y = np.einsum("td,td->t", chosen, thetas) + 0.3 * rng.standard_normal(n_tasks)
        policy.learn(tasks, arms, decisions, y)
    return policy


def test_the_first_decision_of_a_new_task_is_as_good_as_by_the_mean_of_the_others() -> None:
    """Four arms: nine of ten first picks are right (chance: 1 of 4), over three worlds."""
    right = []
    for seed in range(3):
        rng = np.random.default_rng(100 + seed)
        mean = rng.standard_normal(10)
        policy = played(mean, seed)
        new = mean + 0.1 * rng.standard_normal((400, 10))
        arms = rng.standard_normal((400, 4, 10))
        chosen = policy.decide(np.full(400, 200), arms, rng).chosen
        right.append(np.mean(np.einsum("mkd,md->mk", arms, new).argmax(axis=1) == chosen))
    assert np.mean(right) > 0.85


def test_tasks_without_a_mean_in_common_are_given_next_to_none() -> None:
    """With fewer tasks than features too, where any mean would fit noise."""
    world = Synthetic(dim=30, n_tasks=10, rank=2, noise_std=0.1)
    shares = []
    for seed in range(5):
        policy, rng = Shared(dim=30, n_tasks=10), np.random.default_rng(seed)
        for now in world.rounds(20, seed=seed):
            decisions = policy.decide(now.tasks, now.arms, rng)
            y = now.rewards[now.tasks, decisions.chosen]
            policy.learn(now.tasks, now.arms, decisions, y)
        assert policy.prior is not None
        assert policy.estimate is not None
        length = np.linalg.norm(policy.prior.theta[:-1])
        shares.append(length / np.linalg.norm(policy.estimate.theta, axis=0).mean())
    assert np.median(shares) < 0.1
