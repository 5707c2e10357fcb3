"""The comparison of estimators as a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cobandits.cli.comparison import Run
from cobandits.cli.output import console, new_table, number

__all__ = ["print_comparison"]

_EXACT = 1e-12  # errors below this are rounding: their ratio means nothing


def print_comparison(runs: Sequence[Run], rank: int) -> None:
    """Print medians over trials, one row per estimator, and advice."""
    table = new_table()
    table.add_column("estimator", no_wrap=True)
    for name in ("error", "worst", "x floor", "distance", "steps", "seconds", "converged"):
        table.add_column(name, justify="right", no_wrap=True)
    by_estimator: dict[str, list[Run]] = {}
    for run in runs:
        by_estimator.setdefault(run.estimator, []).append(run)
    for name, group in by_estimator.items():
        table.add_row(name, *_cells(group))
    output = console()
    output.print(table)
    output.print(f"\n{_legend(runs, rank)}", style="dim")
    for line in _advice(runs):
        output.print(line, markup=False)


def _cells(runs: Sequence[Run]) -> list[str]:
    errors = [run.error for run in runs]
    ratios = [run.error / run.floor for run in runs if run.floor > _EXACT]
    converged = sum(run.status == "converged" for run in runs)
    return [
        number(float(np.median(errors))),
        number(max(errors)),
        _ratio(float(np.median(ratios))) if ratios else "-",
        number(float(np.median([run.subspace_distance for run in runs]))),
        f"{np.median([run.iterations for run in runs]):,.0f}",
        number(float(np.median([run.seconds for run in runs]))),
        f"{converged} of {len(runs)}",
    ]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}" if value < 1e5 else number(value)


def _legend(runs: Sequence[Run], rank: int) -> str:
    floor = number(float(np.median([run.floor for run in runs])))
    trials = len({run.trial for run in runs})
    medians = f"Medians over {trials} trials, and the worst error. " if trials > 1 else ""
    return (
        f"{medians}Error: of theta, relative.\n"
        f"Distance: of the basis from the true one, 0 to sqrt(r) = {number(rank**0.5)}.\n"
        f"Floor: {floor}, the error of the optimum that is found from the true basis."
    )


def _advice(runs: Sequence[Run]) -> list[str]:
    """Return one line per estimator and status of fits that did not converge."""
    notes: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        if run.status != "converged":
            notes.setdefault((run.estimator, run.status), []).append(run.message)
    trials = len({run.trial for run in runs})
    return [
        f"{name}: {status} in {len(texts)} of {trials} fits: {texts[0]}"
        for (name, status), texts in notes.items()
    ]
