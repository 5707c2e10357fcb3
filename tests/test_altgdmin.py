"""AltGDMin against the paper's pseudo-code, written out task by task."""

from __future__ import annotations

import numpy as np
import pytest

from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin, spectral_start
from cobandits.linalg import subspace_distance
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows
from tests.support import Floats, cost_of, drawn, flat, literal_weights, parts


def algorithm_2(tasks: TaskRows, r: int, C: float) -> Floats:
    """Return B_0: lines 3 to 6 of Algorithm 2."""
    alpha = C * np.mean(tasks.rewards**2)
    columns = []
    for Phi, y in parts(tasks):
        y_trunc = y * (np.abs(y) <= np.sqrt(alpha))
        columns.append(Phi.T @ y_trunc / len(y))
    return np.linalg.svd(np.column_stack(columns))[0][:, :r]


def algorithm_3(
    for_weights: list[TaskRows], for_gradient: list[TaskRows], B: Floats, c_gamma: float
) -> Floats:
    """Return B_L: lines 4 to 11 of Algorithm 3, with gamma = c_gamma / sigma_max(W)^2."""
    for weight_rows, gradient_rows in zip(for_weights, for_gradient, strict=True):
        W = literal_weights(weight_rows, B)
        gradient = np.zeros_like(B)
        for t, (Phi, y) in enumerate(parts(gradient_rows)):
            gradient += np.outer(Phi.T @ (Phi @ B @ W[:, t] - y), W[:, t])
        gamma = c_gamma / np.linalg.norm(W, 2) ** 2
        n = len(gradient_rows.rewards) / gradient_rows.n_tasks
        B = np.linalg.qr(B - gamma / n * gradient)[0]
    return B


def check_same(estimate: Estimate, tasks: TaskRows, B: Floats, tolerance: float) -> None:
    """Check the span, and theta with the weights solved once more for the last B."""
    assert subspace_distance(estimate.basis, B) < tolerance
    expected = B @ literal_weights(tasks, B)
    assert relative_error(estimate.theta, expected) < tolerance


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("d", "T", "r", "n"), [(20, 30, 3, 15), (12, 8, 2, 20), (40, 25, 4, 25)])
@pytest.mark.parametrize(("iterations", "tolerance"), [(1, 1e-11), (7, 1e-10), (60, 1e-8)])
def test_iterations_equal_the_pseudo_code(
    d: int, T: int, r: int, n: int, iterations: int, tolerance: float, seed: int
) -> None:
    tasks = drawn(d=d, T=T, r=r, n=n, noise=0.1, seed=seed).tasks
    estimator = AltGDMin(rank=r, step=0.3, iterations=iterations, tolerance=0, truncation=4.0)
    estimate = estimator.fit(tasks)
    all_rows = [tasks] * iterations
    B = algorithm_3(all_rows, all_rows, algorithm_2(tasks, r, 4.0), 0.3)
    check_same(estimate, tasks, B, tolerance)
    assert estimate.status.outcome == "limit"
    assert estimate.status.iterations == iterations


@pytest.mark.parametrize("C", [0.5, 1.0, 9.0])
def test_start_is_that_of_algorithm_2(C: float) -> None:
    tasks = drawn(d=20, T=30, r=3, n=15, noise=0.1).tasks
    assert (tasks.rewards**2 > C * np.mean(tasks.rewards**2)).any()  # rows that are left out
    B = spectral_start(tasks, 3, truncation=C)
    assert subspace_distance(B, algorithm_2(tasks, 3, C)) < 1e-7


@pytest.mark.parametrize("C", [1.0, 9.0])
def test_start_of_the_appendix(C: float) -> None:
    """The top eigenvectors of the sum of ``y^2 phi phi'`` over rows with y^2 <= alpha."""
    tasks = drawn(d=20, T=30, r=3, n=15, noise=0.1).tasks
    kept = tasks.rewards**2 <= C * np.mean(tasks.rewards**2)
    M = sum(
        y**2 * np.outer(phi, phi)
        for phi, y in zip(tasks.rows[kept], tasks.rewards[kept], strict=True)
    )
    expected = np.linalg.eigh(M)[1][:, -3:]
    B = spectral_start(tasks, 3, truncation=C, matrix="squares")
    assert subspace_distance(B, expected) < 1e-7
    fitted = AltGDMin(rank=3, iterations=1, tolerance=0, truncation=C, start_matrix="squares")
    check_same(fitted.fit(tasks), tasks, algorithm_3([tasks], [tasks], expected, 0.4), 1e-7)


def test_step_for_unequal_tasks_is_that_of_the_weighted_weights() -> None:
    """For equal n, ``sigma_max(W diag(sqrt(n)))^2`` is the paper's ``n sigma_max(W)^2``."""
    tasks = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=20, seed=0, unequal=True).tasks
    start = algorithm_2(tasks, 2, 9.0)
    W = literal_weights(tasks, start)
    gradient = sum(
        np.outer(Phi.T @ (Phi @ start @ w - y), w)
        for (Phi, y), w in zip(parts(tasks), W.T, strict=True)
    )
    weighted = np.linalg.norm(W * np.sqrt(tasks.counts), 2)
    B = np.linalg.qr(start - 0.4 / weighted**2 * gradient)[0]
    check_same(AltGDMin(rank=2, iterations=1, tolerance=0).fit(tasks), tasks, B, 1e-7)


# ---- sample splitting


def test_split_iterations_equal_the_pseudo_code() -> None:
    """The last part is for the start; each iteration uses one part for W and another for B."""
    tasks = drawn(d=8, T=12, r=2, n=70, noise=0.1).tasks
    *steps, first = tasks.split(2 * 3 + 1, np.random.default_rng(5))
    start = algorithm_2(first, 2, 9.0)
    B = algorithm_3(steps[:3], steps[3:], start, 0.4)
    check_same(AltGDMin(rank=2, iterations=3, split=True).fit(tasks, rng=5), tasks, B, 1e-8)


def test_divided_by_the_whole_epoch_a_split_step_is_shorter_by_the_parts() -> None:
    """Line 8 of Algorithm 3 as it is written: the gradient of a part over all rows."""
    tasks = drawn(d=8, T=12, r=2, n=69, noise=0.1).tasks
    weights, steps, first = tasks.split(3, np.random.default_rng(5))
    B = algorithm_3([weights], [steps], algorithm_2(first, 2, 9.0), 0.4 / 3)
    as_written = AltGDMin(rank=2, iterations=1, split=True, divisor="epoch")
    check_same(as_written.fit(tasks, rng=5), tasks, B, 1e-8)
    with pytest.raises(ConfigurationError, match="divisor must be 'part' or 'epoch'"):
        AltGDMin(rank=2, divisor="all")  # type: ignore[arg-type]


def test_split_depends_on_the_seed_alone() -> None:
    tasks = drawn(d=8, T=6, r=2, n=70, noise=0.1).tasks
    estimator = AltGDMin(rank=2, iterations=3, split=True)
    a, b, c = (estimator.fit(tasks, rng=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a.theta, b.theta)
    assert (a.theta != c.theta).any()


def test_split_finds_the_basis_where_rows_are_many() -> None:
    problem = drawn(d=10, T=20, r=2, n=2100, noise=0.01)
    estimate = AltGDMin(rank=2, iterations=20, split=True).fit(problem.tasks)
    assert relative_error(estimate.theta, problem.theta) < 0.01


@pytest.mark.parametrize(("n", "most"), [(50, 12), (49, 11), (3, 0)])
def test_too_few_rows_to_split_name_the_most_iterations(n: int, most: int) -> None:
    tasks = drawn(d=8, T=6, r=2, n=n).tasks
    message = rf"smallest task has {n}; lower iterations to at most {most}, add rows or turn split"
    with pytest.raises(DataError, match=message):
        AltGDMin(rank=2, iterations=13, split=True).fit(tasks)
    if most:
        AltGDMin(rank=2, iterations=most, split=True).fit(tasks)
        with pytest.raises(DataError, match=f"at most {most}"):
            AltGDMin(rank=2, iterations=most + 1, split=True).fit(tasks)


def test_statistics_cannot_be_split() -> None:
    statistics = drawn(d=8, T=6, r=2, n=70).tasks.statistics()
    with pytest.raises(DataError, match="needs rows, not statistics; turn split off"):
        AltGDMin(rank=2, iterations=3, split=True).fit(statistics)


# ---- how it ends


def test_cost_falls_by_iteration_to_that_of_the_estimate() -> None:
    problem = drawn(d=20, T=40, r=3, n=20, noise=0.1)
    estimate = AltGDMin(rank=3).fit(problem.tasks, truth=problem.theta)
    costs = estimate.history.costs
    assert (np.diff(costs) <= 1e-12 * costs[0]).all()
    assert costs[-1] == pytest.approx(cost_of(problem.tasks, estimate.theta), rel=1e-9)
    assert estimate.status.outcome == "converged"


def test_tolerance_stops_earlier_when_it_is_larger() -> None:
    tasks = drawn(d=20, T=40, r=3, n=20, noise=0.1).tasks
    taken = [AltGDMin(rank=3, tolerance=tol).fit(tasks).status.iterations for tol in (1e-2, 1e-6)]
    assert 0 < taken[0] < taken[1]


def test_history_of_errors_is_measured_against_the_truth() -> None:
    problem = drawn(d=20, T=40, r=3, n=20)
    fitted = AltGDMin(rank=3, iterations=4, tolerance=0).fit(problem.tasks, truth=problem.theta)
    shorter = AltGDMin(rank=3, iterations=2, tolerance=0).fit(problem.tasks)
    assert fitted.history.errors is not None
    assert fitted.history.errors[2] == pytest.approx(
        relative_error(shorter.theta, problem.theta), rel=1e-9
    )


@pytest.mark.parametrize("step", [30.0, 1e3, 1e300])
@pytest.mark.parametrize("seed", range(2))
def test_steps_that_diverge_are_refused_and_the_good_state_is_kept(step: float, seed: int) -> None:
    tasks = drawn(d=20, T=40, r=3, n=30, seed=seed).tasks
    estimate = AltGDMin(rank=3, step=step, iterations=500).fit(tasks)
    assert estimate.status.outcome == "refused"
    assert "lower step" in estimate.status.message
    assert np.isfinite(estimate.theta).all()
    start = spectral_start(tasks, 3)
    first = cost_of(tasks, start @ literal_weights(tasks, start))
    assert cost_of(tasks, estimate.theta) <= first * (1 + 1e-9)


def test_iterations_that_run_out_are_said() -> None:
    estimate = AltGDMin(rank=2, iterations=2).fit(drawn(n=25).tasks)
    assert estimate.status.outcome == "limit"
    assert "raise iterations" in estimate.status.message


def test_fit_without_noise_ends_when_the_rows_are_fitted() -> None:
    problem = drawn(d=20, T=40, r=3, n=20, noise=0.0)
    estimate = AltGDMin(rank=3).fit(problem.tasks)
    assert estimate.status.outcome == "converged"
    assert relative_error(estimate.theta, problem.theta) < 1e-10


def test_start_skips_the_spectral_one() -> None:
    problem = drawn(d=20, T=40, r=3, n=20, noise=0.0)
    truth = Estimate(basis=problem.basis, weights=problem.weights, labels=problem.tasks.labels)
    estimate = AltGDMin(rank=3).fit(problem.tasks, start=truth)
    assert estimate.status.iterations == 0
    assert relative_error(estimate.theta, problem.theta) < 1e-12


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"step": 0.0}, "step must be a finite number above 0, got 0"),
        ({"step": float("nan")}, "step must be a finite number above 0, got nan"),
        ({"step": float("inf")}, "step must be a finite number above 0, got inf"),
        ({"truncation": -1.0}, "truncation must be a finite number above 0"),
        ({"iterations": 0}, r"iterations must be at least 1.*, got 0"),
        ({"tolerance": -1e-3}, r"tolerance must be at least 0.*, got -0.001"),
        ({"tolerance": float("nan")}, r"tolerance must be at least 0.*, got nan"),
        ({"start_matrix": "other"}, "start_matrix must be 'moments' or 'squares', got 'other'"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        AltGDMin(**{"rank": 2, **parameters})  # type: ignore[arg-type]


def test_one_huge_reward_does_not_ruin_the_start() -> None:
    """What the truncation of Algorithm 2 is for."""
    problem = drawn(d=20, T=40, r=2, n=30)
    rewards = problem.tasks.rewards.copy()
    rewards[7] = 300 * np.abs(rewards).max()
    tasks = flat(problem.tasks.rows, rewards, problem.tasks.owners)
    with_it = spectral_start(tasks, 2, truncation=1e9)
    without = spectral_start(tasks, 2, truncation=0.5)
    assert subspace_distance(without, problem.basis) < subspace_distance(with_it, problem.basis)
