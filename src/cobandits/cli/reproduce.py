"""``cobandits reproduce``: the figures of the paper, and the report on them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from cobandits import datasets
from cobandits.cli.interrupts import RESUMABLE, interruptible
from cobandits.cli.options import Cluster, Jobs, Seed
from cobandits.cli.output import console, new_table, plot_directory
from cobandits.cli.workers import chosen_workers
from cobandits.discovery import pick
from cobandits.errors import ConfigurationError
from cobandits.lab import Reproduction, studies
from cobandits.lab import report as reports
from cobandits.lab import reproduce as run_and_draw
from cobandits.lab.panels import Panel, Scale, available
from cobandits.progress import ProgressBar

__all__ = ["reproduce"]

_TRIALS, _QUICK_TRIALS = 100, 3


Panels = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PANEL]...",
        help="As in the paper: 1a to 1i, 2a to 2e; s1 to s8 are studies; all is the default.",
    ),
]
Quick = Annotated[
    bool, typer.Option("--quick", help=f"{_QUICK_TRIALS} trials and fewer grid points.")
]
Trials = Annotated[
    int | None,
    typer.Option(min=1, metavar="INT", help=f"Trials; {_TRIALS} in the paper (MNIST: 10)."),
]
Kept = Annotated[
    bool,
    typer.Option("--kept", help="Run nothing: report on the trials that are whole so far."),
]
Out = Annotated[
    Path, typer.Option(metavar="DIR", help="Where results, figures and report are kept.")
]


def reproduce(
    panel: Panels = None,
    *,
    quick: Quick = False,
    trials: Trials = None,
    kept: Kept = False,
    jobs: Jobs = 1,
    cluster: Cluster = None,
    seed: Seed = 0,
    out: Out = Path("results/reproduce"),
) -> None:
    """Run the paper's experiments, draw its figures, and report which of its claims hold.

    What was run is kept: a run that was stopped goes on where it was, and only what is missing
    is run.
    """
    if quick and trials is not None:
        raise ConfigurationError("--quick has its own number of trials; leave out one of the two")
    known = available() | studies.available()
    named = (one for name in panel or ["all"] for one in (known if name == "all" else [name]))
    panels = [pick("panel", name, known) for name in dict.fromkeys(named)]
    n_trials = trials or (_QUICK_TRIALS if quick else _TRIALS)
    scale = Scale(trials=n_trials, quick=quick, mnist=datasets.is_there("mnist"), seed=seed)
    _tell_of_mnist(panels, scale)
    plot_directory(out)
    with (
        interruptible(RESUMABLE),
        chosen_workers(jobs, cluster) as workers,
        ProgressBar(unit="cells") as bar,
    ):
        done = run_and_draw(
            panels,
            scale,
            jobs=workers,
            out=out,
            kept=kept,
            progress=lambda cells, total, _: bar.update(cells, total),
            stage=bar.stage,
        )
    _summarise(done, reports.write(done, out))


def _tell_of_mnist(panels: list[Panel], scale: Scale) -> None:
    """Say which panels use digits in place of MNIST, which is not there."""
    if scale.mnist:
        return
    waiting = [panel.name for panel in panels if _uses(panel, scale, "digits")]
    if waiting:
        print(
            f"cobandits: MNIST is not there, so scikit-learn's digits stand in for it in "
            f"{', '.join(waiting)}; to fetch it: cobandits data fetch mnist",
            file=sys.stderr,
        )


def _uses(panel: Panel, scale: Scale, environment: str) -> bool:
    lines = panel.cells(scale).values()
    return any(getattr(cell, "environment", "") == environment for line in lines for cell in line)


def _summarise(done: Reproduction, page: Path) -> None:
    """Print the claims with their verdicts, how many cells were run, and where the report is."""
    for note in done.notes:
        print(f"cobandits: {note}", file=sys.stderr)
    table = new_table()
    table.add_column("the paper says", ratio=3)
    table.add_column("here", ratio=2)
    for claim in done.claims:
        table.add_row(Text(claim.text), Text(claim.outcome))
    console().print(table)
    print(
        f"\n{done.n_cells} cells, {done.n_run} of them run now; {done.seconds:.0f} s in all runs "
        f"({done.jobs} processes)."
    )
    print(f"The report: {page}")
