"""Study 2: the error that is left, against the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cobandits.lab.cells import Cell
from cobandits.lab.claims.base import Case, Claim, number
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.panels.reading import theory
from cobandits.lab.records import Record, scalar
from cobandits.lab.studies.sweeps import Sweep, estimations, exponent, table
from cobandits.plots import Power, powers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIXED = {"dim": 40, "n_tasks": 40, "rank": 3, "n_rows": 40}
_NOISE = Sweep(
    name="noise_std",
    label="standard deviation of the noise",
    values=(1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    quick=(1e-4, 1e-2, 1.0),
)
_NEAR = 0.1  # how far a power may be from 1


def _cells(scale: Scale) -> dict[str, Sequence[Cell]]:
    sizes = [{**_FIXED, "noise_std": noise} for noise in _NOISE.at(scale)]
    return {"altgdmin": estimations(scale, sizes, {"iterations": 2000})}


def _draw(records: Mapping[str, Sequence[Record]], _: Scale) -> Figure:
    noises, errors = _errors(records)
    promised = table(records["altgdmin"], "noise_std", _promised)[1].mean(axis=0)
    said = f"power of the noise {exponent(noises, errors)}"
    power = Power(
        _NOISE.label,
        noises,
        {"AltGDMin": errors},
        ("kappa² sqrt(NSR), Theorem 5.3", promised),
        said,
    )
    return powers([power], "relative error of theta", "d = 40, T = 40, rank 3, 40 rows per task")


def _errors(
    records: Mapping[str, Sequence[Record]],
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...]:
    return table(records["altgdmin"], "noise_std", lambda record: scalar(record, "error"))


def _promised(record: Record) -> float:
    """Return the level that Theorem 5.3 names: kappa^2 sqrt(NSR), of noise to signal."""
    return theory(record).noise_floor


def _judge(records: Mapping[str, Sequence[Record]]) -> Claim:
    claim = Claim(
        key="noise-floor",
        text="The error that is left is proportional to the noise, and at most kappa^2 sqrt(NSR).",
        source="Theorem 5.3",
    )
    noises, errors = _errors(records)
    power = exponent(noises, errors)
    shares = table(
        records["altgdmin"], "noise_std", lambda one: scalar(one, "error") / _promised(one)
    )[1]
    cases = [Case(holds=abs(power.value - 1) <= _NEAR), Case(holds=bool(shares.max() <= 1))]
    numbers = (
        f"Over noise from {number(noises[0])} to {number(noises[-1])} the error grows with its "
        f"power {power}; it is {number(float(np.median(shares)))} of that level in the median and "
        f"{number(float(shares.max()))} at most."
    )
    return claim.judged(cases, numbers, [len(errors)])


PANEL = Panel(
    name="s2",
    title="The error that is left, by noise",
    parameters={
        "d, T, r": "40, 40, 3",
        "rows": "40 per task",
        "estimator": "AltGDMin with step 0.4, at most 2000 iterations",
        "trials, full run": "10",
    },
    cells=_cells,
    draw=_draw,
    judge=_judge,
)
