"""How long the paper's cells take as they stand in :mod:`benchmarks.literal`, from a sample.

All would take days, so some rounds evenly spread over a play and some iterations of each fit are
timed, and count as often as the cell has them. Decisions between the timed rounds are random,
which makes no difference to what a round costs. Times are the processor's, so that other
programs on the machine do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks import literal
from benchmarks.references import stacked
from cobandits import environments
from cobandits.decisions import Round
from cobandits.environments import Environment, Synthetic
from cobandits.lab.cells import Cell, Estimation, Simulation
from cobandits.metrics import relative_error
from cobandits.policies import schedules

__all__ = [
    "TIMED_ITERATIONS",
    "TIMED_ROUNDS",
    "Literal",
    "epoch_ends",
    "has_literal",
    "literal_fit",
    "literal_policy",
    "literal_time",
    "seconds_of",
]

Floats = NDArray[np.floating]

TIMED_ROUNDS = 4  # of a play: one an epoch
TIMED_ITERATIONS = 20  # of a fit

_ALONE: dict[str, Callable[..., literal.Policy]] = {
    "ridge": literal.Ridge,
    "thompson": literal.Thompson,
}
_DESCENTS = {"altgdmin": literal.altgdmin, "altgd": literal.altgd}
_ESTIMATORS = {"lrrl": "altgdmin", "moments": "moments", "tracenorm": "tracenorm"}
_SCHEDULES = {"lrrl": "equal-4", "moments": "first-4", "tracenorm": "equal-4"}


@dataclass(frozen=True, kw_only=True)
class Literal:
    """The times of a literal cell: per iteration of each fit, and of all else."""

    rest: float  # seconds
    iterations: tuple[float, ...]  # seconds of one iteration, for each fit

    def seconds(self, counts: Sequence[int]) -> float:
        """Return the time of the whole cell, if its fits take so many iterations.

        >>> Literal(rest=1.0, iterations=(0.5, 2.0)).seconds([2, 10])
        22.0
        """
        each = zip(self.iterations, counts, strict=True)
        return self.rest + sum(seconds * count for seconds, count in each)


def literal_time(cell: Cell) -> Literal:
    """Time a sample of what the cell does, written literally."""
    if isinstance(cell, Estimation):
        return _estimation_time(cell)
    assert isinstance(cell, Simulation)
    return _simulation_time(cell)


def _simulation_time(cell: Simulation) -> Literal:
    environment = environments.make(cell.environment, cell.environment_parameters)
    rounds = environment.rounds(cell.rounds, seed=cell.seed, trial=cell.trial)
    policy, ends = literal_policy(cell, environment), epoch_ends(cell)
    timed = {int((k + 0.5) * cell.rounds / TIMED_ROUNDS) for k in range(TIMED_ROUNDS)}
    played, fits = [], []
    for n in range(cell.rounds):
        if n not in timed:
            _random_round(policy, next(rounds))
        elif ends is None:
            policy.refit()  # to what it would know by now
            played.append(seconds_of(lambda: _round(policy, next(rounds), refit=True)))
        else:
            played.append(seconds_of(lambda: _round(policy, next(rounds), refit=False)))
        if ends is not None and n + 1 in ends:
            fits.append(_refit_time(policy))
    rest = float(np.mean(played)) * cell.rounds + sum(start for start, _ in fits)
    is_fitted = isinstance(policy, literal.Greedy)
    return Literal(rest=rest, iterations=tuple(one for _, one in fits) if is_fitted else ())


def _round(policy: literal.Policy, asked: Round, *, refit: bool) -> None:
    """Play a round as the policy does."""
    chosen = policy.decide(asked.arms, np.random.default_rng(0))
    _paid(policy, asked, chosen)
    if refit:
        policy.refit()


def _random_round(policy: literal.Policy, asked: Round) -> None:
    """Play a round at random that is not timed, to have rows to fit."""
    T, K, _ = asked.arms.shape
    _paid(policy, asked, np.random.default_rng(0).integers(K, size=(T,)))


def _paid(policy: literal.Policy, asked: Round, chosen: NDArray[np.int64]) -> None:
    each = np.arange(len(chosen))
    policy.add(asked.arms[each, chosen], asked.rewards[each, chosen])


def _refit_time(policy: literal.Policy) -> tuple[float, float]:
    """Refit with few iterations; return the seconds without any, and those of one."""
    if not (isinstance(policy, literal.Greedy) and policy.iterations):
        return seconds_of(policy.refit), 0.0
    data, policy.iterations = policy.data(), TIMED_ITERATIONS
    start = seconds_of(lambda: policy.fit(*data, policy.factors, 0))
    return start, max(0.0, seconds_of(policy.refit) - start) / TIMED_ITERATIONS


def _estimation_time(cell: Estimation) -> Literal:
    environment = environments.make("synthetic", cell.environment_parameters)
    assert isinstance(environment, Synthetic)
    begin = process_time()
    problem = environment.problem(n_rows=cell.n_rows, seed=cell.seed, trial=cell.trial)
    drawn = process_time() - begin
    rows = stacked(problem.tasks.rows, problem.tasks.rewards, environment.n_tasks)

    def note(B: Floats, W: Floats) -> None:
        relative_error(B @ W, problem.theta)

    fit = literal_fit(cell.estimator, environment, cell.n_rows, note)
    start = seconds_of(lambda: fit(*rows, None, 0))
    if cell.estimator == "moments":
        return Literal(rest=drawn + start, iterations=(0.0,))
    some = seconds_of(lambda: fit(*rows, None, TIMED_ITERATIONS)) - start
    return Literal(rest=drawn + start, iterations=(max(0.0, some) / TIMED_ITERATIONS,))


def literal_fit(
    estimator: str, environment: Synthetic, n_rows: int, note: literal.Note | None = None
) -> literal.Fit:
    """Return the literal fit of an estimator of the library, for rows of this environment."""
    rank = environment.rank
    if estimator == "moments":
        return lambda Phi, y, _start, _iterations: literal.moments(Phi, y, rank)
    if estimator == "tracenorm":
        d, T = environment.dim, environment.n_tasks
        # theory_penalty of the library, for white features and noise that is known
        penalty = environment.noise_std * (np.sqrt(T) + np.sqrt(d)) / (T * np.sqrt(n_rows))
        return lambda Phi, y, start, iterations: literal.trace_norm(
            Phi, y, penalty, start, iterations, note
        )
    fit = _DESCENTS[estimator]
    return lambda Phi, y, start, iterations: fit(Phi, y, rank, start, iterations, note)


def literal_policy(cell: Simulation, environment: Environment) -> literal.Policy:
    """Return the literal policy that a cell asks for."""
    parameters = cell.policy_parameters
    told = {key: float(parameters[key] or 0) for key in ("scale", "ridge") if key in parameters}
    size = {"dim": environment.dim, "n_tasks": environment.n_tasks}
    if cell.policy in _ALONE:
        return _ALONE[cell.policy](**size, **told)
    assert isinstance(environment, Synthetic)
    if cell.policy == "subspace-oracle":
        first = next(environment.rounds(1, seed=cell.seed, trial=cell.trial))
        assert first.truth is not None
        n_tasks = environment.n_tasks
        return literal.SubspaceRidge(basis=first.truth.basis, n_tasks=n_tasks, **told)
    estimator, ends = _estimator(cell), epoch_ends(cell)
    assert ends is not None
    return literal.Greedy(
        **size,
        fit=literal_fit(estimator, environment, ends[0]),
        iterations=0 if estimator == "moments" else literal.ITERATIONS,
    )


def has_literal(cell: Cell) -> bool:
    """Tell whether there is a literal version of the cell."""
    fits = {*_DESCENTS, "moments", "tracenorm"}
    if isinstance(cell, Estimation):
        return cell.estimator in fits
    if not isinstance(cell, Simulation) or cell.environment != "synthetic":
        return False
    by_epoch = cell.policy_parameters.get("memory", "epoch") == "epoch"
    alone = {*_ALONE, "subspace-oracle"}
    return cell.policy in alone or (by_epoch and _estimator(cell) in fits)


def epoch_ends(cell: Simulation) -> list[int] | None:
    """Return the rounds after which the policy refits; None for every round."""
    text = cell.policy_parameters.get("schedule", _SCHEDULES.get(cell.policy))
    if text is None:
        return None
    schedule, ends = schedules.named(str(text), cell.rounds), [0]
    while (end := schedule.next_end(ends[-1])) is not None and end <= cell.rounds:
        ends.append(end)
    return ends[1:]


def _estimator(cell: Simulation) -> str:
    return str(cell.policy_parameters.get("estimator", _ESTIMATORS.get(cell.policy, "none")))


def seconds_of(function: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    begin = process_time()
    function()
    return process_time() - begin
