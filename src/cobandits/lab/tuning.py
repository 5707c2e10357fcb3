"""Tuning: baselines get their best parameters, on trials that are never reported."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cobandits import policies
from cobandits.discovery import pick
from cobandits.errors import ConfigurationError
from cobandits.lab.cells import Cell, Parameters
from cobandits.lab.experiments import Candidate, Experiment
from cobandits.lab.runner import Progress, run_all

__all__ = ["Tuning", "tune", "tuned"]

_TRIALS = (-1, -2)  # reported trials count from 0


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What was tried for a policy, and what was best."""

    label: str
    parameters: Parameters  # those that were tuned
    tried: tuple[tuple[Parameters, float], ...]  # with the mean regret a task
    edges: tuple[str, ...]  # parameters whose best value is the least or the largest tried

    def __str__(self) -> str:
        best = ", ".join(f"{key} = {value:g}" for key, value in self._numbers())
        text = f"{self.label}: tuned to {best}, of {len(self.tried)} tried on trials of their own"
        if self.edges:
            text += f"; {', '.join(self.edges)} is at the edge of what was tried"
        return text

    def _numbers(self) -> list[tuple[str, float]]:
        return [(key, float(value)) for key, value in self.parameters.items() if value is not None]


def tuned(
    experiment: Experiment, *, jobs: int = 1, progress: Progress | None = None
) -> tuple[Experiment, list[Tuning]]:
    """Return the experiment with the best parameters for each policy that has a grid."""
    notes = {
        one.label: tune(experiment, one, jobs=jobs, progress=progress)
        for one in experiment.candidates
        if _open_grid(one)
    }
    candidates = tuple(
        replace(one, parameters={**one.parameters, **notes[one.label].parameters})
        if one.label in notes
        else one
        for one in experiment.candidates
    )
    return replace(experiment, candidates=candidates), list(notes.values())


def tune(
    experiment: Experiment,
    candidate: Candidate,
    *,
    trials: Sequence[int] = _TRIALS,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Tuning:
    """Choose the parameters with the least mean regret a task, of all in the policy's grid.

    Parameters that the candidate gives stay as they are. The trials must be negative: those
    are never reported.
    """
    if not trials or max(trials) >= 0:
        raise ConfigurationError(f"trials for tuning must be negative, got {list(trials)}")
    grid = _open_grid(candidate)
    choices = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    regrets = _regrets(experiment, candidate, choices, trials, jobs=jobs, progress=progress)
    best = choices[int(np.argmin(regrets))]
    return Tuning(
        label=candidate.label,
        parameters=best,
        tried=tuple(zip(choices, regrets, strict=True)),
        edges=tuple(key for key, value in best.items() if _at_edge(value, grid[key])),
    )


def _open_grid(candidate: Candidate) -> Mapping[str, tuple[float, ...]]:
    """Return the values to try of each parameter that is not given."""
    grid = pick("policy", candidate.name, policies.available()).grid
    return {key: values for key, values in grid.items() if key not in candidate.parameters}


def _regrets(
    experiment: Experiment,
    candidate: Candidate,
    choices: Sequence[Parameters],
    trials: Sequence[int],
    *,
    jobs: int,
    progress: Progress | None,
) -> list[float]:
    """Return the mean regret a task of each choice."""
    variants = tuple(
        Candidate(name=candidate.name, label=str(i), parameters={**candidate.parameters, **choice})
        for i, choice in enumerate(choices)
    )
    cells: list[Cell] = replace(experiment, candidates=variants).cells(trials)
    regrets = [trace.regret_per_task for _, trace in run_all(cells, jobs=jobs, progress=progress)]
    means = np.reshape(regrets, (len(trials), len(choices))).mean(axis=0)
    if not np.isfinite(means).all():
        raise ConfigurationError(
            f"{candidate.label} cannot be tuned: nobody knows the regret in the environment "
            f"{experiment.environment}; give its parameters and leave out tuning"
        )
    return [float(mean) for mean in means]


def _at_edge(value: float, values: Sequence[float]) -> bool:
    return len(values) > 1 and value in (min(values), max(values))
