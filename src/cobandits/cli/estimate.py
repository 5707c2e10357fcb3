"""``cobandits estimate``: the estimators side by side."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from cobandits.cli.comparison import Comparison, Curves, Run
from cobandits.cli.output import plot_directory, to_json, writing
from cobandits.cli.tables import print_comparison
from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from cobandits.estimators import available, make
from cobandits.progress import ProgressBar

__all__ = ["estimate"]


_SOURCES = {"synthetic": Synthetic}


def estimate(
    *,
    env: Annotated[
        str, typer.Option(metavar="NAME", help=f"Where rows come from: {', '.join(_SOURCES)}.")
    ] = "synthetic",
    dim: Annotated[int, typer.Option(metavar="INT", help="Features, d.")] = 100,
    tasks: Annotated[int, typer.Option(metavar="INT", help="Tasks, T.")] = 50,
    rank: Annotated[
        int, typer.Option(min=1, metavar="INT", help="Rank of theta, r; estimators are told it.")
    ] = 4,
    rows: Annotated[int, typer.Option(metavar="INT", help="Rows a task, n.")] = 50,
    noise_std: Annotated[
        float, typer.Option(metavar="X", help="Standard deviation of the noise.")
    ] = 1e-3,
    condition: Annotated[
        float | None,
        typer.Option(metavar="X", help="Condition number of theta; as drawn if not given."),
    ] = None,
    unequal: Annotated[
        bool, typer.Option("--unequal", help="From 0.2 to 1.8 times --rows a task.")
    ] = False,
    correlation: Annotated[
        float, typer.Option(metavar="X", help="Of neighbouring features, from 0 to below 1.")
    ] = 0.0,
    shift: Annotated[
        float, typer.Option(metavar="X", help="Mean of the features, in standard deviations.")
    ] = 0.0,
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(available())}; may be repeated. All if not given.",
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, metavar="INT", help="How often tasks and rows are drawn.")
    ] = 3,
    seed: Annotated[
        int, typer.Option(min=0, metavar="INT", help="The same seed gives the same rows.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line, for each fit.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw the errors by iteration into DIR.")
    ] = None,
) -> None:
    """Compare estimators on rows drawn from a known theta."""
    if env not in _SOURCES:
        raise ConfigurationError(f"no environment {env!r}; choose from {', '.join(_SOURCES)}")
    comparison = Comparison(
        estimators={name: make(name, rank) for name in estimator or available()},
        source=_SOURCES[env](
            dim=dim,
            n_tasks=tasks,
            rank=rank,
            noise_std=noise_std,
            condition=condition,
            correlation=correlation,
            shift=shift,
        ),
        n_rows=rows,
        unequal=unequal,
        trials=trials,
        seed=seed,
    )
    _compare(comparison, as_json, plot)


def _compare(comparison: Comparison, as_json: bool, plot: Path | None) -> None:
    """Run, print and draw the comparison."""
    curves = None if plot is None else Curves()
    if plot is not None:
        plot_directory(plot)
    runs: list[Run] = []
    with ProgressBar(hidden=as_json and sys.stdout.isatty()) as bar:  # lines would disturb it
        for run in comparison.runs(bar, curves):
            runs.append(run)
            if as_json:
                print(to_json(asdict(run)), flush=True)
    if not as_json:
        print_comparison(runs, comparison.source.rank)
    if plot is not None and curves is not None:
        floors = {run.trial: run.floor for run in runs}
        with writing(plot):
            curves.draw(list(floors.values()), comparison.setting, plot)
