"""Recovery of theta in the cells of the paper: to 1.05 of the floor, and exactly without noise.

The floor is the error of the least-squares optimum that is found from the true basis, here
by Gauss-Newton steps that share no code with the library. In a full cell, at least 19 of
20 seeds must do it; in the quick ones, that run with every change, all of 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from cobandits.environments import Problem, Synthetic
from cobandits.estimate import Estimate
from cobandits.estimators import AltGDMin, Estimator, LowRank
from cobandits.metrics import relative_error
from tests.support import cost_of, optimum_near_truth

SLACK = 1.05
SEEDS, NEEDED = 20, 19


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A kind of problem; a task has 50 rows, or from 10 to 90."""

    T: int
    r: int
    n: int = 50
    dim: int = 100
    unequal: bool = False
    condition: float | None = None
    correlation: float = 0.0
    shift: float = 0.0

    def problem(self, seed: int, noise: float = 1e-3) -> Problem:
        environment = Synthetic(
            dim=self.dim,
            n_tasks=self.T,
            rank=self.r,
            noise_std=noise,
            condition=self.condition,
            correlation=self.correlation,
            shift=self.shift,
        )
        return environment.problem(n_rows=self.n, seed=seed, unequal=self.unequal)

    def __str__(self) -> str:
        extras = {"unequal": self.unequal, "condition": self.condition}
        extras |= {"correlation": self.correlation, "shift": self.shift}
        named = [f"{key}={value}" for key, value in extras.items() if value]
        return " ".join([f"T={self.T} r={self.r} n={self.n}", *named])


PLAIN = [
    Cell(T=T, r=r, unequal=unequal)
    for unequal in (False, True)
    for T, r in ((100, 2), (100, 4), (100, 8), (50, 4), (25, 4))
]
ILL = [
    Cell(T=T, r=r, **change)  # type: ignore[arg-type]
    for change in ({"condition": 10.0}, {"correlation": 0.8}, {"shift": 1.0}, {"shift": 3.0})
    for T, r in ((100, 2), (100, 4), (100, 8), (50, 4), (25, 4))
]
QUICK = [Cell(T=100, r=2), Cell(T=50, r=4), Cell(T=60, r=3, n=30, dim=40, unequal=True)]
QUICK_ILL = [
    Cell(T=60, r=3, n=40, dim=40, condition=10.0),
    Cell(T=60, r=3, n=40, dim=40, correlation=0.8),
    Cell(T=60, r=3, n=40, dim=40, shift=3.0),
]

Fit = Callable[[Cell, Problem], Estimate]


def fast(cell: Cell, problem: Problem) -> Estimate:
    return fitted(LowRank(rank=cell.r), problem)


def altgdmin(cell: Cell, problem: Problem) -> Estimate:
    return fitted(AltGDMin(rank=cell.r), problem)


def fitted(estimator: Estimator, problem: Problem) -> Estimate:
    return estimator.fit(problem.tasks)


def failures_at_the_floor(fit: Fit, cell: Cell, seeds: int) -> list[str]:
    """Return the seeds whose error is over 1.05 of the floor, with how they ended."""
    failed = []
    for seed in range(seeds):
        problem = cell.problem(seed)
        floor = relative_error(optimum_near_truth(problem), problem.theta)
        estimate = fit(cell, problem)
        ratio = relative_error(estimate.theta, problem.theta) / floor
        if not ratio <= SLACK:
            failed.append(f"seed {seed}: {ratio:.3g} of the floor, {estimate.status}")
    return failed


def failures_without_noise(fit: Fit, cell: Cell, seeds: int) -> list[str]:
    """Return the seeds whose error is not below 1e-10, with how they ended."""
    failed = []
    for seed in range(seeds):
        problem = cell.problem(seed, noise=0.0)
        estimate = fit(cell, problem)
        error = relative_error(estimate.theta, problem.theta)
        if not error < 1e-10:
            failed.append(f"seed {seed}: error {error:.3g}, {estimate.status}")
    return failed


# ---- with every change


@pytest.mark.parametrize("cell", QUICK, ids=str)
@pytest.mark.parametrize("fit", [fast, altgdmin])
def test_reaches_the_floor(fit: Fit, cell: Cell) -> None:
    assert failures_at_the_floor(fit, cell, 3) == []


@pytest.mark.parametrize("cell", QUICK_ILL, ids=str)
def test_fast_reaches_the_floor_of_ill_conditioned_problems(cell: Cell) -> None:
    assert failures_at_the_floor(fast, cell, 3) == []


@pytest.mark.parametrize("cell", QUICK, ids=str)
@pytest.mark.parametrize("fit", [fast, altgdmin])
def test_recovers_theta_without_noise(fit: Fit, cell: Cell) -> None:
    assert failures_without_noise(fit, cell, 3) == []


@pytest.mark.parametrize("cell", QUICK_ILL, ids=str)
def test_fast_recovers_theta_without_noise_in_ill_conditioned_problems(cell: Cell) -> None:
    assert failures_without_noise(fast, cell, 3) == []


def test_floor_is_an_optimum() -> None:
    """The reference itself: no worse than the truth, and where no step lowers the cost."""
    for cell in (*QUICK, *QUICK_ILL):
        problem = cell.problem(0)
        optimum, sooner = optimum_near_truth(problem), optimum_near_truth(problem, steps=5)
        assert cost_of(problem.tasks, optimum) < cost_of(problem.tasks, problem.theta)
        assert relative_error(sooner, optimum) < 1e-9


# ---- the full cells


def each(fits: list[Fit], cells: list[Cell]) -> Iterator[object]:
    for fit in fits:
        for cell in cells:
            yield pytest.param(fit, cell, id=f"{fit.__name__} {cell}")


@pytest.mark.statistical
@pytest.mark.parametrize(("fit", "cell"), [*each([fast, altgdmin], PLAIN), *each([fast], ILL)])
def test_reaches_the_floor_in_19_of_20_seeds(fit: Fit, cell: Cell) -> None:
    failed = failures_at_the_floor(fit, cell, SEEDS)
    assert len(failed) <= SEEDS - NEEDED, failed


@pytest.mark.statistical
@pytest.mark.parametrize(("fit", "cell"), [*each([fast, altgdmin], PLAIN), *each([fast], ILL)])
def test_recovers_theta_without_noise_in_19_of_20_seeds(fit: Fit, cell: Cell) -> None:
    failed = failures_without_noise(fit, cell, SEEDS)
    assert len(failed) <= SEEDS - NEEDED, failed


@pytest.mark.statistical
@pytest.mark.parametrize("noise", [1e-3, 0.0])
def test_fast_hardly_ever_fails_where_rows_are_few(noise: float) -> None:
    """In the hardest cell at most 1 % of 300 seeds may end elsewhere."""
    cell = Cell(T=25, r=4)
    failed = []
    for seed in range(300):
        problem = cell.problem(seed, noise)
        estimate = fast(cell, problem)
        if relative_error(estimate.theta, problem.theta) > max(20 * noise, 1e-8):
            failed.append(f"seed {seed}: {estimate.status}")
    assert len(failed) <= 3, failed
