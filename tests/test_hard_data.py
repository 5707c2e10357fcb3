"""Data that real users have: rare, constant and huge features, tasks with few rows."""

from __future__ import annotations

import numpy as np
import pytest

from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from cobandits.estimators import AltGDMin, LowRank
from cobandits.linalg import orthonormal
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows
from tests.support import Floats


def rewarded(features: Floats, n_tasks: int, rank: int, noise: float, seed: int) -> TaskRows:
    """Return rows of equally many a task, with rewards from a theta of low rank."""
    rng = np.random.default_rng([seed, 7])
    B = orthonormal(rng.standard_normal((features.shape[1], rank)))
    owners = np.repeat(np.arange(n_tasks), len(features) // n_tasks)
    Theta = B @ rng.standard_normal((rank, n_tasks))
    rewards = np.einsum("nd,dn->n", features, Theta[:, owners])
    return TaskRows.from_arrays(
        features, rewards + noise * rng.standard_normal(len(rewards)), owners
    )


def with_rare_features(seed: int) -> TaskRows:
    rng = np.random.default_rng(seed)
    usual, rare = rng.standard_normal((24_000, 10)), rng.random((24_000, 20)) < 0.0005
    return rewarded(np.concatenate([usual, rare], axis=1), 40, 2, 0.1, seed)


def one_hot(seed: int) -> TaskRows:
    rng = np.random.default_rng(seed)
    shares = np.r_[np.full(10, 0.09), np.full(50, 0.002)]
    return rewarded(np.eye(60)[rng.choice(60, 12_000, p=shares)], 30, 2, 0.1, seed)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("draw", [with_rare_features, one_hot])
def test_features_that_are_rare(draw: type, seed: int) -> None:
    """A sample of the rows misses some of them; the fit must not depend on that."""
    tasks: TaskRows = draw(seed)
    estimate = LowRank(rank=2).fit(tasks)
    exact = LowRank(rank=2).fit(tasks.statistics())
    slow = AltGDMin(rank=2, iterations=500).fit(tasks)
    assert estimate.status.outcome == "converged"
    assert estimate.history.costs[-1] == pytest.approx(exact.history.costs[-1], rel=1e-6)
    assert estimate.history.costs[-1] <= slow.history.costs[-1] * (1 + 1e-9)


@pytest.mark.parametrize("size", [1e-5, 1e5, 1.7e9])
def test_a_constant_feature_of_any_size(size: float) -> None:
    problem = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=30, seed=0)
    tasks = problem.tasks
    column = np.full((tasks.n_rows, 1), size)
    wider = TaskRows.from_arrays(np.hstack([tasks.rows, column]), tasks.rewards, tasks.owners)
    estimate = LowRank(rank=2).fit(wider)
    assert estimate.status.outcome == "converged"
    assert relative_error(estimate.theta[:20], problem.theta) < 1e-3


@pytest.mark.parametrize("ridge", [0.0, "auto"])
def test_units_of_features_do_not_matter(ridge: float) -> None:
    tasks = Synthetic(dim=12, n_tasks=20, rank=2, noise_std=0.1).problem(n_rows=15, seed=3).tasks
    units = np.geomspace(1e-6, 1e6, 12)
    plain = LowRank(rank=2, ridge=ridge).fit(tasks)
    other = LowRank(rank=2, ridge=ridge).fit(
        TaskRows.from_arrays(tasks.rows * units, tasks.rewards, tasks.owners)
    )
    np.testing.assert_allclose(other.theta * units[:, None], plain.theta, rtol=1e-3, atol=1e-4)


def held_out_error(estimator: LowRank, tasks: TaskRows) -> float:
    """Return the squared error on a fifth of the rows, over that of predicting 0."""
    held = tasks.folds(5, np.random.default_rng(0)) == 0
    estimate = estimator.fit(tasks.select(~held))
    judged = tasks.select(held)
    return float(judged.residuals(estimate.theta)[1].sum() / judged.squares.sum())


def test_automatic_ridge_helps_where_tasks_have_few_rows() -> None:
    """Over 12 seeds: never much worse than no ridge, and far better in most."""
    environment = Synthetic(dim=8, n_tasks=100, rank=2, noise_std=0.5)
    ratios = []
    for seed in range(12):
        tasks = environment.problem(n_rows=4, seed=seed, unequal=True).tasks
        without, with_ridge = (
            held_out_error(LowRank(rank=2, ridge=r), tasks) for r in (0.0, "auto")
        )
        ratios.append(with_ridge / without)
    assert max(ratios) < 1.1
    assert np.median(ratios) < 0.7


def test_automatic_ridge_is_negligible_where_rows_are_many() -> None:
    problem = Synthetic(dim=20, n_tasks=30, rank=2, noise_std=1e-3).problem(n_rows=40, seed=0)
    plain, automatic = (LowRank(rank=2, ridge=r).fit(problem.tasks) for r in (0.0, "auto"))
    assert relative_error(automatic.theta, plain.theta) < 1e-5
    exact = Synthetic(dim=20, n_tasks=30, rank=2, noise_std=0).problem(n_rows=40, seed=0)
    assert relative_error(LowRank(ridge="auto").fit(exact.tasks).theta, exact.theta) < 1e-6


def test_automatic_rank_and_ridge_are_given_by_those_words_only() -> None:
    for wrong in ({"ridge": "cv"}, {"rank": "best"}, {"iterations": 2.5}):
        with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))} must be"):
            LowRank(**wrong)


def test_start_does_not_depend_on_the_mean_of_the_features() -> None:
    """With means three deviations from 0, the fit is as quick as with none."""
    iterations = []
    for shift in (0.0, 3.0):
        problem = Synthetic(dim=60, n_tasks=40, rank=3, shift=shift).problem(n_rows=40, seed=1)
        estimate = LowRank(rank=3).fit(problem.tasks, truth=problem.theta)
        errors = estimate.history.errors
        assert errors is not None
        assert errors[0] < 0.9
        iterations.append(estimate.status.iterations)
    assert iterations[1] <= 1.5 * iterations[0]


def test_progress_rises_through_several_descents() -> None:
    tasks = Synthetic(dim=10, n_tasks=12, rank=3, noise_std=0.5).problem(n_rows=8, seed=0).tasks
    seen: list[tuple[int, int]] = []
    LowRank(rank=3).fit(tasks, progress=lambda step, limit, _: seen.append((step, limit)))
    assert [step for step, _ in seen] == list(range(len(seen)))
    assert all(step <= limit for step, limit in seen)


@pytest.mark.parametrize("scale", [1e-8, 1e-5])
def test_altgdmin_does_not_call_small_steps_convergence(scale: float) -> None:
    """Its step is made for features of variance 1: with others it says what to do."""
    problem = Synthetic(dim=20, n_tasks=30, rank=2, noise_std=0).problem(n_rows=30, seed=0)
    small = TaskRows.from_arrays(
        problem.tasks.rows * scale, problem.tasks.rewards, problem.tasks.owners
    )
    estimate = AltGDMin(rank=2, iterations=200).fit(small)
    assert estimate.status.outcome == "limit"


def test_last_step_of_altgdmin_is_checked_too() -> None:
    tasks = Synthetic(dim=20, n_tasks=30, rank=2, noise_std=0.1).problem(n_rows=15, seed=0).tasks
    estimate = AltGDMin(rank=2, iterations=1, step=1e3).fit(tasks)
    assert estimate.status.outcome == "refused"
    assert tasks.residuals(estimate.theta)[1].sum() <= estimate.history.costs[0] * (1 + 1e-9)


def test_truth_of_another_shape_is_refused() -> None:
    problem = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=15, seed=0)
    with pytest.raises(ConfigurationError, match=r"truth must be theta, \(20, 30\), got"):
        LowRank(rank=2).fit(problem.tasks, truth=problem.theta[:, :1])
