"""Records that were never run, with the regrets and errors that a test wants."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from cobandits.lab import Cell, Estimation, Record, Simulation
from cobandits.lab.cells import Parameters
from cobandits.lab.panels import Scale, available
from cobandits.lab.reproduction import Reproduction
from cobandits.plots import save
from cobandits.plots.style import new_figure

__all__ = ["fit", "of_series", "play", "reproduction", "simulation"]


def play(cell: Simulation, regret: float, fit_errors: Sequence[float] = ()) -> Record:
    """Return the record of a simulation with this regret per task, and these errors by epoch."""
    n_tasks = cell.environment_parameters.get("n_tasks")
    assert isinstance(n_tasks, int)
    return _known(cell) | {
        "environment": cell.environment,
        "policy": cell.policy,
        "regret_per_task": regret,
        "decisions": cell.rounds * n_tasks,
        "fit_errors": list(fit_errors),
    }


def fit(cell: Estimation, errors: Sequence[float], floor: float) -> Record:
    """Return the record of an estimation with these errors."""
    return _known(cell) | {
        "estimator": cell.estimator,
        "error": errors[-1],
        "floor": floor,
        "errors": [float(error) for error in errors],
    }


def _known(cell: Cell) -> Record:
    return {
        "identity": cell.identity,
        "configuration": cell.configuration,
        "kind": cell.kind,
        "trial": cell.trial,
    }


def simulation(
    policy: str,
    trial: int,
    *,
    n_tasks: int = 10,
    rank: int = 2,
    parameters: Parameters | None = None,
    environment: str = "synthetic",
) -> Simulation:
    """Return a cell of a policy; on digits a rank is told to those alone who learn together."""
    drawn: dict[str, int | float] = {"n_tasks": n_tasks}
    if environment == "synthetic":
        drawn |= {"dim": 20, "rank": rank, "noise_std": 1e-3}
    told = rank if environment != "synthetic" and policy in ("lrrl", "moments") else None
    return Simulation(
        trial=trial,
        environment=environment,
        environment_parameters=drawn,
        policy=policy,
        policy_parameters={} if parameters is None else parameters,
        rank=told,
        rounds=40,
    )


def of_series(records: Sequence[Record]) -> dict[str, dict[str, list[Record]]]:
    """Return the records as those of one panel and one series, whose names say nothing."""
    return {"one": {"a line": list(records)}}


def reproduction(
    directory: Path, *, label: Callable[[str], str] = str, notes: Sequence[str] = ()
) -> Reproduction:
    """Return all fourteen panels at a small scale, with records and pictures that are made up."""
    scale = Scale(trials=2, quick=True, mnist=False)
    panels = available()
    records = {
        name: {label(line): [_made_up(c) for c in cells] for line, cells in of.cells(scale).items()}
        for name, of in panels.items()
    }
    return Reproduction(
        scale=scale,
        panels=panels,
        records=records,
        figures=_pictures(records, directory / "figures"),
        seconds=75.0,
        jobs=2,
        n_cells=100,
        n_missing=0,
        n_run=40,
        facts={"cpu": "a processor", "date": "2024-01-01"},
        notes=notes,
    )


def _made_up(cell: Cell) -> Record:
    if isinstance(cell, Simulation):
        regret = 10.0 if cell.policy == "lrrl" else 20.0 + cell.trial
        return play(cell, regret)
    assert isinstance(cell, Estimation)
    return fit(cell, np.maximum(1e-4, 0.8 ** np.arange(60)).tolist(), 1e-4)


def _pictures(records: Mapping[str, object], directory: Path) -> dict[str, Path]:
    directory.mkdir(parents=True)
    figure, axes = new_figure(8, 3)
    axes.plot([1, 2])
    drawn = save(figure, directory / "drawn")
    for name in records:
        for path in drawn:
            shutil.copy(path, directory / f"{name}{path.suffix}")
    return {name: directory / name for name in records}
