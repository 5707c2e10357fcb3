"""The references of synthetic 1: their likelihood, and what they find."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from benchmarks.flagship import references
from benchmarks.flagship.hamiltonian import SampledBasis
from benchmarks.flagship.kept import Kept
from benchmarks.flagship.most_likely import MostLikelyBasis, Rewards
from benchmarks.flagship.sections import SEED, Scale
from cobandits.decisions import Decisions
from cobandits.environments import Synthetic
from cobandits.linalg import orthonormal, subspace_distance
from cobandits.simulate import simulate

Doubles = NDArray[np.float64]
NOISE = 0.5


def some(seed: int = 0) -> tuple[Rewards, Doubles]:
    """Return rewards of 4 tasks in 6 rounds, one of which a task missed, and a basis, (5, 2)."""
    rng = np.random.default_rng(seed)
    rows, rewards = rng.standard_normal((6, 4, 5)), rng.standard_normal((6, 4))
    rows[2, 1], rewards[2, 1] = 0, 0
    return Rewards(rows, rewards), rng.standard_normal((5, 2))


def log_density(seen: Rewards, B: Doubles) -> float:
    """Return the log density of B and of all rewards, by their covariance matrices."""
    prior = multivariate_normal(np.zeros(B.size), np.eye(B.size) / len(B))
    total = float(prior.logpdf(B.ravel()))
    for t in range(seen.rewards.shape[1]):
        A = seen.rows[:, t] @ B
        covariance = NOISE**2 * np.eye(len(A)) + A @ A.T
        total += float(multivariate_normal(np.zeros(len(A)), covariance).logpdf(seen.rewards[:, t]))
    return total


def test_the_cost_is_the_marginal_likelihood() -> None:
    seen, B = some()
    other = B[::-1].copy()
    costs = [seen.cost(basis.ravel(), NOISE)[0] for basis in (B, other)]
    assert costs[0] - costs[1] == pytest.approx(log_density(seen, other) - log_density(seen, B))


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_that_of_the_cost(seed: int) -> None:
    seen, B = some(seed)

    def cost(flat: Doubles) -> float:
        return seen.cost(flat, NOISE)[0]

    numeric = approx_fprime(B.ravel(), cost, 1e-6)
    np.testing.assert_allclose(seen.cost(B.ravel(), NOISE)[1], numeric, rtol=1e-3, atol=1e-3)


def test_weights_are_posterior_means() -> None:
    seen, B = some()
    for t, found in enumerate(seen.weights(B, NOISE)):
        A = seen.rows[:, t] @ B
        expected = np.linalg.lstsq(
            np.vstack([A, NOISE * np.eye(2)]), np.append(seen.rewards[:, t], [0, 0]), rcond=None
        )[0]
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_the_subspace_is_found_and_then_nothing_is_lost() -> None:
    world = Synthetic(dim=12, n_tasks=20, rank=2, noise_std=1e-4)
    policy = MostLikelyBasis(dim=12, n_tasks=20, rank=2, noise_std=1e-4, rounds=20)
    regret = simulate(policy, world, 20, 3).regret
    (first,) = world.rounds(1, seed=3)
    assert first.truth is not None
    assert subspace_distance(np.asarray(orthonormal(policy.basis)), first.truth.basis) < 1e-3
    assert regret[-5:].sum() < 1e-2 * regret.sum()


def test_the_curvature_is_that_of_squared_errors() -> None:
    """With weights held, and their errors taken out of those of rewards."""
    seen, B = some()
    w, found = seen.weights(B, NOISE), len(B) * np.eye(B.size)
    for t in range(4):
        A = seen.rows[:, t] @ B
        J = np.stack([np.outer(phi, w[t]).ravel() for phi in seen.rows[:, t]])
        found += J.T @ np.linalg.solve(NOISE**2 * np.eye(len(A)) + A @ A.T, J)
    np.testing.assert_allclose(seen.curvature(B, NOISE), found, rtol=1e-8)


def test_sampled_bases_have_the_mean_that_importance_weights_give() -> None:
    """Of one task with one feature: ``y = b w x + e``, where b and w are standard normal."""
    x, y, noise = 1.5, 1.2, 0.5
    b = np.random.default_rng(0).standard_normal(200_000)
    a, variance = b * x, noise**2 + (b * x) ** 2
    weights = np.exp(-0.5 * y**2 / variance) / np.sqrt(variance)
    expected = np.average(b * a * y / variance, weights=weights)
    policy = SampledBasis(dim=1, n_tasks=1, rank=1, noise_std=noise, rounds=200)
    policy.learn([0], [[[x]]], Decisions(chosen=[0], probabilities=[1.0], policy="any"), [y])
    found = [policy.thetas[0, 0]]
    for _ in range(60):
        policy._predict()
        found.append(policy.thetas[0, 0])
    assert abs(np.mean(found) - expected) < 5 * np.std(found) / np.sqrt(len(found)) + 1e-3


def test_the_section_has_a_target_for_each_noise(tmp_path: Path) -> None:
    scale = Scale(cells=((6, 2), (8, 1)), dim=8, rounds=6, reference_trials=1, sampled=((8, 1),))
    part = references.references(Kept(tmp_path, tells=False), scale)
    assert [len(table.rows) for table in part.tables] == [2, 2, 2]
    world = Synthetic(dim=8, n_tasks=6, rank=2, noise_std=1.0)
    told = references.shared_trial(world, 6, SEED, 0) | references.likely_trial(world, 6, SEED, 0)
    assert part.tables[2].rows[0][2:4] == tuple(f"{value:.3g}" for value in told.values())
    assert all(table.rows[0][4] == "-" != table.rows[1][4] for table in part.tables)
    assert "In 1 cells" in part.notes[0]
    assert [target.at_most for target in part.targets] == [1.1] * 3
