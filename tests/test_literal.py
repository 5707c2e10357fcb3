"""The literal references of whole experiments do what the library does, slowly."""

from __future__ import annotations

import doctest
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks import literal, literal_cells, reproduction
from benchmarks.references import stacked
from cobandits import estimators, policies
from cobandits.environments import Problem, Synthetic
from cobandits.estimators import TraceNorm
from cobandits.lab import Cell, Estimation, Record, Simulation
from cobandits.lab.panels import Panel, Scale
from cobandits.metrics import relative_error
from cobandits.simulate import simulate

Floats = NDArray[np.floating]

RANK, ROUNDS = 2, 48
ENVIRONMENT = Synthetic(dim=10, n_tasks=8, rank=RANK, noise_std=1e-2)
QUARTERS = (12, 24, 36, 48)
DESCENTS = [("altgdmin", literal.altgdmin), ("altgd", literal.altgd)]


@pytest.fixture
def problem() -> Problem:
    return Synthetic(dim=12, n_tasks=9, rank=RANK, noise_std=1e-2).problem(n_rows=15, seed=4)


@pytest.fixture
def rows(problem: Problem) -> tuple[Floats, Floats]:
    return stacked(problem.tasks.rows, problem.tasks.rewards, problem.tasks.n_tasks)


# ---- fits


@pytest.mark.parametrize(
    ("name", "fit"), [("altgdmin", literal.altgdmin), ("altgd", literal.altgd)]
)
@pytest.mark.parametrize("iterations", [1, 7, 40])
def test_the_errors_by_iteration_are_those_of_the_library(
    name: str,
    fit: Callable[..., literal.Factors],
    iterations: int,
    problem: Problem,
    rows: tuple[Floats, Floats],
) -> None:
    errors: list[float] = []
    fit(*rows, RANK, None, iterations, lambda B, W: errors.append(_error(B @ W, problem)))
    estimator = estimators.make(name, RANK, iterations=iterations, tolerance=0.0)
    history = estimator.fit(problem.tasks, truth=problem.theta).history
    assert len(errors) == iterations + 1
    assert history.errors is not None
    np.testing.assert_allclose(np.array(errors), history.errors, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "fit"), [("altgdmin", literal.altgdmin), ("altgd", literal.altgd)]
)
def test_a_fit_goes_on_from_the_last_one(
    name: str, fit: Callable[..., literal.Factors], problem: Problem, rows: tuple[Floats, Floats]
) -> None:
    first = estimators.make(name, RANK, iterations=5, tolerance=0.0).fit(problem.tasks)
    start = (first.basis, first.weights)
    second = estimators.make(name, RANK, iterations=5, tolerance=0.0).fit(
        problem.tasks, start=first
    )
    np.testing.assert_allclose(np.matmul(*fit(*rows, RANK, start, 5)), second.theta, atol=1e-9)


def test_moments_are_those_of_the_library(problem: Problem, rows: tuple[Floats, Floats]) -> None:
    expected = estimators.make("moments", RANK).fit(problem.tasks).theta
    np.testing.assert_allclose(np.matmul(*literal.moments(*rows, RANK)), expected, atol=1e-9)


def test_the_trace_norm_ends_at_the_minimum_of_the_library(
    problem: Problem, rows: tuple[Floats, Floats]
) -> None:
    expected = TraceNorm(penalty=0.02, tolerance=1e-12).fit(problem.tasks).theta
    found = np.matmul(*literal.trace_norm(*rows, 0.02))
    assert relative_error(found, expected) < 1e-5
    assert relative_error(np.matmul(*literal.trace_norm(*rows, 0.02, None, 2)), expected) > 0.1


# ---- policies


def _library(name: str, **parameters: str | float) -> Floats:
    policy = policies.make(
        name, parameters, rounds=ROUNDS, dim=10, n_tasks=8, rank=RANK, noise_std=1e-2
    )
    return simulate(policy, ENVIRONMENT, ROUNDS, seed=3, trial=1).regret


def _literal(policy: literal.Policy, ends: tuple[int, ...]) -> Floats:
    return literal.play(policy, ENVIRONMENT, ROUNDS, seed=3, trial=1, ends=ends)


@pytest.mark.parametrize(("schedule", "ends"), [(None, range(1, 49)), ("equal-4", QUARTERS)])
def test_ridge_decides_what_the_library_decides(
    schedule: str | None, ends: tuple[int, ...]
) -> None:
    told: dict[str, str | float] = {"ridge": 0.1}
    if schedule is not None:
        told["schedule"] = schedule
    policy = literal.Ridge(dim=10, n_tasks=8, ridge=0.1)
    np.testing.assert_allclose(_literal(policy, tuple(ends)), _library("ridge", **told))


def test_ridge_in_the_true_span_decides_what_the_library_decides() -> None:
    cell = _simulation("subspace-oracle", trial=1, ridge=1e-3)
    policy = literal_cells.literal_policy(cell, ENVIRONMENT)
    regret = literal.play(policy, ENVIRONMENT, ROUNDS, 0, trial=1, ends=range(1, ROUNDS + 1))
    library = policies.SubspaceOracle(dim=10, n_tasks=8, ridge=1e-3)
    expected = simulate(library, ENVIRONMENT, ROUNDS, seed=0, trial=1).regret
    np.testing.assert_allclose(regret, expected)


def test_the_papers_policy_decides_what_the_library_decides() -> None:
    def fit(
        Phi: Floats, y: Floats, start: literal.Factors | None, iterations: int
    ) -> literal.Factors:
        return literal.altgdmin(Phi, y, RANK, start, iterations)

    regret = _literal(literal.Greedy(dim=10, n_tasks=8, fit=fit, iterations=300), QUARTERS)
    expected = _library("lrrl")
    np.testing.assert_allclose(regret[:12], expected[:12])
    assert regret[:12].sum() > 10 * regret[36:].sum()
    assert regret.sum() == pytest.approx(expected.sum(), rel=0.01)


def test_the_method_of_moments_decides_what_the_library_decides() -> None:
    def fit(Phi: Floats, y: Floats, _: object, __: int) -> literal.Factors:
        return literal.moments(Phi, y, RANK)

    regret = _literal(literal.Greedy(dim=10, n_tasks=8, fit=fit), QUARTERS[:1])
    np.testing.assert_allclose(regret, _library("moments"))


def test_thompson_without_spread_decides_what_the_library_decides() -> None:
    policy = literal.Thompson(dim=10, n_tasks=8, scale=0.0, ridge=0.1)
    regret = _literal(policy, tuple(range(1, ROUNDS + 1)))
    np.testing.assert_allclose(regret, _library("thompson", scale=0.0, ridge=0.1))


def test_the_posteriors_of_thompson_are_those_of_the_library() -> None:
    rng = np.random.default_rng(0)
    mine, library = literal.Thompson(dim=4, n_tasks=3), policies.Thompson(dim=4, n_tasks=3)
    for _ in range(6):
        rows, rewards = rng.standard_normal((3, 4)), rng.standard_normal(3)
        mine.add(rows, rewards)
        library.posteriors.learn(np.arange(3), rows, rewards)
    mine.refit()
    np.testing.assert_allclose(mine.Theta.T, library.posteriors.means)
    roots = library.posteriors.covariance_factors(np.arange(3), np.stack([np.eye(4)] * 3))
    np.testing.assert_allclose(mine.covariances, roots @ roots.transpose(0, 2, 1))


def test_thompson_draws_with_the_spread_of_the_posterior() -> None:
    policy = literal.Thompson(dim=2, n_tasks=4000, scale=0.5, ridge=4.0)
    policy.Theta[0] = 0.25  # the first arm leads by 0.25, with a standard deviation of 0.25
    arms = np.broadcast_to(np.array([[1.0, 0.0], [0.0, 0.0]]), (4000, 2, 2))
    share = 1 - policy.decide(arms, np.random.default_rng(1)).mean()
    assert share == pytest.approx(0.8413, abs=0.025)  # four standard errors


# ---- times


def test_examples_of_literal_cells() -> None:
    assert doctest.testmod(literal_cells).failed == 0


def _simulation(policy: str, trial: int = 0, **parameters: str | float) -> Simulation:
    return Simulation(
        environment="synthetic",
        environment_parameters={"dim": 10, "n_tasks": 8, "rank": RANK},
        policy=policy,
        policy_parameters=parameters,
        rounds=ROUNDS,
        trial=trial,
    )


def _estimation(estimator: str, trial: int = 0) -> Estimation:
    size = {"dim": 10, "n_tasks": 8, "rank": RANK}
    return Estimation(environment_parameters=size, n_rows=12, estimator=estimator, trial=trial)


CELLS = [
    _simulation("lrrl"),
    _simulation("lrrl", estimator="altgd"),
    _simulation("moments"),
    _simulation("tracenorm"),
    _simulation("ridge", ridge=0.1),
    _simulation("thompson", scale=0.2),
    _simulation("thompson", schedule="equal-4"),
    _simulation("subspace-oracle", ridge=1e-3),
    *(_estimation(name) for name in ("altgdmin", "altgd", "moments", "tracenorm")),
]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_every_cell_of_the_paper_is_timed_both_ways(cell: Cell) -> None:
    assert literal_cells.has_literal(cell)
    kind = reproduction.Kind(panel="1a", series="x", cells=(cell,) * 5)
    found = reproduction.compare(kind, trials=1)
    assert 0 < found.ours < np.inf
    assert 0 < found.stopped < np.inf
    assert 0 < found.literal < np.inf


@pytest.mark.parametrize(
    ("cell", "fits", "direct"),
    [
        (CELLS[0], 4, False),
        (CELLS[2], 1, True),
        (CELLS[5], 0, True),
        (CELLS[6], 0, True),
        (CELLS[8], 1, False),
        (CELLS[10], 1, True),
    ],
    ids=str,
)
def test_only_iterations_are_extrapolated(cell: Cell, fits: int, direct: bool) -> None:
    found = literal_cells.literal_time(cell)
    assert len(found.iterations) == fits
    assert (not any(found.iterations)) is direct
    assert found.seconds([0] * fits) == found.rest


def test_the_extrapolated_time_counts_every_round_and_iteration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = _Ticks()
    monkeypatch.setattr(literal_cells, "process_time", lambda: ticks.now)

    def decide(self: object, arms: Floats, rng: object) -> NDArray[np.int64]:
        ticks.now += 1
        return np.zeros(len(arms), np.int64)

    def altgdmin(
        Phi: Floats, y: Floats, rank: int, start: object, iterations: int, note: object
    ) -> literal.Factors:
        ticks.now += 10 + 3 * iterations
        return np.zeros((Phi.shape[2], rank)), np.zeros((rank, len(Phi)))

    monkeypatch.setattr(literal.Greedy, "decide", decide)
    monkeypatch.setitem(literal_cells._DESCENTS, "altgdmin", altgdmin)
    found = literal_cells.literal_time(_simulation("lrrl"))
    assert found.seconds([100] * 4) == ROUNDS * 1 + 4 * (10 + 3 * 100)


def test_a_round_of_a_policy_that_learns_in_every_round_counts_what_it_learns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks = _Ticks()
    monkeypatch.setattr(literal_cells, "process_time", lambda: ticks.now)

    def refit(self: literal.Ridge) -> None:
        ticks.now += 2

    monkeypatch.setattr(literal.Ridge, "refit", refit)
    assert literal_cells.literal_time(_simulation("ridge")).seconds([]) == 2 * ROUNDS
    by_epoch = _simulation("ridge", schedule="equal-4")
    assert literal_cells.literal_time(by_epoch).seconds([]) == 2 * 4


class _Ticks:
    now = 0.0


def test_a_cell_that_two_panels_show_counts_once() -> None:
    mine = [_simulation("ridge", trial) for trial in range(3)]
    other = [_simulation("lrrl", trial) for trial in range(2)]
    panels = [
        _panel("1a", {"ridge": mine, "paper": other}),
        _panel("2b", {"again": [*mine[1:], _simulation("ridge", 7)]}),
    ]
    found = reproduction.kinds(panels, Scale())
    assert [(kind.panel, kind.series, len(kind.cells)) for kind in found] == [
        ("1a", "ridge", 4),
        ("1a", "paper", 2),
    ]


def _panel(name: str, cells: Mapping[str, Sequence[Cell]]) -> Panel:
    def draw(records: Mapping[str, Sequence[Record]], scale: Scale) -> Figure:
        raise NotImplementedError

    return Panel(name=name, title="", parameters={}, cells=lambda _: cells, draw=draw)


def test_the_sums_weigh_a_kind_by_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [_simulation("ridge", trial) for trial in range(10)]
    few = [_simulation("lrrl", trial) for trial in range(2)]
    other = [_simulation("random")]
    panels = {"1a": _panel("1a", {"a": many, "b": few, "c": other})}
    monkeypatch.setattr(reproduction, "available", lambda: panels)
    monkeypatch.setattr(reproduction, "seconds_of", _calls_as_seconds)
    monkeypatch.setattr(
        reproduction,
        "literal_time",
        lambda cell: literal_cells.Literal(
            rest=200.0 if cell.policy == "ridge" else 20.0, iterations=()
        ),
    )
    section = reproduction.section()
    rows = {row[0]: row[1:5] for row in section.tables[0].rows}
    assert rows["1a a"] == (10, 10.0, 2000.0, 200.0)
    assert rows["1a b"] == (2, 2.0, 40.0, 20.0)
    assert rows["all"] == (12, 12.0, 2040.0, 170.0)
    assert section.targets[0].measured == 170.0
    assert section.targets[0].met
    assert "1a c" in section.notes[2]
    assert "12 s so, 12 s one by one" in section.notes[0]


def _calls_as_seconds(function: Callable[[], object]) -> float:
    return 1.0


def test_what_has_no_literal_version_is_known() -> None:
    assert not literal_cells.has_literal(_simulation("random"))
    assert not literal_cells.has_literal(_simulation("lrrl", memory="all"))
    assert not literal_cells.has_literal(_simulation("lrrl", estimator="lowrank"))
    assert not literal_cells.has_literal(_estimation("lowrank"))


def test_epochs_end_where_those_of_the_library_end() -> None:
    assert literal_cells.epoch_ends(_simulation("lrrl")) == [12, 24, 36, 48]
    assert literal_cells.epoch_ends(_simulation("moments")) == [12]
    assert literal_cells.epoch_ends(_simulation("ridge")) is None
    growing = _simulation("thompson", schedule="growing")
    assert literal_cells.epoch_ends(growing) == [4, 6, 9, 14, 21, 32, 48]


def _error(Theta: Floats, problem: Problem) -> float:
    return relative_error(Theta, problem.theta)
