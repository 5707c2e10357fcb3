"""Records without their times, and panels that take a moment.

``python -m tests.records reproduce ..`` is the command with these panels.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from unittest import mock

from cobandits.cli import main
from cobandits.cli import reproduce as command
from cobandits.lab import Cell, Estimation, Record, Simulation, studies
from cobandits.lab import store as store_module
from cobandits.lab.panels import Panel, Scale
from cobandits.plots.style import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = {"dim": 6, "rank": 2, "noise_std": 0.1}


def timeless(record: Mapping[str, object]) -> dict[str, object]:
    """Return a record without its times: that is a pure function of its cell."""
    return {key: value for key, value in record.items() if not key.startswith("seconds")}


def bits(records: Mapping[str, Record]) -> dict[str, str]:
    """Return records so that they are equal if and only if they are so bit for bit."""
    return {identity: repr(timeless(record)) for identity, record in records.items()}


def regret_cells(scale: Scale) -> Mapping[str, Sequence[Cell]]:
    """Return policies on few tasks."""
    return {
        policy: [
            Simulation(
                environment="synthetic",
                environment_parameters={**SIZE, "n_tasks": n_tasks},
                policy=policy,
                rounds=12,
                seed=scale.seed,
                trial=trial,
            )
            for n_tasks in ((4,) if scale.quick else (4, 5))
            for trial in range(scale.trials)
        ]
        for policy in ("moments", "ridge", "random")
    }


def error_cells(scale: Scale) -> Mapping[str, Sequence[Cell]]:
    """Return estimators on few rows, and a line that another panel has, too."""
    shared = {"ridge": regret_cells(scale)["ridge"]}
    return shared | {
        name: [
            Estimation(
                environment_parameters={**SIZE, "n_tasks": 5},
                n_rows=9,
                estimator=name,
                estimator_parameters=parameters,
                seed=scale.seed,
                trial=trial,
            )
            for trial in range(scale.trials)
        ]
        for name, parameters in {"altgdmin": {"iterations": 20}, "moments": {}}.items()
    }


def draw(records: Mapping[str, Sequence[Record]], scale: Scale) -> Figure:
    """Draw how many records each line has."""
    figure, axes = new_figure(2.0, 2.0)
    axes.bar(list(records), [len(line) for line in records.values()])
    return figure


TINY = {
    "1a": Panel(name="1a", title="regret", parameters={"d": "6"}, cells=regret_cells, draw=draw),
    "2a": Panel(name="2a", title="error", parameters={"d": "6"}, cells=error_cells, draw=draw),
}

if __name__ == "__main__":
    # As in a terminal: a shell in the background lets its children ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    few = mock.patch.object(store_module, "_MANY", 7)  # so that it may be killed while merging
    panels = mock.patch.object(command, "available", return_value=TINY)
    no_studies = mock.patch.object(studies, "available", return_value={})
    with panels, no_studies, few:
        main(sys.argv[1:])
