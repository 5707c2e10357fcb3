"""Empirical Bayes: the prior that all tasks share, against likelihoods and normal equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from cobandits.environments import Synthetic
from cobandits.linalg import subspace_distance
from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes import (
    Coordinates,
    DecomposedPrior,
    Hyperparameters,
    Prior,
    TaskBlock,
    fit_em,
    task_blocks,
)
from cobandits.policies.shared.empirical_bayes.em import (
    EMStatistics,
    e_step,
    m_step,
    posterior_means,
)
from cobandits.policies.shared.row_store import RowStore
from tests.multitask import drawn, normal_equations, rows, stored

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]

SHRINKAGES = config.SHRINKAGE_PSEUDO_TASKS
UNRESTRICTED = Hyperparameters(shrinkage_pseudo_tasks=0.0, noise_share=0.0, offset=False)


def uncompressed(Phi: Floats, y: Floats, coordinates: Coordinates) -> list[TaskBlock]:
    """Return all rows as they are in one block."""
    F = rows(Phi, y)
    return [TaskBlock(np.arange(len(F)), F[..., :-1] @ coordinates.matrix, F[..., -1])]


def in_features(prior: Prior) -> Floats:
    """Return the covariance of thetas with their intercepts, (d + 1, d + 1)."""
    A = prior.coordinates.matrix
    return np.asarray(A @ prior.covariance @ A.T)


def likelihood(prior: Prior, Phi: Floats, y: Floats) -> float:
    """Return the log likelihood of all rewards, by their covariance matrices."""
    C, total = in_features(prior), 0.0
    for X, v in zip(rows(Phi, y)[..., :-1], y, strict=True):
        cov = X @ C @ X.T + prior.noise * np.eye(len(X))
        total += float(multivariate_normal(mean=X @ prior.theta, cov=cov).logpdf(v))
    return total


def some_prior(store: RowStore, seed: int = 3) -> Prior:
    """Return a prior that no learning would lead to."""
    rng, coordinates = np.random.default_rng(seed), Coordinates.of(store)
    root = rng.standard_normal((coordinates.dim, coordinates.dim))
    return Prior(
        coordinates=coordinates,
        covariance=root @ root.T,
        mean=np.linspace(-1.0, 1.0, coordinates.dim),
        offset=0.7,
        noise=0.4,
        feature_second_moment=np.eye(coordinates.dim),
    )


def diagonal(prior: Prior, variances: Doubles) -> DecomposedPrior:
    """Return a prior with such variances of the coordinates, which are not correlated."""
    return DecomposedPrior.of(replace(prior, covariance=np.diag(variances)))


# ---- coordinates


def test_features_get_mean_square_1_and_only_a_large_mean_is_removed() -> None:
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((4, 50, 3)) * [1.0, 30.0, 1e-4] + [0.5, -3000.0, 0.0]
    Z = np.concatenate(rows(Phi, np.zeros((4, 50))))[:, :-1]
    Z = Z @ Coordinates.of(stored(Phi, np.zeros((4, 50)))).matrix
    np.testing.assert_allclose((Z**2).mean(axis=0), 1, rtol=1e-6)
    assert Z[:, 0].mean() == pytest.approx(0.45, abs=0.1)  # as large as before, but for the unit
    assert Z[:, 1].mean() == pytest.approx(0, abs=1e-9)
    np.testing.assert_array_equal(Z[:, 3], 1)


def test_units_of_features_do_not_matter() -> None:
    Phi, y, _ = drawn()
    scales = np.array([1e-3, 1.0, 50.0, 1e4, 0.2])
    plain = fit_em(stored(Phi, y), None, Hyperparameters()).prior
    scaled = fit_em(stored(Phi * scales, y), None, Hyperparameters()).prior
    back = np.append(scales, 1)
    C = back[:, None] * in_features(scaled) * back
    np.testing.assert_allclose(C, in_features(plain), rtol=1e-6, atol=1e-9)
    assert scaled.noise == pytest.approx(plain.noise, rel=1e-6)


def test_where_features_are_centred_a_shift_does_not_matter() -> None:
    Phi, y, _ = drawn()
    Phi -= Phi.mean(axis=(0, 1))
    here = fit_em(stored(Phi, y), None, Hyperparameters()).prior
    there = fit_em(stored(Phi + 100 * np.arange(1, 6), y), None, Hyperparameters()).prior
    np.testing.assert_allclose(there.covariance, here.covariance, rtol=1e-6, atol=1e-9)
    assert there.noise == pytest.approx(here.noise, rel=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e6])
def test_a_feature_that_never_changes_teaches_nothing(
    monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    """The prior is as without it; the vague one that learning starts from is as wide in all."""
    monkeypatch.setattr(config, "SHRINKAGE_PSEUDO_TASKS", (0.0,))
    Phi, y, _ = drawn(d=3, T=10, n=12)
    Phi[..., 1] = value
    hyperparameters = Hyperparameters()
    fit = fit_em(stored(Phi, y), None, hyperparameters)
    prior, held = fit.prior, fit.blocks
    np.testing.assert_allclose(held[0].features[..., 1], 0, atol=1e-8 * abs(value))
    assert np.isfinite(in_features(prior)).all()
    without = fit_em(stored(Phi[..., [0, 2]], y), None, hyperparameters).prior
    kept = np.ix_([0, 2, 3], [0, 2, 3])
    np.testing.assert_allclose(prior.covariance[kept], without.covariance, rtol=0.1, atol=0.02)


def test_of_many_features_the_principal_directions_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "MOST_FEATURES", 3)
    rng = np.random.default_rng(2)
    Phi = rng.standard_normal((6, 40, 3)) @ rng.standard_normal((3, 8)) * np.geomspace(1e-2, 1e2, 8)
    Phi += 0.05 * Phi.std(axis=(0, 1)) * rng.standard_normal(Phi.shape)
    Phi[..., 4] += 500
    matrix = Coordinates.of(stored(Phi, np.ones((6, 40)))).matrix
    assert matrix.shape == (9, 4)
    flat = Phi.reshape(-1, 8).copy()
    flat[:, 4] -= flat[:, 4].mean()
    flat /= np.sqrt((flat**2).mean(axis=0))
    directions = np.linalg.svd(flat)[2][:3].T  # (8, 3)
    Z = np.concatenate(rows(Phi, np.ones((6, 40))))[:, :-1] @ matrix
    np.testing.assert_allclose(
        Z[:, :3] @ Z[:, :3].T, flat @ directions @ directions.T @ flat.T, atol=1e-6
    )
    np.testing.assert_array_equal(Z[:, 3], 1)


def test_tasks_that_share_a_basis_in_few_principal_directions_are_still_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "MOST_FEATURES", 4)
    rng = np.random.default_rng(4)
    Z, W = rng.standard_normal((100, 8, 4)), rng.standard_normal((4, 100))
    Phi = Z @ rng.standard_normal((4, 12)) + 1e-3 * rng.standard_normal((100, 8, 12))
    y = np.einsum("tnr,rt->tn", Z, W) + 0.1 * rng.standard_normal((100, 8))
    fit = fit_em(stored(Phi, y), None, Hyperparameters())
    prior, held = fit.prior, fit.blocks
    assert prior.coordinates.dim == 5
    predicted = np.einsum("tnp,tp->tn", held[0].features, posterior_means(held[0], prior))
    assert np.mean((predicted - held[0].rewards) ** 2) < 0.05 * np.mean(y**2)


# ---- priors


def test_a_prior_is_the_same_in_other_coordinates() -> None:
    Phi, y, _ = drawn()
    prior = some_prior(stored(Phi, y))
    other = prior.in_coordinates(Coordinates.of(stored(3 * Phi + [0.0, 50, 0, -7, 0], y)))
    assert not np.allclose(other.covariance, prior.covariance)
    np.testing.assert_allclose(in_features(other), in_features(prior), rtol=1e-9)


def test_variances_and_vectors_rebuild_the_covariance() -> None:
    prior = DecomposedPrior.of(some_prior(stored(*drawn()[:2])))
    rebuilt = prior.vectors * prior.variances @ prior.vectors.T
    np.testing.assert_allclose(rebuilt, prior.covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(prior.vectors.T @ prior.vectors, np.eye(6), atol=1e-12)
    assert (np.diff(prior.variances) > 0).all()
    np.testing.assert_array_equal(prior.spectrum, prior.variances[::-1])
    np.testing.assert_allclose(
        prior.spectrum, np.linalg.svd(prior.covariance, compute_uv=False), rtol=1e-9
    )


def test_a_decomposed_prior_is_the_prior_that_it_was_made_of() -> None:
    plain = some_prior(stored(*drawn()[:2]))
    decomposed = DecomposedPrior.of(plain)
    for name, value in vars(plain).items():
        assert getattr(decomposed, name) is value, name
    assert type(decomposed.plain) is Prior
    assert vars(decomposed.plain) == vars(plain)


def test_a_direction_without_variance_gets_a_little_so_that_roots_can_be_inverted() -> None:
    """In units of the widest one; all others keep theirs."""
    prior = diagonal(some_prior(stored(*drawn()[:2])), np.array([0.0, 5, 3, 8, 0, 2]))
    np.testing.assert_allclose(prior.variances, [8e-12, 8e-12, 2, 3, 5, 8], rtol=1e-9)
    root = prior.whitening(6)
    np.testing.assert_allclose(np.linalg.inv(root) @ root, np.eye(6), atol=1e-8)


def test_roots_and_residual_variance_of_the_widest_directions() -> None:
    plain, half = some_prior(stored(*drawn()[:2])), np.random.default_rng(9).standard_normal((6, 6))
    prior = DecomposedPrior.of(replace(plain, feature_second_moment=half @ half.T))
    root = prior.root(6)
    np.testing.assert_allclose(root @ root.T, in_features(prior), rtol=1e-9)
    assert prior.residual_variance(6) == 0
    for q in (1, 4):
        L = prior.whitening(q)
        assert L.shape == (6, q)
        rest = prior.covariance - L @ L.T
        np.testing.assert_allclose(np.linalg.norm(L[:, -1]) ** 2, prior.spectrum[0])
        expected = np.trace(rest @ prior.feature_second_moment)
        assert prior.residual_variance(q) == pytest.approx(expected, rel=1e-9)


def test_rank_counts_directions_far_wider_than_narrow_ones() -> None:
    prior = some_prior(stored(*drawn()[:2]))
    spectrum = np.array([1.0, 1.2, 0.9, 9.5, 200.0, 8.0])  # the second narrowest is 1
    assert diagonal(prior, spectrum).rank == 1
    spectrum[3] = 10.5
    assert diagonal(prior, spectrum).rank == 2
    spectrum[:2], spectrum[5] = 30.0, 50.0  # most are wide; the second narrowest is 10.5
    assert diagonal(prior, spectrum).rank == 1
    spectrum[3] = 1.0
    assert diagonal(prior, spectrum).rank == 4


def test_a_vague_prior_is_as_wide_as_the_rewards() -> None:
    Phi, y, _ = drawn(T=40)
    prior = Prior.vague(stored(Phi, y + 1000))
    assert prior.offset == pytest.approx(1000 + y.mean())
    assert np.trace(prior.covariance) == pytest.approx(y.var(), rel=1e-6)
    assert prior.noise == pytest.approx(0.1 * y.var(), rel=1e-6)


@pytest.mark.parametrize("T", range(1, 13))
def test_a_vague_prior_of_rewards_that_are_all_equal_has_some_width(T: int) -> None:
    """The variance of equal numbers is 0 only up to rounding, which may be below 0."""
    for reward in (27.276877584472174, -15.488553043334205, 1e-9, 0.0):
        Phi = np.random.default_rng(0).standard_normal((T, 1, 3))
        prior = Prior.vague(stored(Phi, np.full((T, 1), reward)))
        assert prior.noise > 0
        assert (DecomposedPrior.of(prior).spectrum > 0).all()


# ---- expectation and maximisation


@pytest.mark.parametrize(("n", "rank"), [(3, 1), (6, 2), (20, 5)])
def test_every_em_iteration_makes_the_rewards_more_likely(n: int, rank: int) -> None:
    """It is plain EM where noise and offset are held."""
    Phi, y, _ = drawn(n=n, rank=rank)
    store = stored(Phi, y)
    prior = replace(Prior.vague(store), offset=0.0)
    held = list(task_blocks(store, np.arange(8), prior.coordinates))
    likelihoods = [likelihood(prior, Phi, y)]
    for _ in range(15):
        statistics = e_step(held, prior)
        prior = replace(m_step(prior, statistics, UNRESTRICTED), noise=prior.noise)
        likelihoods.append(likelihood(prior, Phi, y))
    assert (np.diff(likelihoods) > -1e-9).all()
    assert likelihoods[-1] > likelihoods[0] + 3


def test_the_offset_is_that_of_generalised_least_squares() -> None:
    Phi, y, _ = drawn(n=4)
    y += 3
    store = stored(Phi, y)
    prior = some_prior(store)
    held = list(task_blocks(store, np.arange(8), prior.coordinates))
    C, above, below = in_features(prior), 0.0, 0.0
    for X, v in zip(rows(Phi, y)[..., :-1], y, strict=True):
        K = X @ C @ X.T + prior.noise * np.eye(4)
        above += np.linalg.solve(K, v - X @ prior.coordinates.matrix @ prior.mean).sum()
        below += np.linalg.inv(K).sum()
    offset = e_step(held, prior).offset
    assert offset == pytest.approx(above / below, rel=1e-9)
    best = likelihood(replace(prior, offset=offset), Phi, y)
    for step in (-0.01, 0.01):
        assert likelihood(replace(prior, offset=offset + step), Phi, y) < best


def test_the_e_step_agrees_with_normal_equations() -> None:
    """In means and second moments; the noise is by MacKay's rule, over the rows left free."""
    Phi, y, _ = drawn(n=4)
    store = stored(Phi, y)
    prior = some_prior(store)
    held = list(task_blocks(store, np.arange(8), prior.coordinates))
    second, error, squares, free = np.zeros((6, 6)), 0.0, 0.0, 0.0
    for t, X in enumerate(rows(Phi, y)[..., :-1]):
        Z = X @ prior.coordinates.matrix
        theta, P = normal_equations(Z, y[t], prior)
        np.testing.assert_allclose(posterior_means(held[0], prior)[t], theta, rtol=1e-7, atol=1e-9)
        second += (np.outer(theta, theta) + P) / 8
        error += float(((y[t] - Z @ prior.center - Z @ theta) ** 2).sum())
        squares += float(((y[t] - Z @ prior.center) ** 2).sum())
        free += 4 - float(np.trace(Z @ P @ Z.T)) / prior.noise
    statistics = e_step(held, prior)
    np.testing.assert_allclose(statistics.second_moment, second, rtol=1e-7, atol=1e-9)
    assert statistics.noise == pytest.approx(error / free, rel=1e-7)
    assert statistics.reward_variance == pytest.approx(squares / y.size)
    assert statistics.n_tasks == 8


def test_hyperparameters_bound_what_the_m_step_returns() -> None:
    prior = some_prior(stored(*drawn()[:2]))
    statistics = EMStatistics(
        np.diag([1.0, 2, 3, 4, 5, 9]), 8, offset=2.0, noise=0.1, reward_variance=10.0
    )
    after = m_step(prior, statistics, Hyperparameters(24.0, noise_share=0.03, offset=True))
    np.testing.assert_allclose(np.diag(after.covariance), 0.25 * np.r_[1:6, 9] + 0.75 * 4)
    assert (after.offset, after.noise) == pytest.approx((2.0, 0.3))
    after = m_step(prior, statistics, UNRESTRICTED)
    np.testing.assert_allclose(after.covariance, statistics.second_moment)
    assert (after.offset, after.noise) == (0.0, 0.1)


@pytest.mark.parametrize("noise", [0.01, 0.1, 1.0])
def test_the_noise_of_a_known_model_is_found(noise: float) -> None:
    """From 5000 rewards its standard error is 1 %."""
    Phi, y, _ = drawn(T=50, n=100, noise=noise, seed=1)
    hyperparameters = Hyperparameters(noise_share=0.0)
    prior = fit_em(stored(Phi, y), None, hyperparameters).prior
    for _ in range(3):
        prior = fit_em(stored(Phi, y), prior, hyperparameters).prior
    assert np.sqrt(prior.noise) == pytest.approx(noise, rel=0.05)


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("n", [8, 20])
def test_a_shared_subspace_is_found(rank: int, n: int) -> None:
    """With 200 tasks, from fewer rows per task than features too."""
    problem = Synthetic(dim=12, n_tasks=200, rank=rank, noise_std=0.1).problem(n_rows=n, seed=1)
    Phi, y = problem.tasks.rows.reshape(200, n, 12), problem.tasks.rewards.reshape(200, n)
    prior = fit_em(stored(Phi, y), None, Hyperparameters()).prior
    assert DecomposedPrior.of(prior).rank == rank
    vectors = np.linalg.eigh(in_features(prior)[:-1, :-1])[1]
    assert subspace_distance(vectors[:, -rank:], problem.basis) < 0.1 * np.sqrt(rank)


def test_both_steps_are_the_same_from_rows_that_were_compressed() -> None:
    """The store holds at most 2 (d + 2) = 14 of these 60 rows per task, blocks only d + 2."""
    Phi, y, _ = drawn(n=60)
    store = stored(Phi, y)
    assert store.sizes.max() < 15
    compressed = plain = some_prior(store)
    held = list(task_blocks(store, np.arange(8), plain.coordinates))
    assert held[0].rewards.shape == (8, 7)
    raw = uncompressed(Phi, y, plain.coordinates)
    used = Hyperparameters(offset=True)
    for _ in range(3):
        ours, theirs = e_step(held, compressed), e_step(raw, plain)
        np.testing.assert_allclose(ours.second_moment, theirs.second_moment, rtol=1e-8, atol=1e-10)
        assert ours[1:] == pytest.approx(theirs[1:], rel=1e-8)
        compressed, plain = m_step(compressed, ours, used), m_step(plain, theirs, used)
    np.testing.assert_allclose(compressed.covariance, plain.covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        posterior_means(held[0], compressed), posterior_means(raw[0], plain), rtol=1e-7, atol=1e-9
    )


def test_correlations_of_features_are_shrunken_in_their_second_moment() -> None:
    Phi, y, _ = drawn(n=60)
    prior = fit_em(stored(Phi, y), None, Hyperparameters()).prior
    Z = np.concatenate(rows(Phi, y))[:, :-1] @ prior.coordinates.matrix
    second, p = Z.T @ Z / 480, Z.shape[1]
    off = ~np.eye(p, dtype=bool)  # of 480 rows
    np.testing.assert_allclose(np.diag(prior.feature_second_moment), np.diag(second), rtol=1e-9)
    expected = second[off] * 480 / (480 + p)
    np.testing.assert_allclose(prior.feature_second_moment[off], expected, rtol=1e-9, atol=1e-12)


def test_neither_the_order_of_rows_nor_batches_nor_blocks_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks of 1 to 30 rows, some compressed, one at a time and all at once."""
    Phi, y, _ = drawn(T=30, n=30)
    F = rows(Phi, y)
    tasks, turns = np.nonzero(np.arange(30) <= np.arange(30)[:, None])
    order = np.random.default_rng(5).permutation(len(tasks))
    plain = RowStore.empty(n_tasks=30, dim=5).added(tasks, F[tasks, turns])
    mixed = RowStore.empty(n_tasks=30, dim=5)
    for i in order:
        mixed = mixed.added(tasks[i : i + 1], F[tasks[i], turns[i]][None])
    hyperparameters = Hyperparameters(offset=True)
    first = fit_em(plain, None, hyperparameters).prior
    with monkeypatch.context() as patch:
        patch.setattr(config, "BLOCK_BYTES", 1)
        second, _, (held, *_) = fit_em(mixed, None, hyperparameters)
    assert len(held) == 30
    sizes = [len(block.rewards[0]) for block in held]
    assert sizes == sorted(sizes, reverse=True)
    np.testing.assert_allclose(in_features(second), in_features(first), rtol=1e-5, atol=1e-7)
    assert (second.noise, second.offset) == pytest.approx((first.noise, first.offset), rel=1e-5)


def test_where_work_is_bounded_the_tasks_with_most_rows_are_learned_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = RowStore.empty(n_tasks=5, dim=2)
    store = store.added(np.repeat([4, 1, 3, 0], [2, 3, 1, 3]), np.ones((9, 4)))
    monkeypatch.setattr(config, "EM_WORK", 5 * 7 * 9)  # five times 7 rows, p = 3
    _, statistics, (held, *_) = fit_em(store, None, Hyperparameters())
    assert store.tasks[np.concatenate([block.slots for block in held])].tolist() == [1, 0]
    assert statistics.n_tasks == 2
    monkeypatch.setattr(config, "EM_WORK", 0)
    statistics = fit_em(store, None, Hyperparameters()).statistics
    assert statistics.n_tasks == 1


def test_more_shrinkage_leaves_fewer_preferred_directions() -> None:
    Phi, y, _ = drawn(d=12, T=40, n=8)
    fit = fit_em(stored(Phi, y), None, Hyperparameters())
    priors = [
        DecomposedPrior.of(fit.under(Hyperparameters(shrinkage, noise_share=0.0)))
        for shrinkage in SHRINKAGES
    ]
    ratios = [prior.spectrum[0] / prior.spectrum[-1] for prior in priors]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 30
    assert ratios[-1] < 1.01
    assert (priors[0].rank, priors[-1].rank) == (2, 0)
    at_once = m_step(fit.prior, fit.statistics, Hyperparameters(SHRINKAGES[-1], 0.0))
    assert likelihood(priors[-1], Phi, y) > likelihood(at_once, Phi, y)


@pytest.mark.parametrize("d", [5, 300])
def test_thetas_are_turned_into_weights_of_the_directions(d: int) -> None:
    """Also of more features than a prior is learned for."""
    Phi, y, _ = drawn(d=d, T=4, n=80)
    prior = DecomposedPrior.of(some_prior(stored(Phi, y)))
    p = prior.coordinates.dim
    assert p == min(d, 256) + 1
    np.testing.assert_allclose(prior.vectors.T @ prior.vectors, np.eye(p), atol=1e-9)
    variances = np.diag(prior.vectors.T @ prior.covariance @ prior.vectors)
    np.testing.assert_allclose(variances[::-1], prior.spectrum, rtol=1e-6)
    weights = np.random.default_rng(0).standard_normal((3, p))
    thetas = weights @ prior.vectors.T @ prior.coordinates.matrix.T
    np.testing.assert_allclose(thetas @ prior.to_directions.T, weights, atol=1e-8)


def test_the_m_step_returns_an_exactly_symmetric_covariance() -> None:
    """Though the second moment may have been rounded otherwise on either side."""
    Phi, y, _ = drawn()
    fit = fit_em(stored(Phi, y), None, Hyperparameters())
    second = fit.statistics.second_moment.copy()
    second[0, 1] *= 1 + 1e-13
    for value in SHRINKAGES:
        statistics = fit.statistics._replace(second_moment=second)
        C = m_step(fit.prior, statistics, Hyperparameters(value)).covariance
        np.testing.assert_array_equal(C, C.T)
