"""Independent and Pooled against scikit-learn and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError, DataError
from cobandits.estimators.independent import Independent, Pooled, _penalties
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows
from tests.support import Floats, Real, cost_of, drawn, flat, of_type, parts

SHAPES = [(8, 3, False), (8, 30, False), (20, 15, True), (30, 8, True)]  # d, n, unequal


def tasks_of(d: int, n: int, unequal: bool, noise: float = 0.3) -> TaskRows:
    problem = Synthetic(dim=d, n_tasks=7, rank=2, noise_std=noise)
    return problem.problem(n_rows=n, seed=4, unequal=unequal).tasks


def ridge_per_task(tasks: TaskRows, penalty: float, solver: str) -> Floats:
    model = Ridge(alpha=penalty, fit_intercept=False, solver=solver)
    return np.column_stack([model.fit(Phi, y).coef_ for Phi, y in parts(tasks)])


@pytest.mark.parametrize(("d", "n", "unequal"), SHAPES)
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("solver", ["cholesky", "svd"])
def test_independent_agrees_with_scikit_learn(
    d: int, n: int, unequal: bool, penalty: float, solver: str
) -> None:
    tasks = tasks_of(d, n, unequal)
    estimate = Independent(ridge=penalty).fit(tasks)
    expected = ridge_per_task(tasks, penalty, solver)
    assert relative_error(estimate.theta, expected) < 1e-10
    cost = cost_of(tasks, expected) + penalty * np.sum(expected**2)
    assert estimate.history.costs.tolist() == pytest.approx([cost], rel=1e-10)


@pytest.mark.parametrize(("d", "n", "unequal"), SHAPES)
@pytest.mark.parametrize("penalty", [0.0, 1e-2])
def test_independent_from_statistics_equals_that_from_rows(
    d: int, n: int, unequal: bool, penalty: float
) -> None:
    tasks = tasks_of(d, n, unequal)
    rows = Independent(ridge=penalty).fit(tasks)
    statistics = Independent(ridge=penalty).fit(tasks.statistics())
    assert relative_error(statistics.theta, rows.theta) < 1e-8


@pytest.mark.parametrize(("d", "n", "unequal"), SHAPES)
def test_without_penalty_it_is_least_squares_of_least_norm(d: int, n: int, unequal: bool) -> None:
    tasks = tasks_of(d, n, unequal)
    expected = np.column_stack([np.linalg.lstsq(Phi, y)[0] for Phi, y in parts(tasks)])
    assert relative_error(Independent(ridge=0.0).fit(tasks).theta, expected) < 1e-10


@pytest.mark.parametrize(("n", "d"), [(1, 4), (6, 9), (9, 9), (30, 9)])
def test_leave_one_out_errors_are_those_of_leaving_rows_out(n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    Phi, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    penalties = np.array([1e-4, 0.1, 10.0])
    literal = np.zeros(3)
    for k, penalty in enumerate(penalties):
        for i in range(n):
            others = np.arange(n) != i
            model = Ridge(alpha=penalty, fit_intercept=False, solver="svd")
            theta = model.fit(Phi[others], y[others]).coef_ if n > 1 else np.zeros(d)
            literal[k] += (y[i] - Phi[i] @ theta) ** 2
    errors = flat(Phi, y, np.zeros(n, np.int64)).leave_one_out_errors(penalties, np.ones(d))
    np.testing.assert_allclose(errors, literal, rtol=1e-8)


@pytest.mark.parametrize("noise", [0.01, 1.0, 10.0])
def test_chosen_ridge_of_one_task_is_that_of_scikit_learn(noise: float) -> None:
    tasks = drawn(d=12, T=1, r=1, n=25, noise=noise).tasks
    scaled = tasks.rows / np.sqrt(tasks.mean_squares())
    model = RidgeCV(alphas=_penalties(tasks), fit_intercept=False).fit(scaled, tasks.rewards)
    assert Independent().choose_ridge(tasks) == pytest.approx(model.alpha_)


@pytest.mark.parametrize(("d", "n", "unequal"), SHAPES)
def test_chosen_ridge_has_the_least_error_over_all_tasks(d: int, n: int, unequal: bool) -> None:
    tasks = tasks_of(d, n, unequal, noise=1.0)
    penalties = _penalties(tasks)
    assert len(penalties) >= 8
    units = np.sqrt(tasks.mean_squares())
    errors = tasks.leave_one_out_errors(penalties, units)
    chosen = Independent().choose_ridge(tasks)
    assert chosen == penalties[np.argmin(errors)]
    fitted = Independent().fit(tasks)
    scaled = flat(tasks.rows / units, tasks.rewards, tasks.owners)
    expected = Independent(ridge=chosen).fit(scaled)
    assert relative_error(fitted.theta * units[:, None], expected.theta) < 1e-9
    assert fitted.history.costs.tolist() == pytest.approx(expected.history.costs.tolist())
    assert f"ridge {chosen:.3g} times the features' mean squares" in fitted.status.message


def test_chosen_ridge_is_near_the_best_for_the_truth() -> None:
    """Error at most 1.1 times that of the best penalty of all, in each of 8 problems."""
    for seed in range(8):
        problem = drawn(d=20, T=15, r=3, n=20, noise=0.5, seed=seed)
        errors = [
            relative_error(problem.tasks.ridge(float(penalty)), problem.theta)
            for penalty in _penalties(problem.tasks)
        ]
        chosen = Independent().fit(problem.tasks)
        assert relative_error(chosen.theta, problem.theta) < 1.1 * min(errors)
        assert min(errors) < 0.8 * errors[-1]  # it matters


def test_choosing_a_ridge_needs_rows() -> None:
    statistics = drawn().tasks.statistics()
    with pytest.raises(DataError, match="needs rows, not statistics; keep the rows, or give"):
        Independent().fit(statistics)


@pytest.mark.parametrize("estimator", [Independent(), Independent(ridge=0.0), Pooled()])
def test_zero_rewards_and_zero_features_give_zero(estimator: Independent | Pooled) -> None:
    tasks = drawn(n=25).tasks
    for rows, rewards in ((tasks.rows, 0 * tasks.rewards), (0 * tasks.rows, tasks.rewards)):
        estimate = estimator.fit(flat(rows, rewards, tasks.owners))
        assert not estimate.theta.any()
        assert estimate.status.outcome == "converged"


@pytest.mark.parametrize("kind", [Independent, Pooled])
@pytest.mark.parametrize("ridge", [-1.0, float("nan"), float("inf"), "auto", None, True])
def test_bad_ridge_is_refused(kind: type[Independent] | type[Pooled], ridge: float) -> None:
    with pytest.raises(ConfigurationError, match="ridge must be"):
        kind(ridge=ridge)


@pytest.mark.parametrize(("d", "n", "unequal"), SHAPES)
def test_pooled_is_least_squares_on_all_rows(d: int, n: int, unequal: bool) -> None:
    tasks = tasks_of(d, n, unequal)
    estimate = Pooled().fit(tasks)
    theta = np.linalg.lstsq(tasks.rows, tasks.rewards)[0]
    np.testing.assert_allclose(estimate.theta, np.tile(theta[:, None], 7), atol=1e-10)
    assert estimate.basis.shape == (d, 1)
    assert estimate.weights.shape == (1, 7)
    np.testing.assert_allclose(estimate.weights, estimate.weights[0, 0], rtol=1e-14)
    from_statistics = Pooled().fit(tasks.statistics())
    assert relative_error(from_statistics.theta, estimate.theta) < 1e-10


@pytest.mark.parametrize("penalty", [1e-3, 10.0])
def test_pooled_with_a_ridge_agrees_with_scikit_learn(penalty: float) -> None:
    tasks = tasks_of(20, 15, True)
    model = Ridge(alpha=penalty, fit_intercept=False, solver="svd")
    theta = model.fit(tasks.rows, tasks.rewards).coef_
    estimate = Pooled(ridge=penalty).fit(tasks)
    assert relative_error(estimate.theta[:, 0], theta) < 1e-10
    cost = np.sum((tasks.rows @ theta - tasks.rewards) ** 2) + penalty * theta @ theta
    assert estimate.history.costs.tolist() == pytest.approx([cost], rel=1e-10)


@pytest.mark.parametrize("n", [3, 50])
def test_pooled_has_least_norm_where_rows_do_not_determine_it(n: int) -> None:
    """With fewer rows in all than features, and with a feature that is there twice."""
    rng = np.random.default_rng(n)
    rows = rng.standard_normal((n, 9))
    rows[:, 8] = rows[:, 0]
    rewards = rng.standard_normal(n)
    estimate = Pooled().fit(TaskRows.from_arrays(rows, rewards, np.arange(n) % 2))
    theta = np.linalg.lstsq(rows, rewards, rcond=1e-8)[0]
    np.testing.assert_allclose(estimate.theta[:, 0], theta, atol=1e-9)


# ---- features that are hard to solve for


def with_a_huge_feature(dtype: Real, n: int = 60) -> tuple[TaskRows, Floats]:
    """Return rows with a time in seconds among the features, which changes nothing."""
    rng = np.random.default_rng(5)
    rows = np.column_stack([rng.standard_normal((n, 3)), np.full(n, 1.7e9) + np.arange(n) * 1e5])
    theta = np.array([1.0, -2.0, 0.0, 0.0])
    return flat(of_type(rows, dtype), of_type(rows @ theta, dtype), np.arange(n) % 2), theta


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("zero", [False, True])
def test_huge_feature_does_not_hide_the_others(dtype: Real, zero: bool) -> None:
    tasks, theta = with_a_huge_feature(dtype)
    if zero:  # a feature that is always zero is no reason to take others as zero
        rows = np.column_stack([tasks.rows, 0 * tasks.rows[:, 0]])
        tasks, theta = flat(rows, tasks.rewards, tasks.owners), np.append(theta, 0)
    expected, double = np.tile(theta[:, None], 2), dtype is np.float64
    for estimator in (Pooled(), Independent(ridge=0.0)):
        for data in (tasks, tasks.statistics()):
            tolerance = 1e-12 if double else 1e-5
            np.testing.assert_allclose(estimator.fit(data).theta, expected, atol=tolerance)
    chosen = Independent().fit(tasks)  # the least ridge that it tries shrinks, by up to this
    np.testing.assert_allclose(chosen.theta, expected, atol=1e-6 if double else 1e-2)


def test_huge_feature_and_one_that_is_there_twice() -> None:
    """Least norm shares the weight of the pair; the other features keep theirs."""
    tasks, _ = with_a_huge_feature(np.float64)
    rows = np.column_stack([tasks.rows, tasks.rows[:, 1]])
    for estimate in (
        Pooled().fit(flat(rows, tasks.rewards, tasks.owners)),
        Independent(ridge=0.0).fit(flat(rows, tasks.rewards, tasks.owners)),
        Independent(ridge=0.0).fit(flat(rows, tasks.rewards, tasks.owners).statistics()),
    ):
        theta = np.array([1.0, -1.0, 0.0, 0.0, -1.0])
        np.testing.assert_allclose(estimate.theta, np.tile(theta[:, None], 2), atol=1e-5)


def test_chosen_ridge_does_not_depend_on_units() -> None:
    tasks = tasks_of(8, 15, True, noise=1.0)
    units = np.geomspace(1e-6, 1e6, 8)
    one = Independent().fit(tasks)
    other = Independent().fit(flat(tasks.rows * units, tasks.rewards, tasks.owners))
    assert relative_error(other.theta * units[:, None], one.theta) < 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ridge", [0.0, 1e-300, 1e-20, 1e-14, 1e-7])
@pytest.mark.parametrize("n", [4, 40])
def test_collinear_features_with_a_penalty_that_rounding_hides(
    n: int, ridge: float, dtype: Real
) -> None:
    rng = np.random.default_rng(n)
    rows = of_type(rng.standard_normal((n, 6)), dtype)
    rows[:, 4], rows[:, 5] = rows[:, 0], rows[:, 1] + rows[:, 2]
    rewards = rows @ np.arange(1, 7).astype(rows.dtype)
    tasks = flat(rows, rewards, np.zeros(n, np.int64))
    expected = np.linalg.lstsq(rows.astype(np.float64), rewards, rcond=1e-5)[0]
    # A ridge of 1e-7 is not hidden: it moves theta by about 6e-7.
    tolerance = 1e-5 if dtype is np.float64 else 1e-3
    for estimate in (Independent(ridge=ridge).fit(tasks), Pooled(ridge=ridge).fit(tasks)):
        np.testing.assert_allclose(estimate.theta[:, 0], expected, atol=tolerance)
    if dtype is np.float64:
        estimate = Independent(ridge=ridge).fit(tasks.statistics())
        np.testing.assert_allclose(estimate.theta[:, 0], expected, atol=tolerance)
