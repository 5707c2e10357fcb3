"""TraceNorm against cvxpy, its duality gap, and its choices of the penalty."""

from __future__ import annotations

from typing import Literal, cast

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate
from cobandits.estimators.proximal import ProximalGradient, largest_curvature, shrunk
from cobandits.estimators.tracenorm import TraceNorm, largest_penalty, theory_penalty
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows
from tests.support import Floats, cost_of, drawn, flat, parts

SHAPES = {  # d, T, n, unequal
    "more rows than features": (5, 4, 12, False),
    "fewer rows than features": (8, 5, 4, False),
    "more tasks than features": (4, 9, 6, False),
    "ragged": (6, 7, 6, True),
}


def tasks_of(shape: str, noise: float = 0.3) -> TaskRows:
    d, T, n, unequal = SHAPES[shape]
    settings = Synthetic(dim=d, n_tasks=T, rank=2, noise_std=noise)
    return settings.problem(n_rows=n, seed=3, unequal=unequal).tasks


def objective(tasks: TaskRows, Theta: Floats, penalty: float) -> float:
    return cost_of(tasks, Theta) / (2 * tasks.n_rows) + penalty * float(
        np.linalg.svd(Theta, compute_uv=False).sum()
    )


def solved_by_cvxpy(tasks: TaskRows, penalty: float) -> tuple[float, Floats]:
    """Return the minimum and the minimiser that an interior-point method finds."""
    Theta = cp.Variable((tasks.dim, tasks.n_tasks))
    losses = [cp.sum_squares(y - Phi @ Theta[:, t]) for t, (Phi, y) in enumerate(parts(tasks))]
    cost = sum(losses) / (2 * tasks.n_rows) + penalty * cp.normNuc(Theta)
    cp.Problem(cp.Minimize(cost)).solve(
        solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9
    )
    value = np.asarray(Theta.value, np.float64)
    return objective(tasks, value, penalty), value


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [1e-4, 1e-2, 0.1, 0.5, 0.95])
def test_objective_agrees_with_cvxpy(shape: str, share: float) -> None:
    tasks = tasks_of(shape)
    penalty = share * largest_penalty(tasks)
    minimum, minimiser = solved_by_cvxpy(tasks, penalty)
    estimate = TraceNorm(penalty=penalty).fit(tasks)
    assert objective(tasks, estimate.theta, penalty) == pytest.approx(minimum, rel=1e-5)
    assert estimate.history.costs[-1] == pytest.approx(minimum, rel=1e-5)
    assert estimate.status.outcome == "converged"
    assert estimate.rank == np.linalg.matrix_rank(estimate.theta)
    if share == 0.5:  # where the minimum is sharp, the minimisers agree too
        assert relative_error(estimate.theta, minimiser) < 1e-2
        assert estimate.rank == np.linalg.matrix_rank(minimiser, tol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_largest_penalty_is_where_theta_becomes_zero(shape: str) -> None:
    tasks = tasks_of(shape)
    largest = largest_penalty(tasks)
    start = TraceNorm(penalty=0.1 * largest).fit(tasks)
    assert start.theta.any()
    for share in (1.0, 1.5, 1e6):
        for begin in (None, start):
            zero = TraceNorm(penalty=share * largest).fit(tasks, start=begin)
            assert not zero.theta.any()
            assert zero.rank == 1
            assert zero.status.outcome == "converged"
    # Below it, the relative gap at zero is (1 - share)^2 = 1e-6: far above this tolerance.
    below = TraceNorm(penalty=(1 - 1e-3) * largest, tolerance=1e-9).fit(tasks)
    assert below.theta.any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("share", [1e-2, 0.3])
def test_gap_is_never_less_than_the_distance_to_the_minimum(shape: str, share: float) -> None:
    tasks = tasks_of(shape)
    penalty = share * largest_penalty(tasks)
    minimum, minimiser = solved_by_cvxpy(tasks, penalty)
    rng = np.random.default_rng(0)
    solver = ProximalGradient(tasks, lambda _: None)
    for size in (10.0, 1.0, 0.1, 1e-3, 0.0):
        solver.begin(minimiser + size * rng.standard_normal(minimiser.shape))
        distance = objective(tasks, solver.point.Theta, penalty) - minimum
        assert solver.gap(penalty) >= distance - 1e-9 * minimum
    assert solver.gap(penalty) < 1e-4 * minimum  # and small at the minimiser


@given(
    d=st.integers(1, 9),
    T=st.integers(1, 9),
    share=st.sampled_from([1e-9, 1e-3, 0.3, 0.99, 2.0]),
    seed=st.integers(0, 999),
)
def test_shrinking_lowers_singular_values(d: int, T: int, share: float, seed: int) -> None:
    """On both roads, that by the Gram matrix and that by the SVD."""
    Z = np.random.default_rng(seed).standard_normal((d, T))
    U, s, Vt = np.linalg.svd(Z, full_matrices=False)
    threshold = share * s[0]
    lowered = np.maximum(s - threshold, 0)
    left, right, nuclear = shrunk(Z, threshold)
    np.testing.assert_allclose(left @ right, U * lowered @ Vt, atol=1e-9)
    assert nuclear == pytest.approx(lowered.sum(), abs=1e-9)
    assert left.shape[1] == np.count_nonzero(lowered)


def test_too_few_iterations_are_a_limit_with_the_gap_and_advice() -> None:
    tasks = tasks_of("ragged")
    estimate = TraceNorm(penalty=1e-3 * largest_penalty(tasks), iterations=3).fit(tasks)
    assert estimate.status.outcome == "limit"
    assert estimate.status.iterations == 3
    assert len(estimate.history.costs) == 4
    assert "duality gap" in estimate.status.message
    assert "raise iterations" in estimate.status.message


@pytest.mark.parametrize("shape", SHAPES)
def test_statistics_equal_rows(shape: str) -> None:
    tasks = tasks_of(shape)
    penalty = 0.1 * largest_penalty(tasks)
    rows = TraceNorm(penalty=penalty, tolerance=1e-10).fit(tasks)
    statistics = TraceNorm(penalty=penalty, tolerance=1e-10).fit(tasks.statistics())
    assert relative_error(statistics.theta, rows.theta) < 1e-6


def test_start_of_any_rank_leads_to_the_same_minimum_sooner() -> None:
    problem = drawn(d=20, T=12, n=15, noise=0.1)
    tasks = problem.tasks
    cold = TraceNorm().fit(tasks)
    again = TraceNorm().fit(tasks, start=cold)
    assert again.status.iterations == 0
    assert again.rank == cold.rank
    near = Estimate(basis=problem.basis, weights=problem.weights, labels=tasks.labels)
    warm = TraceNorm().fit(tasks, start=near)
    assert warm.status.iterations < cold.status.iterations
    assert warm.history.costs[-1] == pytest.approx(cold.history.costs[-1], rel=2e-6)


def test_theory_is_the_formula_for_white_features() -> None:
    """noise (sqrt(T) + sqrt(d)) / (T sqrt(n)), with rows whose Gram matrix is n times I."""
    d, T, n = 4, 3, 8
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((n, d)))[0] * np.sqrt(n)
    tasks = TaskRows.from_stacked(np.stack([Q] * T), np.zeros((T, n)))
    expected = 0.5 * (np.sqrt(T) + np.sqrt(d)) / (T * np.sqrt(n))
    assert theory_penalty(tasks, 0.5) == pytest.approx(expected)


@pytest.mark.parametrize("correlation", [0.0, 0.7])
@pytest.mark.parametrize("unequal", [False, True])
def test_theory_bounds_the_norm_of_pure_noise_closely(correlation: float, unequal: bool) -> None:
    """Its mean over 20 draws is below the bound, and above two thirds of it."""
    settings = Synthetic(dim=20, n_tasks=25, rank=1, correlation=correlation)
    shares = []
    for seed in range(20):
        tasks = settings.problem(n_rows=20, seed=seed, unequal=unequal).tasks
        noise = 0.7 * np.random.default_rng(seed).standard_normal(tasks.n_rows)
        noisy = flat(tasks.rows, noise, tasks.owners)
        shares.append(largest_penalty(noisy) / theory_penalty(noisy, 0.7))
    assert 2 / 3 < np.mean(shares) < 1


@pytest.mark.parametrize("noise", [1e-3, 0.3])
def test_noise_is_estimated_where_it_is_not_given(noise: float) -> None:
    tasks = drawn(d=20, T=30, n=30, noise=noise).tasks
    given = TraceNorm(noise_std=noise).choose_penalty(tasks)
    assert given == pytest.approx(theory_penalty(tasks, noise))
    assert TraceNorm().choose_penalty(tasks) == pytest.approx(given, rel=0.1)
    from_statistics = TraceNorm().choose_penalty(tasks.statistics())
    assert from_statistics == pytest.approx(given, rel=0.1)


def test_without_noise_a_small_penalty_is_left() -> None:
    problem = drawn(d=20, T=30, n=30, noise=0.0)
    estimate = TraceNorm().fit(problem.tasks)
    assert relative_error(estimate.theta, problem.theta) < 1e-4
    assert estimate.rank == 2


def test_cross_validation_is_near_the_best_for_the_truth() -> None:
    """Error at most 1.15 times that of the best of a fine path, in each of 4 problems."""
    for seed in range(4):
        problem = drawn(d=15, T=20, r=2, n=12, noise=0.3, seed=seed)
        tasks = problem.tasks
        path = largest_penalty(tasks) * np.geomspace(0.3, 1e-3, 16)
        errors = [
            relative_error(TraceNorm(penalty=p).fit(tasks).theta, problem.theta)
            for p in path.tolist()
        ]
        chosen = TraceNorm(penalty="cv").fit(tasks, rng=seed)
        assert relative_error(chosen.theta, problem.theta) < 1.15 * min(errors)


def test_cross_validation_depends_on_the_seed_alone() -> None:
    tasks = drawn(d=10, T=8, n=8, noise=0.5).tasks
    a, b = (TraceNorm(penalty="cv").fit(tasks, rng=7) for _ in range(2))
    np.testing.assert_array_equal(a.theta, b.theta)
    penalty = TraceNorm(penalty="cv").choose_penalty(tasks, rng=7)
    np.testing.assert_array_equal(a.theta, TraceNorm(penalty=penalty).fit(tasks).theta)


def test_cross_validation_of_pure_noise_gives_theta_near_zero() -> None:
    tasks = drawn(d=10, T=8, n=12).tasks
    noise = np.random.default_rng(1).standard_normal(tasks.n_rows)
    estimate = TraceNorm(penalty="cv").fit(flat(tasks.rows, noise, tasks.owners))
    alone = np.linalg.norm(flat(tasks.rows, noise, tasks.owners).ridge(0.0))
    assert np.linalg.norm(estimate.theta) < 0.2 * alone


def test_cross_validation_says_what_it_needs() -> None:
    tasks = drawn(d=5, T=6, n=4).tasks
    with pytest.raises(DataError, match="needs rows, not statistics; keep the rows, or give"):
        TraceNorm(penalty="cv").fit(tasks.statistics())
    single = tasks.select(np.arange(tasks.n_rows) % 4 == 0)
    with pytest.raises(DataError, match="at least 2 rows, all have fewer; add rows"):
        TraceNorm(penalty="cv").fit(single)


@pytest.mark.parametrize("penalty", ["theory", "cv", 0.1])
def test_zero_rewards_and_zero_features_give_zero(penalty: float) -> None:
    tasks = drawn(n=25).tasks
    for rows, rewards in ((tasks.rows, 0 * tasks.rewards), (0 * tasks.rows, tasks.rewards)):
        estimate = TraceNorm(penalty=penalty).fit(flat(rows, rewards, tasks.owners))
        assert not estimate.theta.any()
        assert estimate.status.outcome == "converged"
        assert estimate.status.iterations == 0


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="penalty must be a finite number above 0"):
        TraceNorm(penalty=0.0)
    with pytest.raises(ConfigurationError, match="penalty must be a finite number above 0"):
        TraceNorm(penalty=float("inf"))
    with pytest.raises(ConfigurationError, match="a number, 'theory' or 'cv', got 'best'"):
        TraceNorm(penalty=cast("Literal['cv']", "best"))
    with pytest.raises(ConfigurationError, match="noise_std must be"):
        TraceNorm(noise_std=-1.0)
    with pytest.raises(ConfigurationError, match="n_folds must be"):
        TraceNorm(n_folds=1)
    with pytest.raises(ConfigurationError, match="iterations must be"):
        TraceNorm(iterations=0)
    with pytest.raises(ConfigurationError, match="tolerance must be"):
        TraceNorm(tolerance=-1e-3)


@pytest.mark.parametrize("unit", [1e-25, 1e-12, 1e9, 1e25])
def test_features_of_any_unit_in_single_precision(unit: float) -> None:
    """Their squares may be no numbers of this type."""
    tasks = tasks_of("more rows than features")
    single = flat((tasks.rows * unit).astype(np.float32), tasks.rewards, tasks.owners)
    penalty = 0.1 * largest_penalty(tasks)
    expected = TraceNorm(penalty=penalty).fit(tasks).theta
    found = TraceNorm(penalty=penalty * unit, tolerance=1e-5).fit(single)
    assert found.status.outcome == "converged"
    assert relative_error(found.theta * unit, expected) < 1e-2


@pytest.mark.parametrize("unit", [1e-15, 1e9, 1e12])
def test_one_feature_of_another_unit_in_single_precision(unit: float) -> None:
    tasks = tasks_of("more rows than features")
    rows = tasks.rows * np.r_[unit, np.ones(tasks.dim - 1)]
    double = flat(rows, tasks.rewards, tasks.owners)
    single = flat(rows.astype(np.float32), tasks.rewards, tasks.owners)
    assert largest_curvature(single) == pytest.approx(largest_curvature(double), rel=1e-3)
    assert np.isfinite(TraceNorm().fit(single).theta).all()


@pytest.mark.parametrize(("unit", "extent"), [(1e-200, "small"), (1e200, "large")])
def test_features_that_cannot_be_squared_are_refused(unit: float, extent: str) -> None:
    tasks = tasks_of("more rows than features")
    with pytest.raises(DataError, match=f"too {extent} to square; scale them to about 1"):
        TraceNorm(penalty=1.0).fit(flat(tasks.rows * unit, tasks.rewards, tasks.owners))
