"""The common mean with own deviations: against dense solutions, and what it learns."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize

from cobandits.errors import ConfigurationError
from cobandits.estimators import CommonMean, Pooled, make
from cobandits.estimators.common import common_and_own
from cobandits.kernels import Marginal
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows
from tests.support import parts
from tests.tables import constructed

Floats = NDArray[np.floating]


def ragged(seed: int = 0, T: int = 7, d: int = 4) -> TaskRows:
    """Return tasks with 1 to 9 rows around a common theta, with an intercept."""
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(T), rng.integers(1, 10, T))
    X = rng.standard_normal((len(owners), d)) * [1, 5, 0.1, 1]
    X[:, -1] = 1
    Theta = np.array([1.0, 0.2, -9, 2]) + rng.standard_normal((T, d)) * [0.3, 0.1, 2, 1]
    y = np.einsum("nd,nd->n", X, Theta[owners]) + 0.5 * rng.standard_normal(len(owners))
    return TaskRows.from_arrays(X, y, owners)


def dense(tasks: TaskRows, ridge: Floats) -> Floats:
    """Return the joint minimum over the mean and all deviations, as one least squares, (d, T)."""
    d, T, n = tasks.dim, tasks.n_tasks, tasks.n_rows
    A = np.zeros((n + d * T, d * (T + 1)))
    for row, t in enumerate(tasks.owners):
        A[row, :d] = A[row, d * (t + 1) : d * (t + 2)] = tasks.rows[row]
    A[n:, d:] = np.diag(np.tile(np.sqrt(ridge), T))
    solved = np.linalg.lstsq(A, np.r_[tasks.rewards, np.zeros(d * T)])[0].reshape(T + 1, d)
    return np.asarray((solved[0] + solved[1:]).T)


@pytest.mark.parametrize("ridge", [0.1, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_joint_least_squares(seed: int, ridge: float) -> None:
    tasks = ragged(seed)
    for data in (tasks, tasks.statistics()):
        found = CommonMean(ridge=ridge).fit(data).theta
        assert relative_error(found, dense(tasks, np.full(4, ridge))) < 1e-8


def dense_sums(tasks: TaskRows, v: Floats) -> Marginal:
    """Return the sums of the likelihood from the covariance of each task's rewards."""
    d = tasks.dim
    S, b, square, log_determinant = np.zeros((d, d)), np.zeros(d), 0.0, 0.0
    for Phi, y in parts(tasks):
        K = np.eye(len(y)) + Phi @ np.diag(v) @ Phi.T
        S += Phi.T @ np.linalg.solve(K, Phi)
        b += Phi.T @ np.linalg.solve(K, y)
        square += float(y @ np.linalg.solve(K, y))
        log_determinant += float(np.linalg.slogdet(K)[1])
    return Marginal(S, b, square, log_determinant)


def assert_close(found: Marginal, expected: Marginal, tolerance: float) -> None:
    for name, value in found._asdict().items():
        expect = getattr(expected, name)
        np.testing.assert_allclose(value, expect, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("seed", range(3))
def test_the_sums_of_the_likelihood_are_those_of_dense_covariances(seed: int) -> None:
    tasks, v = ragged(seed), np.array([0.5, 0.01, 3.0, 1e-4])
    expected = dense_sums(tasks, v)
    for data in (tasks, tasks.statistics()):
        assert_close(data.marginal(v), expected, 1e-8)


def test_the_shrinkage_of_means_is_the_most_likely() -> None:
    """Tasks with one feature of ones: a random-effects model, maximised by SciPy."""
    rng = np.random.default_rng(4)
    owners = np.repeat(np.arange(80), rng.integers(2, 9, 80))
    y = 5 + 0.7 * rng.standard_normal(80)[owners] + rng.standard_normal(len(owners))
    tasks = TaskRows.from_arrays(np.ones((len(y), 1)), y, owners)
    n, sums = tasks.counts, np.bincount(tasks.owners, tasks.rewards)

    def mean(v: float) -> float:
        return float(np.sum(sums / (1 + n * v)) / np.sum(n / (1 + n * v)))

    def minus_twice_log_likelihood(log_v: float) -> float:
        v = float(np.exp(log_v))
        rest = tasks.rewards - mean(v)
        within = np.bincount(tasks.owners, rest) ** 2 * v / (1 + n * v)
        left = float(rest @ rest - within.sum())
        spread = np.log(np.sum(n / (1 + n * v)))
        return float(len(y) * np.log(left) + np.log(1 + n * v).sum() + spread)

    v = float(np.exp(optimize.minimize_scalar(minus_twice_log_likelihood, (-3, 1)).x))
    shrunken = mean(v) + (sums - n * mean(v)) * v / (1 + n * v)
    found = CommonMean().fit(tasks).theta[0]
    raw = sums / n
    assert np.abs(found - shrunken).max() < 0.3 * np.abs(raw - shrunken).max()  # of a grid


def test_units_do_not_matter() -> None:
    tasks = constructed("common", 3, n_tasks=30, n_rows=8)
    units = np.r_[np.geomspace(1e-3, 1e3, 8), 1.0]
    other = TaskRows.from_arrays(tasks.rows * units, 10 * tasks.rewards, tasks.owners)
    one, two = CommonMean().fit(tasks).theta, CommonMean().fit(other).theta
    assert relative_error(two * units[:, None] / 10, one) < 1e-6


def test_with_a_common_slope_alone_it_is_near_to_one_theta() -> None:
    tasks = constructed("common", 1, n_tasks=40, n_rows=10)
    slopes = CommonMean().fit(tasks).theta[:-1]
    assert relative_error(slopes, np.repeat(Pooled().fit(tasks).theta[:-1, :1], 40, axis=1)) < 0.25
    assert np.ptp(slopes, axis=1).max() < 0.1


def test_without_a_common_mean_slopes_are_shrunken_to_zero() -> None:
    tasks = constructed("common", 1, n_tasks=40, n_rows=10)
    none = tasks.select(tasks.owners != 7)
    assert np.abs(CommonMean(mean="constant").fit(none).theta[:-1, 7]).max() < 1e-6
    assert np.abs(CommonMean().fit(none).theta[:-1, 7]).max() > 0.1
    assert CommonMean(mean="constant").fit(none).theta[-1, 7] == pytest.approx(3, abs=0.6)
    fixed = CommonMean(ridge=2.0, mean="constant").fit(none).theta
    assert np.abs(fixed[:-1, 7]).max() < 1e-6


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="ridge must be at least 0"):
        CommonMean(ridge=-1.0)
    with pytest.raises(ConfigurationError, match="mean must be 'all' or 'constant'"):
        make("common", None, mean="some")


@pytest.mark.parametrize(
    "apart",
    [[False, False, False, True], [True, False, True, False], [False] * 4, [True] * 4],
    ids=["one", "two", "none", "all"],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_sums_for_pairs_of_variances_are_those_of_dense_covariances(
    seed: int, apart: list[bool]
) -> None:
    tasks, units, set_apart = ragged(seed), np.array([1.0, 5.0, 0.1, 2.0]), np.array(apart)
    scaled = TaskRows.from_arrays(tasks.rows / units, tasks.rewards, tasks.owners)
    for data in (tasks, tasks.statistics()):
        pairs = data.variances(set_apart, units)
        for one, other in ((0.1, 3.0), (100.0, 3.0), (1e-3, 1e4), (1e4, 1e-4)):
            expected = dense_sums(scaled, np.where(set_apart, one, other))
            assert_close(pairs.at(one, other), expected, 1e-6)


@pytest.mark.parametrize("kind", ["common", "low rank", "unrelated"])
@pytest.mark.parametrize("n_rows", [6, 60])
def test_both_fits_at_once_are_the_two_fits(kind: str, n_rows: int) -> None:
    tasks = constructed(kind, 2, n_tasks=30, n_rows=n_rows)
    for found, estimator in zip(
        common_and_own(tasks), (CommonMean(), CommonMean(mean="constant")), strict=True
    ):
        expected = estimator.fit(tasks)
        np.testing.assert_array_equal(found.theta, expected.theta)
        assert found.status == expected.status
