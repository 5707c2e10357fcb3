"""Tuning: each peer's best parameters on each workload, and its trials with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from benchmarks.peers.contract import Peer
from benchmarks.peers.play import Parameters, Trial
from benchmarks.peers.runs import MissingError, Runner
from benchmarks.peers.workloads import Workload

__all__ = ["TUNING", "Run", "at_edges", "points", "run"]

TUNING = (-1,)  # the trials that parameters are chosen on; reported ones count from 0

Grid = Mapping[str, tuple[float | str, ...]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A peer on a workload: its trials, or why there are none."""

    trials: Sequence[Trial] = ()
    parameters: Parameters
    edges: Sequence[str] = ()  # parameters that are the least or the largest that was tried
    missing: str = ""


def run(runner: Runner, peer: Peer, workload: Workload, grid: Grid) -> Run:
    """Choose the parameters with the least regret, and play with them."""
    if not workload.is_there:
        return Run(parameters={}, missing="no data")
    if _too_large(peer, workload):
        return Run(parameters={}, missing="too slow")
    try:
        best = _best(runner, peer, workload, grid)
        played = runner.play(peer, workload, trials=range(workload.trials), choices=[best])
    except MissingError as error:
        return Run(parameters={}, missing=str(error))
    return Run(trials=played, parameters=best, edges=at_edges(best, grid))


def points(grid: Grid) -> list[dict[str, float | str]]:
    """Return all that is tried.

    >>> points({"a": (1, 2), "b": ("x",)})
    [{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'x'}]
    >>> points({})
    [{}]
    """
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def at_edges(chosen: Parameters, grid: Grid) -> list[str]:
    """Return the parameters whose value is the least or the largest of several numbers.

    >>> at_edges({"a": 1.0, "b": 2.0, "c": 1.0}, {"a": (1.0, 3.0), "b": (1, 2, 3), "c": (1.0,)})
    ['a']
    """
    numbers = {
        name: [value for value in values if not isinstance(value, str)]
        for name, values in grid.items()
    }
    return [
        name
        for name, tried in numbers.items()
        if len(tried) > 1 and chosen[name] in (min(tried), max(tried))
    ]


def _best(runner: Runner, peer: Peer, workload: Workload, grid: Grid) -> Parameters:
    tried = points(grid)
    if len(tried) == 1:
        return tried[0]
    shorter = workload.for_tuning(shares=peer.shares)
    played = runner.play(peer, shorter, trials=TUNING, choices=tried)
    found = [trial.regret for trial in played]
    return tried[found.index(min(found))]


def _too_large(peer: Peer, workload: Workload) -> bool:
    environment = workload.made()
    numbers = environment.n_tasks * environment.dim**2
    return peer.most_numbers is not None and numbers > peer.most_numbers
