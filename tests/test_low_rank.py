"""The likelihood of a covariance of low rank against a literal loop, compiled and in NumPy."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.kernels import COMPILED, LowRankTerms, low_rank, low_rank_roots

Floats = NDArray[np.float64]

PATHS = ["compiled", "numpy"] if COMPILED else ["numpy"]
NOISE = 0.3


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once compiled (where it is built) and once in NumPy."""
    monkeypatch.setattr(low_rank, "COMPILED", request.param == "compiled")
    return str(request.param)


def drawn(b: int, n: int, p: int, q: int) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng([b, n, p, q])
    L = rng.standard_normal((p, q)) / np.sqrt(p)
    return rng.standard_normal((b, n, p)), rng.standard_normal((b, n)), L


def value(X: Floats, x: Floats, L: Floats) -> float:
    """Return half of the sum of log determinants, and of squares over the noise, literally."""
    total = 0.0
    for rows, rewards in zip(X, x, strict=True):
        Q = np.eye(len(rows)) + rows @ L @ L.T @ rows.T
        total += np.linalg.slogdet(Q)[1] + rewards @ np.linalg.solve(Q, rewards) / NOISE
    return total / 2


SHAPES = [(1, 1, 1, 1), (3, 5, 2, 1), (4, 1, 9, 3), (2, 17, 7, 5), (3, 8, 16, 4), (2, 33, 21, 12)]


@pytest.mark.parametrize("shape", SHAPES)
def test_terms_are_those_of_a_loop_over_tasks(path: str, shape: tuple[int, ...]) -> None:
    X, x, L = drawn(*shape)
    terms = LowRankTerms(L, noise=NOISE)
    for one in range(len(X)):  # sums over any parts are the same
        terms.add(X[one : one + 1], x[one : one + 1])
    found = (terms.log_determinant + terms.square / NOISE) / 2
    assert found == pytest.approx(value(X, x, L), rel=1e-10)
    step = 1e-6
    for place in np.ndindex(L.shape):
        moved = np.zeros_like(L)
        moved[place] = step
        slope = (value(X, x, L + moved) - value(X, x, L - moved)) / (2 * step)
        assert terms.gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_roots_are_those_of_the_inverse(shape: tuple[int, ...]) -> None:
    X, _, L = drawn(*shape)
    A, half, log_determinant = low_rank_roots(X, L)
    M = np.eye(L.shape[1]) + (X @ L).transpose(0, 2, 1) @ (X @ L)
    np.testing.assert_allclose(A, X @ L, atol=1e-12)
    np.testing.assert_allclose(half.transpose(0, 2, 1) @ half, np.linalg.inv(M), atol=1e-10)
    assert log_determinant == pytest.approx(np.linalg.slogdet(M)[1].sum(), rel=1e-10, abs=1e-12)


def test_what_cannot_be_factorised_has_no_value(path: str) -> None:
    X, x, L = drawn(3, 5, 4, 2)
    terms = LowRankTerms(L * np.nan, noise=NOISE)
    with contextlib.suppress(np.linalg.LinAlgError):  # or it is not a number
        terms.add(X, x)
        assert not np.isfinite(terms.log_determinant)
