"""Tasks that join late, and a basis that is replaced: regret of some tasks or some rounds.

The command tells the regret of all tasks and rounds; here the library is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import ClassVar

import numpy as np

from benchmarks.flagship.figures import Cell, worst_target
from benchmarks.flagship.kept import Command, Kept, Line
from benchmarks.flagship.page import Part, plus_minus
from benchmarks.flagship.sections import SEED, Scale
from benchmarks.report import Table
from cobandits.decisions import Round
from cobandits.environments import Environment, Synthetic
from cobandits.policies import Shared, SubspaceOracle
from cobandits.simulate import simulate

__all__ = ["FIRST", "SecondHalf", "columns", "drift", "drift_trial", "late", "late_trial"]

FIRST = 50  # rounds of a late task that count
LATE = 0.2  # the share of tasks, as of --late-tasks
NOISES = (1e-3, 0.1)
Work = Callable[[Synthetic, int, int, int], Line]


@dataclass(frozen=True)
class SecondHalf:
    """The second half of the rounds of an environment."""

    whole: Environment
    name: ClassVar[str] = "second-half"

    @property
    def dim(self) -> int:
        """Features of an arm, d."""
        return self.whole.dim

    @property
    def n_tasks(self) -> int:
        """Tasks that may ask, T."""
        return self.whole.n_tasks

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of rewards."""
        return self.whole.noise_std

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        """Draw twice as many rounds, and leave out the first half."""
        drawn = self.whole.rounds(2 * n_rounds, seed=seed, trial=trial)
        return islice(drawn, n_rounds, None)


def late_trial(environment: Synthetic, rounds: int, seed: int, trial: int) -> Line:
    """Return the regret per task of the late tasks in their first rounds.

    The oracle's ridge is the square of the noise: its weights are then the posterior mean, since
    the true ones are standard Gaussian.
    """
    d, T, half = environment.dim, environment.n_tasks, rounds // 2
    first = T - round(environment.late * T)
    oracle = SubspaceOracle(dim=d, n_tasks=T, ridge=environment.noise_std**2)
    found: Line = {"trial": trial}
    for policy in (Shared(dim=d, n_tasks=T), oracle):
        trace = simulate(policy, environment, rounds, seed, trial=trial)
        late = trace.regret[half : half + FIRST, first:]  # (round, task)
        found[policy.name] = float(late.sum(axis=0).mean())
    return found


def drift_trial(environment: Synthetic, rounds: int, seed: int, trial: int) -> Line:
    """Return the regret in the second half: of who saw the first, and of a fresh start.

    Also how many rounds of the second half there were when the change was noticed, None where it
    was not, and how many changes were noticed before there was one.
    """
    d, T, half = environment.dim, environment.n_tasks, rounds // 2
    policy, fresh = (Shared(dim=d, n_tasks=T) for _ in range(2))
    old = simulate(policy, environment, 2 * half, seed, trial=trial)
    new = simulate(fresh, SecondHalf(environment), half, seed, trial=trial)
    after = [rewards // T - half + 1 for rewards in policy.changes]
    right = [count for count in after if count > 0]
    return {
        "trial": trial,
        "shared": float(old.regret[half:].sum(axis=0).mean()),
        "fresh": new.regret_per_task,
        "noticed": right[0] if right else None,
        "false": len(after) - len(right),
    }


def late(kept: Kept, scale: Scale) -> Part:
    """Compare tasks that join late with the oracle of the subspace."""
    world = Synthetic(dim=scale.dim, n_tasks=5, rank=1, late=LATE)
    cells, _ = _cells(kept, scale, "late", world, late_trial, scale.rounds)
    return Part(
        title="Late tasks",
        text="A fifth of the tasks joins at half time. Shown is the regret per task of these "
        f"alone, in their first {FIRST} rounds. `subspace-oracle` knows the basis, and its ridge "
        "is the right one, the square of the noise. The command tells only the regret of all tasks "
        "and rounds, so this and the next section use the library, on the rounds of:",
        commands=_commands(scale, scale.rounds, "late-tasks"),
        tables=[_table(cells, "subspace-oracle")],
        targets=[worst_target("of the subspace oracle", cells, "subspace-oracle", 2.0)],
    )


def drift(kept: Kept, scale: Scale) -> Part:
    """Compare a policy whose basis is replaced at half time with a fresh start."""
    rounds = 2 * scale.rounds
    world = Synthetic(dim=scale.dim, n_tasks=5, rank=1, replaced=True)
    cells, lines = _cells(kept, scale, "drift", world, drift_trial, rounds)
    return Part(
        title="Drift",
        text=f"Of {rounds} rounds, the second half has another basis. Shown is the regret per task "
        "in the second half, of `shared` that played the first half and of one that did not.",
        commands=_commands(scale, rounds, "drift"),
        tables=[_table(cells, "fresh")],
        targets=[worst_target("of a fresh start", cells, "fresh", 1.5)],
        notes=[_noticed(lines)],
    )


def _cells(
    kept: Kept, scale: Scale, name: str, world: Synthetic, work: Work, rounds: int
) -> tuple[list[Cell], list[Line]]:
    """Run the trials of each cell; return the regrets, and all that was noted."""
    cells, noted = [], []
    for n_tasks, rank in scale.changing:
        for noise_std in NOISES:
            tasks = replace(world, n_tasks=n_tasks, rank=rank, noise_std=noise_std)
            trial = partial(work, tasks, rounds, SEED)
            called, said = f"{name}-T{n_tasks}-r{rank}-noise{noise_std:g}", f"{name}, {trial.args}"
            lines = kept.trials(called, said, trial, scale.trials)
            setting = {"T": n_tasks, "r": rank, "noise": noise_std}
            cells.append(Cell(setting=setting, regrets=columns(lines)))
            noted += lines
    return cells, noted


def columns(lines: Sequence[Line]) -> dict[str, list[float]]:
    """Return the figures of all trials by name; one that is None in a trial is NaN."""
    return {
        name: [float("nan") if (x := line[name]) is None else x for line in lines]
        for name in lines[0]
    }


def _table(cells: Sequence[Cell], other: str) -> Table:
    rows = [
        (
            *(str(value) for value in cell.setting.values()),
            *(plus_minus(cell.mean(name), cell.half(name)) for name in ("shared", other)),
            f"{cell.ratio(other):.2f}",
        )
        for cell in cells
    ]
    columns = (*cells[0].setting, "shared", other, f"shared / {other}")
    return Table(title="Regret per task.", columns=columns, rows=rows)


def _commands(scale: Scale, rounds: int, option: str) -> list[str]:
    options = {**scale.options("T", "r", "s"), "rounds": rounds, option: True}
    return [str(Command(options=options, policies=("shared",)))]


def _noticed(lines: Sequence[Line]) -> str:
    """Say how soon the change was detected, and the number of false alarms."""
    after = [count for line in lines if (count := line["noticed"]) is not None]
    false = sum(int(line["false"] or 0) for line in lines)
    when = ""
    if after:
        when = f", after {np.median(after):.0f} rounds (median; at most {max(after):.0f})"
    return (
        f"The change was noticed in {len(after)} of {len(lines)} trials{when}. "
        f"False alarms before it: {false}."
    )
