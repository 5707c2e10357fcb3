"""Study 7: features that have means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits.intervals import t_interval
from cobandits.lab.cells import Cell, Simulation
from cobandits.lab.claims.base import Case, Claim, listed
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.records import Record, array
from cobandits.lab.studies.sweeps import table, trials_of
from cobandits.plots import Interval, intervals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

_SHIFTS, _QUICK = (0.0, 0.25, 0.5, 1.0, 2.0), (0.0, 1.0)
_MUCH = 2.0  # error over that without means, above which means do harm


def _cells(scale: Scale) -> dict[str, Sequence[Cell]]:
    size = {"dim": 20, "n_tasks": 40, "rank": 2, "n_arms": 5, "noise_std": 1e-3}
    return {
        "lrrl": [
            Simulation(
                seed=scale.seed,
                trial=trial,
                environment="synthetic",
                environment_parameters={**size, "shift": shift},
                policy="lrrl",
                policy_parameters={"schedule": "equal-4"},
                rounds=80,
            )
            for shift in (_QUICK if scale.quick else _SHIFTS)
            for trial in trials_of(scale)
        ]
    }


def _ratios(records: Mapping[str, Sequence[Record]]) -> tuple[Floats, Floats]:
    """Return the means of the features, and the first fit's error over that without means."""
    shifts, errors = table(records["lrrl"], "shift", lambda one: float(array(one, "fit_errors")[0]))
    return shifts, errors / errors[:, :1]


def _draw(records: Mapping[str, Sequence[Record]], _: Scale) -> Figure:
    shifts, ratios = _ratios(records)
    mean, half = t_interval(np.log(ratios))
    shown = {
        f"means of {shift:g}": Interval(*(float(np.exp(m + k * h)) for k in (0, -1, 1)))
        for shift, m, h in zip(shifts, mean, half, strict=True)
    }
    said = "d = 20, T = 40, rank 2, 20 random rounds; geometric mean and 95 % interval"
    return intervals(
        {"AltGDMin": shown}, said, "error of theta, relative to features without means"
    )


def _judge(records: Mapping[str, Sequence[Record]]) -> Claim:
    claim = Claim(
        key="means",
        text="Features may have means mu_{x,c} that are not zero.",
        source="remark on the assumption of i.i.d. features",
    )
    shifts, ratios = _ratios(records)
    middle = np.exp(np.log(ratios).mean(axis=0))
    found = list(zip(shifts.tolist(), middle.tolist(), strict=True))[1:]
    cases = [
        Case(holds=ratio <= _MUCH, where={"the size of the means": f"{shift:g}"})
        for shift, ratio in found
    ]
    said = listed([f"{ratio:.3g} times with means of {shift:g}" for shift, ratio in found])
    numbers = (
        f"The error of theta after the first epoch, relative to features without means: {said} "
        "standard deviations."
    )
    return claim.judged(cases, numbers, [len(ratios)])


PANEL = Panel(
    name="s7",
    title="Features that have means",
    parameters={
        "d, T, r, K": "20, 40, 2, 5",
        "epochs": "4 of 20 rounds; the first, random one counts",
        "means": "drawn once per arm, of this size relative to the features' standard deviation",
        "noise": "standard deviation 1e-3",
        "trials, full run": "10",
    },
    cells=_cells,
    draw=_draw,
    judge=_judge,
)
