"""The contract that every estimator keeps, whichever it is.

What only some can keep (exact recovery, say) is in the table of promises in `support`.
Tolerances are relative to the size of theta: 1e-6 where two fits of the same data take
different roads to the same minimum, 1e-9 or none where they compute the same.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobandits import estimators
from cobandits.environments import Problem
from cobandits.errors import ConfigurationError, DataError, RankError
from cobandits.estimate import Estimate
from cobandits.lab import Estimation
from cobandits.metrics import relative_error
from cobandits.tasks import TaskData, TaskRows, TaskStatistics
from tests.support import (
    NAMES,
    Floats,
    Real,
    cost_of,
    drawn,
    exact,
    flat,
    least_squares_per_task,
    make,
    of_type,
    promise,
)

every = pytest.mark.parametrize("name", NAMES)
SAME = 1e-6  # two roads to one minimum
REDUNDANT = 1e-5


def keeping(**kept: bool) -> pytest.MarkDecorator:
    """Parametrise over the estimators that keep all of these promises."""
    names = [n for n in NAMES if all(getattr(promise(n), key) == kept[key] for key in kept)]
    return pytest.mark.parametrize("name", names)


def check_whole(estimate: Estimate, tasks: TaskData) -> None:
    """Check all that must hold of an estimate, whatever the data."""
    d, T, r = tasks.dim, tasks.n_tasks, estimate.rank
    assert estimate.basis.shape == (d, r)
    assert estimate.weights.shape == (r, T)
    assert estimate.labels == tasks.labels
    assert 1 <= r <= min(d, T)
    np.testing.assert_allclose(estimate.basis.T @ estimate.basis, np.eye(r), atol=1e-10)
    assert np.isfinite(estimate.weights).all()
    assert estimate.basis.dtype == estimate.weights.dtype == np.float64
    assert estimate.status.outcome in {"converged", "limit", "refused"}
    assert estimate.status.message
    assert np.isfinite(estimate.history.costs).all()
    assert (estimate.history.costs >= 0).all()


@every
@given(data=st.data())
def test_estimate_is_whole_for_any_shape(name: str, data: st.DataObject) -> None:
    d = data.draw(st.integers(1, 24), label="d")
    T = data.draw(st.integers(1, 8), label="T")
    r = data.draw(st.integers(1, min(d, T)), label="r")
    n = data.draw(st.integers(1, 12), label="n")
    noise = data.draw(st.sampled_from([0.0, 1e-3, 10.0]), label="noise")
    tasks = drawn(d=d, T=T, r=r, n=n, noise=noise, seed=data.draw(st.integers(0, 99))).tasks
    estimate = make(name, r, iterations=200).fit(tasks)
    check_whole(estimate, tasks)
    total = float(np.sum(tasks.rewards**2))
    assert cost_of(tasks, estimate.theta) <= (1 + 1e-9) * total  # no worse than theta = 0


@keeping(shares=True)
@pytest.mark.parametrize("seed", range(5))
def test_recovers_theta_without_noise_from_few_rows(name: str, seed: int) -> None:
    problem = drawn(d=30, T=40, r=3, n=15, noise=0.0, seed=seed)
    estimate = exact(name, 3).fit(problem.tasks)
    assert relative_error(estimate.theta, problem.theta) < 1e-10


@keeping(full_rank=True)
def test_recovers_theta_without_noise_from_many_rows(name: str) -> None:
    problem = drawn(d=10, T=12, r=10, n=30, noise=0.0)
    estimate = exact(name, 10).fit(problem.tasks)
    assert relative_error(estimate.theta, problem.theta) < 1e-9


@keeping(full_rank=True)
@pytest.mark.parametrize("T", [6, 9])
def test_full_rank_is_least_squares_per_task(name: str, T: int) -> None:
    tasks = drawn(d=6, T=T, r=3, n=20, noise=1.0).tasks
    estimate = exact(name, 6).fit(tasks)
    assert relative_error(estimate.theta, least_squares_per_task(tasks)) < SAME


@every
@pytest.mark.parametrize("seed", range(3))
def test_rotated_features_rotate_theta(name: str, seed: int) -> None:
    problem = drawn(n=25, seed=seed)
    tasks = problem.tasks
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((20, 20)))[0]
    rotated = flat(tasks.rows @ Q, tasks.rewards, tasks.owners)
    plain, turned = exact(name, 2).fit(tasks), exact(name, 2).fit(rotated)
    assert relative_error(Q @ turned.theta, plain.theta) < SAME


@every
def test_order_of_tasks_does_not_matter(name: str) -> None:
    tasks = drawn(n=25).tasks
    order = np.random.default_rng(1).permutation(tasks.n_tasks)
    rows = np.concatenate([np.flatnonzero(tasks.owners == t) for t in order])
    shuffled = flat(tasks.rows[rows], tasks.rewards[rows], tasks.owners[rows])
    assert shuffled.labels == tuple(order.tolist())
    plain, other = exact(name, 2).fit(tasks), exact(name, 2).fit(shuffled)
    assert relative_error(other.theta, plain.theta[:, order]) < SAME
    assert relative_error(other.theta_of(tasks.labels), plain.theta) < SAME


@every
def test_order_of_rows_does_not_matter(name: str) -> None:
    tasks = drawn(n=25).tasks
    rng = np.random.default_rng(1)
    rows = np.lexsort((rng.random(tasks.n_rows), tasks.owners))
    shuffled = flat(tasks.rows[rows], tasks.rewards[rows], tasks.owners[rows])
    plain, other = exact(name, 2).fit(tasks), exact(name, 2).fit(shuffled)
    assert relative_error(other.theta, plain.theta) < SAME


@every
def test_ragged_equals_stacked(name: str) -> None:
    tasks = drawn(T=6, n=25).tasks
    Phi, y = tasks.rows.reshape(6, 25, 20), tasks.rewards.reshape(6, 25)
    stacked = TaskRows.from_stacked(Phi, y)
    round_robin = TaskRows.from_arrays(  # a row of each task in turn
        Phi.transpose(1, 0, 2).reshape(-1, 20), y.T.ravel(), np.tile(np.arange(6), 25)
    )
    a, b = make(name, 2).fit(stacked), make(name, 2).fit(round_robin)
    np.testing.assert_array_equal(a.theta, b.theta)
    assert a.labels == b.labels


@every
def test_ragged_tasks_are_fitted_each_to_its_own_rows(name: str) -> None:
    tasks = drawn(T=10, n=40, noise=0.1).tasks
    kept = np.random.default_rng(0).random(tasks.n_rows) < np.linspace(0.4, 1, 10)[tasks.owners]
    ragged = tasks.select(kept)
    assert len(set(ragged.counts.tolist())) > 3
    estimate = exact(name, 2).fit(ragged)
    check_whole(estimate, ragged)
    assert cost_of(ragged, estimate.theta) < cost_of(ragged, 0 * estimate.theta)


@every
@pytest.mark.parametrize("n", [18, 40])
def test_statistics_equal_rows(name: str, n: int) -> None:
    tasks = drawn(T=12, n=n).tasks
    rows, statistics = exact(name, 2).fit(tasks), exact(name, 2).fit(tasks.statistics())
    assert relative_error(statistics.theta, rows.theta) < SAME
    check_whole(statistics, tasks)


@every
def test_fit_started_at_its_own_answer_stays_there(name: str) -> None:
    tasks = drawn(n=25).tasks
    first = exact(name, 2).fit(tasks)
    second = exact(name, 2).fit(tasks, start=first)
    assert relative_error(second.theta, first.theta) < SAME
    assert second.status.iterations <= max(5, first.status.iterations // 2)
    assert cost_of(tasks, second.theta) <= cost_of(tasks, first.theta) * (1 + 1e-9)


@every
def test_new_tasks_may_have_joined_since_the_start_was_made(name: str) -> None:
    problem = drawn(T=12, n=25)
    tasks = problem.tasks
    early = exact(name, 2).fit(without_tasks(tasks, {3, 7}))
    late = exact(name, 2).fit(tasks, start=early)
    check_whole(late, tasks)
    assert relative_error(late.theta, exact(name, 2).fit(tasks).theta) < SAME


@keeping(starts=True)
def test_start_of_other_features_is_refused(name: str) -> None:
    start = make(name, 2).fit(drawn(d=8, n=25).tasks)
    with pytest.raises(ConfigurationError, match="start from an estimate of the same features"):
        make(name, 2).fit(drawn(d=9, n=25).tasks, start=start)


@every
def test_float32_rows_agree_to_their_accuracy(name: str) -> None:
    tasks = drawn(n=60).tasks  # many rows: even a task alone is well conditioned
    narrow = flat(tasks.rows.astype(np.float32), tasks.rewards.astype(np.float32), tasks.owners)
    assert narrow.rows.dtype == np.float32
    wide, single = exact(name, 2).fit(tasks), exact(name, 2).fit(narrow)
    check_whole(single, narrow)
    assert relative_error(single.theta, wide.theta) < 1e-4


@every
def test_saved_and_loaded_estimate_is_the_same(name: str, tmp_path: Path) -> None:
    problem = drawn(n=25)
    estimate = make(name, 2).fit(problem.tasks, truth=problem.theta)
    estimate.save(tmp_path / "model")
    loaded = Estimate.load(tmp_path / "model")
    assert loaded.labels == estimate.labels
    assert loaded.status == estimate.status
    assert loaded.estimator == estimate.estimator != ""
    np.testing.assert_array_equal(loaded.basis, estimate.basis)
    np.testing.assert_array_equal(loaded.weights, estimate.weights)
    np.testing.assert_array_equal(loaded.history.costs, estimate.history.costs)
    assert loaded.history.errors is not None
    assert estimate.history.errors is not None
    np.testing.assert_array_equal(loaded.history.errors, estimate.history.errors)


@every
def test_history_has_the_start_and_every_iteration(name: str) -> None:
    problem = drawn(n=25)
    estimate = make(name, 2).fit(problem.tasks, truth=problem.theta)
    history = estimate.history
    assert history.errors is not None
    assert len(history.costs) == len(history.errors) == estimate.status.iterations + 1
    final = relative_error(estimate.theta, problem.theta)
    assert history.errors[-1] == pytest.approx(final, rel=1e-6)
    assert make(name, 2).fit(problem.tasks).history.errors is None


@every
def test_same_input_gives_the_same_bits(name: str) -> None:
    problem = drawn(n=25)
    a, b = make(name, 2).fit(problem.tasks), make(name, 2).fit(problem.tasks)
    np.testing.assert_array_equal(a.basis, b.basis)
    np.testing.assert_array_equal(a.weights, b.weights)
    np.testing.assert_array_equal(a.history.costs, b.history.costs)
    assert a.status == b.status


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fit_does_not_change_what_it_was_given(name: str, dtype: Real) -> None:
    problem = drawn(n=25)
    rows, rewards = of_type(problem.tasks.rows, dtype), of_type(problem.tasks.rewards, dtype)
    tasks = flat(rows, rewards, problem.tasks.owners)
    start = make(name, 2).fit(tasks)
    given = (rows, rewards, start.basis, start.weights, problem.theta)
    before = [array.copy() for array in given]
    make(name, 2).fit(tasks, start=start, truth=problem.theta)
    for array, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@every
def test_progress_is_told_every_iteration_in_order(name: str) -> None:
    seen: list[tuple[int, int, float]] = []
    estimate = make(name, 2).fit(drawn(n=25).tasks, progress=lambda *told: seen.append(told))
    iterations = [iteration for iteration, _, _ in seen]
    assert iterations == list(range(len(iterations)))
    assert all(iteration <= limit for iteration, limit, _ in seen)
    assert [cost for _, _, cost in seen] == estimate.history.costs.tolist()


@every
def test_one_task_alone(name: str) -> None:
    tasks = drawn(d=5, T=1, r=1, n=30, noise=0.1).tasks
    estimate = exact(name, 1).fit(tasks)
    check_whole(estimate, tasks)
    if promise(name).alone:
        assert relative_error(estimate.theta, least_squares_per_task(tasks)) < SAME


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_task_with_fewer_rows_than_rank_gets_finite_weights(name: str, dtype: Real) -> None:
    problem = drawn(d=20, T=15, r=4, n=30, noise=0.0)
    tasks = problem.tasks
    kept = (tasks.owners != 2) | (np.arange(tasks.n_rows) < tasks.offsets[2] + 2)
    short = tasks.select(kept)
    short = flat(of_type(short.rows, dtype), of_type(short.rewards, dtype), short.owners)
    assert short.counts.min() == 2
    estimate = make(name, 4).fit(short)
    check_whole(estimate, short)
    size = np.linalg.norm(problem.theta, axis=0).max()
    assert np.linalg.norm(estimate.theta, axis=0).max() < 10 * size
    if promise(name).shares:  # the others are found as if the short one were not there
        others = np.arange(15) != 2
        error = relative_error(estimate.theta[:, others], problem.theta[:, others])
        assert error < (1e-8 if dtype == np.float64 else 1e-4)


@every
def test_task_without_rows_gets_theta_zero_or_the_common_one(name: str) -> None:
    tasks = drawn(T=8, n=25).tasks
    hollow = tasks.select(tasks.owners != 5)
    assert hollow.counts[5] == 0
    estimate = make(name, 2).fit(hollow)
    check_whole(estimate, hollow)
    empty = np.linalg.norm(estimate.theta[:, 5])
    assert empty == pytest.approx(0, abs=1e-9) or name in {"common", "pooled"}


@every
def test_all_zero_rewards_give_theta_zero(name: str) -> None:
    tasks = drawn(n=25).tasks
    zero = flat(tasks.rows, np.zeros(tasks.n_rows), tasks.owners)
    estimate = make(name, 2).fit(zero)
    check_whole(estimate, zero)
    assert not estimate.theta.any()


@every
def test_one_task_with_zero_rewards_among_others(name: str) -> None:
    tasks = drawn(n=25).tasks
    rewards = np.where(tasks.owners == 4, 0.0, tasks.rewards)
    estimate = make(name, 2).fit(flat(tasks.rows, rewards, tasks.owners))
    check_whole(estimate, tasks)
    assert np.linalg.norm(estimate.theta[:, 4]) < 1e-9 or name in {"common", "pooled", "tracenorm"}


def redundant(kind: str, rows: Floats) -> Floats:
    """Return the rows with columns that add nothing."""
    added = {
        "duplicates": rows[:, :3],
        "constant": np.ones((len(rows), 1)),
        "two constants": np.full((len(rows), 2), [1.0, 5.0]),
        "zero": np.zeros((len(rows), 2)),
    }[kind]
    return np.column_stack([rows, added])


@every
@pytest.mark.parametrize("kind", ["duplicates", "constant", "two constants", "zero"])
def test_redundant_features_do_no_harm(name: str, kind: str) -> None:
    problem = drawn(d=10, T=20, r=2, n=12, noise=0.0)
    tasks = problem.tasks
    wide = flat(redundant(kind, tasks.rows), tasks.rewards, tasks.owners)
    estimate = make(name, 2).fit(wide)
    check_whole(estimate, wide)
    if promise(name).redundant:
        fresh = np.random.default_rng(5).standard_normal((20, 10))
        predicted = estimate.predict(redundant(kind, fresh), range(20))
        expected = np.einsum("td,dt->t", fresh, problem.theta)
        assert relative_error(predicted, expected) < REDUNDANT


@every
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_rewards_times_a_give_theta_times_a(name: str, scale: float) -> None:
    tasks = drawn(n=25).tasks
    plain = exact(name, 2).fit(tasks)
    scaled = exact(name, 2).fit(flat(tasks.rows, tasks.rewards * scale, tasks.owners))
    assert relative_error(scaled.theta / scale, plain.theta) < SAME


@keeping(feature_scale=True)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("n", [18, 40])
def test_features_times_a_give_theta_over_a(name: str, scale: float, n: int) -> None:
    tasks = drawn(n=n).tasks
    plain = exact(name, 2).fit(tasks)
    scaled = exact(name, 2).fit(flat(tasks.rows * scale, tasks.rewards, tasks.owners))
    assert relative_error(scaled.theta * scale, plain.theta) < SAME


@every
@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1e2, 1e4])
def test_no_fit_claims_to_have_converged_far_from_its_answer(name: str, scale: float) -> None:
    problem = drawn(n=25, noise=0.0, T=30)
    tasks = problem.tasks
    scaled = flat(tasks.rows * scale, tasks.rewards, tasks.owners)
    estimate = make(name, 2).fit(scaled)
    check_whole(estimate, scaled)
    if promise(name).shares and estimate.status.outcome == "converged":
        assert relative_error(estimate.theta * scale, problem.theta) < 1e-4


@every
def test_rank_over_tasks_or_features_is_refused_with_advice(name: str) -> None:
    tasks = drawn(d=6, T=3, r=2, n=10).tasks
    if "rank" not in getattr(make(name, 4), "__dataclass_fields__", {}):
        check_whole(make(name, 4).fit(tasks), tasks)  # it takes no rank
        return
    for rank in (0, -1, 4, 100):
        advice = "raise rank" if rank < 1 else "lower rank or add tasks"
        with pytest.raises(RankError, match=rf"min\(6, 3\) = 3, got {rank}; {advice}"):
            make(name, rank).fit(tasks)


@every
@pytest.mark.parametrize("kind", [TaskRows, TaskStatistics])
def test_data_without_rows_are_refused_with_advice(
    name: str, kind: type[TaskRows] | type[TaskStatistics]
) -> None:
    with pytest.raises(DataError, match="no rows to fit; add rows first"):
        make(name, 1).fit(kind(3))


@every
@given(seed=st.integers(0, 10_000))
def test_basis_is_canonical(name: str, seed: int) -> None:
    """Columns are left singular vectors in falling order, their largest entry positive."""
    estimate = make(name, 2, iterations=50).fit(drawn(d=7, T=6, n=9, seed=seed).tasks)
    assert (np.diff(estimate.singular_values) <= 0).all()
    np.testing.assert_allclose(
        np.linalg.norm(estimate.weights, axis=1), estimate.singular_values, rtol=1e-8, atol=1e-12
    )
    largest = np.abs(estimate.basis).argmax(axis=0)
    assert (estimate.basis[largest, np.arange(estimate.rank)] > 0).all()


def without_tasks(tasks: TaskRows, missing: set[int]) -> TaskRows:
    """Return rows of the other tasks only, with their labels."""
    kept = ~np.isin(tasks.owners, list(missing))
    return flat(tasks.rows[kept], tasks.rewards[kept], tasks.owners[kept])


def test_the_old_name_of_lowrank_still_works() -> None:
    with pytest.warns(DeprecationWarning, match="'fast' is now called 'lowrank'"):
        made = estimators.make("fast", 2, ridge="auto")
    assert made == estimators.LowRank(rank=2, ridge="auto")
    assert "fast" not in estimators.available()
    size = {"dim": 5, "n_tasks": 4, "rank": 1}
    with pytest.warns(DeprecationWarning, match="'fast' is now called 'lowrank'"):
        old = Estimation(environment_parameters=size, n_rows=9, estimator="fast").run()
    new = Estimation(environment_parameters=size, n_rows=9, estimator="lowrank").run()
    assert (old["estimator"], new["estimator"]) == ("fast", "lowrank")
    assert old["errors"] == new["errors"]


@pytest.mark.parametrize("command", ["estimate", "simulate"])
def test_the_old_name_of_lowrank_still_works_on_the_command_line(command: str) -> None:
    name = {"estimate": ("--estimator", "fast"), "simulate": ("--policy", "lrrl:estimator=fast")}
    size = ("--dim", "5", "--tasks", "4", "--rank", "1", "--trials", "1", "--json")
    done = subprocess.run(
        [sys.executable, "-m", "cobandits", command, *size, *name[command]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "fast" in done.stdout
    assert done.stderr == ""


def test_every_estimator_of_the_paper_is_found() -> None:
    expected = {"altgd", "altgdmin", "lowrank", "independent", "moments", "pooled", "tracenorm"}
    assert expected <= set(NAMES)


def test_problem_helper_is_what_it_says() -> None:
    problem: Problem = drawn(noise=0.0)
    assert cost_of(problem.tasks, problem.theta) < 1e-20
