"""Rewards as applications have them: clicks, counts, outliers, noise by task, arms that stay."""

from __future__ import annotations

from benchmarks.flagship.figures import BASELINES, BEST, Cell, worst_target
from benchmarks.flagship.kept import Kept, Option
from benchmarks.flagship.page import Part, notes_on, regret_table
from benchmarks.flagship.sections import Scale, commands, compared

__all__ = ["options_of", "rewards"]

SEED = 4000  # no constant was chosen on it
ROUNDS_OF_CLICKS = 2  # times as many as of others: a click tells little
WORLDS: dict[str, dict[str, Option]] = {
    "clicks, 3 to 10 %": {"outcome": "clicks", "rate": 0.015},
    "clicks, 8 to 21 %": {"outcome": "clicks", "rate": 0.06},
    "counts": {"outcome": "counts", "rate": 0.5},
    "outliers": {"outcome": "outliers", "noise-std": 0.1},
    "heavy tails": {"outcome": "heavy-tails", "noise-std": 0.3},
    "noise by task": {"outcome": "own-noise", "noise-std": 0.3},
    "arms that never change": {"fixed": True, "arms": 10, "noise-std": 0.3},
    "the same, unrelated": {"fixed": True, "arms": 10, "noise-std": 0.3, "unrelated": True},
}


def rewards(kept: Kept, scale: Scale) -> Part:
    """Compare where rewards, noise or arms are not those of the paper."""
    cells = []
    for name, options in WORLDS.items():
        called = name.replace(",", "").replace(" ", "-").replace("%", "percent")
        plays = compared(kept, f"rewards-{called}", options_of(scale, options))
        cells.append(Cell.of({"rewards": name}, plays))
    return Part(
        title="Rewards of other kinds",
        text="Clicks have the log-odds, and counts the logs of their means, that a basis in common "
        "gives; rates are those of random and of perfect play. Of the noise 1 % are outliers, a "
        "hundred times as large; or it is Student's t with 2 degrees of freedom; or it has from "
        "0.1 to 10 times the standard deviation, by task. Arms that never change are the same for "
        "a task in all rounds. `shared` has no option.",
        commands=[
            command
            for name in ("clicks, 3 to 10 %", "outliers", "arms that never change")
            for command in commands(options_of(scale, WORLDS[name]))
        ],
        tables=[regret_table(cells, ("shared", *BASELINES), (BEST,))],
        targets=[
            worst_target("of the best tuned baseline, tasks related", cells[:-1], BEST, 1.0),
            worst_target("of the best tuned baseline, unrelated", cells[-1:], BEST, 1.03),
        ],
        notes=notes_on(cells, (BEST,)),
    )


def options_of(scale: Scale, world: dict[str, Option]) -> dict[str, Option]:
    """Return the options of a world, which may say otherwise than all others."""
    rounds = scale.rewards_rounds
    if world.get("outcome") == "clicks":
        rounds *= ROUNDS_OF_CLICKS
    return {
        "tasks": scale.rewards_tasks,
        "rank": 2,
        "dim": 20,
        "arms": 5,
        "rounds": rounds,
        "trials": scale.rewards_trials,
        "seed": SEED,
        **world,
    }
