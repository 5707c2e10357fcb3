"""The benchmarks' references do the paper's iteration, and so does the library."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import __main__ as command
from benchmarks import decisions, engine, growth, iteration, memory, report, scale, solve, timing
from benchmarks.compare_numba import cholesky_solve, fused_pass, numba_iteration
from benchmarks.references import (
    ITERATIONS,
    STEP,
    batched,
    iterations_to_error,
    run,
    spectral_start,
    stacked,
)
from cobandits import estimators, kernels
from cobandits.environments import Problem, Synthetic
from cobandits.estimators import AltGDMin, available
from cobandits.lab.cells import noise_floor
from cobandits.linalg import subspace_distance
from cobandits.metrics import relative_error
from cobandits.tasks import TaskRows

Floats = NDArray[np.floating]


@pytest.fixture
def problem() -> Problem:
    return Synthetic(dim=24, n_tasks=15, rank=3, noise_std=1e-2).problem(n_rows=20, seed=4)


@pytest.fixture
def rows(problem: Problem) -> tuple[Floats, Floats]:
    return stacked(problem.tasks.rows, problem.tasks.rewards, problem.tasks.n_tasks)


# ---- references


def test_stacking_keeps_the_rows_of_a_task(problem: Problem, rows: tuple[Floats, Floats]) -> None:
    Phi, y = rows
    assert Phi.shape == (15, 20, 24)
    for t in (0, 7, 14):
        mine = problem.tasks.owners == t
        np.testing.assert_array_equal(Phi[t], problem.tasks.rows[mine])
        np.testing.assert_array_equal(y[t], problem.tasks.rewards[mine])


@pytest.mark.parametrize("name", ITERATIONS)
def test_every_reference_does_the_iteration_of_the_library(
    name: str, problem: Problem, rows: tuple[Floats, Floats]
) -> None:
    Phi, y = rows
    B = spectral_start(Phi, y, 3)
    B_next, W = ITERATIONS[name](Phi, y, B, STEP)
    np.testing.assert_allclose(W, problem.tasks.least_squares(B).weights, atol=1e-10)
    expected = iteration.library_iteration(AltGDMin(rank=3, step=STEP), problem.tasks, B)
    np.testing.assert_allclose(B_next @ B_next.T, expected @ expected.T, atol=1e-10)


@pytest.mark.parametrize("name", ITERATIONS)
def test_weights_of_a_reference_leave_residuals_that_no_column_explains(
    name: str, rows: tuple[Floats, Floats]
) -> None:
    Phi, y = rows
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((24, 3)))[0]
    _, W = ITERATIONS[name](Phi, y, B, STEP)
    for t in range(len(Phi)):
        A = Phi[t] @ B
        np.testing.assert_allclose(A.T @ (y[t] - A @ W[:, t]), 0, atol=1e-8)


def test_the_start_of_the_references_is_that_of_the_library(
    problem: Problem, rows: tuple[Floats, Floats]
) -> None:
    mine, theirs = estimators.spectral_start(problem.tasks, 3), spectral_start(*rows, 3)
    assert subspace_distance(mine, theirs) < 1e-8


@pytest.mark.parametrize("name", ITERATIONS)
def test_whole_runs_end_where_the_library_ends(
    name: str, problem: Problem, rows: tuple[Floats, Floats]
) -> None:
    B, W = run(ITERATIONS[name], *rows, 3, 12)
    estimate = AltGDMin(rank=3, step=STEP, iterations=12, tolerance=0.0).fit(problem.tasks)
    np.testing.assert_allclose(B @ W, estimate.theta, atol=1e-9)


def test_iterations_to_an_error_are_the_fewest(
    problem: Problem, rows: tuple[Floats, Floats]
) -> None:
    errors = [
        relative_error(np.matmul(*run(batched, *rows, 3, k)), problem.theta) for k in range(9)
    ]
    bound = 1.0001 * errors[6]
    assert iterations_to_error(batched, *rows, problem.theta, 3, bound, 8) == 6
    assert iterations_to_error(batched, *rows, problem.theta, 3, bound, 5) is None


def test_the_fused_pass_of_the_comparison_is_the_pass_of_the_library(
    problem: Problem, rows: tuple[Floats, Floats]
) -> None:
    Phi, y = rows
    B = spectral_start(Phi, y, 3)
    A, W, G = np.empty((20, 3)), np.empty((15, 3)), np.empty((15, 24))
    fused_pass(cholesky_solve)(Phi, y, B, A, W, G)
    fit = problem.tasks.least_squares(B)
    np.testing.assert_allclose(W.T, fit.weights, atol=1e-10)
    np.testing.assert_allclose(G.T @ W, fit.gradient, atol=1e-9)


def test_the_iteration_of_the_comparison_is_that_of_the_library() -> None:
    case = iteration.Case.drawn(iteration.Size(T=5, n=12, d=9, r=2, dtype=np.float64))
    compared = numba_iteration(fused_pass(cholesky_solve), case)()
    expected = iteration.library_iteration(AltGDMin(rank=2, step=STEP), case.tasks, case.B)
    np.testing.assert_allclose(compared, expected, atol=1e-10)


# ---- sections


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_library_gives_the_same_step_without_the_compiled_pass(
    dtype: type[np.float32] | type[np.float64],
) -> None:
    size = iteration.Size(T=6, n=30, d=20, r=2, dtype=dtype)
    case, estimator = iteration.Case.drawn(size), AltGDMin(rank=2, step=STEP)
    assert case.tasks.rows.dtype == case.B.dtype == dtype
    compiled = kernels.rows.COMPILED
    with_c = iteration.library_iteration(estimator, case.tasks, case.B)
    with iteration.numpy_only():
        assert not kernels.rows.COMPILED
        without = iteration.library_iteration(estimator, case.tasks, case.B)
    assert kernels.rows.COMPILED is compiled
    np.testing.assert_allclose(with_c, without, atol=1e-3 if dtype is np.float32 else 1e-10)


def test_operations_of_an_iteration_are_those_of_its_products() -> None:
    size = iteration.Size(T=2, n=3, d=5, r=1, dtype=np.float64)
    # a row: Phi B 10, A'A 2, A'y 2, A w - y 2, Phi'e 10; a task: e w' 10
    assert size.flops == 6 * 26 + 2 * 10


def test_a_solved_problem_is_within_the_bound_for_both_methods() -> None:
    cell = solve.Cell(T=20, r=2, n=50)
    drawn = cell.problem(seed=1)
    found = solve.solve(drawn, repetitions=1)
    assert found is not None
    bound = solve.WITHIN * noise_floor(drawn)
    estimate = estimators.LowRank(rank=2, iterations=found.iterations).fit(drawn.tasks)
    assert relative_error(estimate.theta, drawn.theta) <= bound
    steps = found.reference_iterations
    rows = stacked(drawn.tasks.rows, drawn.tasks.rewards, cell.T)
    for k, reached in ((steps - 1, False), (steps, True)):
        B, W = run(batched, *rows, 2, k)
        assert (relative_error(B @ W, drawn.theta) <= bound) is reached


@pytest.mark.parametrize("name", available())
def test_memory_is_measured_for_every_estimator(name: str) -> None:
    data, traced, _ = memory.added_by_fit(name, (6, 40, 16, 2), np.float64)
    assert data == 6 * 40 * (16 + 1) * 8
    assert traced > 0


def test_the_memory_that_a_fit_adds_counts_a_copy_of_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = (20, 500, 40, 2)
    honest = memory.added_by_fit("altgdmin", shape, np.float64)
    fit = AltGDMin.fit

    def wasteful(self: AltGDMin, tasks: TaskRows) -> object:
        copy = tasks.rows.copy()
        return fit(self, tasks), copy

    monkeypatch.setattr(AltGDMin, "fit", wasteful)
    copied = memory.added_by_fit("altgdmin", shape, np.float64)
    assert copied[1] - honest[1] > 0.9 * copied[0]


def test_statistics_in_chunks_give_the_theta_that_the_rows_came_from() -> None:
    before, added, fitted, error = memory.statistics_peak((8, 300, 20, 2))
    assert 0 < before <= added <= fitted
    assert error < 0.2


def test_growth_is_measured_and_drawn() -> None:
    curve = growth.measure("n", "rows per task", (16, 32, 64), repetitions=1)
    assert [point.value for point in curve.points] == [16, 32, 64]
    assert all(point.fit > 0 and point.one_pass > 0 for point in curve.points)
    figure = growth.draw([curve, curve])
    assert [axes.get_xlabel() for axes in figure.axes] == ["rows per task, n"] * 2
    assert all(len(axes.lines) == 4 for axes in figure.axes)


# ---- timing and report


def test_examples_of_timing() -> None:
    assert doctest.testmod(timing).failed == 0


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_exponent_finds_the_power_and_how_sure_it_is(power: float) -> None:
    sizes = 2.0 ** np.arange(3, 9)
    exact, no_error = timing.exponent(sizes, 7 * sizes**power)
    noise = np.exp(0.1 * np.random.default_rng(0).standard_normal(6))
    rough, error = timing.exponent(sizes, 7 * sizes**power * noise)
    assert exact == pytest.approx(power)
    assert no_error == pytest.approx(0, abs=1e-9)
    assert 0 < error < 0.1
    assert abs(rough - power) < 4 * error


def test_functions_are_timed_in_turn() -> None:
    calls: list[str] = []
    timings = timing.interleaved(
        {"a": lambda: calls.append("a"), "b": lambda: calls.append("b")},
        repetitions=3,
        least_seconds=0.0,
    )
    warm_up = ["a", "a", "b", "b"]
    assert calls == [*warm_up, *["a", "b"] * 3]
    assert len(timings.seconds["a"]) == 3


def test_a_ratio_is_the_median_of_the_ratios_by_repetition() -> None:
    seconds = {"slow": np.array([2.0, 30.0, 4.0]), "fast": np.array([1.0, 10.0, 1.0])}
    timings = timing.Timings(seconds=seconds)
    assert timings.ratio("slow", "fast") == 3.0
    assert timings.median("slow") == 4.0


def test_a_target_is_met_at_its_bound_and_never_by_nan() -> None:
    assert report.Target(name="x", measured=2.0, at_least=2.0).met
    assert not report.Target(name="x", measured=1.9, at_least=2.0).met
    assert not report.Target(name="x", measured=2.1, at_most=2.0).met
    assert not report.Target(name="x", measured=float("nan"), at_least=2.0).met
    assert "NOT MET" in str(report.Target(name="x", measured=1.0, at_least=2.0))


def test_the_command_prints_the_sections_and_writes_them_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = report.Table(title="Times", columns=("what", "ms"), rows=[("a", 1.25), ("bb", None)])
    target = report.Target(name="ratio", measured=3.0, at_least=2.0)
    found = report.Section(name="solve", tables=[table], targets=[target])
    monkeypatch.setattr(solve, "section", lambda: found)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["benchmarks", "solve"])
    command.main()
    printed = capsys.readouterr().out
    assert "Times\n  what    ms\n  a     1.25\n  bb       -\n" in printed
    assert "met     ratio: 3, target at least 2" in printed
    folder = tmp_path / report.FOLDER
    assert [file.name for file in folder.iterdir()] == ["bench.json"]
    written = json.loads((folder / "bench.json").read_text())
    assert written["solve"]["targets"][0]["met"] is True
    assert set(written) == {"machine", "solve"}
    assert written["machine"]["numpy"] == np.__version__


def test_without_a_name_the_default_sections_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sections = {
        "iteration": iteration,
        "solve": solve,
        "decisions": decisions,
        "memory": memory,
        "growth": growth,
        "scale": scale,
        "engine": engine,
    }
    for name, module in sections.items():
        empty = report.Section(name=name, tables=[])
        monkeypatch.setattr(module, "section", lambda empty=empty: empty)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    command.main()
    written = json.loads((tmp_path / report.FOLDER / "bench.json").read_text())
    assert list(written) == ["machine", *sections]


def test_an_unknown_section_is_refused_with_the_known_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["benchmarks", "sovle"])
    with pytest.raises(SystemExit):
        command.main()
    assert "no section 'sovle'; choose from iteration, solve" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ridge", "linucb", "thompson"])
def test_the_loop_over_tasks_decides_what_the_library_decides(name: str) -> None:
    rng = np.random.default_rng(0)
    loop, policy = decisions.Loop(name, 4, 6), decisions._policies(4, 6)[name]
    draws = np.random.default_rng(0)  # the loop draws the same normals, task by task
    moments = np.zeros((4, 6))
    for n in range(10):
        n_arms = 1 if n == 0 else 3  # at first all arms are as good
        arms, rewards = rng.standard_normal((4, n_arms, 6)), rng.standard_normal(4)
        loop.round(arms, rewards)
        decided = policy.decide(np.arange(4), arms, draws)
        policy.learn(np.arange(4), arms, decided, rewards)
        moments += decided.features(arms) * rewards[:, None]
        np.testing.assert_allclose(loop.b, moments, atol=1e-9)
