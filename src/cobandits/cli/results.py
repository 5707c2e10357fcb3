"""Running experiments for people: JSON lines or tables, and pictures."""

from __future__ import annotations

import contextlib
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cobandits import plots
from cobandits.cli.output import plot_directory, to_json, writing
from cobandits.cli.standings import NORMAL, Standings, print_standings, standings
from cobandits.lab import Experiment, Jobs, Record, Simulation, in_order, run_all, tuned
from cobandits.lab.runner import Runner
from cobandits.progress import ProgressBar

__all__ = ["Result", "draw", "file_name", "report"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """An experiment and its records, by policy and trial."""

    experiment: Experiment
    records: dict[str, list[Record]] = field(default_factory=dict)
    notes: Sequence[str] = ()  # on tuning

    @property
    def heading(self) -> str:
        """The parameters that set it apart from the other experiments."""
        return ", ".join(f"{key} = {value}" for key, value in self.experiment.varied.items())

    @property
    def has_regret(self) -> bool:
        """Whether the regret is known; it is not where a log is replayed."""
        groups = self.records.values()
        return all(np.isfinite(_number(one, "regret_per_task")) for g in groups for one in g)

    @property
    def length(self) -> str:
        """How much was played: rounds, or the requests of a log, which may differ per task."""
        if self.has_regret:
            return f"{self.experiment.rounds} rounds"
        asked = {int(_number(one, "decisions")) for group in self.records.values() for one in group}
        return f"{max(asked):,} requests, as they were logged"

    @property
    def standings(self) -> Standings:
        """The policies in order, the best first."""
        return standings(self.records, self.notes)


def report(
    experiments: Sequence[Experiment],
    *,
    jobs: Jobs,
    as_json: bool,
    plot: Path | None = None,
    run: Runner = run_all,
) -> list[Result]:
    """Run experiments, print what happened, and draw it."""
    if plot is not None:
        plot_directory(plot)
    with ProgressBar(hidden=as_json and sys.stdout.isatty()) as bar:  # lines would disturb it
        results = [_tuned(experiment, jobs, bar, run) for experiment in experiments]
        bar.stage("running")
        for label, cell, record in _run(results, jobs, bar, run):
            if as_json:
                print(to_json(_line(label, cell, record)), flush=True)
    if not as_json:
        _print(results)
    if plot is not None:
        draw(results, plot)
    return results


def draw(results: Sequence[Result], directory: Path) -> dict[str, Path]:
    """Draw the regret by round, or mean rewards where it is not known, for each experiment.

    Returns the path of each picture, without .svg and .png, by its caption.
    """
    drawn = {}
    for result in results:
        setting = result.experiment.setting
        if result.has_regret:
            kind, caption = "regret", "Regret by round"
            figure = plots.regret(_curves(result), setting)
        else:
            setting = textwrap.fill(f"{setting}; {result.length}", 95)
            kind, caption = "reward", "Mean reward"
            figure = plots.intervals({"": _mean_rewards(result)}, setting)
        stem = directory / file_name(f"{kind} {result.heading}")
        with writing(directory):
            plots.save(figure, stem)
        drawn[f"{caption}. {result.heading}".strip()] = stem
    return drawn


def _mean_rewards(result: Result) -> dict[str, plots.Interval]:
    """Return the mean reward of each policy with its 95 % interval, as in the standings."""
    found = {}
    for label, group in result.records.items():
        mean = float(np.mean([_number(one, "mean_reward") for one in group]))
        half = NORMAL * float(np.mean([_number(one, "mean_reward_error") for one in group]))
        found[label] = plots.Interval(mean, mean - half, mean + half)
    return dict(sorted(found.items(), key=lambda one: -np.nan_to_num(one[1].value, nan=-np.inf)))


def _number(record: Record, name: str) -> float:
    return float(np.array(record[name], np.float64))


def file_name(text: str) -> str:
    """Return a text as a name for a file or directory.

    >>> file_name("../my first: try")
    'my-first-try'
    >>> file_name("shift = -1"), file_name("shift = 1")
    ('shift--1', 'shift-1')
    """
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "unnamed"


def _tuned(experiment: Experiment, jobs: Jobs, bar: ProgressBar, run: Runner) -> Result:
    if not experiment.tune:
        return Result(experiment=experiment)
    bar.stage("tuning")
    best, notes = tuned(experiment, jobs=jobs, progress=bar.update, run=run)
    return Result(experiment=best, notes=[str(note) for note in notes])


def _run(
    results: Sequence[Result], jobs: Jobs, bar: ProgressBar, run: Runner
) -> Iterator[tuple[str, Simulation, Record]]:
    """Run the cells of all experiments, and add each record to its result, in order."""
    plan = [
        (result, candidate.label, cell)
        for result in results
        for cell, candidate in zip(result.experiment.cells(), cycle(result.experiment.candidates))
    ]
    cells = [cell for *_, cell in plan]
    with contextlib.closing(run(cells, jobs=jobs, progress=bar.update)) as done:
        for (result, label, cell), (_, record) in zip(plan, in_order(cells, done), strict=True):
            result.records.setdefault(label, []).append(record)
            yield label, cell, record


def _line(label: str, cell: Simulation, record: Record) -> dict[str, object]:
    """Return a cell and its record as JSON can hold them."""
    fits = {name: np.asarray(record[name]) for name in ("fit_errors", "fit_distances")}
    last = {name: float(values[-1]) if values.size else None for name, values in fits.items()}
    seconds = {name: record[name] for name in ("seconds_deciding", "seconds_learning")}
    return {
        "policy": cell.policy,
        "label": label,
        "parameters": dict(cell.policy_parameters),
        "environment": cell.environment,
        "environment_parameters": dict(cell.environment_parameters),
        "rank": cell.rank,
        "rounds": cell.rounds,
        "seed": cell.seed,
        "trial": cell.trial,
        **{name: record[name] for name in ("regret_per_task", "mean_reward", "decisions")},
        "rewarded": record["rewarded"],
        "fits": fits["fit_errors"].size,
        "error": last["fit_errors"],
        "distance": last["fit_distances"],
        "fit_statuses": record["fit_statuses"],
        "seconds": float(np.sum([*seconds.values()])),
        **seconds,
        "identity": cell.identity,
    }


def _print(results: Sequence[Result]) -> None:
    for k, result in enumerate(results):
        said = result.experiment.described(result.length)
        print(f"{'' if k == 0 else chr(10)}{said}")
        print_standings(result.standings)


def _curves(result: Result) -> dict[str, list[Floats]]:
    """Return the regret by round of each policy and trial, interpolated between its points."""
    rounds = np.arange(1, result.experiment.rounds + 1)
    return {
        label: [_at(rounds, record["curve_rounds"], record["curve"]) for record in group]
        for label, group in result.records.items()
    }


def _at(rounds: NDArray[np.int64], x: object, y: object) -> Floats:
    kept = np.asarray(x, np.float64)
    return np.interp(rounds[: int(kept[-1])], kept, np.asarray(y, np.float64))
