"""The smallest piece of an experiment: one policy, or one estimator, in one trial.

A cell is plain data, and its record depends on nothing else, except for the times in it: not on
the machine's load, the order of the cells or the number of processes.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cobandits import environments, estimators, policies
from cobandits.decisions import Round
from cobandits.environments import Environment, Problem, Synthetic
from cobandits.errors import ConfigurationError
from cobandits.estimate import Estimate
from cobandits.estimators import LowRank
from cobandits.lab.records import Record
from cobandits.metrics import relative_error
from cobandits.policies import Policy
from cobandits.randomness import stream
from cobandits.simulate import simulate
from cobandits.traces import Trace

__all__ = ["Cell", "Estimation", "Parameters", "Simulation", "Within", "noise_floor"]

Parameters = Mapping[str, str | int | float | bool | None]
Within = Callable[[int, int], None]  # progress within a cell: steps done, steps in all

_POINTS = 500  # points of a curve that are recorded, at most
_ROOM = 2**28  # bytes of arms that are remembered


@dataclass(frozen=True, kw_only=True)
class Cell(ABC):
    """One trial of a policy or an estimator, as plain data."""

    kind: ClassVar[str]

    seed: int = 0
    trial: int = 0  # negative ones are for tuning, and never reported

    @property
    def identity(self) -> str:
        """The SHA-256 digest of the configuration.

        It contains the release, so a record of another release is never taken for this cell's.
        """
        return hashlib.sha256(self.configuration.encode()).hexdigest()

    @property
    def configuration(self) -> str:
        """The fields of the cell and the release that runs it, as JSON with sorted keys."""
        content = {"release": _release(), "kind": self.kind, **asdict(self)}
        try:
            return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the parameters of {self} must be finite numbers, texts, true or false: {error}"
            ) from error

    @property
    def world(self) -> str:
        """The rounds that the cell meets; cells of one world share them if run in a row."""
        return self.identity

    @property
    @abstractmethod
    def steps(self) -> int:
        """The number of steps, for a progress bar."""

    @abstractmethod
    def measure(self, progress: Within | None = None) -> Record:
        """Do the work, and return the columns of the record that are special to this kind."""

    def run(self, progress: Within | None = None) -> Record:
        """Run the cell, and return its record, which begins with the cell's configuration."""
        began = perf_counter()
        measured = self.measure(progress)
        known: Record = {"identity": self.identity, "configuration": self.configuration}
        return {**known, "kind": self.kind, **measured, "seconds": perf_counter() - began}


@dataclass(frozen=True, kw_only=True)
class Simulation(Cell):
    """One policy in one trial of one environment.

    Parameters
    ----------
    rank : int, optional
        The rank that policies are told; the environment's own, if it has one, where not given.

    Examples
    --------
    >>> size = {"dim": 5, "n_tasks": 3, "rank": 1}
    >>> cell = Simulation(
    ...     environment="synthetic", environment_parameters=size, policy="ridge", rounds=20
    ... )
    >>> cell.run()["regret_per_task"] == cell.run()["regret_per_task"]
    True
    """

    kind: ClassVar[str] = "simulation"

    environment: str
    environment_parameters: Parameters = field(default_factory=dict)
    policy: str
    policy_parameters: Parameters = field(default_factory=dict)
    rank: int | None = None
    rounds: int

    @property
    def steps(self) -> int:
        """The number of rounds."""
        return self.rounds

    def __str__(self) -> str:
        parameters = ",".join(f"{key}={value}" for key, value in self.policy_parameters.items())
        policy = f"{self.policy}:{parameters}" if parameters else self.policy
        return f"{policy} on {self.environment}, trial {self.trial}"

    def measure(self, progress: Within | None = None) -> Record:
        """Simulate the policy, and return its regret, its fits and its times."""
        world = _world(self.world, _file_version(self.environment_parameters))
        policy = self.make_policy(world.environment)
        trace = simulate(policy, world, self.rounds, self.seed, trial=self.trial, progress=progress)
        return {
            "environment": self.environment,
            "policy": self.policy,
            **_columns(trace, self.trial),
        }

    @property
    def world(self) -> str:
        """The environment, its parameters, the rounds, the seed and the trial, as JSON."""
        met = [self.environment, self.environment_parameters, self.rounds, self.seed, self.trial]
        return json.dumps(met, sort_keys=True)

    def make_policy(self, environment: Environment) -> Policy:
        """Return a new policy for the environment."""
        rank = getattr(environment, "rank", None) if self.rank is None else self.rank
        return policies.make(
            self.policy,
            self.policy_parameters,
            rounds=min(self.rounds, getattr(environment, "n_rounds", self.rounds)),
            dim=environment.dim,
            n_tasks=environment.n_tasks,
            rank=rank,
            noise_std=environment.noise_std,
        )


@dataclass(frozen=True, kw_only=True)
class Estimation(Cell):
    """One estimator on the rows of one trial of the synthetic environment.

    The error of theta is recorded after each iteration, as in Figure 2 of the paper.
    """

    kind: ClassVar[str] = "estimation"

    environment_parameters: Parameters
    n_rows: int
    estimator: str
    estimator_parameters: Parameters = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The number of rows per task."""
        return self.n_rows

    def __str__(self) -> str:
        return f"{self.estimator} on {self.n_rows} rows per task, trial {self.trial}"

    def measure(self, progress: Within | None = None) -> Record:
        """Fit, and return the error by iteration and the noise floor."""
        made = environments.make("synthetic", self.environment_parameters)
        assert isinstance(made, Synthetic)
        problem = made.problem(n_rows=self.n_rows, seed=self.seed, trial=self.trial)
        estimator = estimators.make(self.estimator, made.rank, **self.estimator_parameters)
        rng = stream(self.seed, "estimator", self.trial)
        began = process_time()
        fitted = estimator.fit(problem.tasks, truth=problem.theta, rng=rng)
        seconds = process_time() - began
        errors = fitted.history.errors
        if progress is not None:
            progress(self.steps, self.steps)
        return {
            "estimator": self.estimator,
            "trial": self.trial,
            "error": relative_error(fitted.theta, problem.theta),
            "floor": noise_floor(problem),
            "iterations": fitted.status.iterations,
            "status": fitted.status.outcome,
            "seconds_fitting": seconds,
            "errors": [] if errors is None else errors.tolist(),
        }


def noise_floor(problem: Problem) -> float:
    """Return the relative error of the least-squares optimum that is found from the truth."""
    truth = Estimate(basis=problem.basis, weights=problem.weights, labels=problem.tasks.labels)
    optimum = LowRank(rank=truth.rank).fit(problem.tasks, start=truth)
    return relative_error(optimum.theta, problem.theta)


@cache
def _release() -> str:
    return version("cobandits")  # which is read from files, each time


class _World:
    """An environment whose rounds are drawn once and kept for the next policy."""

    name: ClassVar[str] = "remembered"

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.dim, self.n_tasks = environment.dim, environment.n_tasks
        self.noise_std = environment.noise_std
        self._drawn: list[Round] = []

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        """Yield the rounds; they are kept the first time, if there is room for them."""
        if self._drawn:
            yield from self._drawn
            return
        drawn, room = [], float(_ROOM)
        for asked in self.environment.rounds(n_rounds, seed=seed, trial=trial):
            for shared in (asked.tasks, asked.arms, asked.means, asked.rewards):
                shared.flags.writeable = False  # no policy may change what the next one meets
            room -= asked.arms.nbytes
            if room > 0:
                drawn.append(asked)
            else:
                drawn.clear()  # it will not be used, so it takes no room
            yield asked
        self._drawn = drawn


@lru_cache(maxsize=1)
def _world(world: str, _file: tuple[int, ...]) -> _World:
    name, parameters, *_ = json.loads(world)
    return _World(environments.make(name, parameters))


def _file_version(parameters: Parameters) -> tuple[int, ...]:
    """Return what changes with the environment's file, so that an old version is not reused."""
    try:
        found = Path(str(parameters["file"])).stat()
    except (KeyError, OSError):  # errors of a file come when it is read
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _columns(trace: Trace, trial: int) -> Record:
    """Return the columns of a trace; a long curve has evenly spaced points only."""
    at = _recorded_rounds(len(trace.regret))
    return {
        "trial": trial,
        "regret_per_task": trace.regret_per_task,
        "mean_reward": trace.mean_reward,
        "mean_reward_error": trace.mean_reward_error,
        "rewarded": int(trace.rewarded.sum()),
        "decisions": trace.decisions,
        "seconds_deciding": trace.seconds_deciding,
        "seconds_learning": trace.seconds_learning,
        "curve_rounds": (at + 1).tolist(),
        "curve": trace.cumulative[at].tolist(),
        "fit_rounds": [fit.round for fit in trace.fits],
        "fit_errors": [fit.error for fit in trace.fits],
        "fit_distances": [fit.distance for fit in trace.fits],
        "fit_statuses": ",".join(fit.status for fit in trace.fits),
        "fit_trouble": next((fit.message for fit in trace.fits if fit.status != "converged"), ""),
    }


def _recorded_rounds(n_rounds: int) -> NDArray[np.int64]:
    """Return the rounds of a curve that are recorded: at most 500, evenly spaced, with the last."""
    if n_rounds <= _POINTS:
        return np.arange(n_rounds)
    return np.unique(np.linspace(0, n_rounds - 1, _POINTS).round().astype(np.int64))
