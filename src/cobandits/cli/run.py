"""``cobandits run``: an experiment from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cobandits.cli.interrupts import RESUMABLE, interruptible
from cobandits.cli.options import Cluster, Jobs, JsonTrials
from cobandits.cli.output import plot_directory
from cobandits.cli.pages import write_pages
from cobandits.cli.results import draw, file_name, report
from cobandits.cli.workers import chosen_workers
from cobandits.lab import Store, read_experiments

__all__ = ["run"]


def run(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The experiment, in TOML.", show_default=False)
    ],
    *,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    as_json: JsonTrials = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep results, pictures and report in DIR; results/NAME if not given.",
        ),
    ] = None,
) -> None:
    """Run the experiment that FILE describes, and report on it.

    FILE says rounds, trials and seed, the environment and the policies with their parameters;
    examples/experiment.toml is one to start from. What was run is kept: a run that was stopped
    goes on where it was, and after a change of FILE only what changed is run.
    """
    experiments = read_experiments(file)
    for experiment in experiments:
        experiment.check()
    directory = Path("results", file_name(experiments[0].name)) if out is None else out
    plot_directory(directory)
    with (
        interruptible(RESUMABLE),
        chosen_workers(jobs, cluster) as workers,
        Store(directory) as store,
    ):
        results = report(experiments, jobs=workers, as_json=as_json, run=store.run_all)
    page = write_pages(results, draw(results, directory), directory)
    for note in store.notes:
        print(f"cobandits: {note}", file=sys.stderr)
    if not as_json:
        print(f"\nThe report: {page}")
