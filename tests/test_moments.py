"""MethodOfMoments against a literal loop, and its error as rows are added."""

from __future__ import annotations

import numpy as np
import pytest

from cobandits.environments import Synthetic
from cobandits.errors import RankError
from cobandits.estimators.moments import MethodOfMoments
from cobandits.linalg import subspace_distance
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows
from tests.support import Floats, cost_of, drawn, literal_weights


def literal_basis(rows: Floats, rewards: Floats, r: int) -> Floats:
    """Return the top eigenvectors of the mean of y^2 phi phi', one row after the other."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for phi, y in zip(rows, rewards, strict=True):
        total += y**2 * np.outer(phi, phi)
    values, vectors = np.linalg.eigh(total / len(rewards))
    return np.asarray(vectors[:, np.argsort(values)[::-1][:r]])


@pytest.mark.parametrize(("n", "unequal"), [(10, False), (40, False), (30, True)])
def test_equals_a_literal_loop(n: int, unequal: bool) -> None:
    problem = Synthetic(dim=18, n_tasks=9, rank=3, noise_std=0.1).problem(
        n_rows=n, seed=2, unequal=unequal
    )
    tasks = problem.tasks
    estimate = MethodOfMoments(rank=3).fit(tasks, truth=problem.theta)
    B = literal_basis(tasks.rows, tasks.rewards, 3)
    Theta = B @ literal_weights(tasks, B)
    assert relative_error(estimate.theta, Theta) < 1e-9
    assert estimate.history.costs.tolist() == pytest.approx([cost_of(tasks, Theta)], rel=1e-9)
    assert estimate.history.errors is not None
    assert estimate.history.errors[0] == pytest.approx(relative_error(Theta, problem.theta))


def test_subspace_error_falls_like_one_over_the_root_of_the_rows() -> None:
    """Four times the rows halve the error: the mean over 12 problems, to a fifth."""
    settings = Synthetic(dim=8, n_tasks=10, rank=2)
    mean_errors = []
    for n in (250, 1000, 4000):
        errors = []
        for trial in range(12):
            problem = settings.problem(n_rows=n, seed=5, trial=trial)
            estimate = MethodOfMoments(rank=2).fit(problem.tasks)
            errors.append(subspace_distance(problem.basis, estimate.basis))
        mean_errors.append(np.mean(errors))
    assert mean_errors[0] / mean_errors[1] == pytest.approx(2, rel=0.2)
    assert mean_errors[1] / mean_errors[2] == pytest.approx(2, rel=0.2)


def test_mean_matrix_tends_to_what_the_docstring_says() -> None:
    problem = Synthetic(dim=4, n_tasks=3, rank=2, noise_std=0.5).problem(n_rows=200_000, seed=0)
    mean = problem.tasks.squared_moment() / problem.tasks.n_rows
    spread = problem.theta @ problem.theta.T
    expected = (2 * spread + np.trace(spread) * np.eye(4)) / 3 + 0.25 * np.eye(4)
    assert relative_error(mean, expected) < 0.02


def test_start_and_seed_make_no_difference() -> None:
    problem = drawn(n=25)
    plain = MethodOfMoments(rank=2).fit(problem.tasks)
    other = MethodOfMoments(rank=2).fit(drawn(n=25, seed=3).tasks)
    again = MethodOfMoments(rank=2).fit(problem.tasks, start=other, rng=9)
    np.testing.assert_array_equal(again.theta, plain.theta)
    assert plain.status.outcome == "converged"
    assert plain.status.iterations == 0


def test_statistics_equal_rows() -> None:
    tasks = drawn(n=25).tasks
    rows = MethodOfMoments(rank=2).fit(tasks)
    statistics = MethodOfMoments(rank=2).fit(tasks.statistics())
    assert relative_error(statistics.theta, rows.theta) < 1e-10


def test_zero_rewards_give_zero() -> None:
    tasks = drawn(n=25).tasks
    zero = TaskRows.from_arrays(tasks.rows, np.zeros(tasks.n_rows), tasks.owners)
    estimate = MethodOfMoments(rank=2).fit(zero)
    assert not estimate.theta.any()
    assert estimate.status.outcome == "converged"


def test_rank_is_checked() -> None:
    with pytest.raises(RankError, match="lower rank or add tasks"):
        MethodOfMoments(rank=13).fit(drawn(T=12).tasks)
