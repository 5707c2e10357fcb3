"""``cobandits run``: an experiment from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cobandits.cli.results import report
from cobandits.lab import read_experiment

__all__ = ["run"]


def run(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The experiment, in TOML.", show_default=False)
    ],
    *,
    jobs: Annotated[int, typer.Option(min=1, metavar="INT", help="Processes to run in.")] = 1,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line, for each trial.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw the regret by round into DIR.")
    ] = None,
) -> None:
    """Run the experiment that FILE describes.

    FILE says rounds, trials and seed, the environment and the policies with their parameters;
    examples/experiment.toml is one to start from.
    """
    report(read_experiment(file), jobs=jobs, as_json=as_json, plot=plot)
