"""The synthetic tasks: they are what their parameters say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from tests.support import cost_of


def test_problem_has_the_shapes_and_the_rank_it_was_asked_for() -> None:
    problem = Synthetic(dim=12, n_tasks=7, rank=3).problem(n_rows=5, seed=0)
    assert problem.basis.shape == (12, 3)
    assert problem.weights.shape == (3, 7)
    np.testing.assert_allclose(problem.basis.T @ problem.basis, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(problem.theta, problem.basis @ problem.weights)
    assert np.linalg.matrix_rank(problem.theta) == 3
    assert problem.tasks.labels == tuple(range(7))
    assert problem.tasks.counts.tolist() == [5] * 7
    assert problem.noise_std == 1e-3


@given(seed=st.integers(0, 2**40), trial=st.integers(0, 50))
def test_same_seed_and_trial_same_problem(seed: int, trial: int) -> None:
    environment = Synthetic(dim=4, n_tasks=3, rank=2)
    a, b = (environment.problem(n_rows=5, seed=seed, trial=trial) for _ in range(2))
    np.testing.assert_array_equal(a.tasks.rows, b.tasks.rows)
    np.testing.assert_array_equal(a.tasks.rewards, b.tasks.rewards)
    other = environment.problem(n_rows=5, seed=seed, trial=trial + 1)
    assert (other.theta != a.theta).any()
    assert (other.tasks.rows != a.tasks.rows).any()


def test_truth_does_not_depend_on_how_many_rows_are_drawn() -> None:
    environment = Synthetic(dim=6, n_tasks=5, rank=2)
    few, many = (environment.problem(n_rows=n, seed=4) for n in (3, 300))
    np.testing.assert_array_equal(few.theta, many.theta)


@pytest.mark.parametrize("noise", [0.0, 1e-3, 2.0])
def test_noise_has_the_deviation_it_was_given(noise: float) -> None:
    problem = Synthetic(dim=6, n_tasks=5, rank=2, noise_std=noise).problem(n_rows=2000, seed=1)
    deviation = np.sqrt(cost_of(problem.tasks, problem.theta) / problem.tasks.n_rows)
    assert deviation == pytest.approx(noise, rel=0.05, abs=1e-13)  # 5 standard errors


@pytest.mark.parametrize("condition", [1.0, 10.0, 1e4])
def test_singular_values_are_spread_geometrically(condition: float) -> None:
    plain = Synthetic(dim=20, n_tasks=15, rank=4).problem(n_rows=2, seed=3)
    spread = Synthetic(dim=20, n_tasks=15, rank=4, condition=condition).problem(n_rows=2, seed=3)
    values = np.linalg.svd(spread.theta, compute_uv=False)[:4]
    np.testing.assert_allclose(values[0], np.linalg.norm(plain.theta, 2))
    np.testing.assert_allclose(values[:-1] / values[1:], condition ** (1 / 3))


def test_features_are_standard_gaussian_by_default() -> None:
    rows = Synthetic(dim=8, n_tasks=4, rank=2).problem(n_rows=5000, seed=2).tasks.rows
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=5 / np.sqrt(20_000))
    np.testing.assert_allclose(np.cov(rows.T), np.eye(8), atol=0.06)


@pytest.mark.parametrize("correlation", [0.5, 0.9])
def test_correlation_falls_with_the_distance_of_features(correlation: float) -> None:
    environment = Synthetic(dim=6, n_tasks=4, rank=2, correlation=correlation)
    rows = environment.problem(n_rows=5000, seed=2).tasks.rows
    j = np.arange(6)
    np.testing.assert_allclose(np.cov(rows.T), correlation ** np.abs(j[:, None] - j), atol=0.06)


def test_shift_moves_all_rows_by_one_vector() -> None:
    plain = Synthetic(dim=50, n_tasks=4, rank=2).problem(n_rows=50, seed=2)
    moved = Synthetic(dim=50, n_tasks=4, rank=2, shift=3.0).problem(n_rows=50, seed=2)
    difference = moved.tasks.rows.mean(axis=0)
    assert np.sqrt(np.mean(difference**2)) == pytest.approx(3, rel=0.4)
    np.testing.assert_array_equal(moved.theta, plain.theta)


def test_unequal_tasks_have_from_a_fifth_to_nine_fifths() -> None:
    counts = (
        Synthetic(dim=4, n_tasks=400, rank=2).problem(n_rows=50, seed=0, unequal=True).tasks.counts
    )
    assert 10 <= counts.min() < 14
    assert 86 < counts.max() <= 90
    assert counts.mean() == pytest.approx(50, rel=0.1)
    few = Synthetic(dim=4, n_tasks=400, rank=2).problem(n_rows=1, seed=0, unequal=True)
    assert few.tasks.counts.min() >= 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 0}, r"rank must be from 1 to min\(dim, tasks\) = 3, got 0"),
        ({"rank": 4}, r"rank must be from 1 to min\(dim, tasks\) = 3, got 4"),
        ({"noise_std": -1.0}, r"noise-std must be .*, got -1"),
        ({"noise_std": float("nan")}, r"noise-std must be .*, got nan"),
        ({"condition": 0.5}, r"condition must be .*, got 0.5"),
        ({"correlation": 1.0}, r"correlation must be in \[0, 1\), got 1"),
        ({"correlation": -0.1}, r"correlation must be in \[0, 1\), got -0.1"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Synthetic(**{"dim": 5, "n_tasks": 3, "rank": 2, **parameters})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "parameters", [{"noise_std": np.inf}, {"condition": np.inf}, {"shift": np.nan}]
)
def test_parameters_that_are_not_finite_are_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="must be"):
        Synthetic(**{"dim": 5, "n_tasks": 3, "rank": 2, **parameters})  # type: ignore[arg-type]


def test_rows_must_be_at_least_one() -> None:
    with pytest.raises(ConfigurationError, match="rows must be at least 1, got 0"):
        Synthetic(dim=5, n_tasks=3, rank=2).problem(n_rows=0, seed=0)
