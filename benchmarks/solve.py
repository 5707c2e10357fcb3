"""Time to 1.05 of the floor: the library's default against AltGDMin in plain NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.references import (
    batched,
    batched_reusing,
    iterations_to_error,
    literal,
    run,
    stacked,
)
from benchmarks.report import Section, Table, Target
from benchmarks.timing import REPETITIONS, geometric_mean, interleaved
from cobandits.environments import Problem, Synthetic
from cobandits.estimators import LowRank
from cobandits.lab.cells import noise_floor
from cobandits.metrics import relative_error

__all__ = ["CELLS", "Cell", "Solved", "fast_iterations", "section", "solve"]

Floats = NDArray[np.floating]

SEEDS = 5
WITHIN = 1.05
LIMIT = 10_000  # iterations of AltGDMin
FULL = 150  # iterations up to which the literal loop is run whole
PART = 25  # iterations that are timed where it is not


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting of the problem, with d = 100 and noise of std 1e-3."""

    T: int
    r: int
    n: int
    condition: float | None = None

    def __str__(self) -> str:
        spread = "" if self.condition is None else f", condition {self.condition:g}"
        return f"T={self.T}, r={self.r}, n={self.n}{spread}"

    def problem(self, seed: int) -> Problem:
        environment = Synthetic(
            dim=100, n_tasks=self.T, rank=self.r, noise_std=1e-3, condition=self.condition
        )
        return environment.problem(n_rows=self.n, seed=seed)


CELLS = (
    Cell(T=100, r=2, n=50),
    Cell(T=100, r=4, n=50),
    Cell(T=100, r=8, n=50),
    Cell(T=50, r=4, n=50),
    Cell(T=25, r=4, n=50),
    Cell(T=100, r=4, n=50, condition=10),
)


@dataclass(frozen=True, kw_only=True)
class Solved:
    """Iterations and seconds to 1.05 of the floor, for one problem."""

    iterations: int  # of LowRank
    reference_iterations: int  # of AltGDMin
    lowrank: float  # seconds
    batched: float
    batched_reusing: float
    literal: float


def fast_iterations(problem: Problem, error: float) -> int | None:
    """Return the fewest iterations after which a fit of LowRank has at most this error."""
    rank = problem.basis.shape[1]
    whole = LowRank(rank=rank).fit(problem.tasks, truth=problem.theta)
    assert whole.history.errors is not None
    for iterations in range(1, len(whole.history.errors) + 1):
        if whole.history.errors[min(iterations, len(whole.history.errors) - 1)] > error:
            continue
        part = LowRank(rank=rank, iterations=iterations).fit(problem.tasks)
        if relative_error(part.theta, problem.theta) <= error:
            return iterations
    return None


def solve(problem: Problem, repetitions: int = REPETITIONS) -> Solved | None:
    """Time every method on a problem; None where one of them does not reach the floor."""
    tasks, rank = problem.tasks, problem.basis.shape[1]
    Phi, y = stacked(tasks.rows, tasks.rewards, tasks.n_tasks)
    error = WITHIN * noise_floor(problem)
    k = fast_iterations(problem, error)
    # the references take the same steps, so the quickest of them counts for all
    k_reference = iterations_to_error(batched_reusing, Phi, y, problem.theta, rank, error, LIMIT)
    if k is None or k_reference is None:
        return None
    k_literal = k_reference if k_reference <= FULL else PART
    timings = interleaved(
        {
            "lowrank": lambda: LowRank(rank=rank, iterations=k).fit(tasks),
            "batched": partial(run, batched, Phi, y, rank, k_reference),
            "reusing": partial(run, batched_reusing, Phi, y, rank, k_reference),
            "literal": partial(run, literal, Phi, y, rank, k_literal),
            "start": partial(run, literal, Phi, y, rank, 0),
        },
        repetitions=repetitions,
    )
    start = timings.median("start")
    return Solved(
        iterations=k,
        reference_iterations=k_reference,
        lowrank=timings.median("lowrank"),
        batched=timings.median("batched"),
        batched_reusing=timings.median("reusing"),
        literal=start + (timings.median("literal") - start) * k_reference / k_literal,
    )


def section() -> Section:
    """Time all cells over several seeds and compare with the targets."""
    times: list[tuple[str | float, ...]] = []
    ratios: list[tuple[float, ...]] = []
    left_out = 0
    for cell in CELLS:
        found = [solve(cell.problem(seed)) for seed in range(1, SEEDS + 1)]
        solved = [one for one in found if one is not None]
        left_out += len(found) - len(solved)
        times.append((str(cell), *_medians(solved)))
        ratios.append(_median_ratios(solved))
    means = tuple(geometric_mean(column) for column in zip(*ratios, strict=True))
    targets = [
        Target(name="batched / lowrank, geometric mean", measured=means[0], at_least=10),
        Target(name="literal / lowrank, geometric mean", measured=means[2], at_least=80),
        Target(name="problems left out: a method stays above", measured=left_out, at_most=0),
    ]
    notes = [
        f"lowrank is LowRank. * Where AltGDMin needs over {FULL} iterations, the literal loop is "
        f"timed for {PART} and its time extrapolated; the others are always run whole.",
    ]
    tables = [_times(times), _ratios([*ratios, means])]
    return Section(name="solve", tables=tables, targets=targets, notes=notes)


def _times(rows: list[tuple[str | float, ...]]) -> Table:
    title = (
        f"Milliseconds to {WITHIN} of the floor, start and all set-up included, d = 100, "
        f"noise std 1e-3; medians of {SEEDS} seeds"
    )
    columns = (
        "cell",
        "iterations",
        "lowrank",
        "AltGDMin iterations",
        "batched",
        "reusing",
        "literal",
    )
    return Table(title=title, columns=columns, rows=rows)


def _ratios(rows: list[tuple[float, ...]]) -> Table:
    names = [*(str(cell) for cell in CELLS), "geometric mean"]
    columns = ("cell", "batched / lowrank", "reusing / lowrank", "literal / lowrank")
    named: list[tuple[str | float, ...]] = [
        (name, *row) for name, row in zip(names, rows, strict=True)
    ]
    return Table(title="The same as ratios", columns=columns, rows=named)


def _medians(solved: list[Solved]) -> tuple[str | float, ...]:
    """Return medians over problems: iterations, and times in milliseconds."""
    rows = [
        (s.iterations, s.lowrank, s.reference_iterations, s.batched, s.batched_reusing, s.literal)
        for s in solved
    ]
    units = np.array([1, 1e3, 1, 1e3, 1e3, 1e3])
    *whole, literal_loop = (np.median(np.array(rows), axis=0) * units).tolist()
    extrapolated = any(s.reference_iterations > FULL for s in solved)
    return (*whole, f"{literal_loop:.0f}*" if extrapolated else literal_loop)


def _median_ratios(solved: list[Solved]) -> tuple[float, ...]:
    rows = [
        (s.batched / s.lowrank, s.batched_reusing / s.lowrank, s.literal / s.lowrank)
        for s in solved
    ]
    return tuple(np.median(np.array(rows), axis=0).tolist())
