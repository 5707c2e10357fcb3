"""Running an experiment for people: JSON lines or a table, and a picture."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from cobandits import plots
from cobandits.cli.output import plot_directory, to_json, writing
from cobandits.cli.standings import print_standings
from cobandits.lab import Cell, Experiment, Tuning, run_all, tuned
from cobandits.progress import ProgressBar
from cobandits.traces import Trace

__all__ = ["Result", "report"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """A cell that was run, and what its policy is called."""

    label: str
    cell: Cell
    trace: Trace

    def record(self) -> dict[str, object]:
        """Return what happened as JSON can hold it."""
        cell, trace = self.cell, self.trace
        last = trace.fits[-1] if trace.fits else None
        return {
            "policy": cell.policy,
            "label": self.label,
            "parameters": dict(cell.policy_parameters),
            "environment": cell.environment,
            "environment_parameters": dict(cell.environment_parameters),
            "rank": cell.rank,
            "rounds": cell.rounds,
            "seed": cell.seed,
            "trial": cell.trial,
            "regret_per_task": trace.regret_per_task,
            "mean_reward": trace.mean_reward,
            "decisions": trace.decisions,
            "fits": len(trace.fits),
            "error": last and last.error,
            "distance": last and last.distance,
            "seconds": trace.seconds_deciding + trace.seconds_learning,
            "seconds_deciding": trace.seconds_deciding,
            "seconds_learning": trace.seconds_learning,
            "identity": cell.identity,
        }


def report(experiment: Experiment, *, jobs: int, as_json: bool, plot: Path | None) -> None:
    """Run an experiment, print what happened, and draw it."""
    experiment.check()
    if plot is not None:
        plot_directory(plot)
    notes: list[Tuning] = []
    traces: dict[str, list[Trace]] = {}
    with ProgressBar(hidden=as_json and sys.stdout.isatty()) as bar:  # lines would disturb it
        if experiment.tune:
            bar.stage("tuning")
            experiment, notes = tuned(experiment, jobs=jobs, progress=bar.update)
        bar.stage("running")
        for result in _run(experiment, jobs, bar):
            traces.setdefault(result.label, []).append(_light(result.trace))
            if as_json:
                print(to_json(result.record()), flush=True)
    if not as_json:
        print_standings(traces, [str(note) for note in notes])
    if plot is not None:
        _draw(experiment, traces, plot)


def _run(experiment: Experiment, jobs: int, bar: ProgressBar) -> Iterator[Result]:
    done = run_all(experiment.cells(), jobs=jobs, progress=bar.update)
    for (cell, trace), candidate in zip(done, itertools.cycle(experiment.candidates)):
        yield Result(label=candidate.label, cell=cell, trace=trace)


def _light(trace: Trace) -> Trace:
    """Return a trace with the mean over tasks in place of each task: that is all that is shown."""
    return replace(trace, regret=trace.regret.mean(axis=1, keepdims=True))


def _draw(experiment: Experiment, traces: dict[str, list[Trace]], directory: Path) -> None:
    curves = {label: [trace.cumulative for trace in group] for label, group in traces.items()}
    if not all(np.isfinite(curve).all() for trials in curves.values() for curve in trials):
        print(
            f"cobandits: no picture: nobody knows the regret in {experiment.environment}",
            file=sys.stderr,
        )
        return
    with writing(directory):
        plots.save(plots.regret(curves, experiment.setting), directory / "regret")
