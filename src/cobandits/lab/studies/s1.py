"""Study 1: from how many rows on theta is recovered, by tasks and rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cobandits.lab.cells import Cell
from cobandits.lab.claims.base import Case, Claim, number
from cobandits.lab.panels.base import Panel, Scale
from cobandits.lab.records import Record, configuration, scalar
from cobandits.lab.studies.sweeps import estimations, exponent, trials_of
from cobandits.plots import Phase, phases

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DIM = 40
_RANKS, _TASKS = (1, 2, 4), (10, 20, 40, 80)
_ROWS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_QUICK = (2, 4), (20, 80), (4, 8, 16, 32)
_RECOVERED = 1e-2  # relative error of theta; the noise alone leaves about 1e-6
_POWER = 3  # of the rank in the paper's sample size, (d + T) r^3
_FACTOR = 2.0  # between thresholds that still count as the same share of d + T


def _cells(scale: Scale) -> dict[str, Sequence[Cell]]:
    ranks, tasks, rows = _QUICK if scale.quick else (_RANKS, _TASKS, _ROWS)
    fixed = {"dim": _DIM, "noise_std": 1e-6}
    sizes = [
        {**fixed, "rank": r, "n_tasks": T, "n_rows": n}
        for r in ranks
        for T in tasks
        for n in rows
        if n > r
    ]
    return {"altgdmin": estimations(scale, sizes, {"iterations": 2000})}


Shares = dict[int, dict[int, dict[int, float]]]  # by rank, tasks and rows


def _shares(records: Sequence[Record]) -> Shares:
    """Return the share of the trials that recover theta."""
    found: dict[tuple[int, int, int], list[bool]] = defaultdict(list)
    for record in records:
        cell = configuration(record)
        size = cell["environment_parameters"]
        key = int(size["rank"]), int(size["n_tasks"]), int(cell["n_rows"])
        found[key].append(scalar(record, "error") <= _RECOVERED)
    shares: Shares = {}
    for (r, T, n), here in sorted(found.items()):
        shares.setdefault(r, {}).setdefault(T, {})[n] = float(np.mean(here))
    return shares


def _threshold(by_rows: Mapping[int, float]) -> float:
    """Return the fewest rows from which on half of the trials recover; infinite if none do."""
    failing = [n for n, share in by_rows.items() if share < 0.5]
    return float(min((n for n in by_rows if n > max(failing, default=0)), default=np.inf))


def _draw(records: Mapping[str, Sequence[Record]], scale: Scale) -> Figure:
    drawings = []
    for r, by_tasks in _shares(records["altgdmin"]).items():
        tasks = sorted(by_tasks)
        rows = sorted({n for found in by_tasks.values() for n in found})
        shares = np.array([[by_tasks[T].get(n, 0.0) for T in tasks] for n in rows])
        counted = np.array([r * (_DIM + T - r) / T for T in tasks])
        drawings.append(Phase(f"rank {r}", tasks, rows, shares, counted))
    n = len(trials_of(scale))
    trials = f"{n} trials" if n > 1 else "one trial"
    said = f"Recovery of theta by AltGDMin: d = {_DIM}, noise std 1e-6, {trials}"
    return phases(drawings, f"{said}; orange: as many rows as parameters")


def _judge(records: Mapping[str, Sequence[Record]]) -> Claim:
    claim = Claim(
        key="recovery",
        text="Recovery takes on the order of (d + T) r^3 rows of all tasks together.",
        source="Theorem 5.3",
    )
    shares = _shares(records["altgdmin"])
    scaled = {
        r: [T * _threshold(rows) / (_DIM + T) for T, rows in by_tasks.items()]
        for r, by_tasks in shares.items()
    }
    finite = {r: [v for v in found if np.isfinite(v)] for r, found in scaled.items()}
    kept = {r: found for r, found in finite.items() if found}
    if len(kept) < 2:
        return claim.untested("Fewer than two ranks were recovered.")
    power = exponent(np.array([*kept], float), np.array([[np.mean(v) for v in kept.values()]]))
    spread = max(max(found) / min(found) for found in kept.values())
    cases = [Case(holds=spread <= _FACTOR), Case(holds=power.value <= _POWER)]
    said = "; ".join(f"{number(float(np.mean(v)))} (d + T) at r = {r}" for r, v in kept.items())
    numbers = (
        f"Half of the trials recover theta from so many rows in all on: {said}. That grows with "
        f"r to the power {power.value:.2f}, and differs by a factor of up to {number(spread)} "
        f"over T at one rank; as many rows as parameters are r (d + T - r)."
    )
    return claim.judged(cases, numbers, [len({record["trial"] for record in records["altgdmin"]})])


PANEL = Panel(
    name="s1",
    title="From how many rows on theta is recovered",
    parameters={
        "d": str(_DIM),
        "noise": "standard deviation 1e-6",
        "recovered": f"relative error of theta at most {_RECOVERED:g}",
        "estimator": "AltGDMin with step 0.4, at most 2000 iterations",
        "trials, full run": "10",
    },
    cells=_cells,
    draw=_draw,
    judge=_judge,
)
