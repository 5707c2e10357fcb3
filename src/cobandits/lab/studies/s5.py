"""Study 5: regret against rounds, tasks and rank, beside the bound of Theorem 5.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.lab.cells import Cell, Simulation
from cobandits.lab.claims.base import Case, Claim, listed
from cobandits.lab.panels.bandits import FAILURE
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.panels.reading import theory
from cobandits.lab.records import Record, configuration, scalar
from cobandits.lab.studies.sweeps import Sweep, exponent, table, trials_of
from cobandits.plots import Power, powers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_FIXED = {"dim": 20, "n_tasks": 40, "rank": 2, "rounds": 128}
_SIZES = (
    Sweep(name="rounds", label="rounds, N", values=(32, 64, 128, 256, 512), quick=(32, 128)),
    Sweep(name="n_tasks", label="tasks, T", values=(10, 20, 40, 80, 160), quick=(20, 80)),
    Sweep(name="rank", label="rank, r", values=(1, 2, 3, 4), quick=(1, 2)),
)
_ROOM = 0.1  # by which a power may exceed the bound's


def _cells(scale: Scale) -> dict[str, Sequence[Cell]]:
    return {
        sweep.label: [
            _cell({**_FIXED, sweep.name: int(value)}, scale.seed, trial)
            for value in sweep.at(scale)
            for trial in trials_of(scale)
        ]
        for sweep in _SIZES
    }


def _cell(size: Mapping[str, int], seed: int, trial: int) -> Cell:
    drawn = {name: size[name] for name in ("dim", "n_tasks", "rank")}
    return Simulation(
        seed=seed,
        trial=trial,
        environment="synthetic",
        environment_parameters={**drawn, "n_arms": 5, "noise_std": 1e-3},
        policy="lrrl",
        policy_parameters={"schedule": "grid"},
        rounds=size["rounds"],
    )


def _regret(record: Record) -> float:
    """Return the regret of all tasks together."""
    n_tasks = configuration(record)["environment_parameters"]["n_tasks"]
    return scalar(record, "regret_per_task") * float(n_tasks)


def _bound(record: Record) -> float:
    return theory(record).regret_bound(int(configuration(record)["rounds"]), FAILURE)


def _swept(records: Mapping[str, Sequence[Record]]) -> list[tuple[Sweep, Floats, Floats, Floats]]:
    """Return each sweep with its sizes, the regrets and the bounds, (trial, point)."""
    return [
        (
            sweep,
            *table(records[sweep.label], sweep.name, _regret),
            table(records[sweep.label], sweep.name, _bound)[1],
        )
        for sweep in _SIZES
    ]


def _draw(records: Mapping[str, Sequence[Record]], _: Scale) -> Figure:
    drawings = [
        Power(
            sweep.label,
            sizes,
            {"lrrl": regrets},
            ("bound of Theorem 5.4", bounds.mean(axis=0)),
            f"power {exponent(sizes, regrets)}; of the bound {exponent(sizes, bounds).value:.2f}",
        )
        for sweep, sizes, regrets, bounds in _swept(records)
    ]
    said = "d = 20, K = 5, N = 128, T = 40, rank 2, but for one; the paper's grid of epochs"
    return powers(drawings, "regret of all tasks", said)


def _judge(records: Mapping[str, Sequence[Record]]) -> Claim:
    claim = Claim(
        key="regret-growth",
        text="Regret grows with N, T and r no faster than its bound.",
        source="Theorem 5.4",
    )
    swept = _swept(records)
    found = [
        (sweep.label, exponent(sizes, regrets), exponent(sizes, bounds))
        for sweep, sizes, regrets, bounds in swept
    ]
    cases = [
        Case(holds=power.value <= bound.value + _ROOM, where={"the size": label})
        for label, power, bound in found
    ]
    said = [
        f"{power} in {label.split(', ')[1]} (the bound {bound.value:.2f})"
        for label, power, bound in found
    ]
    numbers = f"Fitted powers: {listed(said)}."
    return claim.judged(cases, numbers, [len(regrets) for _, _, regrets, _ in swept])


PANEL = Panel(
    name="s5",
    title="Regret by rounds, tasks and rank",
    parameters={
        "d, K": "20, 5",
        "N, T, r": "128, 40, 2, but for the one that changes",
        "noise": "standard deviation 1e-3",
        "epochs": "the paper's grid, which ends at N^(1 - 2^-m)",
        "regret bound": f"Theorem 5.4 with delta = {FAILURE}, log to base 2, mean over trials",
        "trials, full run": "10",
    },
    cells=_cells,
    draw=_draw,
    judge=_judge,
)
