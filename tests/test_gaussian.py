"""Posteriors of all tasks: the same as their normal equations, compiled or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.policies import gaussian
from cobandits.policies.gaussian import GaussianPosteriors

Floats = NDArray[np.floating]
WAYS = [pytest.param(True, id="compiled"), pytest.param(False, id="numpy")]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param and not gaussian.COMPILED:
        pytest.skip("the compiled posteriors are not built here")
    monkeypatch.setattr(gaussian, "COMPILED", request.param)
    return bool(request.param)


def learned(
    d: int, T: int, n: int, ridge: float, seed: int = 0, batch: int = 4
) -> tuple[GaussianPosteriors, Floats, Floats]:
    """Return posteriors that learned n batches, and the normal equations of the same rows."""
    rng = np.random.default_rng(seed)
    held = GaussianPosteriors(n_tasks=T, dim=d, ridge=ridge)
    V, b = np.tile(ridge * np.eye(d), (T, 1, 1)), np.zeros((T, d))
    for _ in range(n):
        tasks = rng.integers(0, T, batch)  # a task may be in a batch more than once
        rows, rewards = rng.standard_normal((batch, d)), rng.standard_normal(batch)
        held.learn(tasks, rows, rewards)
        for t, x, y in zip(tasks, rows, rewards, strict=True):
            V[t] += np.outer(x, x)
            b[t] += y * x
    return held, V, b


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 9, 16, 33])
@pytest.mark.parametrize("ridge", [1e-4, 1.0, 30.0])
def test_means_are_ridge_regressions_and_roots_are_inverse_choleskys(
    way: bool, d: int, ridge: float
) -> None:
    held, V, b = learned(d, T=5, n=30, ridge=ridge)
    np.testing.assert_allclose(held.means, np.linalg.solve(V, b[..., None])[..., 0], rtol=1e-7)
    # S = L^-T for the Cholesky factor L of the precision: a textbook sample is mu + S z
    S = held.covariance_factors(np.arange(5), np.tile(np.eye(d), (5, 1, 1)))  # (5, d, d)
    np.testing.assert_allclose(
        S, np.linalg.inv(np.linalg.cholesky(V)).transpose(0, 2, 1), atol=1e-8
    )
    volumes = np.linalg.slogdet(V)[1] - d * np.log(ridge)
    np.testing.assert_allclose(held.log_volumes, volumes, rtol=1e-8, atol=1e-10)


def test_spread_takes_tasks_in_any_order_and_more_than_once(way: bool) -> None:
    held, V, _ = learned(6, T=4, n=20, ridge=0.5)
    tasks = np.array([3, 0, 3])
    arms = np.random.default_rng(1).standard_normal((3, 7, 6))
    A = held.covariance_factors(tasks, arms)
    expected = arms @ np.linalg.inv(V[tasks]) @ arms.transpose(0, 2, 1)
    np.testing.assert_allclose(A @ A.transpose(0, 2, 1), expected, rtol=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_batches_and_single_rows_give_the_same(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    tasks, rows, rewards = rng.integers(0, 3, m), rng.standard_normal((m, 5)), rng.normal(size=m)
    together, alone = (GaussianPosteriors(n_tasks=3, dim=5, ridge=0.1) for _ in range(2))
    together.learn(tasks, rows, rewards)
    for i in range(m):
        alone.learn(tasks[i : i + 1], rows[i : i + 1], rewards[i : i + 1])
    np.testing.assert_array_equal(together.roots, alone.roots)
    np.testing.assert_array_equal(together.means, alone.means)


def test_thousands_of_nearly_equal_rows_do_not_lose_definiteness(way: bool) -> None:
    """A covariance updated by subtraction would have negative variances here."""
    rng = np.random.default_rng(3)
    held = GaussianPosteriors(n_tasks=1, dim=4, ridge=1e-8)
    x = rng.standard_normal(4)
    for _ in range(3000):
        row = x + 1e-7 * rng.standard_normal(4)
        held.learn(np.zeros(1, np.int64), row[None], np.array([1.0]))
    S = held.covariance_factors(np.zeros(1, np.int64), np.eye(4)[None])[0]
    assert np.isfinite(held.roots).all()
    assert np.diagonal(S).min() > 0
    assert held.means[0] @ x == pytest.approx(1.0, rel=1e-6)


def test_values_that_cannot_be_squared_are_refused_and_change_nothing(way: bool) -> None:
    held, _, _ = learned(3, T=2, n=5, ridge=1.0)
    before = held.roots.copy(), held.means.copy(), held.log_volumes.copy()
    tasks = np.array([0, 1])
    for rows, rewards in (
        (np.array([[1.0, 1, 1], [1e200, 0, 0]]), np.ones(2)),
        (np.ones((2, 3)), np.array([1.0, 1e300])),
    ):
        with pytest.raises(DataError, match="too large"):
            held.learn(tasks, rows, rewards)
    for now, then in zip((held.roots, held.means, held.log_volumes), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("ridge", [0.0, -1.0, np.nan, np.inf])
def test_a_prior_needs_a_positive_precision(ridge: float) -> None:
    with pytest.raises(ConfigurationError, match="above 0"):
        GaussianPosteriors(n_tasks=1, dim=2, ridge=ridge)


@pytest.mark.skipif(not gaussian.COMPILED, reason="the compiled posteriors are not built here")
def test_the_extension_checks_lengths_and_tasks() -> None:
    held = GaussianPosteriors(n_tasks=2, dim=3, ridge=1.0)
    with pytest.raises(ValueError, match="task 2 of 2"):
        held.learn(np.array([2]), np.ones((1, 3)), np.ones(1))
    with pytest.raises(ValueError, match="rows holds"):
        held.learn(np.array([0]), np.ones((1, 4)), np.ones(1))
    with pytest.raises(ValueError, match="task -1 of 2"):
        held.covariance_factors(np.array([-1]), np.ones((1, 2, 3)))


@pytest.mark.parametrize("ridge", [1e-4, 1.0, 30.0])
@pytest.mark.parametrize("n", [0, 1, 3, 20])
def test_settled_posteriors_are_those_of_their_normal_equations(n: int, ridge: float) -> None:
    """Of fewer rows than features, and of more; tasks in any order, others untouched."""
    held, V, b = learned(4, T=5, n=6, ridge=ridge)
    rng = np.random.default_rng(7)
    tasks, rows, rewards = np.array([3, 0]), rng.standard_normal((2, n, 4)), rng.normal(size=(2, n))
    rows[1, -1:] = rewards[1, -1:] = 0  # a row of zeros says nothing
    held.set_from_rows(tasks, rows, rewards)
    V[tasks] = ridge * np.eye(4) + np.einsum("mni,mnj->mij", rows, rows)
    b[tasks] = np.einsum("mni,mn->mi", rows, rewards)
    np.testing.assert_allclose(held.means, np.linalg.solve(V, b[..., None])[..., 0], rtol=1e-7)
    S = np.linalg.inv(np.linalg.cholesky(V)).transpose(0, 2, 1)
    np.testing.assert_allclose(held.unpacked(np.arange(5)), S, rtol=1e-7, atol=1e-9)
    volumes = np.linalg.slogdet(V)[1] - 4 * np.log(ridge)
    np.testing.assert_allclose(held.log_volumes, volumes, rtol=1e-8, atol=1e-10)


def test_settled_posteriors_go_on_learning_as_if_they_had_learned_all_before(way: bool) -> None:
    rng = np.random.default_rng(2)
    rows, rewards = rng.standard_normal((3, 8, 6)), rng.normal(size=(3, 8))
    settled, alone = (GaussianPosteriors(n_tasks=3, dim=6, ridge=0.2) for _ in range(2))
    settled.set_from_rows(np.arange(3), rows[:, :5], rewards[:, :5])
    for n in range(8):
        alone.learn(np.arange(3), rows[:, n], rewards[:, n])
    for n in range(5, 8):
        settled.learn(np.arange(3), rows[:, n], rewards[:, n])
    np.testing.assert_allclose(settled.means, alone.means, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(settled.roots, alone.roots, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(settled.log_volumes, alone.log_volumes, rtol=1e-8)


def test_settled_posteriors_of_features_that_are_nearly_the_same_stay_definite() -> None:
    """Squared, the features would differ by less than rounding."""
    rng = np.random.default_rng(3)
    held = GaussianPosteriors(n_tasks=1, dim=2, ridge=1e-6)
    x = rng.standard_normal((1, 50, 1))
    rows = np.concatenate([x, x + 1e-9 * rng.standard_normal(x.shape)], axis=2)
    held.set_from_rows(np.zeros(1, np.int64), 1e3 * rows, 2e3 * x[..., 0])
    S = held.unpacked(np.zeros(1, np.int64))[0]
    assert np.diagonal(S).min() > 0
    assert held.means[0].sum() == pytest.approx(2, rel=1e-6)
    across = np.array([1.0, -1.0]) @ S  # nothing but the prior tells the two apart
    assert across @ across == pytest.approx(2e6, rel=1e-3)


def test_unpacked_roots_are_what_arms_are_spread_by(way: bool) -> None:
    held, _, _ = learned(5, T=4, n=10, ridge=0.5)
    tasks = np.array([2, 0, 2])
    S = held.unpacked(tasks)
    assert (S[:, *np.tril_indices(5, -1)] == 0).all()
    arms = np.random.default_rng(1).standard_normal((3, 7, 5))
    np.testing.assert_allclose(held.covariance_factors(tasks, arms), arms @ S, rtol=1e-12)


# ---- thetas that move in some directions only


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 9, 16])
@pytest.mark.parametrize("width", [1, 3, 8, 13])
def test_thetas_move_along_directions_by_their_normal_equations(
    way: bool, d: int, width: int
) -> None:
    """Against rows that follow each other, each with its task's noise; tasks come repeatedly."""
    rng = np.random.default_rng(d)
    held = GaussianPosteriors(n_tasks=4, dim=d, ridge=1.0)
    directions, thetas = rng.standard_normal((d, width)), rng.standard_normal((4, width))
    noises, start = rng.uniform(0.1, 3, 4), thetas.copy()
    tasks, F = np.array([2, 0, 2, 2, 1, 0, 2]), rng.standard_normal((7, width + 1))
    told = [held.learn_in_directions(directions, thetas, noises, tasks[:m], F[:m]) for m in (0, 4)]
    told.append(held.learn_in_directions(directions, thetas, noises, tasks[4:], F[4:]))
    squares, expected = np.concatenate(told, axis=1)
    P, mean = np.tile(np.eye(d), (4, 1, 1)), np.zeros((4, d))
    for i, (t, row) in enumerate(zip(tasks, F, strict=True)):
        z = directions @ row[:-1]
        error = row[-1] - row[:-1] @ (start[t] + mean[t] @ directions)
        assert squares[i] == pytest.approx(error**2, rel=1e-8, abs=1e-12)
        assert expected[i] == pytest.approx(z @ P[t] @ z + noises[t], rel=1e-9)
        P[t] = np.linalg.inv(np.linalg.inv(P[t]) + np.outer(z, z) / noises[t])
        mean[t] += P[t] @ z * error / noises[t]
    np.testing.assert_allclose(held.means, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(thetas, start + mean @ directions, rtol=1e-8, atol=1e-10)
    S = held.unpacked(np.arange(4))
    np.testing.assert_allclose(S @ S.transpose(0, 2, 1), P, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(held.log_volumes, -np.linalg.slogdet(P)[1], rtol=1e-8, atol=1e-10)
    np.testing.assert_array_equal(thetas[3], start[3])  # it had no rows


@given(st.integers(0, 2**32 - 1), st.integers(0, 12))
def test_rows_along_directions_are_learned_one_after_the_other(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    directions, noises = rng.standard_normal((5, 7)), rng.uniform(0.1, 3, 3)
    tasks, F = rng.integers(0, 3, m), rng.standard_normal((m, 8))
    together, alone = (GaussianPosteriors(n_tasks=3, dim=5, ridge=1.0) for _ in range(2))
    here, there = np.zeros((3, 7)), np.zeros((3, 7))
    told = np.stack(together.learn_in_directions(directions, here, noises, tasks, F))
    for i in range(m):
        one = alone.learn_in_directions(directions, there, noises, tasks[i : i + 1], F[i : i + 1])
        np.testing.assert_allclose(np.concatenate(one), told[:, i], rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(together.roots, alone.roots, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(together.means, alone.means, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(together.log_volumes, alone.log_volumes, rtol=1e-9, atol=1e-11)


def test_thetas_that_start_as_means_stay_what_means_predict(way: bool) -> None:
    """With the identity as directions it is what learning rows and rewards is."""
    rng = np.random.default_rng(0)
    along, plain = (GaussianPosteriors(n_tasks=3, dim=6, ridge=1.0) for _ in range(2))
    thetas, tasks, F = np.zeros((3, 6)), rng.integers(0, 3, 20), rng.standard_normal((20, 7))
    along.learn_in_directions(np.eye(6), thetas, np.full(3, 0.25), tasks, F)
    plain.learn(tasks, 2 * F[:, :-1], 2 * F[:, -1])
    np.testing.assert_allclose(thetas, along.means, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(along.means, plain.means, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(along.roots, plain.roots, rtol=1e-9, atol=1e-11)


@pytest.mark.skipif(not gaussian.COMPILED, reason="the compiled posteriors are not built here")
@pytest.mark.parametrize("dim", [-1, -2, -(2**62), 2**31, 2**32, 2**61 + 2, 2**62, 2**63 - 1])
def test_the_extension_refuses_dimensions_that_are_negative_or_cannot_be_counted(dim: int) -> None:
    from cobandits.compiled import _posterior

    for m in (1, 2, 4):
        tasks, some, out = np.zeros(m, np.int64), np.ones(2 * m), np.full(2 * m, 7.0)
        for n_tasks in (0, 1, 4):
            roots, means, volumes = np.ones(3 * n_tasks), np.ones(2 * n_tasks), np.zeros(n_tasks)
            with pytest.raises(ValueError, match="holds"):
                _posterior.learn(roots, means, volumes, tasks, some, np.ones(m), dim)
            with pytest.raises(ValueError, match="holds"):
                _posterior.covariance_factors(roots, tasks, some, out, dim)
            assert (roots == 1).all()
        assert (out == 7).all()


@pytest.mark.skipif(not gaussian.COMPILED, reason="the compiled posteriors are not built here")
def test_the_extension_checks_thetas_and_directions() -> None:
    held, tasks, F = GaussianPosteriors(n_tasks=2, dim=3, ridge=1.0), np.array([0]), np.ones((1, 5))
    directions, thetas, noises = np.ones((3, 4)), np.zeros((2, 4)), np.ones(2)
    before = held.roots.copy()
    for t in (-1, 2):
        with pytest.raises(ValueError, match=f"task {t} of 2"):
            held.learn_in_directions(directions, thetas, noises, np.array([t]), F)
    with pytest.raises(ValueError, match="directions holds"):
        held.learn_in_directions(directions[:2], thetas, noises, tasks, F)
    with pytest.raises(ValueError, match="noises holds"):
        held.learn_in_directions(directions, thetas, noises[:1], tasks, F)
    with pytest.raises(ValueError, match="rows holds"):
        held.learn_in_directions(directions, thetas, noises, tasks, F[:, :4].copy())
    with pytest.raises(ValueError, match=r"directions holds|rows holds|thetas holds"):
        held.learn_in_directions(directions, thetas[:1].copy(), noises, tasks, F)
    np.testing.assert_array_equal(held.roots, before)
    np.testing.assert_array_equal(thetas, 0)
