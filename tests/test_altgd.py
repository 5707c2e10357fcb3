"""AltGD: where it ends, that its factors stay balanced, and what a bad step does."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators.altgd import AltGD
from cobandits.estimators.altgdmin import AltGDMin, spectral_start
from cobandits.estimators.factored import FactoredCost, balanced
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows
from tests.support import Floats, cost_of, drawn, flat, optimum_near_truth

EXACT = AltGD(rank=2, tolerance=1e-15, iterations=20_000)


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_recovers_theta_without_noise(seed: int, unequal: bool) -> None:
    settings = Synthetic(dim=20, n_tasks=25, rank=2, noise_std=0.0)
    problem = settings.problem(n_rows=15, seed=seed, unequal=unequal)
    estimate = AltGD(rank=2).fit(problem.tasks, truth=problem.theta)
    assert relative_error(estimate.theta, problem.theta) < 1e-10
    assert estimate.status.outcome == "converged"
    assert estimate.history.errors is not None
    assert estimate.history.errors[0] > 0.1
    assert estimate.history.errors[-1] < 1e-10


def test_rounding_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a pass over the rewards, and does not change while it descends."""
    tasks = drawn().tasks
    measured, calls = tasks.rounding, []

    def counted(tasks: TaskRows) -> float:
        calls.append(tasks)
        return measured

    monkeypatch.setattr(TaskRows, "rounding", property(counted))
    assert AltGD(rank=2).fit(tasks).status.iterations > 10
    assert len(calls) == 1


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("noise", [1e-2, 0.5])
def test_ends_at_the_optimum_of_altgdmin(noise: float, unequal: bool) -> None:
    settings = Synthetic(dim=15, n_tasks=20, rank=2, noise_std=noise)
    problem = settings.problem(n_rows=15, seed=1, unequal=unequal)
    estimate = EXACT.fit(problem.tasks)
    long = AltGDMin(rank=2, tolerance=1e-15, iterations=20_000).fit(problem.tasks)
    assert relative_error(estimate.theta, long.theta) < 1e-6
    assert relative_error(estimate.theta, optimum_near_truth(problem, steps=60)) < 1e-6
    assert estimate.history.costs[-1] == pytest.approx(cost_of(problem.tasks, estimate.theta))


def test_step_is_along_the_gradient_of_the_cost_in_both_factors() -> None:
    """Against differences of the cost, for tasks with different numbers of rows."""
    settings = Synthetic(dim=5, n_tasks=4, rank=2, noise_std=0.1)
    cost = FactoredCost.of(settings.problem(n_rows=8, seed=0, unequal=True).tasks)
    rng = np.random.default_rng(0)
    B, W = rng.standard_normal((5, 2)), rng.standard_normal((2, 4))
    point = cost.at(B, W)
    trial = cost.stepped(point, 0.1)
    h = 1e-6
    slopes_B, slopes_W = np.zeros_like(B), np.zeros_like(W)
    for i, j in np.ndindex(*B.shape):
        D = np.zeros_like(B)
        D[i, j] = h
        slopes_B[i, j] = (cost.at(B + D, W).value - cost.at(B - D, W).value) / (2 * h)
    for i, j in np.ndindex(*W.shape):
        D = np.zeros_like(W)
        D[i, j] = h
        slopes_W[i, j] = (cost.at(B, W + D).value - cost.at(B, W - D).value) / (2 * h)
    curvature = (np.linalg.norm(B, 2) ** 2 + np.linalg.norm(W, 2) ** 2) / 2
    np.testing.assert_allclose(trial.B, B - 0.1 / curvature * slopes_B, atol=1e-8)
    np.testing.assert_allclose(trial.W, W - 0.1 / curvature * slopes_W, atol=1e-8)


def test_steps_balance_the_factors() -> None:
    problem = drawn(n=25, noise=0.1)
    cost = FactoredCost.of(problem.tasks)
    point = cost.at(3 * problem.basis, problem.weights / 3)
    for _ in range(2000):
        point = cost.stepped(point, 0.5)
    assert relative_error(point.W @ point.W.T, point.B.T @ point.B) < 1e-6


def test_balanced_factors_are_the_leading_part_with_roots_of_singular_values() -> None:
    problem = drawn(n=25, noise=0.1)
    U, S, Vt = np.linalg.svd(problem.theta, full_matrices=False)
    B, W = balanced(problem.theta, 2)
    np.testing.assert_allclose(B @ W, U[:, :2] * S[:2] @ Vt[:2], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(B, axis=0), np.sqrt(S[:2]))
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), np.sqrt(S[:2]))


def literal_start(tasks: TaskRows, truncation: float = 9.0) -> Floats:
    """Return theta at the spectral start of Algorithm 2, of rank 2, for equal counts."""
    S = spectral_start(tasks, 2, truncation=truncation)
    kept = np.where(tasks.rewards**2 <= truncation * np.mean(tasks.rewards**2), tasks.rewards, 0)
    means = [(kept[a:b] @ tasks.rows[a:b]) / (b - a) for a, b in pairwise(tasks.offsets.tolist())]
    return np.asarray(S @ (S.T @ np.column_stack(means)) / np.mean(tasks.rows**2))


@pytest.mark.parametrize("step", [3.0, 1e3])
def test_steps_that_are_too_long_are_refused_and_halved(step: float) -> None:
    problem = drawn(n=25)
    estimate = AltGD(rank=2, step=step).fit(problem.tasks, truth=problem.theta)
    usual = AltGD(rank=2).fit(problem.tasks)
    assert estimate.status.outcome == "converged"
    assert relative_error(estimate.theta, usual.theta) < 1e-4
    costs, errors = estimate.history.costs, estimate.history.errors
    assert errors is not None
    assert costs[0] == costs[1]  # the first step was refused
    assert errors[0] == errors[1]


@pytest.mark.parametrize("step", [1e40, 1e300])
def test_hopeless_steps_leave_the_spectral_start_as_it_was(step: float) -> None:
    problem = drawn(n=25)
    estimate = AltGD(rank=2, step=step).fit(problem.tasks, truth=problem.theta)
    assert estimate.status.outcome == "refused"
    assert "lower step" in estimate.status.message
    assert relative_error(estimate.theta, literal_start(problem.tasks)) < 1e-10
    assert len(set(estimate.history.costs.tolist())) == 1


def test_limit_comes_with_advice() -> None:
    estimate = AltGD(rank=2, iterations=3).fit(drawn(n=25).tasks)
    assert estimate.status.outcome == "limit"
    assert "raise iterations" in estimate.status.message
    assert len(estimate.history.costs) == 4


def test_start_is_where_the_earlier_estimate_was() -> None:
    problem = drawn(n=25)
    first = EXACT.fit(problem.tasks)
    again = EXACT.fit(problem.tasks, start=first, truth=problem.theta)
    assert again.history.costs[0] == pytest.approx(first.history.costs[-1], rel=1e-9)
    assert again.status.iterations < 5


def test_start_of_lower_rank_is_left_by_the_spectral_start() -> None:
    """Where a direction is missing both factors have no gradient in it."""
    problem = drawn(n=25)
    flat_start = Estimate(
        basis=problem.basis, weights=problem.weights * [[1], [0]], labels=problem.tasks.labels
    )
    estimate = EXACT.fit(problem.tasks, start=flat_start)
    assert relative_error(estimate.theta, EXACT.fit(problem.tasks).theta) < 1e-6


def test_scale_of_features_and_rewards_makes_no_difference() -> None:
    tasks = drawn(n=25).tasks
    plain = AltGD(rank=2).fit(tasks)
    scaled = AltGD(rank=2).fit(flat(tasks.rows * 1e3, tasks.rewards * 1e-5, tasks.owners))
    assert relative_error(scaled.theta * 1e8, plain.theta) < 1e-6
    assert abs(scaled.status.iterations - plain.status.iterations) <= 1


def test_statistics_equal_rows() -> None:
    tasks = drawn(n=25).tasks
    exact = AltGD(rank=2, tolerance=1e-15, truncation=1e9)
    rows, statistics = exact.fit(tasks), exact.fit(tasks.statistics())
    assert relative_error(statistics.theta, rows.theta) < 1e-6


def test_zero_rewards_give_zero() -> None:
    tasks = drawn(n=25).tasks
    estimate = AltGD(rank=2).fit(flat(tasks.rows, 0 * tasks.rewards, tasks.owners))
    assert not estimate.theta.any()
    assert estimate.status.outcome == "converged"
    assert estimate.status.iterations == 0


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="step must be"):
        AltGD(rank=2, step=0.0)
    with pytest.raises(ConfigurationError, match="truncation must be"):
        AltGD(rank=2, truncation=-1.0)
    with pytest.raises(ConfigurationError, match="iterations must be"):
        AltGD(rank=2, iterations=0)
    with pytest.raises(ConfigurationError, match="tolerance must be"):
        AltGD(rank=2, tolerance=float("nan"))
