"""Study 8: the bytes that a node sends and gets per iteration, against each size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.lab.cells import Cell
from cobandits.lab.claims.base import Case, Claim, listed
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.records import Record, configuration, scalar
from cobandits.lab.studies.sweeps import Sweep, exponent, table, trials_of
from cobandits.lab.traffic import Traffic
from cobandits.plots import Power, powers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_FIXED = {"dim": 64, "n_tasks": 64, "rank": 4, "n_rows": 64}
_SIZES = (
    Sweep(name="dim", label="features, d", values=(32, 64, 128, 256, 512), quick=(32, 128)),
    Sweep(name="rank", label="rank, r", values=(2, 4, 8, 16), quick=(2, 8)),
    Sweep(name="n_tasks", label="tasks, T", values=(32, 64, 128, 256, 512), quick=(32, 128)),
    Sweep(name="n_rows", label="rows per task, n", values=(32, 64, 128, 256, 512), quick=(32, 128)),
)
_GROWING = ("dim", "rank")  # the sizes that the paper's promise of d r numbers names
_ITERATIONS = 20
_NAMES = 2000  # bytes of a call that name what is to be done
_FLAT = 0.05  # a power that counts as none


def _cells(scale: Scale) -> dict[str, Sequence[Cell]]:
    return {
        sweep.label: [
            _cell(scale, trial, {**_FIXED, sweep.name: int(value)})
            for value in sweep.at(scale)
            for trial in trials_of(scale)
        ]
        for sweep in _SIZES
    }


def _cell(scale: Scale, trial: int, size: Mapping[str, int]) -> Traffic:
    return Traffic(
        seed=scale.seed,
        trial=trial,
        environment_parameters={name: n for name, n in size.items() if name != "n_rows"},
        n_rows=size["n_rows"],
        estimator="altgdmin",
        estimator_parameters={"iterations": _ITERATIONS, "tolerance": 0.0},
    )


def _promised(record: Record) -> float:
    """Return the bytes of d r numbers out and back, and of an (r, r) matrix."""
    size = configuration(record)["environment_parameters"]
    return float(16 * size["dim"] * size["rank"] + 8 * size["rank"] ** 2)


def _swept(records: Mapping[str, Sequence[Record]]) -> list[tuple[Sweep, Floats, Floats]]:
    return [
        (sweep, *table(records[sweep.label], sweep.name, lambda one: scalar(one, "bytes")))
        for sweep in _SIZES
    ]


def _draw(records: Mapping[str, Sequence[Record]], _: Scale) -> Figure:
    drawings = [
        Power(
            sweep.label,
            sizes,
            {"AltGDMin": sent},
            ("16 d r + 8 r²", table(records[sweep.label], sweep.name, _promised)[1][0]),
            f"power {exponent(sizes, sent)}",
        )
        for sweep, sizes, sent in _swept(records)
    ]
    setting = "n = T = d = 64 and rank 4, but for one"
    figure = powers(drawings, "bytes per node and iteration", setting)
    lows, highs = zip(*(axes.get_ylim() for axes in figure.axes), strict=True)
    for axes in figure.axes:  # one scale: what does not grow is seen to be flat
        axes.set_ylim(min(lows), max(highs))
    return figure


def _judge(records: Mapping[str, Sequence[Record]]) -> Claim:
    claim = Claim(
        key="bytes",
        text="A node sends and gets on the order of d r numbers per iteration.",
        source="Theorem 5.3",
    )
    swept = _swept(records)
    found = {sweep: exponent(sizes, sent) for sweep, sizes, sent in swept}
    over = [
        scalar(record, "most_bytes") - _promised(record)
        for line in records.values()
        for record in line
    ]
    cases = [
        Case(
            holds=max(over) <= _NAMES and (sweep.name in _GROWING or power.value <= _FLAT),
            where={"the size": sweep.label},
        )
        for sweep, power in found.items()
    ]
    said = listed([f"{power} in {sweep.label.split(', ')[1]}" for sweep, power in found.items()])
    numbers = (
        f"Fitted powers: {said}. The largest call moves {max(over):.0f} bytes more than "
        "16 d r + 8 r^2."
    )
    return claim.judged(cases, numbers, [len(sent) for _, _, sent in swept])


PANEL = Panel(
    name="s8",
    title="The bytes that a node sends and gets per iteration, by each size",
    parameters={
        "n, T, d, r": "64, 64, 64, 4, but for the one that changes",
        "nodes": "2, with every other task each",
        "bytes": "of a call's function and arguments and of a node's answer, as pickled",
        "iterations": f"{_ITERATIONS}; the median over all calls of a fit is drawn",
        "trials, full run": "10",
    },
    cells=_cells,
    draw=_draw,
    judge=_judge,
)
