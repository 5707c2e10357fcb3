"""Study 6: the paper's policy with a basis that is fixed after the first epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.intervals import t_interval
from cobandits.lab.cells import Cell, Simulation
from cobandits.lab.claims.base import Case, Claim, listed, number
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.records import Record, scalar
from cobandits.lab.studies.sweeps import table, trials_of
from cobandits.plots import Interval, intervals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_NOISES, _QUICK = (1e-3, 0.1, 0.5), (1e-3, 0.5)
_LINES = {"refitted": {}, "fixed": {"basis": "fixed"}}
_LITTLE = 1.05  # regret over that of the refitted basis, up to which nothing is lost


def _cells(scale: Scale) -> dict[str, Sequence[Cell]]:
    return {
        line: [
            Simulation(
                seed=scale.seed,
                trial=trial,
                environment="synthetic",
                environment_parameters={
                    **{"dim": 20, "n_tasks": 40, "rank": 2, "n_arms": 5, "noise_std": noise}
                },
                policy="lrrl",
                policy_parameters={"schedule": "equal-4", **parameters},
                rounds=80,
            )
            for noise in (_QUICK if scale.quick else _NOISES)
            for trial in trials_of(scale)
        ]
        for line, parameters in _LINES.items()
    }


def _ratios(records: Mapping[str, Sequence[Record]]) -> tuple[Floats, Floats]:
    """Return the levels of noise, and the regret over that of the refitted basis, by trial."""
    noises, refitted = table(records["refitted"], "noise_std", _regret)
    return noises, table(records["fixed"], "noise_std", _regret)[1] / refitted


def _regret(record: Record) -> float:
    return scalar(record, "regret_per_task")


def _draw(records: Mapping[str, Sequence[Record]], _: Scale) -> Figure:
    noises, ratios = _ratios(records)
    mean, half = t_interval(ratios)
    shown = {
        f"noise std {noise:g}": Interval(float(m), float(m - h), float(m + h))
        for noise, m, h in zip(noises, mean, half, strict=True)
    }
    said = "d = 20, T = 40, rank 2, K = 5, 4 epochs of 20 rounds; mean and 95 % interval"
    return intervals({"fixed over refitted": shown}, said, "regret, relative to a refitted basis")


def _judge(records: Mapping[str, Sequence[Record]]) -> Claim:
    claim = Claim(
        key="fixed-basis",
        text="The basis could stay fixed after the first epoch, at hardly any regret.",
        source="not in the paper, which fits it again",
    )
    noises, ratios = _ratios(records)
    means = ratios.mean(axis=0)
    cases = [
        Case(holds=bool(ratio <= _LITTLE), where={"the noise std": number(noise)})
        for noise, ratio in zip(noises.tolist(), means, strict=True)
    ]
    said = [
        f"{ratio:.3f} at noise std {number(noise)}"
        for noise, ratio in zip(noises.tolist(), means, strict=True)
    ]
    numbers = f"Regret over that of a basis that is fitted again after every epoch: {listed(said)}."
    return claim.judged(cases, numbers, [len(ratios)])


PANEL = Panel(
    name="s6",
    title="A basis that is fixed after the first epoch",
    parameters={
        "d, T, r, K": "20, 40, 2, 5",
        "epochs": "4 of 20 rounds",
        "noise": "standard deviations 1e-3, 0.1 and 0.5",
        "trials, full run": "10",
    },
    cells=_cells,
    draw=_draw,
    judge=_judge,
)
