"""The marginal likelihood of low rank plus isotropic, against dense covariances."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from cobandits.policies.shared.empirical_bayes import TaskBlock
from cobandits.policies.shared.empirical_bayes.factors import (
    Factors,
    NoiseBounds,
    Problem,
    fit_factors,
)
from cobandits.policies.shared.empirical_bayes.likelihood import MarginalLikelihood
from cobandits.policies.shared.empirical_bayes.rows import BlockRows

Doubles = NDArray[np.float64]

P, Q = 5, 2


def some_blocks(seed: int = 0) -> list[TaskBlock]:
    """Draw tasks of 3 and of 7 rows, the last of which are padding in some."""
    rng, blocks = np.random.default_rng(seed), []
    for n, tasks in ((7, 4), (3, 3)):
        Z, y = rng.standard_normal((tasks, n, P)), rng.standard_normal((tasks, n))
        Z[..., -1] = 1
        Z[0, n - 1 :], y[0, n - 1 :] = 0, 0
        blocks.append(TaskBlock(np.arange(tasks), Z, y))
    return blocks


def dense(blocks: list[TaskBlock], factors: Factors, center: Doubles) -> float:
    """Return the log density of all rewards, by the covariance of each task's."""
    total = 0.0
    for _, Z, y in blocks:
        for padded, v in zip(Z, y, strict=True):
            true = padded[:, -1] != 0
            X = padded[true]
            cov = X @ factors.covariance @ X.T + factors.noise * np.eye(len(X))
            total += float(multivariate_normal(mean=X @ center, cov=cov).logpdf(v[true]))
    return total


def some_factors(seed: int, rho: float = 0.6) -> Factors:
    rng = np.random.default_rng(seed)
    noise = float(rng.uniform(0.1, 2))
    return Factors(L=rng.standard_normal((P, Q)), isotropic=rho * noise, noise=noise)


def numbers(factors: Factors) -> Doubles:
    return np.append(factors.L.ravel(), np.log(factors.noise))


def at(x: Doubles, rho: float = 0.6) -> Factors:
    noise = float(np.exp(x[-1]))
    return Factors(L=x[:-1].reshape(P, Q), isotropic=rho * noise, noise=noise)


CENTER = np.linspace(-0.5, 0.5, P)


def test_it_is_that_of_dense_covariances_but_for_a_constant() -> None:
    blocks = some_blocks()
    likelihood = MarginalLikelihood(blocks, rho=0.6, center=CENTER)
    assert likelihood.n_rows == 4 * 7 + 3 * 3 - 2
    found = [some_factors(seed) for seed in range(4)]
    ours = np.array([likelihood.value(one.L, float(np.log(one.noise)))[0] for one in found])
    theirs = np.array([-dense(blocks, one, CENTER) for one in found])
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], rtol=1e-9)


def test_gradients_are_those_of_differences() -> None:
    blocks = some_blocks()
    likelihood = MarginalLikelihood(blocks, rho=0.6, center=CENTER)
    x = numbers(some_factors(1))
    _, gradient, in_noise = likelihood.value(x[:-1].reshape(P, Q), x[-1])

    def value(x: Doubles) -> float:
        return -dense(blocks, at(x), CENTER)

    expected = approx_fprime(x, value, 1e-6)
    np.testing.assert_allclose(np.append(gradient, in_noise), expected, rtol=1e-4, atol=1e-4)


def test_first_columns_have_the_likelihoods_of_their_own() -> None:
    """Of each noise, and of tasks whose rows have less weight too."""
    blocks = some_blocks()
    blocks[1] = TaskBlock(blocks[1].slots, 0.5 * blocks[1].features, 0.5 * blocks[1].rewards)
    likelihood = MarginalLikelihood(blocks, rho=0.6, center=CENTER)
    L, log_noises = some_factors(7).L, np.log([0.2, 1.0, 3.0])
    expected = [
        [likelihood.value(L[:, :k], log_noise)[0] for k in range(Q + 1)] for log_noise in log_noises
    ]
    np.testing.assert_allclose(likelihood.nested(L, log_noises), expected, rtol=1e-9)


def test_columns_that_noise_made_are_left_out() -> None:
    """The widest direction of 60 unrelated tasks is not clear, and each of two shared ones is."""
    rng, d, T, n = np.random.default_rng(8), 12, 60, 30
    Z, slots = rng.standard_normal((T, n, d)), np.arange(T)
    for rank in (0, 2):
        theta = rng.standard_normal((T, rank)) @ np.eye(rank, d)
        y = np.einsum("tnd,td->tn", Z, theta) + rng.standard_normal((T, n))
        likelihood = MarginalLikelihood([TaskBlock(slots, Z, y)], rho=1e-9, center=np.zeros(d))
        bounds, none = NoiseBounds(0.01, 9.0), np.zeros((d, 0))
        start = Factors(L=none, isotropic=1e-9, noise=1.0)
        found = fit_factors(Problem(likelihood, 30.0, bounds, 5, steps=50), start)
        assert found.L.shape[1] > rank
        assert found.clear(likelihood, bounds, n_tasks=T).L.shape[1] == rank


def test_the_score_is_the_gradient_in_the_covariance() -> None:
    """Along any direction: twice the log-likelihood grows by the trace of score and change."""
    blocks, factors = some_blocks(), some_factors(2)
    score = factors.score(BlockRows(blocks).likelihood(factors.rho, CENTER))
    column = np.random.default_rng(3).standard_normal((P, 1))
    step = 1e-4
    moved = Factors(
        L=np.hstack([factors.L, step * column]), isotropic=factors.isotropic, noise=factors.noise
    )
    gain = 2 * (dense(blocks, moved, CENTER) - dense(blocks, factors, CENTER)) / step**2
    assert gain == pytest.approx(float((column.T @ score @ column)[0, 0]), rel=1e-3)


def test_information_is_that_of_dense_covariances() -> None:
    blocks, factors = some_blocks(), some_factors(4)
    likelihood = BlockRows(blocks).likelihood(factors.rho, CENTER)
    found = factors.information(likelihood)
    expected, each = np.zeros((P, P)), []
    for _, Z, y in blocks:
        for X, v in zip(Z, y, strict=True):
            K = X @ factors.covariance @ X.T + factors.noise * np.eye(len(X))
            expected += X.T @ np.linalg.solve(K, X)
            each.append(X.T @ np.linalg.solve(K, v - X @ CENTER))
    total = factors.total(likelihood)
    np.testing.assert_allclose(total / factors.noise, expected, rtol=1e-9, atol=1e-12)
    assert found.trace == pytest.approx(np.trace(total), rel=1e-9)
    pulls = likelihood.pulls(factors.L, float(np.log(factors.noise)), CENTER)
    np.testing.assert_allclose(pulls / factors.noise, each, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.pull_products, pulls.T @ pulls, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.pull, pulls.sum(axis=0), rtol=1e-9, atol=1e-12)
    assert found.n_tasks == len(pulls)


def test_a_fit_does_not_depend_on_signs_or_rotations_of_columns() -> None:
    blocks = some_blocks()
    likelihood = MarginalLikelihood(blocks, rho=0.6, center=CENTER)
    start, turn = some_factors(5), np.array([[0.6, -0.8], [0.8, 0.6]])
    turned = Factors(L=-start.L @ turn, isotropic=start.isotropic, noise=start.noise)
    bounds = NoiseBounds(0.05, 4.0)
    first, second = (
        fit_factors(Problem(likelihood, 1.0, bounds, Q, steps=10), one) for one in (start, turned)
    )
    np.testing.assert_allclose(first.covariance, second.covariance, rtol=1e-5, atol=1e-7)


def test_factors_of_a_covariance_of_that_form_are_it() -> None:
    factors = some_factors(6)
    again = Factors.of(factors.covariance, factors.noise)
    assert again.L.shape == (P, Q)
    np.testing.assert_allclose(again.covariance, factors.covariance, rtol=1e-9, atol=1e-12)
    assert again.isotropic == pytest.approx(factors.isotropic)
