"""Worlds as applications have them: who asks, what arms look like, and when rewards are known."""

from __future__ import annotations

from benchmarks.flagship.figures import BASELINES, BEST, POOLED, SHARED, Cell, worst_target
from benchmarks.flagship.kept import Kept, Option
from benchmarks.flagship.page import Part, notes_on, regret_table
from benchmarks.flagship.rewards import options_of
from benchmarks.flagship.sections import Scale, commands, compared

__all__ = ["ALONE", "RELATED", "options", "worlds"]

RIVALS = (*BASELINES, *POOLED)
NOISE = 0.3
MANY, MORE_TRIALS = 3, 10  # where tasks are fewer, there are so many times as many trials
PLAIN: dict[str, Option] = {"dim": 10, "arms": 10, "one-hot": 1, "noise-std": 0.5}
RELATED: dict[str, dict[str, Option]] = {
    "half of the tasks unrelated": {"apart": 0.5},
    "plain bandits": PLAIN,
    "one-hot features": {"one-hot": 4},
    "very unequal rates": {"unequal": True},
    "50 arms": {"arms": 50},
    "400 features": {"dim": 400, "tasks": 20},
    "rewards 20 rounds late": {"delay": 20},
    "half of the rewards missing": {"missing": 0.5},
}
ALONE: dict[str, dict[str, Option]] = {  # where nothing can be shared
    "plain bandits, unrelated": {**PLAIN, "rank": 10, "unrelated": True},
    "one task": {"tasks": 1, "rank": 1},
    "two tasks": {"tasks": 2},
}


def worlds(kept: Kept, scale: Scale) -> Part:
    """Compare where tasks, arms or the times of rewards are not those of the paper."""
    cells = []
    for name, world in {**RELATED, **ALONE}.items():
        called = name.replace(",", "").replace(" ", "-")
        plays = compared(kept, f"worlds-{called}", options(scale, world), RIVALS)
        cells.append(Cell.of({"world": name}, plays))
    related, alone = cells[: len(RELATED)], cells[len(RELATED) :]
    return Part(
        title="Worlds of other kinds",
        text=f"{scale.rewards_tasks} tasks of 20 features and rank 2, 5 arms and noise {NOISE}, "
        "unless said otherwise. The arms of a plain bandit are the ten unit vectors, noise 0.5; "
        "unrelated, their values are standard normal. One-hot features are four fields of five "
        "values. Unequal tasks ask in a tenth of the rounds to all of them. 400 features have 20 "
        "tasks. One task has rank 1; one and two tasks have ten times as many trials. `global` and "
        "`global-own`, models for all tasks together, count as rivals here.",
        commands=[
            command
            for name in ("plain bandits", "rewards 20 rounds late")
            for command in commands(options(scale, RELATED[name]), RIVALS)
        ],
        tables=[regret_table(cells, (SHARED, *RIVALS), (BEST,))],
        targets=[
            worst_target("of the best tuned rival, sharing can help", related, BEST, 1.0),
            worst_target("of the best tuned rival, sharing cannot help", alone, BEST, 1.03),
        ],
        notes=notes_on(cells, (BEST,)),
    )


def options(scale: Scale, world: dict[str, Option]) -> dict[str, Option]:
    """Return the options of a world; few tasks have more trials."""
    told = options_of(scale, {"noise-std": NOISE, **world})
    more = MORE_TRIALS if int(told["tasks"]) < MANY else 1
    return {**told, "trials": more * int(told["trials"])}
