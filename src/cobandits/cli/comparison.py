"""Estimators on the same rows, drawn from a known theta."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cobandits import plots
from cobandits.environments import Problem, Synthetic
from cobandits.estimate import Estimate
from cobandits.estimators import Estimator, make
from cobandits.lab.cells import noise_floor
from cobandits.linalg import subspace_distance
from cobandits.metrics import relative_error
from cobandits.progress import ProgressBar
from cobandits.randomness import stream

__all__ = ["Comparison", "ErrorCurves", "Run"]

Floats = NDArray[np.floating]
Errors = NDArray[np.float64]  # by iteration


@dataclass(frozen=True, kw_only=True)
class Run:
    """One estimator on the rows of one trial."""

    estimator: str
    trial: int
    error: float  # |Theta - Theta*|_F / |Theta*|_F
    subspace_distance: float
    iterations: int
    seconds: float  # of the fit alone
    status: str
    message: str
    rank: int
    floor: float  # the error of the least-squares optimum found from the truth
    cost: float  # the sum of squared residuals


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Estimators that are compared; in each trial they get the same rows."""

    estimators: dict[str, Estimator]
    source: Synthetic
    n_rows: int
    unequal: bool
    trials: int
    seed: int

    def runs(self, bar: ProgressBar, curves: ErrorCurves | None) -> Iterator[Run]:
        """Fit and time each estimator; if ``curves`` are wanted, fit once more with the truth."""
        bar.stage("fitting")
        _warm_up(self.estimators)
        total = self.trials * len(self.estimators)
        for trial in range(self.trials):
            problem = self.source.problem(
                n_rows=self.n_rows, seed=self.seed, trial=trial, unequal=self.unequal
            )
            floor = noise_floor(problem)
            for index, name in enumerate(self.estimators):
                done = trial * len(self.estimators) + index
                bar.update(done, total, f"trial {trial + 1} of {self.trials}, {name}")
                fitted, seconds = self._timed(name, trial, problem)
                yield _run(name, trial, problem, fitted, floor=floor, seconds=seconds)
                if curves is not None:
                    curves.add(name, self._fit(name, trial, problem, truth=problem.theta), problem)

    @property
    def setting(self) -> str:
        """The size of the problem, in a line."""
        source = self.source
        rows = f"{'about ' if self.unequal else ''}{self.n_rows} rows per task"
        more = {
            "condition": source.condition,
            "correlation": source.correlation,
            "shift": source.shift,
        }
        parts = [
            f"d = {source.dim}, T = {source.n_tasks}, r = {source.rank}",
            f"{rows}, noise {source.noise_std:g}",
            *(f"{name} {value:g}" for name, value in more.items() if value),
        ]
        return ", ".join(parts)

    def _timed(self, name: str, trial: int, problem: Problem) -> tuple[Estimate, float]:
        began = time.perf_counter()
        fitted = self._fit(name, trial, problem)  # without the truth, which takes time
        return fitted, time.perf_counter() - began

    def _fit(
        self, name: str, trial: int, problem: Problem, truth: Floats | None = None
    ) -> Estimate:
        rng = stream(self.seed, "estimator", name, trial)
        return self.estimators[name].fit(problem.tasks, rng=rng, truth=truth)


@dataclass(kw_only=True)
class ErrorCurves:
    """The errors by iteration of each estimator, for a picture."""

    errors: dict[str, list[Errors]] = field(default_factory=dict)  # by estimator, one per trial

    def add(self, name: str, fitted: Estimate, problem: Problem) -> None:
        """Keep the errors by iteration of a fit; its last error if it has no iterations."""
        errors = fitted.history.errors
        if errors is None or len(errors) < 2:
            errors = np.array([relative_error(fitted.theta, problem.theta)])
        self.errors.setdefault(name, []).append(errors)

    def draw(self, floor: list[float], setting: str, directory: Path) -> tuple[Path, Path]:
        """Write the picture of all estimators."""
        iterative = {
            name for name, trials in self.errors.items() if any(len(e) > 1 for e in trials)
        }
        curves = {name: trials for name, trials in self.errors.items() if name in iterative}
        levels = {
            name: [float(e[-1]) for e in trials]
            for name, trials in self.errors.items()
            if name not in iterative
        }
        picture = plots.convergence(curves, levels, floor, setting)
        return plots.save(picture, directory / "convergence")


def _warm_up(names: Iterable[str]) -> None:
    """Fit a tiny problem with each estimator: a first fit also imports, and is not timed."""
    tasks = Synthetic(dim=3, n_tasks=4, rank=1).problem(n_rows=8, seed=0).tasks
    for name in names:
        make(name, 1).fit(tasks, rng=0)


def _run(
    name: str, trial: int, problem: Problem, fitted: Estimate, *, floor: float, seconds: float
) -> Run:
    return Run(
        estimator=name,
        trial=trial,
        error=relative_error(fitted.theta, problem.theta),
        subspace_distance=_distance(fitted, problem.basis),
        iterations=fitted.status.iterations,
        seconds=seconds,
        status=fitted.status.outcome,
        message=fitted.status.message,
        rank=fitted.rank,
        floor=floor,
        cost=float(problem.tasks.residuals(fitted.theta)[1].sum()),
    )


def _distance(fitted: Estimate, B: Floats) -> float:
    """Return the distance of the estimate's leading r directions from the true basis.

    Directions in which theta is zero do not count, so an estimate of rank q < r is at
    least sqrt(r - q) away.
    """
    d, r = B.shape
    s = fitted.singular_values
    kept = min(r, int(np.count_nonzero(s > s[:1].sum() * d * np.finfo(np.float64).eps)))
    return subspace_distance(fitted.basis[:, :kept], B)
