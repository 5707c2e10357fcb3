"""The basis in which rewards move thetas: all directions or the widest few, by one interface."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.policies.gaussian import GaussianPosteriors
from cobandits.policies.shared.reduced import Basis, FullBasis, ReducedBasis, basis_of

Doubles = NDArray[np.float64]

Q, WIDTH = 7, 9  # directions in all, and d + 1


def drawn(seed: int = 0) -> tuple[Doubles, Doubles]:
    """Draw a root, (d + 1, Q), and the second moment of correlated features, (Q, Q)."""
    rng = np.random.default_rng(seed)
    root, half = rng.standard_normal((WIDTH, Q)), rng.standard_normal((Q, Q))
    return root, half @ half.T


def learned(dim: int, n_tasks: int = 3, n: int = 4, seed: int = 1) -> GaussianPosteriors:
    """Return posteriors of a few rows per task; the last task has none."""
    rng = np.random.default_rng(seed)
    posteriors = GaussianPosteriors(n_tasks=n_tasks, dim=dim, ridge=1.0)
    tasks = np.repeat(np.arange(n_tasks - 1), n)
    rows, rewards = rng.standard_normal((len(tasks), dim)), rng.standard_normal(len(tasks))
    posteriors.learn(tasks, rows, rewards)
    return posteriors


def given(dim: int, left: int = 0) -> tuple[Doubles, Doubles]:
    """Return the rows of :func:`learned`, (3, 4, left + dim), and rewards, (3, 4).

    Features are 0 in as many directions as are ``left``, and all are of the task without rows.
    """
    rng = np.random.default_rng(1)
    Z, y = np.zeros((3, 4, left + dim)), np.zeros((3, 4))
    Z[:2, :, left:] = rng.standard_normal((8, dim)).reshape(2, 4, dim)
    y[:2] = rng.standard_normal(8).reshape(2, 4)
    return Z, y


def covariances(roots: Doubles, q: int) -> Doubles:
    """Return the covariances, (b, q, q), of packed roots."""
    S = np.zeros((len(roots), q, q))
    S[(slice(None), *np.tril_indices(q))] = roots
    return np.asarray(S.transpose(0, 2, 1) @ S)


def check_interface(basis: Basis, root: Doubles, M: Doubles) -> None:
    """Check what is true of every basis of the directions of a root, by dense algebra."""
    full, q = learned(Q), len(basis.directions)
    projected = basis.learn(*given(Q))
    np.testing.assert_allclose(projected.deviations, full.means, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(projected.log_volumes, full.log_volumes, rtol=1e-9, atol=1e-12)
    P, reduced = covariances(full.roots, Q), covariances(projected.roots, q)
    for t in range(3):  # a typical arm is as uncertain in the basis and outside as in all
        within = np.trace(basis.second_moment @ reduced[t])
        total = np.trace(M @ P[t])
        assert within + projected.residual_variances[t] == pytest.approx(total, rel=1e-10)
    before = np.trace(basis.second_moment) + basis.residual_variance
    assert before == pytest.approx(np.trace(M), rel=1e-10)
    np.testing.assert_allclose(reduced[2], np.eye(q), atol=1e-12)  # without rewards: N(0, I)
    np.testing.assert_allclose(projected.means[2], 0, atol=1e-12)
    assert projected.residual_variances[2] == pytest.approx(basis.residual_variance, abs=1e-10)
    Z = np.random.default_rng(2).standard_normal((5, q))
    X = basis.expand(Z) @ np.linalg.pinv(root)  # rows [phi, 1] with these features
    np.testing.assert_allclose(X @ basis.directions.T, Z, atol=1e-10)
    np.testing.assert_allclose(basis.expand(Z) @ full.means[0], Z @ projected.means[0], atol=1e-10)


@pytest.mark.parametrize("q", range(1, Q + 1))
def test_every_basis_keeps_the_prior_the_variance_of_arms_and_the_features(q: int) -> None:
    root, M = drawn()
    basis = basis_of(root, M, q)
    assert isinstance(basis, FullBasis if q == Q else ReducedBasis)
    assert basis.directions.shape == (q, WIDTH)
    assert basis.directions.flags.c_contiguous
    check_interface(basis, root, M)


def test_a_full_basis_changes_nothing() -> None:
    root, M = drawn()
    basis, posteriors = basis_of(root, M, Q), learned(Q)
    np.testing.assert_array_equal(basis.directions, root.T)
    np.testing.assert_array_equal(basis.second_moment, M)
    projected = basis.learn(*given(Q))
    np.testing.assert_allclose(projected.means, posteriors.means, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(projected.roots, posteriors.roots, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(projected.residual_variances, 0)
    assert basis.residual_variance == 0


@pytest.mark.parametrize("q", [1, 3, 6])
def test_both_bases_agree_where_the_directions_left_out_have_no_variance(q: int) -> None:
    """Their features are 0 for every arm, so nothing is lost without them."""
    root, M = drawn()
    left = Q - q
    root[:, :left], M[:left], M[:, :left] = 0, 0, 0
    reduced, full = basis_of(root, M, q), basis_of(root[:, left:], M[left:, left:], q)
    np.testing.assert_allclose(reduced.directions, full.directions, rtol=1e-12)
    np.testing.assert_allclose(reduced.second_moment, full.second_moment, rtol=1e-12)
    assert reduced.residual_variance == full.residual_variance == 0
    here, there = reduced.learn(*given(q, left)), full.learn(*given(q))
    np.testing.assert_allclose(here.means, there.means, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(here.roots, there.roots, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(here.residual_variances, 0)
    Z = np.random.default_rng(2).standard_normal((5, q))
    np.testing.assert_allclose(reduced.expand(Z)[:, left:], full.expand(Z), rtol=1e-12)
    np.testing.assert_allclose(reduced.expand(Z)[:, :left], 0, atol=1e-12)


def test_directions_that_are_not_correlated_are_left_out_as_they_are() -> None:
    root, M = drawn()
    M[:3, 3:], M[3:, :3] = 0, 0
    basis, posteriors = basis_of(root, M, 4), learned(Q)
    np.testing.assert_allclose(basis.directions, root[:, 3:].T, rtol=1e-12)
    np.testing.assert_allclose(basis.second_moment, M[3:, 3:], rtol=1e-12)
    assert basis.residual_variance == pytest.approx(np.trace(M[:3, :3]))
    projected, P = basis.learn(*given(Q)), covariances(posteriors.roots, Q)
    np.testing.assert_allclose(projected.means, posteriors.means[:, 3:], rtol=1e-10)
    np.testing.assert_allclose(covariances(projected.roots, 4), P[:, 3:, 3:], atol=1e-12)
    unknown = np.einsum("ij,bji->b", M[:3, :3], P[:, :3, :3])
    np.testing.assert_allclose(projected.residual_variances, unknown, rtol=1e-10)


def test_a_direction_that_others_predict_exactly_leaves_nothing_outside() -> None:
    """The feature left out is the sum of two that are not: their weights take its part."""
    root = drawn()[0]
    rng = np.random.default_rng(3)
    z = rng.standard_normal((1000, Q))
    z[:, 0] = z[:, 2] + z[:, 5]
    M = z.T @ z / len(z)
    basis = basis_of(root, M, Q - 1)
    assert basis.residual_variance == pytest.approx(0, abs=1e-10)
    check_interface(basis, root, M)
    full = learned(Q)
    expected = z[:, 1:] @ (full.means[0, 1:] + full.means[0, 0] * np.eye(Q - 1)[[1, 4]].sum(axis=0))
    np.testing.assert_allclose(z @ full.means[0], expected, atol=1e-12)
    # Features of the basis are those of an arm whose features in all directions are z.
    features = z @ np.linalg.pinv(root) @ basis.directions.T
    np.testing.assert_allclose(features @ basis.learn(*given(Q)).means[0], expected, atol=1e-8)
