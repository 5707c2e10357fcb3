"""The prior that all tasks share: learned as it should be, against slow answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from cobandits.environments import Synthetic
from cobandits.histories import Histories
from cobandits.linalg import subspace_distance
from cobandits.priors import Contest, Coordinates, Prior, Settings, blocks, improved
from cobandits.priors import contest as contest_module
from cobandits.priors import learning as learning_module
from cobandits.priors import prior as prior_module
from cobandits.priors.learning import (
    ISOTROPIC,
    LEAST_NOISE,
    OFFSET,
    Block,
    Suggestion,
    expected,
    means,
    taken,
)

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]

AS_SUGGESTED = Settings(isotropic=0.0, least_noise=0.0, offset=False)


def drawn(
    *, d: int = 5, T: int = 8, n: int = 6, rank: int = 2, noise: float = 0.3, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Draw features, (T, n, d), rewards, (T, n), and the thetas behind them, (d, T)."""
    rng = np.random.default_rng(seed)
    Theta = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, T))
    Phi = rng.standard_normal((T, n, d))
    y = np.einsum("tnd,dt->tn", Phi, Theta) + noise * rng.standard_normal((T, n))
    return Phi, y, Theta


def rows(Phi: Floats, y: Floats) -> Doubles:
    """Return ``[phi, 1, y]``, (T, n, d + 2)."""
    return np.concatenate([Phi, np.ones((*y.shape, 1)), y[..., None]], axis=2, dtype=np.float64)


def remembered(Phi: Floats, y: Floats) -> Histories:
    """Return histories that were given a row of every task at a time."""
    T, n, d = Phi.shape
    histories, F = Histories(n_tasks=T, dim=d), rows(Phi, y)
    for i in range(n):
        histories.add(np.arange(T), F[:, i])
        histories.compress(2 * histories.width)
    return histories


def uncompressed(Phi: Floats, y: Floats, coordinates: Coordinates) -> list[Block]:
    """Return all rows as they are in one block."""
    F = rows(Phi, y)
    return [Block(np.arange(len(F)), F[..., :-1] @ coordinates.matrix, F[..., -1])]


def in_features(prior: Prior) -> Floats:
    """Return the covariance of thetas with their intercepts, (d + 1, d + 1)."""
    A = prior.coordinates.matrix
    return np.asarray(A @ prior.covariance @ A.T)


def likelihood(prior: Prior, Phi: Floats, y: Floats) -> float:
    """Return the log likelihood of all rewards, by their covariance matrices."""
    C, total = in_features(prior), 0.0
    for X, v in zip(rows(Phi, y)[..., :-1], y, strict=True):
        cov = X @ C @ X.T + prior.noise * np.eye(len(X))
        total += float(multivariate_normal(mean=np.full(len(v), prior.offset), cov=cov).logpdf(v))
    return total


def textbook(Z: Floats, y: Floats, prior: Prior) -> tuple[Floats, Floats]:
    """Return a task's posterior mean and covariance, by its normal equations."""
    P = np.linalg.inv(np.linalg.inv(prior.covariance) + Z.T @ Z / prior.noise)
    return P @ Z.T @ (y - prior.offset) / prior.noise, P


def some_prior(histories: Histories, seed: int = 3) -> Prior:
    """Return a prior that no learning would lead to."""
    rng, coordinates = np.random.default_rng(seed), Coordinates.of(histories)
    root = rng.standard_normal((coordinates.dim, coordinates.dim))
    return Prior(
        coordinates=coordinates,
        covariance=root @ root.T,
        offset=0.7,
        noise=0.4,
        spread=np.eye(coordinates.dim),
    )


# ---- coordinates


def test_features_get_mean_square_1_and_only_a_large_mean_is_taken_off() -> None:
    rng = np.random.default_rng(0)
    Phi = rng.standard_normal((4, 50, 3)) * [1.0, 30.0, 1e-4] + [0.5, -3000.0, 0.0]
    Z = np.concatenate(rows(Phi, np.zeros((4, 50))))[:, :-1]
    Z = Z @ Coordinates.of(remembered(Phi, np.zeros((4, 50)))).matrix
    np.testing.assert_allclose((Z**2).mean(axis=0), 1, rtol=1e-6)
    assert Z[:, 0].mean() == pytest.approx(0.45, abs=0.1)  # as large as before, but for the unit
    assert Z[:, 1].mean() == pytest.approx(0, abs=1e-9)
    np.testing.assert_array_equal(Z[:, 3], 1)


def test_units_of_features_do_not_matter() -> None:
    Phi, y, _ = drawn()
    scales = np.array([1e-3, 1.0, 50.0, 1e4, 0.2])
    plain = improved(remembered(Phi, y), None, Settings()).prior
    scaled = improved(remembered(Phi * scales, y), None, Settings()).prior
    back = np.append(scales, 1)
    C = back[:, None] * in_features(scaled) * back
    np.testing.assert_allclose(C, in_features(plain), rtol=1e-6, atol=1e-9)
    assert scaled.noise == pytest.approx(plain.noise, rel=1e-6)


def test_where_features_are_centred_a_shift_does_not_matter() -> None:
    Phi, y, _ = drawn()
    Phi -= Phi.mean(axis=(0, 1))
    here = improved(remembered(Phi, y), None, Settings()).prior
    there = improved(remembered(Phi + 100 * np.arange(1, 6), y), None, Settings()).prior
    np.testing.assert_allclose(there.covariance, here.covariance, rtol=1e-6, atol=1e-9)
    assert there.noise == pytest.approx(here.noise, rel=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -1e6])
def test_a_feature_that_never_changes_teaches_nothing(
    monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    """The prior is as without it; the vague one that learning starts from is as wide in all."""
    monkeypatch.setattr(learning_module, "ISOTROPIC", (0.0,))
    Phi, y, _ = drawn(d=3, T=10, n=12)
    Phi[..., 1] = value
    settings = Settings()
    prior, _, held = improved(remembered(Phi, y), None, settings)
    np.testing.assert_allclose(held[0].features[..., 1], 0, atol=1e-8 * abs(value))
    assert np.isfinite(in_features(prior)).all()
    without = improved(remembered(Phi[..., [0, 2]], y), None, settings).prior
    kept = np.ix_([0, 2, 3], [0, 2, 3])
    np.testing.assert_allclose(prior.covariance[kept], without.covariance, rtol=0.1, atol=0.02)


def test_of_many_features_the_principal_directions_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prior_module, "_MOST_DIRECTIONS", 3)
    rng = np.random.default_rng(2)
    Phi = rng.standard_normal((6, 40, 3)) @ rng.standard_normal((3, 8)) * np.geomspace(1e-2, 1e2, 8)
    Phi += 0.05 * Phi.std(axis=(0, 1)) * rng.standard_normal(Phi.shape)
    Phi[..., 4] += 500
    matrix = Coordinates.of(remembered(Phi, np.ones((6, 40)))).matrix
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
    monkeypatch.setattr(prior_module, "_MOST_DIRECTIONS", 4)
    rng = np.random.default_rng(4)
    Z, W = rng.standard_normal((100, 8, 4)), rng.standard_normal((4, 100))
    Phi = Z @ rng.standard_normal((4, 12)) + 1e-3 * rng.standard_normal((100, 8, 12))
    y = np.einsum("tnr,rt->tn", Z, W) + 0.1 * rng.standard_normal((100, 8))
    prior, _, held = improved(remembered(Phi, y), None, Settings())
    assert prior.coordinates.dim == 5
    predicted = np.einsum("tnp,tp->tn", held[0].features, means(held[0], prior))
    assert np.mean((predicted - held[0].rewards) ** 2) < 0.05 * np.mean(y**2)


# ---- priors


def test_a_prior_is_the_same_in_other_coordinates() -> None:
    Phi, y, _ = drawn()
    prior = some_prior(remembered(Phi, y))
    elsewhere = prior.seen_in(Coordinates.of(remembered(3 * Phi + [0.0, 50, 0, -7, 0], y)))
    assert not np.allclose(elsewhere.covariance, prior.covariance)
    np.testing.assert_allclose(in_features(elsewhere), in_features(prior), rtol=1e-9)


def test_roots_spectrum_and_what_is_outside_of_some_directions() -> None:
    prior = some_prior(remembered(*drawn()[:2]))
    half = np.random.default_rng(9).standard_normal((6, 6))
    prior = replace(prior, spread=half @ half.T)
    root = prior.root(6)
    np.testing.assert_allclose(root @ root.T, in_features(prior), rtol=1e-9)
    np.testing.assert_allclose(
        prior.spectrum, np.linalg.svd(prior.covariance, compute_uv=False), rtol=1e-9
    )
    assert prior.outside(6) == 0
    for q in (1, 4):
        L = prior.whitening(q)
        assert L.shape == (6, q)
        rest = prior.covariance - L @ L.T
        np.testing.assert_allclose(np.linalg.norm(L[:, -1]) ** 2, prior.spectrum[0])
        assert prior.outside(q) == pytest.approx(np.trace(rest @ prior.spread), rel=1e-9)


def test_rank_counts_directions_far_wider_than_narrow_ones() -> None:
    prior = some_prior(remembered(*drawn()[:2]))
    spectrum = np.array([1.0, 1.2, 0.9, 9.5, 200.0, 8.0])  # the second narrowest is 1
    assert replace(prior, covariance=np.diag(spectrum)).rank == 1
    spectrum[3] = 10.5
    assert replace(prior, covariance=np.diag(spectrum)).rank == 2
    spectrum[:2], spectrum[5] = 30.0, 50.0  # most are wide; the second narrowest is 10.5
    assert replace(prior, covariance=np.diag(spectrum)).rank == 1
    spectrum[3] = 1.0
    assert replace(prior, covariance=np.diag(spectrum)).rank == 4


def test_a_vague_prior_is_as_wide_as_the_rewards() -> None:
    Phi, y, _ = drawn(T=40)
    prior = Prior.vague(remembered(Phi, y + 1000))
    assert prior.offset == pytest.approx(1000 + y.mean())
    assert np.trace(prior.covariance) == pytest.approx(y.var(), rel=1e-6)
    assert prior.noise == pytest.approx(0.1 * y.var(), rel=1e-6)


@pytest.mark.parametrize("T", range(1, 13))
def test_a_vague_prior_of_rewards_that_are_all_equal_has_some_width(T: int) -> None:
    """The variance of equal numbers is 0 only up to rounding, which may be below 0."""
    for reward in (27.276877584472174, -15.488553043334205, 1e-9, 0.0):
        Phi = np.random.default_rng(0).standard_normal((T, 1, 3))
        prior = Prior.vague(remembered(Phi, np.full((T, 1), reward)))
        assert prior.noise > 0
        assert (prior.spectrum > 0).all()


# ---- learning


@pytest.mark.parametrize(("n", "rank"), [(3, 1), (6, 2), (20, 5)])
def test_every_step_of_the_covariance_makes_the_rewards_more_likely(n: int, rank: int) -> None:
    """Expectation and maximisation does; where noise and offset are held it is just that."""
    Phi, y, _ = drawn(n=n, rank=rank)
    histories = remembered(Phi, y)
    prior = replace(Prior.vague(histories), offset=0.0)
    held = list(blocks(histories, np.arange(8), prior.coordinates))
    told = [likelihood(prior, Phi, y)]
    for _ in range(15):
        suggestion = expected(held, prior)
        prior = replace(taken(prior, suggestion, AS_SUGGESTED), noise=prior.noise)
        told.append(likelihood(prior, Phi, y))
    assert (np.diff(told) > -1e-9).all()
    assert told[-1] > told[0] + 3


def test_the_offset_is_that_of_generalised_least_squares() -> None:
    Phi, y, _ = drawn(n=4)
    y += 3
    histories = remembered(Phi, y)
    prior = some_prior(histories)
    held = list(blocks(histories, np.arange(8), prior.coordinates))
    C, above, below = in_features(prior), 0.0, 0.0
    for X, v in zip(rows(Phi, y)[..., :-1], y, strict=True):
        K = X @ C @ X.T + prior.noise * np.eye(4)
        above, below = above + np.linalg.solve(K, v).sum(), below + np.linalg.inv(K).sum()
    offset = expected(held, prior).offset
    assert offset == pytest.approx(above / below, rel=1e-9)
    best = likelihood(replace(prior, offset=offset), Phi, y)
    for step in (-0.01, 0.01):
        assert likelihood(replace(prior, offset=offset + step), Phi, y) < best


def test_what_the_posteriors_suggest_is_what_the_textbook_says() -> None:
    """Against normal equations: means, second moments, and noise over what is left free."""
    Phi, y, _ = drawn(n=4)
    histories = remembered(Phi, y)
    prior = some_prior(histories)
    held = list(blocks(histories, np.arange(8), prior.coordinates))
    second, error, free = np.zeros((6, 6)), 0.0, 0.0
    for t, X in enumerate(rows(Phi, y)[..., :-1]):
        Z = X @ prior.coordinates.matrix
        theta, P = textbook(Z, y[t], prior)
        np.testing.assert_allclose(means(held[0], prior)[t], theta, rtol=1e-7, atol=1e-9)
        second += (np.outer(theta, theta) + P) / 8
        error += float(((y[t] - prior.offset - Z @ theta) ** 2).sum())
        free += 4 - float(np.trace(Z @ P @ Z.T)) / prior.noise
    suggestion = expected(held, prior)
    np.testing.assert_allclose(suggestion.second, second, rtol=1e-7, atol=1e-9)
    assert suggestion.noise == pytest.approx(error / free, rel=1e-7)
    assert suggestion.variance == pytest.approx(np.mean((y - prior.offset) ** 2))
    assert suggestion.n_tasks == 8


def test_settings_say_how_far_a_suggestion_is_taken() -> None:
    prior = some_prior(remembered(*drawn()[:2]))
    suggestion = Suggestion(np.diag([1.0, 2, 3, 4, 5, 9]), 8, offset=2.0, noise=0.1, variance=10.0)
    after = taken(prior, suggestion, Settings(isotropic=24.0, least_noise=0.03, offset=True))
    np.testing.assert_allclose(np.diag(after.covariance), 0.25 * np.r_[1:6, 9] + 0.75 * 4)
    assert (after.offset, after.noise) == pytest.approx((2.0, 0.3))
    after = taken(prior, suggestion, AS_SUGGESTED)
    np.testing.assert_allclose(after.covariance, suggestion.second)
    assert (after.offset, after.noise) == (0.0, 0.1)


@pytest.mark.parametrize("noise", [0.01, 0.1, 1.0])
def test_the_noise_of_a_known_model_is_found(noise: float) -> None:
    """From 5000 rewards its standard error is 1 %."""
    Phi, y, _ = drawn(T=50, n=100, noise=noise, seed=1)
    settings = Settings(least_noise=0.0)
    prior = improved(remembered(Phi, y), None, settings).prior
    for _ in range(3):
        prior = improved(remembered(Phi, y), prior, settings).prior
    assert np.sqrt(prior.noise) == pytest.approx(noise, rel=0.05)


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("n", [8, 20])
def test_a_shared_subspace_is_found(rank: int, n: int) -> None:
    """With 200 tasks, from fewer rows a task than features too."""
    problem = Synthetic(dim=12, n_tasks=200, rank=rank, noise_std=0.1).problem(n_rows=n, seed=1)
    Phi, y = problem.tasks.rows.reshape(200, n, 12), problem.tasks.rewards.reshape(200, n)
    prior = improved(remembered(Phi, y), None, Settings()).prior
    assert prior.rank == rank
    vectors = np.linalg.eigh(in_features(prior)[:-1, :-1])[1]
    assert subspace_distance(vectors[:, -rank:], problem.basis) < 0.1 * np.sqrt(rank)


def test_prior_and_suggestion_are_the_same_from_rows_that_were_compressed() -> None:
    """Histories hold at most 2 (d + 2) = 14 of these 60 rows a task, blocks only d + 2."""
    Phi, y, _ = drawn(n=60)
    histories = remembered(Phi, y)
    assert histories.sizes.max() < 15
    compressed = whole = some_prior(histories)
    held = list(blocks(histories, np.arange(8), whole.coordinates))
    assert held[0].rewards.shape == (8, 7)
    raw = uncompressed(Phi, y, whole.coordinates)
    settings = Settings(offset=True)
    for _ in range(3):
        ours, theirs = expected(held, compressed), expected(raw, whole)
        np.testing.assert_allclose(ours.second, theirs.second, rtol=1e-8, atol=1e-10)
        assert ours[1:] == pytest.approx(theirs[1:], rel=1e-8)
        compressed, whole = taken(compressed, ours, settings), taken(whole, theirs, settings)
    np.testing.assert_allclose(compressed.covariance, whole.covariance, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(
        means(held[0], compressed), means(raw[0], whole), rtol=1e-7, atol=1e-9
    )


def test_spread_is_the_second_moment_of_the_features_and_little_of_it_is_chance() -> None:
    Phi, y, _ = drawn(n=60)
    prior = improved(remembered(Phi, y), None, Settings()).prior
    Z = np.concatenate(rows(Phi, y))[:, :-1] @ prior.coordinates.matrix
    second, p = Z.T @ Z / 480, Z.shape[1]
    off = ~np.eye(p, dtype=bool)  # of 480 rows
    np.testing.assert_allclose(np.diag(prior.spread), np.diag(second), rtol=1e-9)
    expected = second[off] * 480 / (480 + p)
    np.testing.assert_allclose(prior.spread[off], expected, rtol=1e-9, atol=1e-12)


def test_neither_the_order_of_rows_nor_batches_nor_blocks_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks of 1 to 30 rows, some compressed, one at a time and all at once."""
    Phi, y, _ = drawn(T=30, n=30)
    F = rows(Phi, y)
    tasks, turns = np.nonzero(np.arange(30) <= np.arange(30)[:, None])
    order = np.random.default_rng(5).permutation(len(tasks))
    plain, mixed = (Histories(n_tasks=30, dim=5) for _ in range(2))
    plain.add(tasks, F[tasks, turns])
    for i in order:
        mixed.add(tasks[i : i + 1], F[tasks[i], turns[i]][None])
    settings = Settings(offset=True)
    first = improved(plain, None, settings).prior
    with monkeypatch.context() as patch:
        patch.setattr(learning_module, "_BLOCK_BYTES", 1)
        second, _, held = improved(mixed, None, settings)
    assert len(held) == 30
    sizes = [len(block.rewards[0]) for block in held]
    assert sizes == sorted(sizes, reverse=True)
    np.testing.assert_allclose(in_features(second), in_features(first), rtol=1e-5, atol=1e-7)
    assert (second.noise, second.offset) == pytest.approx((first.noise, first.offset), rel=1e-5)


def test_where_time_is_short_the_tasks_with_most_rows_are_learned_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    histories = Histories(n_tasks=5, dim=2)
    histories.add(np.repeat([4, 1, 3, 0], [2, 3, 1, 3]), np.ones((9, 4)))
    monkeypatch.setattr(learning_module, "_MOST_WORK", 5 * 7 * 9)  # five times 7 rows, p = 3
    _, suggestion, held = improved(histories, None, Settings())
    assert histories.tasks[np.concatenate([block.slots for block in held])].tolist() == [1, 0]
    assert suggestion.n_tasks == 2
    monkeypatch.setattr(learning_module, "_MOST_WORK", 0)
    suggestion = improved(histories, None, Settings()).suggestion
    assert suggestion.n_tasks == 1


def test_what_is_learned_is_used_as_far_as_the_settings_share() -> None:
    Phi, y, _ = drawn(d=12, T=40, n=8)
    learned = improved(remembered(Phi, y), None, Settings())
    priors = [learned.under(Settings(isotropic, least_noise=0.0)) for isotropic in ISOTROPIC]
    ratios = [prior.spectrum[0] / prior.spectrum[-1] for prior in priors]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 30
    assert ratios[-1] < 1.01
    assert (priors[0].rank, priors[-1].rank) == (2, 0)
    at_once = taken(learned.prior, learned.suggestion, Settings(ISOTROPIC[-1], 0.0))
    assert likelihood(priors[-1], Phi, y) > likelihood(at_once, Phi, y)


@pytest.mark.parametrize("d", [5, 300])
def test_weights_of_the_directions_are_found_in_thetas(d: int) -> None:
    """Also of more features than a prior is learned for."""
    Phi, y, _ = drawn(d=d, T=4, n=80)
    prior = some_prior(remembered(Phi, y))
    p = prior.coordinates.dim
    assert p == min(d, 256) + 1
    np.testing.assert_allclose(prior.vectors.T @ prior.vectors, np.eye(p), atol=1e-9)
    variances = np.diag(prior.vectors.T @ prior.covariance @ prior.vectors)
    np.testing.assert_allclose(variances[::-1], prior.spectrum, rtol=1e-6)
    weights = np.random.default_rng(0).standard_normal((3, p))
    thetas = weights @ prior.vectors.T @ prior.coordinates.matrix.T
    np.testing.assert_allclose(thetas @ prior.to_directions.T, weights, atol=1e-8)


def test_a_covariance_is_as_symmetric_as_numbers_can_be() -> None:
    """What the posteriors suggest was rounded on one side as on the other, or not."""
    Phi, y, _ = drawn()
    learned = improved(remembered(Phi, y), None, Settings())
    second = learned.suggestion.second.copy()
    second[0, 1] *= 1 + 1e-13
    for value in ISOTROPIC:
        suggestion = learned.suggestion._replace(second=second)
        C = taken(learned.prior, suggestion, Settings(isotropic=value)).covariance
        np.testing.assert_array_equal(C, C.T)


# ---- the contest


def begun(errors: list[float]) -> Contest:
    """Return a contest with errors so far."""
    contest = Contest()
    contest.errors, contest.thetas = np.array(errors), np.zeros((2, 6, 4))
    contest.places = np.arange(2)
    return contest


def test_the_setting_with_the_least_errors_wins() -> None:
    contest = begun([3.0, 2.0, 4.0, 9.0, 7.0, 8.0, 0.2, 0.1])
    assert contest.winner(contest.errors) == Settings(ISOTROPIC[1], LEAST_NOISE[1], OFFSET[1])
    contest = begun([2.0, 3.0, 4.0, 9.0, 7.0, 6.0, 0.1, 0.2])
    assert contest.winner(contest.errors) == Settings(ISOTROPIC[0], LEAST_NOISE[2], OFFSET[0])


@pytest.mark.parametrize(
    ("least", "middle", "most", "winner"),
    [(0, 0.7, 0.97, 2), (0, 0.7, 1.1, 1), (0, 1.1, 0.7, 2), (1.1, 0, 3, 1), (0, 1.1, 1.1, 0)],
)
def test_of_settings_as_good_the_one_that_shares_least_wins(
    least: float, middle: float, most: float, winner: int
) -> None:
    """By how much errors exceed the least ones, in units of what counts as nothing."""
    unit = contest_module._AS_GOOD - 1
    assert 0 < unit <= 0.02
    contest = begun([*(100 + 100 * unit * np.array([least, middle, most])), 1, 1, 1, 1, 1])
    assert contest.winner(contest.errors).isotropic == ISOTROPIC[winner]


def test_an_offset_has_to_be_clearly_better() -> None:
    unit = contest_module._CLEARLY - 1
    assert 0 < unit <= 0.1
    for gain, offset in ((0.9, False), (1.1, True), (-1.0, False)):
        contest = begun([1, 1, 1, 1, 1, 1, 1 + gain * unit, 1])
        assert contest.winner(contest.errors).offset is offset


def test_before_anything_was_predicted_the_usual_settings_win() -> None:
    contest = Contest()
    errors = contest.errors_with(np.array([-1, 0]), np.ones((2, 4)))
    np.testing.assert_array_equal(errors, 0)
    assert contest.winner(errors) == Settings()


def test_errors_are_those_of_tasks_that_were_learned_from() -> None:
    contest = begun([1.0] * 8)
    contest.thetas = np.random.default_rng(0).standard_normal((2, 6, 4))
    rivals = [0, 1, 2, 3, 2, 4, 2, 5]  # the usual settings are among all three kinds
    contest.places = np.array([1, -1, 0])  # slot 1 had too few rows to be learned from in time
    F = np.random.default_rng(1).standard_normal((6, 5))
    slots = np.array([2, -1, 1, 0, 3, -2])
    predicted = [contest.thetas[0, rivals] @ F[0, :-1], contest.thetas[1, rivals] @ F[3, :-1]]
    sums = 1 + (F[0, -1] - predicted[0]) ** 2 + (F[3, -1] - predicted[1]) ** 2
    np.testing.assert_allclose(contest.errors_with(slots, F), sums)
    np.testing.assert_array_equal(contest.errors, 1)  # asking changes nothing


def test_every_rival_predicts_with_the_thetas_that_it_would_have_had() -> None:
    Phi, y, _ = drawn(n=4)
    histories = remembered(Phi, y + 2)
    settings = Settings(isotropic=12.0, least_noise=0.3, offset=True)
    learned = improved(histories, None, settings)
    contest = Contest()
    contest.settings = settings
    contest = contest.next_round(settings, np.arange(8.0), learned)
    np.testing.assert_allclose(contest.errors, np.arange(8.0) / 2)
    assert contest.settings == settings
    rivals = [Settings(value, 0.3, True) for value in ISOTROPIC]
    rivals += [Settings(12.0, value, True) for value in LEAST_NOISE]
    rivals += [Settings(12.0, 0.3, value) for value in OFFSET]
    different = list(dict.fromkeys(rivals))
    assert contest.thetas.shape[1] == len(different) == 6
    row = rows(Phi, y + 2)[3, 1:2]  # of task 3
    errors = contest.errors_with(np.array([3]), row) - contest.errors
    for number, rival in enumerate(rivals):
        prior = taken(learned.prior, learned.suggestion, rival)
        for t, F in enumerate(rows(Phi, y + 2)):
            theta, _ = textbook(F[:, :-1] @ prior.coordinates.matrix, y[t] + 2, prior)
            features = prior.coordinates.matrix @ theta
            features[-1] += prior.offset
            held = contest.thetas[contest.places[t], different.index(rival)]
            np.testing.assert_allclose(held, features, rtol=1e-6, atol=1e-8)
            if t == 3:
                error = row[0, -1] - row[0, :-1] @ features
                assert errors[number] == pytest.approx(error**2, rel=1e-5, abs=1e-9)


def contested(Phi: Floats, y: Floats) -> tuple[Prior, Contest, Histories]:
    """Learn a prior again and again as rows come, at growing intervals, as a policy does."""
    T, n, d = Phi.shape
    histories, contest, F = Histories(n_tasks=T, dim=d), Contest(), rows(Phi, y)
    prior: Prior | None = None
    due = 1
    for i in range(n):
        errors = contest.errors_with(histories.slots, F[:, i])
        histories.add(np.arange(T), F[:, i])
        contest.errors = errors
        if i + 1 >= due:
            settings = contest.winner(errors)
            learned = improved(histories, contest.prior, settings)
            contest = contest.next_round(settings, errors, learned)
            prior = learned.under(settings)
            due = int(np.ceil(1.25 * (i + 1)))
    assert prior is not None
    return prior, contest, histories


def errors_of_theta(prior: Prior, histories: Histories, Theta: Floats) -> float:
    """Return the sum of squared errors of all thetas and intercepts."""
    total = 0.0
    for block in blocks(histories, np.arange(Theta.shape[1]), prior.coordinates):
        theta = means(block, prior) @ prior.coordinates.matrix.T
        theta[:, :-1] -= Theta.T[block.slots]
        theta[:, -1] += prior.offset
        total += float((theta**2).sum())
    return total


def unbiased(prior: Prior) -> Prior:
    """Return a prior without a preferred direction that is as wide."""
    p = prior.coordinates.dim
    return replace(prior, covariance=np.eye(p) * np.trace(prior.covariance) / p)


def test_tasks_with_nothing_in_common_get_no_preferred_direction() -> None:
    """As many tasks as features: without the contest, a few directions would explain them."""
    chosen, errors = [], np.zeros(3)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        Phi, Theta = rng.standard_normal((30, 24, 30)), rng.standard_normal((30, 30))
        y = np.einsum("tnd,dt->tn", Phi, Theta) + 0.1 * rng.standard_normal((30, 24))
        prior, contest, histories = contested(Phi, y)
        assert contest.prior is not None  # the one that shares most
        chosen.append(contest.settings.isotropic)
        if chosen[-1] == ISOTROPIC[-1]:
            assert prior.spectrum[0] < 1.01 * prior.spectrum[-1]
        each = prior, unbiased(prior), contest.prior
        errors += [errors_of_theta(one, histories, Theta) for one in each]
    assert chosen.count(ISOTROPIC[-1]) >= 7
    assert errors[0] < 1.02 * errors[1]
    assert errors[2] > 1.15 * errors[1]


@pytest.mark.parametrize("seed", range(3))
def test_tasks_with_a_common_basis_keep_it_in_the_contest(seed: int) -> None:
    Phi, y, Theta = drawn(d=30, T=30, n=15, noise=0.1, seed=seed)
    prior, contest, histories = contested(Phi, y)
    assert contest.settings.isotropic < ISOTROPIC[-1]
    assert prior.rank == 2
    errors, worse = (errors_of_theta(one, histories, Theta) for one in (prior, unbiased(prior)))
    assert errors < 0.1 * worse


def test_an_offset_is_taken_where_rewards_have_a_mean() -> None:
    Phi, y, _ = drawn(d=6, T=30, n=12, noise=0.1)
    assert contested(Phi, y + 50)[0].offset == pytest.approx(50, abs=0.5)
