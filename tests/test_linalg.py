"""The small linear algebra, against definitions and the SVD."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.linalg import (
    factor,
    least_norm,
    orthonormal,
    procrustes,
    solve_rows,
    solve_semidefinite,
    solve_triangles,
    subspace_distance,
    top_left_vectors,
)
from cobandits.metrics import relative_error
from tests.support import Floats

seeds = st.integers(0, 10_000)


def gaussian(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng([*shape, seed]).standard_normal(shape)


@given(seed=seeds, d=st.integers(1, 12), r=st.integers(1, 12))
def test_orthonormal_basis_has_the_same_span(seed: int, d: int, r: int) -> None:
    B = gaussian(d, min(d, r), seed=seed)
    Q = orthonormal(B)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-12)
    np.testing.assert_allclose(Q @ (Q.T @ B), B, atol=1e-10)


@given(seed=seeds, r=st.integers(1, 4))
def test_subspace_distance_is_that_of_the_spans(seed: int, r: int) -> None:
    A, B = orthonormal(gaussian(8, r, seed=seed)), orthonormal(gaussian(8, r, seed=seed + 1))
    R = orthonormal(gaussian(r, r, seed=seed + 2))
    distance = subspace_distance(A, B)
    assert 0 <= distance <= np.sqrt(r) + 1e-12
    assert subspace_distance(A, A @ R) < 1e-12
    assert subspace_distance(A @ R, B) == pytest.approx(distance, abs=1e-12)
    assert subspace_distance(B, A) == pytest.approx(distance, abs=1e-12)
    sines = np.sqrt(1 - np.linalg.svd(A.T @ B, compute_uv=False).clip(max=1) ** 2)
    assert distance == pytest.approx(np.linalg.norm(sines), abs=1e-7)


@pytest.mark.parametrize(("d", "T"), [(5, 9), (9, 5), (6, 6), (1, 4), (4, 1)])
def test_top_left_vectors_are_those_of_the_svd(d: int, T: int) -> None:
    M = gaussian(d, T)
    U = np.linalg.svd(M)[0]
    for r in range(1, min(d, T) + 1):
        found = top_left_vectors(M, r)
        assert found.shape == (d, r)
        np.testing.assert_allclose(np.abs(np.sum(found * U[:, :r], axis=0)), 1, atol=1e-8)


@pytest.mark.parametrize(("d", "T"), [(5, 9), (9, 5)])
@pytest.mark.parametrize("rank", [0, 1])
def test_top_left_vectors_of_a_deficient_matrix_are_orthonormal(d: int, T: int, rank: int) -> None:
    M = np.outer(gaussian(d), gaussian(T)) * rank
    found = top_left_vectors(M, 3)
    np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(found @ (found.T @ M), M, atol=1e-10)


@given(seed=seeds, d=st.integers(4, 9), rank=st.integers(0, 3))
def test_semidefinite_systems_have_the_solution_of_least_norm(seed: int, d: int, rank: int) -> None:
    rows = np.stack([gaussian(20, d, seed=seed + t) for t in range(3)])
    rows[1] = rows[1, :, :rank] @ rows[1, :rank]  # of this rank; the others are regular
    rows[2, :, :rank] *= 1e9
    x = gaussian(3, d, seed=seed)
    M = rows.transpose(0, 2, 1) @ rows
    values = np.einsum("tni,ti->tn", rows, x)
    v = np.einsum("tni,tn->ti", rows, values)
    projected = np.linalg.pinv(rows[1], rtol=1e-9) @ (rows[1] @ x[1])
    for found in (solve_semidefinite(M, v, 1e-12), least_norm(rows, values, 1e-12)):
        np.testing.assert_allclose(found[[0, 1]], [x[0], projected], atol=1e-6)
        np.testing.assert_allclose(rows[2] @ found[2], values[2], rtol=1e-6)


@given(seed=seeds)
def test_no_rotation_is_nearer_than_that_of_procrustes(seed: int) -> None:
    A, B = gaussian(6, 3, seed=seed), gaussian(6, 3, seed=seed + 1)
    R = procrustes(A, B)
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
    for other in range(20):
        Q = orthonormal(gaussian(3, 3, seed=seed + 2 + other))
        assert np.linalg.norm(A @ R - B) <= np.linalg.norm(A @ Q - B) + 1e-12


@given(seed=seeds, rank=st.integers(1, 4))
def test_factors_are_the_best_of_their_rank(seed: int, rank: int) -> None:
    Theta = gaussian(5, 4, seed=seed)
    B, W = factor(Theta, rank)
    assert (B.shape, W.shape) == ((5, rank), (rank, 4))
    np.testing.assert_allclose(B.T @ B, np.eye(rank), atol=1e-12)
    rest = np.linalg.svd(Theta, compute_uv=False)[rank:]
    assert np.linalg.norm(B @ W - Theta) == pytest.approx(np.linalg.norm(rest), abs=1e-10)
    np.testing.assert_allclose(np.matmul(*factor(Theta)), Theta, atol=1e-12)


def test_relative_error_is_the_one_of_figure_2() -> None:
    truth = np.array([[3.0, 0.0], [0.0, 4.0]])
    assert relative_error(truth, truth) == 0
    assert relative_error(0 * truth, truth) == 1
    assert relative_error(truth + np.diag([1.0, 0.0]), truth) == pytest.approx(0.2)


@pytest.mark.parametrize("k", [1, 2, 15, 31, 32, 70])
def test_triangular_systems_are_solved_whatever_their_size(k: int) -> None:
    rng = np.random.default_rng(k)
    L = np.tril(rng.standard_normal((3, k, k))) / np.sqrt(k) + 2 * np.eye(k)
    B = rng.standard_normal((3, k, 4))
    np.testing.assert_allclose(L @ solve_triangles(L, B), B, atol=1e-10)
    np.testing.assert_allclose(L @ solve_triangles(L, B[..., :1]), B[..., :1], atol=1e-10)
    y = B[..., 0].copy()
    X, x = solve_rows(L, B, y)
    np.testing.assert_allclose(L @ X, B, atol=1e-10)
    np.testing.assert_allclose((L @ x[..., None])[..., 0], B[..., 0], atol=1e-10)
    np.testing.assert_array_equal(y, B[..., 0])  # it is left as it was
