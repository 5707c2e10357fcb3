"""LowRank: the cost of AltGDMin, minimised; with a ridge; with a rank that it finds."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from cobandits import kernels
from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin, Estimator, LowRank
from cobandits.estimators.quasinewton import _Inverse, _Memory
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows
from tests.support import Floats, Real, cost_of, drawn, flat, of_type, optimum_near_truth, parts

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

EASY = [  # d, T, r, n, noise
    (20, 30, 2, 15, 0.1),
    (20, 30, 2, 15, 1e-3),
    (30, 20, 3, 25, 0.3),
    (15, 40, 4, 12, 0.05),
]
HARD = [  # hardly more rows than parameters: the cost has several minima
    (15, 20, 3, 12, 0.3),
    (10, 12, 1, 6, 0.5),
    (8, 10, 2, 6, 0.2),
    (20, 12, 2, 8, 0.1),
]


compiled_only = pytest.mark.skipif(not kernels.COMPILED, reason="the compiled pass is not built")


def penalised(tasks: TaskRows, Theta: Floats, ridge: float) -> float:
    return cost_of(tasks, Theta) + ridge * float(np.sum(Theta**2))


@pytest.mark.parametrize(("d", "T", "r", "n", "noise"), [*EASY, *HARD])
def test_cost_is_never_worse_than_that_of_altgdmin(
    d: int, T: int, r: int, n: int, noise: float
) -> None:
    worse = []
    for seed in range(60):
        tasks = drawn(d=d, T=T, r=r, n=n, noise=noise, seed=seed).tasks
        slow = AltGDMin(rank=r, iterations=400).fit(tasks)
        fast = LowRank(rank=r, tolerance=1e-12).fit(tasks)
        if cost_of(tasks, fast.theta) > (1 + 1e-9) * cost_of(tasks, slow.theta):
            worse.append(seed)
    assert worse == []


@pytest.mark.parametrize(("d", "T", "r", "n", "noise"), EASY)
def test_theta_is_that_of_altgdmin(d: int, T: int, r: int, n: int, noise: float) -> None:
    for seed in range(10):
        tasks = drawn(d=d, T=T, r=r, n=n, noise=noise, seed=seed).tasks
        slow = AltGDMin(rank=r, tolerance=1e-15).fit(tasks)
        fast = LowRank(rank=r, tolerance=1e-14).fit(tasks)
        assert fast.status.outcome == "converged"
        assert relative_error(fast.theta, slow.theta) < 1e-6


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_weights_are_the_best_for_the_basis_wherever_a_fit_stops(ridge: float) -> None:
    tasks = drawn(d=20, T=30, r=2, n=15, noise=0.1).tasks
    scaled = flat(tasks.rows * np.logspace(-3, 3, 20), tasks.rewards, tasks.owners)
    for data in (tasks, scaled):
        for iterations in (1, 3, 500):
            estimate = LowRank(rank=2, ridge=ridge, iterations=iterations).fit(data)
            best = estimate.basis @ data.least_squares(estimate.basis, ridge).weights
            assert relative_error(estimate.theta, best) < 1e-9


def test_direction_is_that_of_the_two_loop_recursion() -> None:
    rng = np.random.default_rng(0)
    memory, scaling = _Memory(12), _Inverse(np.eye(6) / 4, np.eye(2))
    pairs = [(s, s + 0.3 * rng.standard_normal((6, 2))) for s in rng.standard_normal((9, 6, 2))]
    for s, y in pairs:
        memory.add(s, y)
    g = rng.standard_normal((6, 2))
    q, shares = g.copy(), []
    for s, y in reversed(pairs[-6:]):
        shares.append(np.sum(s * q) / np.sum(s * y))
        q -= shares[-1] * y
    s, y = pairs[-1]
    p = q * max(np.sum(s * y) / np.sum(y * y), 1 / 4)
    for s, y in pairs[-6:]:
        p += (shares.pop() - np.sum(y * p) / np.sum(s * y)) * s
    direction, promise = memory.direction(1e-3 * g, scaling)
    np.testing.assert_allclose(direction, -1e-3 * p, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(promise, 1e-6 * np.sum(g * p))


@pytest.mark.parametrize(("d", "T", "r", "n", "noise"), EASY)
def test_theta_is_the_optimum_that_gauss_newton_finds(
    d: int, T: int, r: int, n: int, noise: float
) -> None:
    for seed in range(5):
        problem = drawn(d=d, T=T, r=r, n=n, noise=min(noise, 0.05), seed=seed)
        estimate = LowRank(rank=r, tolerance=1e-14).fit(problem.tasks)
        assert relative_error(estimate.theta, optimum_near_truth(problem)) < 1e-6


@given(seed=st.integers(0, 10_000), ridge=st.sampled_from([0.0, 0.5]))
def test_no_small_change_of_the_basis_lowers_the_cost(seed: int, ridge: float) -> None:
    tasks = drawn(d=8, T=10, r=2, n=9, noise=0.1, seed=seed).tasks
    estimate = LowRank(rank=2, ridge=ridge, tolerance=1e-14).fit(tasks)
    found = penalised(tasks, estimate.theta, ridge)
    rng = np.random.default_rng(seed)
    for size in (1e-1, 1e-2, 1e-3, 1e-4):
        for _ in range(5):
            B = np.linalg.qr(estimate.basis + size * rng.standard_normal((8, 2)))[0]
            W = ridge_weights(tasks, B, ridge)
            assert penalised(tasks, B @ W, ridge) >= found * (1 - 1e-10)


def ridge_weights(tasks: TaskRows, B: Floats, ridge: float) -> Floats:
    """Return the best weights of each task, with the ridge as rows of its own."""
    penalty = np.sqrt(ridge) * B
    return np.column_stack(
        [
            np.linalg.pinv(np.vstack([Phi @ B, penalty])) @ np.concatenate([y, np.zeros(len(B))])
            for Phi, y in parts(tasks)
        ]
    )


def minimum_of_scipy(tasks: TaskRows, B: Floats, W: Floats, ridge: float) -> Floats:
    """Return theta where L-BFGS of scipy ends, over both factors, from ``B`` and ``W``."""
    (d, r), T = B.shape, tasks.n_tasks
    grams = np.stack([Phi.T @ Phi for Phi, _ in parts(tasks)])
    moments = np.stack([Phi.T @ y for Phi, y in parts(tasks)])

    def factors(x: Vector) -> tuple[Floats, Floats]:
        return x[: d * r].reshape(d, r), x[d * r :].reshape(r, T)

    def cost_and_gradient(x: Vector) -> tuple[float, Vector]:
        B, W = factors(x)
        G = np.einsum("tij,jt->it", grams, B @ W) + ridge * (B @ W) - moments.T
        cost = float(np.sum((B @ W) * (G - moments.T)))
        return cost, 2 * np.concatenate([(G @ W.T).ravel(), (B.T @ G).ravel()])

    start: Vector = np.concatenate([B.ravel(), W.ravel()]).astype(np.float64)
    run = scipy.optimize.minimize(
        cost_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-11},
    )
    return np.asarray(np.matmul(*factors(run.x)))


@pytest.mark.parametrize("ridge", [1e-3, 0.3, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_ridge_solution_agrees_with_scipy(ridge: float, seed: int) -> None:
    problem = drawn(d=8, T=10, r=2, n=12, noise=0.2, seed=seed)
    rng = np.random.default_rng(seed)
    starts = [(problem.basis, problem.weights)]
    starts += [(rng.standard_normal((8, 2)), rng.standard_normal((2, 10))) for _ in range(5)]
    minima = [minimum_of_scipy(problem.tasks, B, W, ridge) for B, W in starts]
    costs = [penalised(problem.tasks, Theta, ridge) for Theta in minima]
    best, expected = min(costs), minima[int(np.argmin(costs))]
    estimate = LowRank(rank=2, ridge=ridge, tolerance=1e-14).fit(problem.tasks)
    assert penalised(problem.tasks, estimate.theta, ridge) <= best * (1 + 1e-8)
    assert relative_error(estimate.theta, expected) < 1e-4
    assert estimate.history.costs[-1] == pytest.approx(best, rel=1e-8)


def test_ridge_at_full_rank_is_ridge_per_task() -> None:
    tasks = drawn(d=5, T=8, r=3, n=4, noise=0.3).tasks
    estimate = LowRank(rank=5, ridge=0.7).fit(tasks)
    expected = [
        np.linalg.solve(Phi.T @ Phi + 0.7 * np.eye(5), Phi.T @ y) for Phi, y in parts(tasks)
    ]
    assert relative_error(estimate.theta, np.column_stack(expected)) < 1e-6


def test_cost_only_falls_by_iteration() -> None:
    for seed in range(5):
        tasks = drawn(d=20, T=20, r=3, n=20, noise=0.1, seed=seed).tasks
        costs = LowRank(rank=3).fit(tasks).history.costs
        assert (np.diff(costs) <= 0).all()


def test_few_evaluations_are_enough() -> None:
    """Fewer iterations than AltGDMin by far, also where theta is ill-conditioned."""
    for condition in (None, 10.0, 100.0):
        environment = Synthetic(dim=30, n_tasks=40, rank=3, condition=condition)
        problem = environment.problem(n_rows=30, seed=0)
        estimate = LowRank(rank=3).fit(problem.tasks)
        assert estimate.status.outcome == "converged"
        assert estimate.status.iterations < 80
        floor = relative_error(optimum_near_truth(problem), problem.theta)
        assert relative_error(estimate.theta, problem.theta) < 1.01 * floor


# ---- the rank


@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize(
    ("d", "T", "r", "n"), [(30, 40, 1, 15), (30, 40, 2, 20), (30, 40, 5, 25), (20, 10, 3, 30)]
)
def test_auto_finds_the_rank(d: int, T: int, r: int, n: int, noise: float) -> None:
    for seed in range(8):
        assert LowRank().choose_rank(drawn(d=d, T=T, r=r, n=n, noise=noise, seed=seed).tasks) == r
    problem = drawn(d=d, T=T, r=r, n=n, noise=noise)
    estimate = LowRank(tolerance=1e-14).fit(problem.tasks)
    assert estimate.rank == r
    same = LowRank(rank=r, tolerance=1e-14).fit(problem.tasks)
    assert relative_error(estimate.theta, same.theta) < 1e-6


def test_auto_finds_the_rank_of_ill_conditioned_theta() -> None:
    for seed in range(5):
        environment = Synthetic(dim=20, n_tasks=30, rank=3, condition=20.0, noise_std=1e-3)
        assert LowRank().choose_rank(environment.problem(n_rows=25, seed=seed).tasks) == 3


def test_auto_finds_the_rank_from_statistics_too() -> None:
    tasks = drawn(d=15, T=20, r=3, n=40, noise=0.1).tasks
    assert LowRank().choose_rank(tasks.statistics()) == 3


def test_auto_takes_rank_one_where_there_is_only_noise() -> None:
    for seed in range(5):
        tasks = drawn(d=10, T=15, n=20, seed=seed).tasks
        noise = np.random.default_rng(seed).standard_normal(tasks.n_rows)
        assert LowRank().choose_rank(flat(tasks.rows, noise, tasks.owners)) == 1


@pytest.mark.parametrize("seed", range(1, 4))
def test_auto_ends_where_more_columns_explain_noise(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most features are constant per task, and the others differ in size by 1e11."""
    T, n, d, sizes = 60, 50, 20, np.array([1, 1e4, 1e8, 1e11])
    rng, tried, residuals = np.random.default_rng(seed), [], TaskRows.residuals
    rows = np.repeat(rng.standard_normal((T, 1, d)), n, axis=1)
    rows[..., :4] = sizes * rng.standard_normal((T, n, 4))
    own = rng.standard_normal((T, n)) * 0.3 + rng.standard_normal((T, 1))
    rewards = np.einsum("tnd,td->tn", rows[..., :4], rng.standard_normal((T, 4)) / sizes) + own

    def counted(tasks: TaskRows, Theta: Floats) -> tuple[Floats, Floats]:
        tried.append(Theta)
        return residuals(tasks, Theta)

    monkeypatch.setattr(TaskRows, "residuals", counted)
    rank = LowRank().choose_rank(TaskRows.from_stacked(rows, rewards))
    assert 4 <= rank <= 6  # with the tasks' own means
    assert len(tried) < 15  # of 20; rank + 4 where rounding lets it


@pytest.mark.parametrize(("T", "n"), [(1, 1), (1, 50), (2, 1), (3, 2), (30, 1)])
def test_auto_manages_with_few_rows_or_tasks(T: int, n: int) -> None:
    tasks = drawn(d=6, T=T, r=1, n=n, noise=0.1).tasks
    estimate = LowRank().fit(tasks)
    assert 1 <= estimate.rank <= min(6, T)
    assert np.isfinite(estimate.theta).all()


def test_auto_uses_a_start_of_the_rank_it_finds() -> None:
    problem = drawn(d=20, T=30, r=3, n=25)
    for rank in (2, 3):
        start = LowRank(rank=rank).fit(problem.tasks)
        estimate = LowRank().fit(problem.tasks, start=start)
        assert estimate.rank == 3
        assert relative_error(estimate.theta, LowRank(rank=3).fit(problem.tasks).theta) < 1e-6


# ---- hard data


def test_features_of_very_different_scales() -> None:
    problem = drawn(d=20, T=30, r=2, n=20, noise=1e-3)
    scales = np.logspace(-4, 4, 20)
    tasks = flat(problem.tasks.rows * scales, problem.tasks.rewards, problem.tasks.owners)
    estimate = LowRank(rank=2).fit(tasks)
    plain = LowRank(rank=2).fit(problem.tasks)
    assert relative_error(estimate.theta * scales[:, None], plain.theta) < 1e-5


def test_features_that_are_rarely_nonzero() -> None:
    """A rare category: most rows, and any few of them, do not show it."""
    problem = drawn(d=20, T=40, r=2, n=200, noise=0.0)
    rows = problem.tasks.rows.copy()
    rare = np.random.default_rng(0).random(len(rows)) < 0.01
    rows[:, 3] = rare
    rewards = np.einsum("nd,dn->n", rows, problem.theta[:, problem.tasks.owners])
    estimate = LowRank(rank=2).fit(flat(rows, rewards, problem.tasks.owners))
    assert relative_error(estimate.theta, problem.theta) < 1e-8


@pytest.mark.parametrize("period", [2, 5, 7, 10, 20, 50])
def test_features_that_repeat_with_the_rows(period: int) -> None:
    """A day of the week: every k-th row shows one category only."""
    problem = drawn(d=20, T=40, r=2, n=200, noise=0.0)
    rows = problem.tasks.rows.copy()
    rows[:, 3] = np.arange(len(rows)) % period == 1
    rewards = np.einsum("nd,dn->n", rows, problem.theta[:, problem.tasks.owners])
    estimate = LowRank(rank=2).fit(flat(rows, rewards, problem.tasks.owners))
    assert relative_error(estimate.theta, problem.theta) < 1e-8


@pytest.mark.parametrize(
    ("size", "noise"), [(1e-3, 0.0), (10.0, 0.0), (100.0, 0.0), (100.0, 1e-3), (1e3, 1e-3)]
)
def test_one_task_of_another_size(size: float, noise: float) -> None:
    """Its theta is far larger or smaller, and right: it is no fit that ran off."""
    problem = drawn(d=20, T=30, r=2, n=25, noise=noise)
    scale = np.where(problem.tasks.owners == 4, size, 1.0)
    tasks = flat(problem.tasks.rows, problem.tasks.rewards * scale, problem.tasks.owners)
    estimate = LowRank(rank=2, iterations=5000).fit(tasks)  # from 175 to over 500, by rounding
    assert estimate.status.outcome == "converged"
    assert len(estimate.history.costs) == estimate.status.iterations + 1
    expected = problem.theta * np.where(np.arange(30) == 4, size, 1.0)
    for t in range(30):
        assert relative_error(estimate.theta[:, t], expected[:, t]) < 1e-6 + 5 * noise


def test_most_tasks_without_any_reward() -> None:
    problem = drawn(d=20, T=30, r=2, n=25, noise=0.0)
    quiet = problem.tasks.owners >= 12
    tasks = flat(
        problem.tasks.rows, np.where(quiet, 0.0, problem.tasks.rewards), problem.tasks.owners
    )
    estimate = LowRank(rank=2).fit(tasks)
    assert estimate.status.outcome == "converged"
    assert relative_error(estimate.theta[:, :12], problem.theta[:, :12]) < 1e-8
    assert np.abs(estimate.theta[:, 12:]).max() < 1e-10


def test_weights_do_not_run_off() -> None:
    """With hardly more rows than parameters, some minima lie at infinity."""
    for seed in range(30):
        problem = drawn(d=30, T=10, r=3, n=16, noise=0.05, seed=seed)  # 160 rows, 111 parameters
        estimate = LowRank(rank=3).fit(problem.tasks)
        largest = np.linalg.norm(estimate.weights, axis=0).max()
        assert largest < 100 * np.linalg.norm(problem.weights, axis=0).max()


def test_more_parameters_than_rows_end_with_a_finite_answer() -> None:
    for seed in range(10):
        tasks = drawn(d=30, T=10, r=3, n=8, noise=0.05, seed=seed).tasks
        for ridge in (0.0, 0.1):
            estimate = LowRank(rank=3, ridge=ridge).fit(tasks)
            assert np.isfinite(estimate.theta).all()
            assert penalised(tasks, estimate.theta, ridge) <= cost_of(tasks, 0 * estimate.theta)


@pytest.mark.parametrize("shift", [1.0, 100.0])
def test_features_that_are_not_centred(shift: float) -> None:
    problem = Synthetic(dim=20, n_tasks=30, rank=2, shift=shift).problem(n_rows=20, seed=0)
    estimate = LowRank(rank=2).fit(problem.tasks)
    floor = relative_error(optimum_near_truth(problem), problem.theta)
    assert relative_error(estimate.theta, problem.theta) < 1.05 * floor


def test_start_at_the_truth_is_as_good_as_none() -> None:
    problem = drawn(d=20, T=30, r=2, n=15, noise=0.1)
    truth = Estimate(basis=problem.basis, weights=problem.weights, labels=problem.tasks.labels)
    a, b = LowRank(rank=2).fit(problem.tasks, start=truth), LowRank(rank=2).fit(problem.tasks)
    assert cost_of(problem.tasks, a.theta) == pytest.approx(
        cost_of(problem.tasks, b.theta), rel=1e-8
    )


def test_iterations_that_run_out_are_said() -> None:
    estimate = LowRank(rank=2, iterations=1).fit(drawn().tasks)
    assert estimate.status.outcome == "limit"
    assert estimate.status.iterations == 1
    assert "raise iterations" in estimate.status.message


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": "many"}, "rank must be a whole number or 'auto', got 'many'"),
        ({"rank": 2.5}, "rank must be a whole number or 'auto', got 2.5"),
        ({"ridge": -1.0}, r"ridge must be at least 0.*, got -1"),
        ({"ridge": float("nan")}, r"ridge must be at least 0.*, got nan"),
        ({"ridge": float("inf")}, "ridge must be"),
        ({"iterations": 0}, r"iterations must be at least 1.*, got 0"),
        ({"tolerance": -1.0}, r"tolerance must be at least 0.*, got -1"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        LowRank(**parameters)  # type: ignore[arg-type]


def test_rank_of_numpy_is_a_whole_number_too() -> None:
    ranks: list[int] = [np.int64(2), 2]  # type: ignore[list-item]
    a, b = (LowRank(rank=rank).fit(drawn().tasks) for rank in ranks)
    np.testing.assert_array_equal(a.theta, b.theta)


@pytest.mark.parametrize(
    "estimator", [LowRank(rank=4, iterations=5), AltGDMin(rank=4, iterations=5)]
)
@pytest.mark.parametrize(
    ("T", "n", "d", "dtype"),
    [(40, 500, 50, np.float64), (400, 50, 50, np.float64), (20, 1000, 200, np.float32)],
)
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=compiled_only)])
def test_memory_of_a_fit_is_a_part_of_the_data(
    monkeypatch: pytest.MonkeyPatch,
    estimator: Estimator,
    T: int,
    n: int,
    d: int,
    dtype: Real,
    compiled: bool,
) -> None:
    """At most a fifth of the data on top of them, and in NumPy two blocks of 2 MB more.

    NumPy gathers the rows of one block of tasks while it still holds the block before.
    """
    monkeypatch.setattr(kernels, "COMPILED", compiled)
    rng = np.random.default_rng(0)
    rows = of_type(rng.standard_normal((T, n, d)), dtype)
    tasks = TaskRows.from_stacked(rows, rng.standard_normal((T, n)))
    assert tasks.n_rows == T * n  # they are in place
    tracemalloc.start()
    estimator.fit(tasks)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 0.2 * tasks.nbytes + (0 if compiled else 2 * 2**21)
