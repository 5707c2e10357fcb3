"""Study 3: how fast the error falls, against the condition number and the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.lab.cells import Cell
from cobandits.lab.claims.base import Case, Claim, number
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.records import Record, array
from cobandits.lab.studies.sweeps import Sweep, estimations, exponent, table
from cobandits.plots import Power, powers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_FIXED = {"dim": 40, "n_tasks": 40, "rank": 3, "n_rows": 60, "noise_std": 1e-9}
_CONDITIONS = Sweep(
    name="condition", label="condition number, kappa", values=(1.5, 2, 3, 4, 6), quick=(2, 4)
)
_STEPS = Sweep(
    name="step", label="step, c_gamma", values=(0.05, 0.1, 0.2, 0.3, 0.4, 0.5), quick=(0.1, 0.4)
)
_STEP, _CONDITION = 0.4, 2.0  # of the sweep over the other
_FROM, _TO = 0.1, 1e-4  # errors, over the first, between which the fall is measured
_CONSTANT = 0.5472  # of Theorem 5.2
_ITERATIONS = 3000


def _cells(scale: Scale) -> dict[str, Sequence[Cell]]:
    limit = {"iterations": _ITERATIONS, "tolerance": 0.0}
    by_condition = [{**_FIXED, "condition": one} for one in _CONDITIONS.at(scale)]
    by_step = [
        cell
        for step in _STEPS.at(scale)
        for cell in estimations(
            scale, [{**_FIXED, "condition": _CONDITION}], {**limit, "step": step}
        )
    ]
    return {
        "by condition": estimations(scale, by_condition, {**limit, "step": _STEP}),
        "by step": by_step,
    }


def fall(record: Record) -> float:
    """Return by how much the log of the error falls in an iteration, on its way down."""
    errors = array(record, "errors")
    inside = np.flatnonzero((errors <= _FROM * errors[0]) & (errors >= _TO * errors[0]))
    if len(inside) < 2:
        return float("nan")
    first, last = inside[0], inside[-1]
    return float(np.log(errors[first] / errors[last]) / max(1, last - first))


def _promised(step: Floats, condition: Floats) -> Floats:
    """Return the least fall by Theorem 5.2."""
    return np.asarray(-np.log1p(-_CONSTANT * step / condition**2))


def _swept(records: Mapping[str, Sequence[Record]]) -> list[tuple[Sweep, Floats, Floats, Floats]]:
    """Return each sweep with its values, the falls, (trial, point), and the promised ones."""
    found = []
    for sweep, line in ((_CONDITIONS, "by condition"), (_STEPS, "by step")):
        values, falls = table(records[line], sweep.name, fall)
        one = np.full_like(values, _STEP), values
        other = values, np.full_like(values, _CONDITION)
        found.append((sweep, values, falls, _promised(*(one if sweep is _CONDITIONS else other))))
    return found


def _draw(records: Mapping[str, Sequence[Record]], _: Scale) -> Figure:
    drawings = [
        Power(
            sweep.label,
            values,
            {"AltGDMin": falls},
            ("at least, by Theorem 5.2", promised),
            f"power {exponent(values, falls)}",
        )
        for sweep, values, falls, promised in _swept(records)
    ]
    said = "d = 40, T = 40, rank 3, 60 rows per task, hardly any noise"
    return powers(drawings, "fall of log error per iteration", said)


def _judge(records: Mapping[str, Sequence[Record]]) -> Claim:
    claim = Claim(
        key="contraction-kappa",
        text="An iteration shrinks the error at least by 1 - 0.5472 c_gamma / kappa^2, for every "
        "condition number and step.",
        source="Theorem 5.2",
    )
    swept = _swept(records)
    shares = [falls / promised for _, _, falls, promised in swept]
    cases = [Case(holds=bool(np.all(share >= 1))) for share in shares]
    said = [f"{sweep.label.split(', ')[1]} {exponent(v, falls)}" for sweep, v, falls, _ in swept]
    every = np.concatenate([share.ravel() for share in shares])
    numbers = (
        f"The fall of the log error grows with the powers {said[0]} and {said[1]} (the theorem: -2 "
        f"and 1). It is {number(float(np.median(every)))} times the promised one in the median and "
        f"{number(float(every.min()))} at least."
    )
    return claim.judged(cases, numbers, [len(falls) for _, _, falls, _ in swept])


PANEL = Panel(
    name="s3",
    title="How fast the error falls, by condition number and by step",
    parameters={
        "d, T, r": "40, 40, 3",
        "rows": "60 per task",
        "noise": "standard deviation 1e-9",
        "step": f"{_STEP} where the condition number changes",
        "condition number": f"{_CONDITION:g} where the step changes",
        "fall": f"between {_FROM:g} and {_TO:g} of the first error",
        "trials, full run": "10",
    },
    cells=_cells,
    draw=_draw,
    judge=_judge,
)
