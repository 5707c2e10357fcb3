"""``cobandits estimate``: the estimators side by side."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from cobandits.cli.comparison import Comparison, ErrorCurves, Run
from cobandits.cli.output import plot_directory, to_json, writing
from cobandits.cli.tables import print_comparison
from cobandits.environments import Synthetic
from cobandits.errors import ConfigurationError
from cobandits.estimators import available, make
from cobandits.progress import ProgressBar

__all__ = ["estimate"]

_SOURCES = {"synthetic": Synthetic}


@dataclass(frozen=True, kw_only=True)
class EstimateOptions:
    """What is compared, and how it is shown."""

    env: Annotated[
        str, typer.Option(metavar="NAME", help=f"Where rows come from: {', '.join(_SOURCES)}.")
    ] = "synthetic"
    dim: Annotated[int, typer.Option(metavar="INT", help="Features, d.")] = 100
    tasks: Annotated[int, typer.Option(metavar="INT", help="Tasks, T.")] = 50
    rank: Annotated[
        int, typer.Option(min=1, metavar="INT", help="Rank of theta, r; estimators are told it.")
    ] = 4
    rows: Annotated[int, typer.Option(metavar="INT", help="Rows a task, n.")] = 50
    noise_std: Annotated[
        float, typer.Option(metavar="X", help="Standard deviation of the noise.")
    ] = 1e-3
    condition: Annotated[
        float | None,
        typer.Option(metavar="X", help="Condition number of theta; as drawn if not given."),
    ] = None
    unequal: Annotated[
        bool, typer.Option("--unequal", help="From 0.2 to 1.8 times --rows per task.")
    ] = False
    correlation: Annotated[
        float, typer.Option(metavar="X", help="Of neighbouring features, from 0 to below 1.")
    ] = 0.0
    shift: Annotated[
        float, typer.Option(metavar="X", help="Mean of the features, in standard deviations.")
    ] = 0.0
    estimator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(available())}; may be repeated. All if not given.",
        ),
    ] = None
    trials: Annotated[
        int, typer.Option(min=1, metavar="INT", help="How often tasks and rows are drawn.")
    ] = 3
    seed: Annotated[
        int, typer.Option(min=0, metavar="INT", help="The same seed gives the same rows.")
    ] = 0
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line, for each fit.")
    ] = False
    plot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw the errors by iteration into DIR.")
    ] = None

    @property
    def source(self) -> Synthetic:
        """Where rows come from."""
        if self.env not in _SOURCES:
            known = ", ".join(_SOURCES)
            raise ConfigurationError(f"no environment {self.env!r}; choose from {known}")
        return _SOURCES[self.env](
            dim=self.dim,
            n_tasks=self.tasks,
            rank=self.rank,
            noise_std=self.noise_std,
            condition=self.condition,
            correlation=self.correlation,
            shift=self.shift,
        )


def estimate(options: EstimateOptions) -> None:
    """Compare estimators on rows drawn from a known theta."""
    comparison = Comparison(
        estimators={name: make(name, options.rank) for name in options.estimator or available()},
        source=options.source,
        n_rows=options.rows,
        unequal=options.unequal,
        trials=options.trials,
        seed=options.seed,
    )
    _compare(comparison, options.as_json, options.plot)


def _compare(comparison: Comparison, as_json: bool, plot: Path | None) -> None:
    """Run, print and draw the comparison."""
    curves = None if plot is None else ErrorCurves()
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
