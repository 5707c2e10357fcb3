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
    task_blocks,
)
from cobandits.policies.shared.empirical_bayes.rows import busiest_slots
from cobandits.policies.shared.row_store import RowStore
from tests.multitask import ALONE, SHARED, drawn, fitted, normal_equations, rows, stored

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]


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


# ---- the isotropic variance


@pytest.mark.parametrize("signal", [0.05, 1.0, 20.0])
def test_the_isotropic_variance_is_the_most_probable_one(signal: float) -> None:
    """Of the likelihood of all rewards, times an F distribution of the signal over the noise."""
    Phi, y, _ = drawn(d=3, T=12, n=10, rank=3, noise=1.0)
    y = np.sqrt(signal) * (y - y.mean()) + np.random.default_rng(5).standard_normal(y.shape)
    fit = fitted(stored(Phi, y), 12).alone
    prior, k = fit.prior(offset=True), config.SIGNAL_FREEDOM
    prior = replace(prior, mean=fit.start.mean, offset=fit.start.offset)  # as when it was fitted
    expected = config.SIGNAL_RATIO / len(prior.mean)

    def log_density(log_rho: float) -> float:
        rho = float(np.exp(log_rho))
        C = np.eye(len(prior.mean)) * rho * prior.noise
        shape = k / 2 * log_rho - k * np.log1p(rho / expected)
        return likelihood(replace(prior, covariance=C), Phi, y) + float(shape)

    at, step = float(np.log(fit.factors.rho)), 1e-3
    slope = (log_density(at + step) - log_density(at - step)) / (2 * step)
    curve = (log_density(at + step) + log_density(at - step) - 2 * log_density(at)) / step**2
    assert curve < 0
    assert abs(slope / curve) < 0.03  # in units of the logarithm


def test_tasks_that_hardly_differ_are_told_to() -> None:
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        Theta = rng.standard_normal((20, 3)) * np.sqrt(0.06) + [2.0, 0.0, 0.3]
        Phi = rng.standard_normal((20, 58, 3))
        y = np.einsum("tnd,td->tn", Phi, Theta) + 2 * rng.standard_normal((20, 58))
        found.append(np.trace(fitted(stored(Phi, y), 3).under(ALONE).covariance) / 4)
    assert 0.03 < np.mean(found) < 0.12  # of 0.06 for features and none for intercepts


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


@pytest.mark.parametrize("most", [2, 3])
def test_rows_in_coordinates_are_products_with_their_matrix(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a matrix mixes features: principal directions, and others of as many columns."""
    monkeypatch.setattr(config, "MOST_FEATURES", most)
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((4, 50, 3)) * [1.0, 30.0, 1e-4] + [0.5, -3000.0, 0.0]
    F = rows(Phi, np.zeros((4, 50)))[..., :-1]
    plain = Coordinates.of(stored(Phi, np.zeros((4, 50))))
    mixed = Coordinates(matrix=plain.matrix + np.eye(4, k=1)[:, : most + 1])
    for one in (plain, mixed):
        assert one.matrix.shape == (4, most + 1)
        np.testing.assert_allclose(one.applied(F), F @ one.matrix, rtol=1e-12, atol=1e-9)


def test_of_few_rows_features_have_the_size_of_all_unless_their_units_differ() -> None:
    rng = np.random.default_rng(1)
    for n in (1, 5, 20):
        Phi, units = rng.standard_normal((1, n, 200)), np.geomspace(1e-6, 1e6, 200)
        alike, unlike = (Coordinates.of(stored(X, np.zeros((1, n)))) for X in (Phi, Phi * units))
        here = alike.matrix[-1, :-1] == 0  # the others are centred by chance
        raw = np.log((Phi[0] ** 2).mean(axis=0))[here] / 2
        pooled, own = (-np.log(np.diag(one.matrix)[:-1])[here] for one in (alike, unlike))
        assert pooled.std() < 0.5 * raw.std()
        assert np.abs(own - np.log(units[here]) - raw).max() < 0.02 + 2 / n


def test_few_rows_centre_no_feature_by_chance() -> None:
    rng = np.random.default_rng(2)
    for n in (1, 2, 3, 5, 10):
        Phi = rng.standard_normal((1, n, 240)) + np.repeat([0.0, 50.0], 120)
        shifts = Coordinates.of(stored(Phi, np.zeros((1, n)))).matrix[-1, :-1] != 0
        assert shifts[:120].mean() <= 0.25  # t beyond 4: 16 % of two rows, 0.3 % of ten
        assert shifts[120:].mean() >= (0 if n == 1 else 0.9)


@pytest.mark.parametrize("used", [SHARED, ALONE])
def test_units_of_features_do_not_matter(used: Hyperparameters) -> None:
    Phi, y, _ = drawn(n=20)
    scales = np.array([1e-3, 1.0, 50.0, 1e4, 0.2])
    plain, scaled = (fitted(stored(X, y), 3).under(used) for X in (Phi, Phi * scales))
    back = np.append(scales, 1)
    C = back[:, None] * in_features(scaled) * back
    np.testing.assert_allclose(C, in_features(plain), rtol=1e-5, atol=1e-8)
    assert scaled.noise == pytest.approx(plain.noise, rel=1e-5)


def test_where_features_are_centred_a_shift_does_not_matter() -> None:
    Phi, y, _ = drawn()
    Phi -= Phi.mean(axis=(0, 1))
    moved = Phi + 100 * np.arange(1, 6)
    here, there = (fitted(stored(X, y)).under(SHARED) for X in (Phi, moved))
    np.testing.assert_allclose(there.covariance, here.covariance, rtol=1e-5, atol=1e-8)
    assert there.noise == pytest.approx(here.noise, rel=1e-5)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e6])
def test_a_feature_that_never_changes_teaches_nothing(value: float) -> None:
    """Its weight stays as isotropic as it was, and predictions are those without it."""
    Phi, y, _ = drawn(d=3, T=10, n=12)
    Phi[..., 1] = value
    store = stored(Phi, y)
    prior = fitted(store, 3).under(SHARED)
    held = list(task_blocks(store, np.arange(10), prior.coordinates))
    np.testing.assert_allclose(held[0].features[..., 1], 0, atol=1e-8 * abs(value))
    assert np.isfinite(in_features(prior)).all()
    np.testing.assert_allclose(np.delete(prior.covariance[1], 1), 0, atol=1e-4)


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
    fit = fitted(stored(Phi, y), 3)
    assert fit.under(SHARED).coordinates.dim == 5
    thetas = fit.thetas(SHARED)[np.argsort(fit.slots)]
    predicted = np.einsum("tnd,td->tn", rows(Phi, y)[..., :-1], thetas)
    assert np.mean((predicted - y) ** 2) < 0.05 * np.mean(y**2)


# ---- priors


def test_a_prior_is_the_same_in_other_coordinates() -> None:
    Phi, y, _ = drawn()
    prior = some_prior(stored(Phi, y))
    coordinates = Coordinates.of(stored(3 * Phi + [0.0, 50, 0, -7, 0], y))
    other = prior.in_coordinates(coordinates, coordinates.from_others(prior.coordinates))
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


# ---- fits


@pytest.mark.parametrize(("n", "rank"), [(3, 1), (6, 2), (20, 5)])
@pytest.mark.parametrize("used", [SHARED, ALONE])
def test_a_fit_makes_the_rewards_more_likely(n: int, rank: int, used: Hyperparameters) -> None:
    """Than the vague prior; and where it shares, than the best one without directions."""
    Phi, y, _ = drawn(n=n, rank=rank, T=20)
    store = stored(Phi, y)
    vague = replace(Prior.vague(store), offset=0.0)
    fit = fitted(store, 4, least_noise=0.0)
    assert likelihood(fit.under(used), Phi, y) > likelihood(vague, Phi, y) + 1
    if n > 3:
        assert likelihood(fit.under(SHARED), Phi, y) > likelihood(fit.under(ALONE), Phi, y)


def test_the_prior_without_directions_has_the_most_likely_variances() -> None:
    Phi, y, _ = drawn(T=30, n=12, rank=5)
    prior = fitted(stored(Phi, y), 6).alone.updated(offset=False)
    np.testing.assert_allclose(prior.covariance, np.eye(6) * prior.covariance[0, 0], atol=1e-12)
    best = likelihood(prior, Phi, y)
    for factor in (0.8, 1.25):
        wider = replace(prior, covariance=factor * prior.covariance)
        assert likelihood(wider, Phi, y) < best
        assert likelihood(replace(prior, noise=factor * prior.noise), Phi, y) < best


def test_the_offset_is_that_of_generalised_least_squares() -> None:
    Phi, y, _ = drawn(n=4)
    y += 3
    store = stored(Phi, y)
    fit = fitted(store).shared
    found, C, noise = fit.prior(offset=True), fit.factors.covariance, fit.factors.noise
    above = below = 0.0
    for X, v in zip(rows(Phi, y)[..., :-1], y, strict=True):
        Z = X @ found.coordinates.matrix
        K = Z @ C @ Z.T + noise * np.eye(4)
        above += np.linalg.solve(K, v - Z @ fit.start.mean).sum()
        below += np.linalg.inv(K).sum()
    assert found.offset == pytest.approx(above / below, rel=1e-9)
    assert fit.prior(offset=False).offset == 0


def test_thetas_are_those_of_normal_equations() -> None:
    Phi, y, _ = drawn(n=4)
    store = stored(Phi, y + 2)
    fit = fitted(store, 2)
    for used, one in ((SHARED, fit.shared), (ALONE, fit.alone)):
        for offset in (False, True):
            prior = one.prior(offset=offset)
            found = fit.thetas(used._replace(offset=offset))
            for place, t in enumerate(store.tasks[fit.slots]):
                Z = rows(Phi, y)[t, :, :-1] @ prior.coordinates.matrix
                theta, _ = normal_equations(Z, y[t] + 2, prior)
                expected = prior.coordinates.matrix @ theta + prior.theta
                np.testing.assert_allclose(found[place], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("noise", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("used", [SHARED, ALONE])
def test_the_noise_of_a_known_model_is_found(noise: float, used: Hyperparameters) -> None:
    """From 5000 rewards its standard error is 1 %."""
    Phi, y, _ = drawn(T=50, n=100, noise=noise, seed=1)
    prior = fitted(stored(Phi, y), 6, least_noise=0.0).under(used)
    assert np.sqrt(prior.noise) == pytest.approx(noise, rel=0.05)


def test_a_known_noise_stays() -> None:
    Phi, y, _ = drawn(T=20, n=20, noise=0.3)
    fit = fitted(stored(Phi, y), 2, noise=0.7)
    assert fit.under(SHARED).noise == pytest.approx(0.7)
    assert fit.under(ALONE).noise == pytest.approx(0.7)


def test_the_noise_is_not_below_its_bound() -> None:
    """The more rows there are for each number of L, the lower is it."""
    Phi, y, _ = drawn(d=30, T=8, n=160, noise=0.1)
    few, many = stored(Phi[:, :2], y[:, :2]), stored(Phi, y)
    assert fitted(few, 3, least_noise=5.0).under(SHARED).noise > 4.99
    lower, higher = (fitted(many, 6, least_noise=s).under(SHARED).noise for s in (0.0, 5.0))
    assert lower < 0.02
    assert 0.1 < higher < 2


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("n", [8, 20])
def test_a_shared_subspace_is_found(rank: int, n: int) -> None:
    """With 200 tasks, from fewer rows per task than features too."""
    problem = Synthetic(dim=12, n_tasks=200, rank=rank, noise_std=0.1).problem(n_rows=n, seed=1)
    Phi, y = problem.tasks.rows.reshape(200, n, 12), problem.tasks.rewards.reshape(200, n)
    prior = fitted(stored(Phi, y), 3, least_noise=0.0).under(SHARED)
    assert DecomposedPrior.of(prior).rank == rank
    vectors = np.linalg.eigh(in_features(prior)[:-1, :-1])[1]
    assert subspace_distance(vectors[:, -rank:], problem.basis) < 0.1 * np.sqrt(rank)


def test_a_task_may_leave_what_is_shared() -> None:
    """However clear a subspace is, its complement has some variance."""
    Phi, y, _ = drawn(d=12, T=40, n=30, noise=1e-3)
    prior = DecomposedPrior.of(fitted(stored(Phi, y), 8, least_noise=0.0).under(SHARED))
    share = prior.variances[:-2].sum() / prior.variances.sum()
    assert 0.1 / 40 < share < 1 / 40


def test_a_fit_is_the_same_from_rows_that_were_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store holds at most 2 (d + 2) = 14 of these 60 rows per task, blocks only d + 2."""
    Phi, y, _ = drawn(n=60)
    small = stored(Phi, y)
    assert small.sizes.max() < 15
    held = list(task_blocks(small, np.arange(8), Coordinates.of(small)))
    assert held[0].rewards.shape == (8, 7)
    monkeypatch.setattr(config, "COMPRESSION", 100)
    large = RowStore.empty(n_tasks=8, dim=5).added(np.repeat(np.arange(8), 60), flat(Phi, y))
    assert large.sizes.min() == 60
    for used in (SHARED, ALONE):
        ours, theirs = (fitted(store, 2).under(used) for store in (small, large))
        np.testing.assert_allclose(ours.covariance, theirs.covariance, rtol=1e-5, atol=1e-8)
        assert ours.noise == pytest.approx(theirs.noise, rel=1e-5)


def flat(Phi: Floats, y: Floats) -> Doubles:
    """Return all rows, task after task."""
    return np.concatenate(rows(Phi, y))


def test_correlations_of_features_are_shrunken_in_their_second_moment() -> None:
    Phi, y, _ = drawn(n=60)
    prior = fitted(stored(Phi, y)).under(SHARED)
    Z = flat(Phi, y)[:, :-1] @ prior.coordinates.matrix
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
    used = SHARED._replace(offset=True)
    first = fitted(plain).under(used)
    with monkeypatch.context() as patch:
        patch.setattr(config, "BLOCK_BYTES", 1)
        second = fitted(mixed)
        held = list(task_blocks(mixed, second.slots, first.coordinates))
    assert len(held) == 30
    sizes = [int(mixed.sizes[block.slots[0]]) for block in held]
    assert sizes == sorted(sizes, reverse=True)
    other = second.under(used)
    np.testing.assert_allclose(in_features(other), in_features(first), rtol=1e-4, atol=1e-6)
    assert (other.noise, other.offset) == pytest.approx((first.noise, first.offset), rel=1e-4)


def test_where_work_is_bounded_the_tasks_with_most_rows_are_learned_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = RowStore.empty(n_tasks=5, dim=2)
    store = store.added(np.repeat([4, 1, 3, 0], [2, 3, 1, 3]), np.ones((9, 4)))
    monkeypatch.setattr(config, "FIT_NUMBERS", 7 * 3)  # 7 rows, p = 3
    assert store.tasks[busiest_slots(store, 3)].tolist() == [1, 0]
    assert store.tasks[fitted(store).slots].tolist() == [1, 0]
    monkeypatch.setattr(config, "EXPLAINED_NUMBERS", 4 * 3)  # fewer will do
    assert store.tasks[busiest_slots(store, 3, explained=True)].tolist() == [1]
    monkeypatch.setattr(config, "FIT_NUMBERS", 0)
    assert len(busiest_slots(store, 3)) == 1


def test_a_task_with_an_outlier_has_less_weight() -> None:
    """One reward that is a thousand times as large hardly moves the noise."""
    Phi, y, _ = drawn(T=30, n=12, noise=0.1)
    usual = fitted(stored(Phi, y), 4, least_noise=0.0).under(SHARED)
    y[3, 5] += 1000
    spoiled = fitted(stored(Phi, y), 4, least_noise=0.0).under(SHARED)
    assert spoiled.noise < 1e-2 * 1000**2 / y.size  # the mean square that it adds
    assert np.trace(spoiled.covariance) < 20 * np.trace(usual.covariance)


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


def test_a_fitted_covariance_is_exactly_symmetric() -> None:
    Phi, y, _ = drawn(T=40)
    fit = fitted(stored(Phi, y), 2)
    for used in (SHARED, ALONE):
        C = fit.under(used).covariance
        np.testing.assert_array_equal(C, C.T)
