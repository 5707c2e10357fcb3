"""Real data: purchases and ratings, where tasks have a mean in common.

The command tells the regret of all requests; for that of each task's first request the library is
used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.flagship.changing import columns
from benchmarks.flagship.figures import (
    BASELINES,
    BEST,
    POOLED,
    SHARED,
    Cell,
    mean_target,
    worst_target,
)
from benchmarks.flagship.kept import Kept, Line, Option, Play
from benchmarks.flagship.page import Part, notes_on, plus_minus, regret_table
from benchmarks.flagship.sections import SEED, Scale, commands, compared
from benchmarks.report import Table
from cobandits import policies
from cobandits.environments.choices import Choices
from cobandits.simulate import simulate

__all__ = ["first_trial", "real"]

RIVALS = (*BASELINES, *POOLED)
FIRST = (SHARED, "random", "global")  # whose first decisions are shown
COLUMNS = (SHARED, *BASELINES, *POOLED)


def real(kept: Kept, scale: Scale) -> Part:
    """Compare on real tables of choices, and look at the first decision of each task."""
    cells, firsts = [], []
    for data in scale.real:
        plays = compared(kept, f"real-{data}", _options(scale, data), RIVALS)
        cells.append(Cell.of({"data": data}, plays))
        firsts.append(_first_decisions(kept, scale, data, plays))
    rivals = "of the best tuned rival"
    return Part(
        title="Real data",
        text="Tables of choices, in which every arm's reward is known: households that choose a "
        "brand (catsup, cracker, tuna, yogurt); users who rate movies, ten to choose among, "
        "described by genres or by singular vectors of other users' ratings; students who rate "
        "lectures (insteval), persons who answer questions (verbagg), and pupils of a school or a "
        "district by their exam (exam, chem97). A round is one request. A trial is an order "
        "of the requests, so tuning sees the same requests in other orders. `global` is one ridge "
        "regression for all tasks, and `global-own` adds one per task on what that leaves; both "
        "count as rivals here.",
        commands=commands(_options(scale, "NAME"), RIVALS),
        tables=[regret_table(cells, COLUMNS, (BEST,)), _first_table(firsts, scale.first_trials)],
        targets=[
            mean_target(rivals, cells, BEST, 1.0),
            worst_target(rivals, cells, BEST, 1.05),
            worst_target("of `global`, first decision of a task", firsts, "global", 1.0),
        ],
        notes=notes_on(cells, (BEST,)),
    )


def first_trial(
    data: str, n_tasks: int, chosen: Mapping[str, float | str], seed: int, trial: int
) -> Line:
    """Return the regret of each task's first request, mean over tasks; ``global`` as chosen."""
    environment = Choices(data=data, n_tasks=n_tasks)
    rounds = environment.rounds(environment.n_rounds, seed=seed, trial=trial)
    asked = np.array([int(one.tasks[0]) for one in rounds])
    tasks, firsts = np.unique(asked, return_index=True)
    played = int(firsts.max()) + 1  # more would not be looked at
    found: Line = {"trial": trial}
    for name in FIRST:
        parameters = chosen if name == "global" else {}
        policy = policies.make(
            name,
            parameters,
            rounds=environment.n_rounds,
            dim=environment.dim,
            n_tasks=environment.n_tasks,
        )
        trace = simulate(policy, environment, played, seed, trial=trial)
        found[name] = float(trace.regret[firsts, tasks].mean())
    return found


def _first_decisions(kept: Kept, scale: Scale, data: str, plays: Sequence[Play]) -> Cell:
    """Return the cost of first decisions in each trial; ``global`` plays as it was tuned."""
    chosen = next(play.parameters for play in plays if play.policy == "global")
    trial = partial(first_trial, data, scale.real_tasks, dict(chosen), SEED)
    said = f"first decisions, {trial.args}"
    lines = kept.trials(f"real-{data}-first", said, trial, scale.first_trials)
    return Cell(setting={"data": data}, regrets=columns(lines))


def _first_table(cells: Sequence[Cell], trials: int) -> Table:
    rows = [
        (
            *(str(value) for value in cell.setting.values()),
            *(plus_minus(cell.mean(name), cell.half(name)) for name in FIRST),
            f"{cell.ratio('global'):.2f}",
        )
        for cell in cells
    ]
    return Table(
        title=f"Regret of the first decision of a task, mean over tasks, {trials} trials.",
        columns=(*cells[0].setting, *FIRST, "shared / global"),
        rows=rows,
    )


def _options(scale: Scale, data: str) -> dict[str, Option]:
    options: dict[str, Option] = {"env": "choices", "data": data}
    if scale.real_tasks:
        options["tasks"] = scale.real_tasks
    return {**options, "trials": scale.real_trials, "seed": SEED}
