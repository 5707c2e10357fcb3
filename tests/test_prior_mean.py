"""The mean that the thetas of all tasks have in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import sqrtm
from scipy.stats import multivariate_normal

from cobandits.environments import Synthetic
from cobandits.policies import Shared
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import Prior
from cobandits.policies.shared.empirical_bayes.mean import CommonMean, common_mean
from tests.multitask import rows, stored

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


def equations(prior: Prior, Phi: Doubles, y: Doubles) -> tuple[Doubles, Doubles]:
    """Return the normal equations of the mean under the covariance of a prior, task by task."""
    p = len(prior.covariance)
    G, g = np.zeros((p, p)), np.zeros(p)
    for X, v in zip(rows(Phi, y)[..., :-1], y, strict=True):
        Z = X @ prior.coordinates.matrix
        K = Z @ prior.covariance @ Z.T + prior.noise * np.eye(len(Z))
        G += Z.T @ np.linalg.solve(K, Z)
        g += Z.T @ np.linalg.solve(K, v - prior.offset)
    return G, g


def stepped(prior: Prior, Phi: Doubles, y: Doubles) -> CommonMean:
    """Return the mean under the covariance of a prior."""
    G, g = equations(prior, Phi, y)
    return common_mean(prior.covariance, G, g, n_tasks=len(y))


def candidates(prior: Prior, Phi: Doubles, y: Doubles) -> list[Doubles]:
    """Return the covariances that a mean may have, (p, p), by definition: two shapes, 13 sizes."""
    G, g = equations(prior, Phi, y)
    found = []
    for S in (prior.covariance, np.eye(len(G))):
        root = sqrtm(S).real
        size = np.trace(root @ G @ root) / len(root)
        unit = np.mean((root @ g) ** 2) / size**2
        found += [scale * unit * S for scale in config.MEAN_SCALES]
    return found


def log_density(prior: Prior, of_mean: Doubles, Phi: Doubles, y: Doubles) -> float:
    """Return the log density of all rewards together, with ``m ~ N(0, of_mean)``."""
    Z = rows(Phi, y)[..., :-1] @ prior.coordinates.matrix
    T, n, _ = Z.shape
    flat = Z.reshape(T * n, -1)
    cov = flat @ of_mean @ flat.T + prior.noise * np.eye(T * n)
    for t in range(T):
        part = slice(t * n, (t + 1) * n)
        cov[part, part] += Z[t] @ prior.covariance @ Z[t].T
    return float(multivariate_normal(mean=np.full(T * n, prior.offset), cov=cov).logpdf(y.ravel()))


@pytest.mark.parametrize("n_tasks", [4, 6])  # of four coordinates: few tasks, and more
@pytest.mark.parametrize("width", [0.1, 1.0])
@pytest.mark.parametrize("size", [0.0, 0.1, 1.0])
def test_the_mean_is_averaged_over_all_that_it_may_be(
    width: float, size: float, n_tasks: int
) -> None:
    """The moments of a mixture, by definition, with the densities of all rewards as weights."""
    Phi, y = tasks_around(size * np.arange(1.0, 4.0), n_tasks=n_tasks, n=4, width=width, seed=1)
    prior = some_prior(Phi, y)
    tried = candidates(prior, Phi, y)
    G, g = equations(prior, Phi, y)
    none = log_density(prior, 0 * tried[0], Phi, y)
    weights = [np.exp(log_density(prior, one, Phi, y) - none) for one in tried]
    for_none = len(tried) * np.exp(config.MEAN_EVIDENCE / 2 if n_tasks == 4 else 0)
    mean, second = np.zeros(4), np.zeros((4, 4))
    for one, weight in zip(tried, weights / (np.sum(weights) + for_none), strict=True):
        posterior = np.linalg.inv(np.eye(4) + one @ G) @ one
        mean += weight * posterior @ g
        second += weight * (posterior + np.outer(posterior @ g, posterior @ g))
    found = stepped(prior, Phi, y)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.covariance, second - np.outer(mean, mean), atol=1e-8)


def test_tasks_that_hardly_differ_have_a_mean_all_the_same() -> None:
    """The covariance of thetas is next to 0 there, and says nothing of the mean."""
    Phi, y = tasks_around(np.array([1.0, -2.0]), n_tasks=50, n=3, width=0.0, seed=3)
    prior = replace(some_prior(Phi, y), covariance=1e-12 * np.eye(3), noise=0.09, offset=0.0)
    np.testing.assert_allclose(prior.coordinates.matrix[-1], [0, 0, 1], atol=1e-9)
    theta = prior.coordinates.matrix @ stepped(prior, Phi, y).mean
    np.testing.assert_allclose(theta[:-1], [1, -2], atol=0.15)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e9, 1e12])
def test_a_mean_with_overwhelming_evidence_is_that_of_least_squares(size: float) -> None:
    """And its covariance is one."""
    g = np.full(3, size)
    found = common_mean(np.eye(3), np.eye(3), g, n_tasks=9)
    if size > 1:
        np.testing.assert_allclose(found.mean, g, rtol=1e-3)
    assert (np.linalg.eigvalsh(found.covariance) > 0).all()
    known = found.with_known_intercept()
    np.testing.assert_array_equal(known.mean, [*found.mean, 0])
    assert np.abs(known.covariance[-1]).max() == 0


def test_few_tasks_need_more_evidence_of_a_mean() -> None:
    """There are four coordinates: three features and the intercept."""
    shares = []
    for size in np.linspace(0.05, 2, 20):
        Phi, y = tasks_around(np.full(3, size), n_tasks=4, n=10, width=0.3, seed=0)
        prior = replace(some_prior(Phi, y), covariance=0.09 * np.eye(4), noise=0.09, offset=0.0)
        G, g = equations(prior, Phi, y)
        few, many, one = (common_mean(prior.covariance, G, g, n_tasks=n).mean for n in (4, 5, 1))
        assert not one.any()
        shares.append(np.linalg.norm(few) / np.linalg.norm(many))
    assert shares[0] < 0.05
    assert shares[-1] > 0.99
    assert (np.array(shares) <= 1 + 1e-12).all()


def test_the_center_and_theta_are_the_mean_with_the_offset_in_coordinates_and_features() -> None:
    Phi, y = tasks_around(np.ones(3), n_tasks=4, n=5, width=0.1, seed=3)
    prior = replace(some_prior(Phi, y), mean=np.array([1.0, 2.0, 3.0, 0.0]))
    np.testing.assert_array_equal(prior.center, [1, 2, 3, 0.4])
    X = rows(Phi, y)[0, :, :-1]
    np.testing.assert_allclose(X @ prior.theta, X @ prior.coordinates.matrix @ prior.center)
    other = Prior.vague(stored(2 * Phi, y)).coordinates
    moved = prior.in_coordinates(other, other.from_others(prior.coordinates))
    np.testing.assert_allclose(moved.theta, prior.theta, rtol=1e-10)


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


def test_a_brand_that_nobody_was_shown_is_expected_to_sell_about_as_others() -> None:
    """Its column is 0 in all rows, and that of the brand that most were shown is centred."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        tasks = rng.permutation(np.repeat(np.arange(80), 12))
        brands = np.where(rng.random(len(tasks)) < 0.75, 0, 2)
        liking = rng.normal(0, 0.25, 80)[tasks]
        chances = np.where(brands == 0, 0.5 + liking, 0.4 - liking)
        sold = (rng.random(len(tasks)) < chances).astype(float)
        prices = 0.25 + 0.3 * rng.standard_normal((len(tasks), 2))
        arms = np.hstack([np.eye(4)[brands], prices])[:, None]  # one each
        policy = Shared(dim=6, rewards="gaussian")
        for part in np.array_split(np.arange(len(tasks)), 40):
            shown = policy.decide(tasks[part], arms[part], rng)
            policy.learn(tasks[part], arms[part], shown, sold[part])
        assert policy.prior is not None
        expected = policy.prior.theta @ np.array([0, 1, 0, 0, 0.25, 0.25, 1])
        assert 0 < expected < 0.8
