"""Tasks that change alone, and a subspace that turns: with a discounted ridge among the rivals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import pi
from typing import Any, ClassVar
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.flagship.changing import columns
from benchmarks.flagship.figures import Cell, worst_target
from benchmarks.flagship.kept import Kept, Line
from benchmarks.flagship.page import Part, plus_minus
from benchmarks.flagship.sections import Scale
from benchmarks.report import Table
from cobandits.environments import Synthetic
from cobandits.policies import Shared
from cobandits.policies.base import Policy
from cobandits.policies.propensities import greedy
from cobandits.policies.shared import change_config
from cobandits.simulate import simulate

__all__ = ["WORLDS", "DiscountedRidge", "walking", "walking_trial"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

SEED = 4000  # no constant was chosen on it
RIDGE, WINDOW = "discounted ridge", "fixed half-life"
RIDGES, DISCOUNTS = (0.1, 1.0, 10.0), (0.9, 0.95, 0.98, 0.99, 1.0)
WORLDS: dict[str, tuple[dict[str, Any], int]] = {  # what differs, and rounds
    "one of 25 tasks changes": ({"changed": 1}, 400),
    "five of 25 tasks change": ({"changed": 5}, 400),
    "all of 5 tasks change": ({"changed": 5, "n_tasks": 5}, 400),
    "90 degrees in 1,000 rounds": ({"turn": pi / 2 / 1000}, 1000),
    "the same, noise 1": ({"turn": pi / 2 / 1000, "noise_std": 1.0}, 1000),
    "90 degrees in 100 rounds": ({"turn": pi / 2 / 100}, 400),
}


class DiscountedRidge(Policy):
    """Greedy: a ridge regression per task in which each reward takes a share of earlier weights."""

    name: ClassVar[str] = RIDGE

    def __init__(self, *, dim: int, n_tasks: int, ridge: float, discount: float) -> None:
        super().__init__(dim=dim, n_tasks=n_tasks)
        self.ridge, self.discount = ridge, discount
        self._products = np.zeros((n_tasks, dim, dim))
        self._pulls, self.thetas = np.zeros((n_tasks, dim)), np.zeros((n_tasks, dim))

    def _probabilities(self, tasks: Codes, arms: Floats) -> Floats:
        return greedy(np.einsum("mkd,md->mk", arms, self.thetas[tasks]))

    def _learn_rows(self, tasks: Codes, rows: Floats, rewards: Floats) -> None:
        for task, phi, reward in zip(tasks, rows, rewards, strict=True):
            self._products[task] = self.discount * self._products[task] + np.outer(phi, phi)
            self._pulls[task] = self.discount * self._pulls[task] + reward * phi
        A = self._products[tasks] + self.ridge * np.eye(self.dim)
        self.thetas[tasks] = np.linalg.solve(A, self._pulls[tasks][..., None])[..., 0]


def world_of(name: str) -> Synthetic:
    """Return one of the worlds."""
    differs = WORLDS[name][0]
    return Synthetic(**{"dim": 20, "n_tasks": 25, "rank": 2, "noise_std": 0.1, **differs})


def walking_trial(name: str, rounds: int, seed: int, trial: int) -> Line:
    """Return the regret per task of ``shared``, of each fixed half-life and of each ridge."""
    world = world_of(name)
    d, T = world.dim, world.n_tasks

    def play(policy: Policy) -> float:
        return simulate(policy, world, rounds, seed, trial=trial).regret_per_task

    found: Line = {"trial": trial, "shared": play(Shared(dim=d, n_tasks=T))}
    for half_life in (np.inf, *change_config.HALF_LIVES):
        with _fixed(half_life):
            found[f"{WINDOW} {half_life:g}"] = play(Shared(dim=d, n_tasks=T))
    for ridge in RIDGES:
        for discount in DISCOUNTS:
            policy = DiscountedRidge(dim=d, n_tasks=T, ridge=ridge, discount=discount)
            found[f"{RIDGE} {ridge:g}, {discount:g}"] = play(policy)
    return found


def walking(kept: Kept, scale: Scale) -> Part:
    """Compare where tasks change alone, and where a subspace turns."""
    cells = []
    for number, (name, (_, rounds)) in enumerate(WORLDS.items()):
        trial = partial(walking_trial, name, min(rounds, scale.walking_rounds), SEED)
        said = f"walking, {trial.args}"
        lines = kept.trials(f"walking-{number}", said, trial, scale.walking_trials)
        cells.append(_in_hindsight(Cell(setting={"world": name}, regrets=columns(lines))))
    turning = [cell for cell in cells if "turn" in WORLDS[str(cell.setting["world"])][0]]
    return Part(
        title="Tasks that change alone, and a subspace that turns",
        text="25 tasks of 20 features and rank 2, noise 0.1. Tasks change at half time; a subspace "
        "turns in each round. Rivals are the best in hindsight, on the reported trials: of "
        f"{len(RIDGES) * len(DISCOUNTS)} ridge regressions per task with a discount, and of "
        "`shared` with one half-life from the first reward on, none among them.",
        commands=[],
        tables=[_table(cells)],
        targets=[
            worst_target("of the best discounted ridge", cells, RIDGE, 1.0),
            worst_target("of the best fixed half-life, turning", turning, WINDOW, 1.3),
        ],
    )


@contextmanager
def _fixed(half_life: float) -> Iterator[None]:
    """Let policies forget with one half-life, whatever predicts best."""
    settings = {"FORGETTING_EVIDENCE": np.inf}
    if half_life < np.inf:
        settings = dict.fromkeys(("FORGETTING_EVIDENCE", "FORGETTING_GAIN"), -np.inf)
        settings["FORGETTING_RETURN"] = np.inf
    with ExitStack() as all_of:
        for name, value in settings.items():
            all_of.enter_context(mock.patch.object(change_config, name, value))
        if half_life < np.inf:
            all_of.enter_context(mock.patch.object(change_config, "HALF_LIVES", (half_life,)))
        yield


def _in_hindsight(cell: Cell) -> Cell:
    """Return the cell with the best of each kind of rivals in place of all."""
    best = {
        kind: min((name for name in cell.regrets if name.startswith(kind)), key=cell.mean)
        for kind in (RIDGE, WINDOW)
    }
    found = {kind: cell.regrets[name] for kind, name in best.items()}
    setting = {**cell.setting, **{f"best {kind}": best[kind].removeprefix(kind) for kind in best}}
    return Cell(setting=setting, regrets={"shared": cell.regrets["shared"], **found})


def _table(cells: list[Cell]) -> Table:
    names = ("shared", RIDGE, WINDOW)
    rows = [
        (
            *(str(value) for value in cell.setting.values()),
            *(plus_minus(cell.mean(name), cell.half(name)) for name in names),
            *(f"{cell.ratio(name):.2f}" for name in names[1:]),
        )
        for cell in cells
    ]
    ratios = (f"shared / {name}" for name in names[1:])
    return Table(title="Regret per task.", columns=(*cells[0].setting, *names, *ratios), rows=rows)
