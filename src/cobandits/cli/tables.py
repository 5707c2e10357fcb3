"""The comparison of estimators as a table."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from cobandits.cli.comparison import Run
from cobandits.cli.output import number

__all__ = ["print_comparison"]

_WIDTH = 110  # where the output is not a terminal
_EXACT = 1e-12  # errors below this are rounding: their ratio means nothing


def print_comparison(runs: Sequence[Run]) -> None:
    """Print medians over trials, an estimator a row, and what needs attention."""
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("estimator")
    for name in ("error", "range", "x floor", "distance", "iterations", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("status")
    by_estimator: dict[str, list[Run]] = {}
    for run in runs:
        by_estimator.setdefault(run.estimator, []).append(run)
    for name, group in by_estimator.items():
        table.add_row(name, *_cells(group))
    console.print(table)
    console.print(f"\n{_legend(runs)}", style="dim")
    for line in _advice(runs):
        console.print(line, markup=False)


def _cells(runs: Sequence[Run]) -> list[str]:
    errors = [run.error for run in runs]
    ratios = [run.error / run.floor for run in runs if run.floor > _EXACT]
    states = Counter(run.status for run in runs)
    return [
        number(float(np.median(errors))),
        f"{number(min(errors))} to {number(max(errors))}" if len(runs) > 1 else "",
        _ratio(float(np.median(ratios))) if ratios else "-",
        number(float(np.median([run.subspace_distance for run in runs]))),
        f"{np.median([run.iterations for run in runs]):,.0f}",
        number(float(np.median([run.seconds for run in runs]))),
        ", ".join(s if len(states) == 1 else f"{s} {n}" for s, n in states.items()),
    ]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def _legend(runs: Sequence[Run]) -> str:
    floor = number(float(np.median([run.floor for run in runs])))
    trials = len({run.trial for run in runs})
    medians = f"Medians over {trials} trials. " if trials > 1 else ""
    return (
        f"{medians}Error: of theta, relative. Distance: of the basis from the true one.\n"
        f"Floor: {floor}, the error of the least-squares optimum found from the true basis."
    )


def _advice(runs: Sequence[Run]) -> list[str]:
    """Return one line for each way in which a fit did not converge."""
    notes = Counter(
        (run.estimator, run.status, run.message) for run in runs if run.status != "converged"
    )
    return [
        f"{name}: {status} in {n} of the fits: {text}" for (name, status, text), n in notes.items()
    ]
