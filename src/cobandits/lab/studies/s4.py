"""Study 4: the time of an iteration, against each size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.lab.cells import Cell
from cobandits.lab.claims.base import Case, Claim, listed
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.records import Record, scalar
from cobandits.lab.studies.sweeps import Sweep, estimations, exponent, table
from cobandits.plots import Power, powers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_FIXED = {"dim": 64, "n_tasks": 64, "rank": 4, "n_rows": 64, "noise_std": 1e-3}
_SIZES = (
    Sweep(name="n_rows", label="rows per task, n", values=(32, 64, 128, 256, 512), quick=(32, 128)),
    Sweep(name="n_tasks", label="tasks, T", values=(32, 64, 128, 256, 512), quick=(32, 128)),
    Sweep(name="dim", label="features, d", values=(32, 64, 128, 256, 512), quick=(32, 128)),
    Sweep(name="rank", label="rank, r", values=(2, 4, 8, 16), quick=(2, 8)),
)
_ITERATIONS = 60
_MOST = 1.3  # a power above 1 that caches explain


def _cells(scale: Scale) -> dict[str, Sequence[Cell]]:
    fixed = {"iterations": _ITERATIONS, "tolerance": 0.0}
    return {
        sweep.label: estimations(
            scale, [{**_FIXED, sweep.name: int(value)} for value in sweep.at(scale)], fixed
        )
        for sweep in _SIZES
    }


def _seconds(record: Record) -> float:
    """Return the processor time of an iteration; the start counts as one more."""
    return scalar(record, "seconds_fitting") / (1 + scalar(record, "iterations"))


def _swept(records: Mapping[str, Sequence[Record]]) -> list[tuple[Sweep, Floats, Floats]]:
    return [(sweep, *table(records[sweep.label], sweep.name, _seconds)) for sweep in _SIZES]


def _draw(records: Mapping[str, Sequence[Record]], _: Scale) -> Figure:
    drawings = [
        Power(
            sweep.label,
            sizes,
            {"AltGDMin": 1e3 * times},
            ("in proportion", 1e3 * times.mean(axis=0)[0] * sizes / sizes[0]),
            f"power {exponent(sizes, times)}",
        )
        for sweep, sizes, times in _swept(records)
    ]
    return powers(
        drawings,
        "milliseconds of processor time per iteration",
        "n = T = d = 64 and rank 4, but for one",
    )


def _judge(records: Mapping[str, Sequence[Record]]) -> Claim:
    claim = Claim(
        key="time",
        text="The time of an iteration grows no faster than n T d r.",
        source="Theorem 5.3",
    )
    swept = _swept(records)
    found = {sweep.label: exponent(sizes, times) for sweep, sizes, times in swept}
    cases = [
        Case(holds=power.value <= _MOST, where={"the size": label})
        for label, power in found.items()
    ]
    said = listed([f"{power} in {label.split(', ')[1]}" for label, power in found.items()])
    return claim.judged(cases, f"Fitted powers: {said}.", [len(times) for _, _, times in swept])


PANEL = Panel(
    name="s4",
    title="The time of an iteration, by each size",
    parameters={
        "n, T, d, r": "64, 64, 64, 4, but for the one that changes",
        "iterations": f"{_ITERATIONS}, with the start as one more",
        "trials, full run": "10",
        "time": "of the processor, on one thread",
    },
    cells=_cells,
    draw=_draw,
    judge=_judge,
)
