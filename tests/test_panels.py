"""The panels: the paper's numbers, valid cells that are shared where they can be, true pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.lines import Line2D

from cobandits import environments, estimators
from cobandits.environments import Synthetic
from cobandits.lab import Cell, Estimation, Record, Simulation
from cobandits.lab.panels import Panel, Scale, available
from cobandits.lab.panels.reading import theory
from cobandits.theory import Theory

PANELS = available()
NAMES = [f"1{letter}" for letter in "abcdefghi"] + [f"2{letter}" for letter in "abcde"]
FULL, QUICK = Scale(mnist=False), Scale(trials=2, quick=True, mnist=False)
ONE, TWO, MNIST = ("1a", "1b", "1c"), ("1g", "1h", "1i"), ("1d", "1e", "1f")


def simulations(panel: str, scale: Scale, series: str) -> list[Simulation]:
    cells = PANELS[panel].cells(scale)[series]
    return [cell for cell in cells if isinstance(cell, Simulation)]


def estimations(panel: str, scale: Scale, series: str) -> list[Estimation]:
    cells = PANELS[panel].cells(scale)[series]
    return [cell for cell in cells if isinstance(cell, Estimation)]


def identities(panel: str, scale: Scale, series: str) -> set[str]:
    return {cell.identity for cell in PANELS[panel].cells(scale)[series]}


def values(cells: Sequence[Simulation], key: str) -> list[object]:
    return sorted({cell.environment_parameters[key] for cell in cells}, key=str)


def test_all_panels_are_there_in_the_papers_order() -> None:
    assert list(PANELS) == NAMES
    for name, panel in PANELS.items():
        assert panel.name == name
        assert panel.title
        assert {"r", "noise", "trials, full run"} <= set(panel.parameters)


@pytest.mark.parametrize("scale", [FULL, QUICK, Scale(trials=1, quick=True)])
@pytest.mark.parametrize("name", NAMES)
def test_cells_differ_within_a_series(name: str, scale: Scale) -> None:
    for cells in PANELS[name].cells(scale).values():
        assert cells
        assert len({cell.identity for cell in cells}) == len(cells)


@pytest.mark.parametrize("scale", [FULL, QUICK])
@pytest.mark.parametrize("name", NAMES)
def test_cells_can_be_made(name: str, scale: Scale) -> None:
    for cells in PANELS[name].cells(scale).values():
        for cell in (cells[0], cells[-1]):
            if isinstance(cell, Simulation):
                environment = environments.make(cell.environment, cell.environment_parameters)
                assert cell.make_policy(environment).n_tasks == environment.n_tasks
            if isinstance(cell, Estimation):
                rank = int(str(cell.environment_parameters["rank"]))
                estimators.make(cell.estimator, rank, **cell.estimator_parameters)


@pytest.mark.parametrize(("name", "rank"), list(zip(ONE, (2, 4, 8), strict=True)))
def test_the_first_row_has_the_papers_numbers(name: str, rank: int) -> None:
    cells = simulations(name, FULL, "lrrl")
    assert len(cells) == 5 * 100
    assert sorted({int(str(one)) for one in values(cells, "n_tasks")}) == [10, 25, 50, 75, 100]
    assert [values(cells, key) for key in ("dim", "n_arms", "rank", "noise_std")] == [
        [100],
        [5],
        [rank],
        [1e-3],
    ]
    assert {(cell.rounds, cell.policy_parameters["schedule"]) for cell in cells} == {
        (200, "equal-4")
    }


@pytest.mark.parametrize(("name", "rank"), list(zip(MNIST, (2, 4, 8), strict=True)))
def test_the_second_row_has_the_papers_numbers(name: str, rank: int) -> None:
    cells = simulations(name, Scale(), "lrrl")
    assert len(cells) == 2 * 10
    assert {cell.environment for cell in cells} == {"mnist"}
    assert {cell.environment_parameters["n_tasks"] for cell in cells} == {10, 45}
    assert {(cell.rounds, cell.rank) for cell in cells} == {(5000, rank)}
    assert {cell.policy_parameters["schedule"] for cell in cells} == {"equal-5"}


@pytest.mark.parametrize(("name", "rank"), list(zip(TWO, (2, 3, 4), strict=True)))
def test_the_third_row_has_the_papers_numbers_and_the_trace_norm(name: str, rank: int) -> None:
    cells = simulations(name, FULL, "tracenorm")
    assert len(cells) == 5 * 100
    assert [values(cells, key) for key in ("dim", "n_arms", "rank")] == [[20], [5], [rank]]
    assert {(cell.rounds, cell.policy_parameters["schedule"]) for cell in cells} == {
        (40, "equal-4")
    }


@pytest.mark.parametrize("name", [*ONE, *MNIST, *TWO, "2c"])
def test_baselines_are_tuned_and_updated_every_round_and_by_epoch(name: str) -> None:
    for series in ("thompson", "ridge"):
        cells = simulations(name, FULL, series)
        assert {cell.policy for cell in cells} == {series}
        assert all("schedule" not in cell.policy_parameters for cell in cells)
        assert all("ridge" in cell.policy_parameters for cell in cells)
    by_epoch = simulations(name, FULL, "thompson, by epoch")
    assert all("schedule" in cell.policy_parameters for cell in by_epoch)
    assert all("scale" in cell.policy_parameters for cell in by_epoch)
    assert "other trials" in PANELS[name].parameters["thompson"]


@pytest.mark.parametrize("name", [*ONE, *MNIST, *TWO, "2c"])
def test_policies_meet_the_same_rounds(name: str) -> None:
    met = {
        series: [
            (cell.environment, cell.environment_parameters, cell.trial, cell.seed)
            for cell in simulations(name, FULL, series)
        ]
        for series in PANELS[name].cells(FULL)
    }
    trials = 1 if name in MNIST else 10  # a tenth
    shared = met.pop("shared")
    assert shared == [one for one in met["lrrl"] if one[2] < trials]
    assert all(one == met["lrrl"] for one in met.values())


@pytest.mark.parametrize(("name", "tasks", "rows"), [("2a", 100, 50), ("2d", 30, 10)])
def test_fits_have_the_papers_numbers_and_both_levels_of_noise(
    name: str, tasks: int, rows: int
) -> None:
    for series in ("altgdmin", "altgd"):
        cells = estimations(name, FULL, series)
        assert len(cells) == 2 * 100
        assert {cell.environment_parameters["noise_std"] for cell in cells} == {1e-3, 1e-6}
        assert {cell.environment_parameters["n_tasks"] for cell in cells} == {tasks}
        assert {cell.n_rows for cell in cells} == {rows}
        assert {cell.estimator_parameters["iterations"] for cell in cells} == {2000}


@pytest.mark.parametrize("mnist", [True, False])
def test_policies_without_a_rank_are_run_once_for_all_ranks_of_digit_pairs(mnist: bool) -> None:
    scale = replace(FULL, mnist=mnist)
    for series in ("thompson", "thompson, by epoch", "ridge"):
        assert len({frozenset(identities(name, scale, series)) for name in MNIST}) == 1
    assert not identities("1d", scale, "lrrl") & identities("1e", scale, "lrrl")


def test_what_two_panels_need_is_run_once() -> None:
    assert identities("2a", FULL, "altgdmin") <= identities("2b", FULL, "altgdmin")
    assert len(identities("2b", FULL, "altgdmin") & identities("1b", FULL, "lrrl")) == 100
    assert len(identities("2e", FULL, "tracenorm") & identities("1h", FULL, "tracenorm")) == 100
    assert len(identities("2b", FULL, "moments") & identities("1b", FULL, "moments")) == 100


def test_digits_stand_in_for_mnist_and_the_picture_says_so() -> None:
    scale = Scale(trials=1, mnist=False)
    assert {cell.environment for cell in simulations("1d", scale, "ridge")} == {"digits"}
    assert "NOT MNIST" in heading(PANELS["1d"], played("1d", scale), scale)
    assert "NOT MNIST" not in heading(PANELS["1d"], played("1d", Scale(trials=1)), Scale(trials=1))


def test_another_seed_gives_other_cells() -> None:
    for name in NAMES:
        for series in PANELS[name].cells(QUICK):
            assert not identities(name, QUICK, series) & identities(
                name, replace(QUICK, seed=1), series
            )


# ---- pictures, of records that are made up


def heading(panel: Panel, records: dict[str, list[Record]], scale: Scale) -> str:
    figure = panel.draw(records, scale)
    return figure.get_suptitle()


def played(name: str, scale: Scale) -> dict[str, list[Record]]:
    """Return records of all cells: series k ends at 10 (k + 1) + trial + T / 100."""
    return {
        series: [made_up(cell, 10.0 * (k + 1)) for cell in cells]
        for k, (series, cells) in enumerate(PANELS[name].cells(scale).items())
    }


def made_up(cell: Cell, value: float) -> Record:
    known: Record = {"identity": cell.identity, "configuration": cell.configuration}
    known |= {"kind": cell.kind, "trial": cell.trial, "seconds": 1.0}
    if isinstance(cell, Estimation):
        errors = [1.0, 0.1, 1e-3 * (1 + cell.trial)]
        return {
            **known,
            "estimator": cell.estimator,
            "error": errors[-1],
            "floor": 1e-3,
            "errors": errors,
        }
    assert isinstance(cell, Simulation)
    end = value + cell.trial + int(str(cell.environment_parameters["n_tasks"])) / 100
    return {
        **known,
        "regret_per_task": end,
        "curve_rounds": [1, 2, cell.rounds],
        "curve": [1.0, 2.0, end],
        "fit_rounds": [10, 20],
        "fit_errors": [0.5, 0.25 * (1 + cell.trial)],
    }


def lines(drawn: Sequence[Line2D]) -> list[list[float]]:
    return [np.asarray(line.get_ydata(), np.float64).tolist() for line in drawn]


@pytest.mark.parametrize("name", [*ONE, *TWO, *MNIST])
def test_regret_is_drawn_as_means_over_trials(name: str) -> None:
    scale = Scale(trials=20, quick=True, mnist=False)
    records = played(name, scale)
    left, right = PANELS[name].draw(records, scale).axes
    n_trials = [len({record["trial"] for record in line}) for line in records.values()]
    tasks = sorted({one.get_text() for one in right.get_xticklabels()}, key=int)
    for k, (drawn, by_tasks) in enumerate(
        zip(lines(left.get_lines()), lines(right.get_lines()), strict=False)
    ):
        ends = [10 * (k + 1) + (n_trials[k] - 1) / 2 + int(count) / 100 for count in tasks]
        assert drawn == pytest.approx([1, 2, ends[-1]])
        assert by_tasks == pytest.approx(ends)
    assert {text.get_text().replace("\n", "") for text in left.texts} == set(records)


def test_the_bound_of_theorem_5_4_is_that_of_the_trials_thetas() -> None:
    records = played("1a", QUICK)
    (record,) = [
        one
        for one, cell in zip(records["lrrl"], PANELS["1a"].cells(QUICK)["lrrl"], strict=True)
        if isinstance(cell, Simulation)
        and cell.environment_parameters["n_tasks"] == 10
        and cell.trial == 1
    ]
    truth = Synthetic(dim=100, n_tasks=10, rank=2).problem(n_rows=3, seed=0, trial=1)
    expected = Theory.of(truth.theta, noise_std=1e-3)
    assert theory(record).regret_bound(200, 0.05) == pytest.approx(expected.regret_bound(200, 0.05))


def test_errors_are_drawn_by_iteration_with_floor_and_contraction() -> None:
    scale = Scale(trials=3)
    records = played("2a", scale)
    left, _ = PANELS["2a"].draw(records, scale).axes
    drawn = lines(left.get_lines())
    assert drawn[0] == pytest.approx([1, 0.1, 2e-3])  # altgdmin, altgd, then moments' level
    assert drawn[1] == pytest.approx([1, 0.1, 2e-3])
    assert drawn[2] == pytest.approx([2e-3, 2e-3])
    assert drawn[3] == pytest.approx([1e-3, 1e-3])  # the floor
    rates = [theory(record).contraction(0.4) for record in records["altgdmin"][:3]]
    assert drawn[4] == pytest.approx([1, np.median(rates), np.median(rates) ** 2])
    names = {text.get_text() for text in left.texts}
    assert names == {"altgdmin", "altgd", "moments", "least squares", "Theorem 5.2"}


def test_errors_are_drawn_by_epoch_from_the_start_on() -> None:
    scale = Scale(trials=3)
    for axes in PANELS["2e"].draw(played("2e", scale), scale).axes:
        altgdmin, _, _, moments, floor = axes.get_lines()
        assert np.asarray(altgdmin.get_xdata()).tolist() == [0, 1, 2, 3, 4]
        held = [0.5, 0.5, 0.5, 0.5]  # what is not refitted stays
        assert lines([altgdmin])[0] == pytest.approx([1.0, *held])
        assert np.asarray(moments.get_xdata()).tolist() == [1, 2, 3, 4]
        assert lines([moments])[0] == pytest.approx(held)
        assert lines([floor])[0] == pytest.approx([1e-3, 1e-3])


def test_regret_by_number_of_tasks_is_drawn() -> None:
    scale = Scale(trials=3)
    records = played("2c", scale)
    (axes,) = PANELS["2c"].draw(records, scale).axes
    expected = [11 + count / 100 for count in (5, 10, 20, 40, 60, 80, 100)]
    assert lines(axes.get_lines())[0] == pytest.approx(expected)


def test_a_panel_that_is_really_run() -> None:
    scale = Scale(trials=1, quick=True)
    panel = PANELS["1g"]
    cells = {name: cells[:1] for name, cells in panel.cells(scale).items()}
    records = {name: [cell.run() for cell in some] for name, some in cells.items()}
    figure = panel.draw(records, scale)
    left, _ = figure.axes
    for (name, (record,)), line in zip(records.items(), left.get_lines(), strict=True):
        end = float(np.asarray(line.get_ydata(), float)[-1])
        assert end == pytest.approx(record["regret_per_task"]), name
    assert "one trial" in figure.get_suptitle()
