"""Tuning: the best parameters of policies, on trials that are never reported."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cobandits import policies
from cobandits.discovery import pick
from cobandits.errors import ConfigurationError
from cobandits.lab.cells import Parameters
from cobandits.lab.experiments import Candidate, Experiment
from cobandits.lab.runner import Jobs, Progress, Runner, in_order, run_all

__all__ = ["Tuning", "tune", "tuned"]

_TRIALS = (-1, -2)  # reported trials count from 0


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The parameters that were tried for a policy, and the best of them."""

    label: str
    parameters: Parameters  # those that were tuned
    tried: tuple[tuple[Parameters, float], ...]  # with the mean regret per task
    edges: tuple[str, ...]  # parameters whose best value is at an end of its grid

    def __str__(self) -> str:
        best = ", ".join(f"{key} = {value:g}" for key, value in self._numbers())
        text = f"{self.label}: tuned to {best}, of {len(self.tried)} tried on trials of their own"
        if self.edges:
            text += f"; {', '.join(self.edges)} is at the edge of what was tried"
        return text

    def _numbers(self) -> list[tuple[str, float]]:
        return [(key, float(value)) for key, value in self.parameters.items() if value is not None]


def tuned(
    experiment: Experiment,
    *,
    jobs: Jobs = 1,
    progress: Progress | None = None,
    run: Runner = run_all,
) -> tuple[Experiment, list[Tuning]]:
    """Return the experiment with the best parameters for each policy that has a grid."""
    notes = {
        one.label: tune(experiment, one, jobs=jobs, progress=progress, run=run)
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
    jobs: Jobs = 1,
    progress: Progress | None = None,
    run: Runner = run_all,
) -> Tuning:
    """Return the parameters of the policy's grid with the least mean regret per task.

    Parameters that the candidate gives are kept. The trials must be negative, which are never
    reported. ``run`` runs the cells; that of a store does not run a cell twice.
    """
    if not trials or max(trials) >= 0:
        raise ConfigurationError(f"trials for tuning must be negative, got {list(trials)}")
    grid = _open_grid(candidate)
    choices = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    variants = replace(experiment, candidates=_variants(candidate, choices))
    cells = variants.cells(trials)
    records = in_order(cells, run(cells, jobs=jobs, progress=progress))
    by_trial = np.reshape([record["regret_per_task"] for _, record in records], (len(trials), -1))
    regrets = _means(by_trial.astype(np.float64), experiment, candidate)
    best = choices[int(np.argmin(regrets))]
    return Tuning(
        label=candidate.label,
        parameters=best,
        tried=tuple(zip(choices, regrets, strict=True)),
        edges=tuple(key for key, value in best.items() if _at_edge(value, grid[key])),
    )


def _open_grid(candidate: Candidate) -> Mapping[str, tuple[float, ...]]:
    """Return the values to try for each parameter that is not given."""
    grid = pick("policy", candidate.name, policies.available()).grid
    return {key: values for key, values in grid.items() if key not in candidate.parameters}


def _variants(candidate: Candidate, choices: Sequence[Parameters]) -> tuple[Candidate, ...]:
    """Return the candidate with each choice of parameters, under different labels."""
    return tuple(
        Candidate(name=candidate.name, label=str(i), parameters={**candidate.parameters, **choice})
        for i, choice in enumerate(choices)
    )


def _means(
    regrets: NDArray[np.float64], experiment: Experiment, candidate: Candidate
) -> list[float]:
    """Return the mean regret per task of each choice, (trial, choice) -> (choice,)."""
    means = regrets.mean(axis=0)
    if not np.isfinite(means).all():
        raise ConfigurationError(
            f"{candidate.label} cannot be tuned: nobody knows the regret in the environment "
            f"{experiment.environment}; give its parameters and leave out tuning"
        )
    return [float(mean) for mean in means]


def _at_edge(value: float, values: Sequence[float]) -> bool:
    return len(values) > 1 and value in (min(values), max(values))
