"""What is played: tasks with something in common, tasks with nothing, and real data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cobandits import datasets, environments
from cobandits.environments import Environment

__all__ = [
    "SEED",
    "TASKS_ALONE",
    "TASKS_SHARING",
    "WHOLE",
    "Options",
    "Workload",
    "quick",
    "workloads",
]

SEED = 7
WHOLE = "T100-r8"  # the workload whose plays are timed whole
TASKS_ALONE, TASKS_SHARING = 10, 25  # that are tuned on, where tasks do not share and where they do

Options = Mapping[str, float | bool | str]  # of an environment


@dataclass(frozen=True, kw_only=True)
class Workload:
    """An environment, and how long it is played."""

    name: str  # on the command line and in the names of files
    title: str  # in tables
    environment: str  # a name of cobandits.environments
    options: Options
    rounds: int
    trials: int = 3
    related: bool = False  # whether tasks are known to have something in common

    def for_tuning(self, *, shares: bool) -> Workload:
        """Return what parameters are chosen on: half the rounds, of few tasks.

        Of fewer, for a learner whose tasks do not share: the others would teach it nothing.
        """
        tasks = min(TASKS_SHARING if shares else TASKS_ALONE, int(self.options["n_tasks"]))
        return replace(self, rounds=self.rounds // 2, options={**self.options, "n_tasks": tasks})

    @property
    def is_there(self) -> bool:
        """Whether its data are on this machine."""
        data = str(self.options.get("data", self.environment))
        return data not in datasets.KNOWN or datasets.is_there(data)

    def made(self) -> Environment:
        """Make the environment."""
        return environments.make(self.environment, self.options)


def workloads() -> dict[str, Workload]:
    """Return all workloads by name."""
    noisy = {**_common(25, 4), "noise_std": 1.0}
    alone = {**_common(10, 4), "unrelated": True}
    unequal = {**_common(1000, 4), "dim": 50, "unequal": True}
    every = [
        _synthetic(10, 2, trials=5),
        _synthetic(25, 4),
        _synthetic(50, 2),
        _synthetic(100, 8),
        _of("noise", "noise 1, T=25 r=4", noisy, related=True),
        _of("unequal", "unequal, T=1000 r=4", unequal, rounds=20, related=True),
        _of("unrelated", "unrelated, T=10", alone, trials=10),
        _pairs("digits", 100),
        _pairs("mnist", 40),
        _choices("yogurt", "Yogurt", 59),
        _choices("movielens", "MovieLens", 120),
    ]
    return {workload.name: workload for workload in every}


def quick() -> dict[str, Workload]:
    """Return few workloads of few rounds, for tests."""
    some = {name: workloads()[name] for name in ("T10-r2", "unequal", "digits")}
    return {name: replace(workload, rounds=10, trials=2) for name, workload in some.items()}


def _common(n_tasks: int, rank: int) -> dict[str, float | bool]:
    return {"dim": 100, "n_tasks": n_tasks, "rank": rank, "n_arms": 5, "noise_std": 1e-3}


def _synthetic(n_tasks: int, rank: int, *, trials: int = 3) -> Workload:
    name, title = f"T{n_tasks}-r{rank}", f"T={n_tasks} r={rank}"
    return _of(name, title, _common(n_tasks, rank), trials=trials, related=True)


def _of(
    name: str,
    title: str,
    options: Options,
    *,
    rounds: int = 200,
    trials: int = 3,
    related: bool = False,
) -> Workload:
    return Workload(
        name=name,
        title=title,
        environment="synthetic",
        options=options,
        rounds=rounds,
        trials=trials,
        related=related,
    )


def _pairs(name: str, rounds: int) -> Workload:
    title = f"{'MNIST' if name == 'mnist' else name} pairs"
    return Workload(
        name=name, title=title, environment=name, options={"n_tasks": 45}, rounds=rounds
    )


def _choices(data: str, title: str, n_tasks: int) -> Workload:
    """Return a real data set, of which all requests are played, one per round."""
    return Workload(
        name=data,
        title=title,
        environment="choices",
        options={"data": data, "n_tasks": n_tasks},
        rounds=datasets.KNOWN[data].rows,
    )
