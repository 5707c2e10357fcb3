"""The sections: which cells each one runs, and what it shows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.flagship.figures import (
    BASELINES,
    BEST,
    LIMIT,
    Cell,
    limit_rounds,
    mean_target,
    worst_target,
)
from benchmarks.flagship.kept import Command, Kept, Option, Play
from benchmarks.flagship.page import Part, notes_on, regret_table
from cobandits.datasets import REAL

__all__ = [
    "SEED",
    "Scale",
    "commands",
    "compared",
    "digits",
    "mnist",
    "noise",
    "synthetic",
    "unrelated",
]

SEED = 7
NOISES = (0.1, 1.0)
CELLS = tuple((n_tasks, rank) for rank in (2, 4, 8) for n_tasks in (10, 25, 50, 75, 100))

Options = Mapping[str, Option]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The size of a run."""

    trials: int = 10
    mnist_trials: int = 10
    cells: tuple[tuple[int, int], ...] = CELLS  # tasks and rank
    unrelated: tuple[int, ...] = (10, 25, 50, 100)  # tasks
    changing: tuple[tuple[int, int], ...] = ((50, 4), (25, 2))  # tasks and rank
    dim: int = 100
    rounds: int = 200
    digits_rounds: int = 500
    mnist_rounds: int = 5000
    mnist_tuning: int = 500  # rounds
    real: tuple[str, ...] = tuple(REAL)
    real_trials: int = 5
    first_trials: int = 20  # of first decisions, of which there is one per task and trial
    real_tasks: int = 0  # the first ones; 0: all
    rewards_trials: int = 5
    rewards_tasks: int = 40
    rewards_rounds: int = 200
    reference_trials: int = 2
    sampled: tuple[tuple[int, int], ...] = ((10, 2), (25, 2))  # tasks and rank
    walking_trials: int = 5
    walking_rounds: int = 1000  # at most

    @classmethod
    def quick(cls) -> Scale:
        """Return a scale for tests."""
        return cls(
            trials=2,
            mnist_trials=1,
            cells=((10, 8), (25, 4), (50, 2)),
            unrelated=(10,),
            changing=((25, 2),),
            mnist_rounds=100,
            mnist_tuning=10,
            real=("yogurt", "movielens"),
            real_trials=2,
            first_trials=2,
            real_tasks=8,
            rewards_trials=2,
            rewards_tasks=10,
            rewards_rounds=20,
            reference_trials=1,
            walking_trials=2,
            walking_rounds=60,
        )

    def options(self, n_tasks: Option, rank: Option, noise_std: Option = 1e-3) -> dict[str, Option]:
        """Return the options of a synthetic cell."""
        return {
            "tasks": n_tasks,
            "rank": rank,
            "dim": self.dim,
            "arms": 5,
            "rounds": self.rounds,
            "noise-std": noise_std,
            "trials": self.trials,
            "seed": SEED,
        }


def synthetic(kept: Kept, scale: Scale) -> Part:
    """Compare on synthetic 1, in all cells, and with the degrees-of-freedom limit."""
    cells = []
    for n_tasks, rank in scale.cells:
        options, name = scale.options(n_tasks, rank), f"synthetic-T{n_tasks}-r{rank}"
        rounds = limit_rounds(dim=scale.dim, n_tasks=n_tasks, rank=rank)
        plays = compared(kept, name, options, others=("lrrl", *BASELINES))
        limit = kept.plays(f"{name}-random", _limit(options, rounds))
        plays += [replace(play, policy=LIMIT) for play in limit]
        cells.append(Cell.of({"T": n_tasks, "r": rank}, plays))
    shown, others = scale.options("T", "r"), ("lrrl", BEST, LIMIT)
    return Part(
        title="Synthetic 1",
        text="The limit plays at random for n = ceil(r (d + T - r) / T) rounds, in which there "
        "are as many rewards as parameters, and then is perfect.",
        commands=[*commands(shown, ("lrrl", *BASELINES)), str(_limit(shown, "n"))],
        tables=[regret_table(cells, ("shared", "lrrl", *BASELINES, LIMIT), others)],
        targets=[
            mean_target("of `lrrl`", cells, "lrrl", 0.30),
            mean_target("of the best tuned baseline", cells, BEST, 0.45),
            worst_target("of the best tuned baseline", cells, BEST, 1.0),
            mean_target("of the degrees-of-freedom limit", cells, LIMIT, 0.9),
        ],
        notes=notes_on(cells, others),
    )


def noise(kept: Kept, scale: Scale) -> Part:
    """Compare in the same cells with more noise."""
    tables, targets, notes = [], [], []
    for noise_std in NOISES:
        cells = []
        for n_tasks, rank in scale.cells:
            name = f"noise{noise_std:g}-T{n_tasks}-r{rank}"
            plays = compared(kept, name, scale.options(n_tasks, rank, noise_std))
            cells.append(Cell.of({"T": n_tasks, "r": rank}, plays))
        table = regret_table(cells, ("shared", *BASELINES), (BEST,))
        tables.append(replace(table, title=f"Noise of standard deviation {noise_std:g}."))
        against = f"of the best tuned baseline, noise {noise_std:g}"
        targets += [
            mean_target(against, cells, BEST, 0.8),
            worst_target(against, cells, BEST, 1.0),
        ]
        notes += [f"Noise {noise_std:g}. {' '.join(notes_on(cells, (BEST,)))}"]
    return Part(
        title="More noise",
        text="The cells of synthetic 1, where the noise has a standard deviation of s.",
        commands=commands(scale.options("T", "r", "s")),
        tables=tables,
        targets=targets,
        notes=notes,
    )


def unrelated(kept: Kept, scale: Scale) -> Part:
    """Compare where tasks have nothing in common."""
    cells = []
    for n_tasks in scale.unrelated:
        options = {**scale.options(n_tasks, min(4, n_tasks)), "unrelated": True}
        plays = compared(kept, f"unrelated-T{n_tasks}", options)
        cells.append(Cell.of({"T": n_tasks}, plays))
    return Part(
        title="Unrelated tasks",
        text="Each task's theta is drawn alone; the rank says only how long it is.",
        commands=commands({**scale.options("T", 4), "unrelated": True}),
        tables=[regret_table(cells, ("shared", *BASELINES), (BEST,))],
        targets=[worst_target("of the best tuned baseline", cells, BEST, 1.05)],
        notes=notes_on(cells, (BEST,)),
    )


def digits(kept: Kept, scale: Scale) -> Part:
    """Compare on pairs of scikit-learn's digits."""
    options: Options = {
        "env": "digits",
        "tasks": 45,
        "rounds": scale.digits_rounds,
        "trials": scale.trials,
        "seed": SEED,
    }
    plays = compared(kept, "digits", options, others=("lrrl", *BASELINES))
    cell = Cell.of({"pairs": "digits"}, plays)
    return Part(
        title="Digits pairs",
        text="Which of two images is the larger digit. Regret counts mistakes.",
        commands=commands(options, ("lrrl", *BASELINES)),
        tables=[regret_table([cell], ("shared", "lrrl", *BASELINES), ("lrrl", BEST))],
        targets=[worst_target("of the best tuned baseline", [cell], BEST, 1.0)],
        notes=notes_on([cell], ("lrrl", BEST)),
    )


def mnist(kept: Kept, scale: Scale) -> Part:
    """Compare on pairs of MNIST; baselines are tuned on fewer rounds."""
    options: Options = {"env": "mnist", "tasks": 45, "rounds": scale.mnist_rounds}
    options = {**options, "trials": scale.mnist_trials, "seed": SEED}
    tuning = {**options, "rounds": scale.mnist_tuning, "trials": 1, "tune": True}
    tuned = Command(options=tuning, policies=("ridge", "thompson"))
    found = [_with_parameters(play) for play in kept.plays("mnist-tuning", tuned)]
    others = Command(options=options, policies=("lrrl:schedule=equal-5", *found))
    shared = Command(options=options, policies=("shared",))
    plays = [*kept.plays("mnist-shared", shared), *kept.plays("mnist-others", others)]
    cell = Cell.of({"pairs": "MNIST"}, plays)
    return Part(
        title="MNIST pairs",
        text=f"As with digits. Baselines are tuned on {scale.mnist_tuning} rounds, and play with "
        "the parameters that were best there; `linucb` is left out. `lrrl` has the paper's five "
        "epochs.",
        commands=[str(tuned), str(shared), str(others)],
        tables=[regret_table([cell], ("shared", "lrrl", "ridge", "thompson"), ("lrrl", BEST))],
        targets=[
            worst_target("of the best tuned baseline", [cell], BEST, 1.0),
            worst_target("of `lrrl`", [cell], "lrrl", 0.15),
        ],
        notes=notes_on([cell], ("lrrl", BEST)),
    )


def compared(
    kept: Kept, name: str, options: Options, others: Sequence[str] = BASELINES
) -> list[Play]:
    """Return the plays of ``shared`` and, from a command of its own, of the others, tuned.

    So ``shared`` can be run again without them.
    """
    shared, tuned = _pair(options, others)
    return [*kept.plays(f"{name}-shared", shared), *kept.plays(f"{name}-others", tuned)]


def commands(options: Options, others: Sequence[str] = BASELINES) -> list[str]:
    """Return the commands of :func:`compared`."""
    return [str(command) for command in _pair(options, others)]


def _pair(options: Options, others: Sequence[str]) -> tuple[Command, Command]:
    tuned = Command(options={**options, "tune": True}, policies=tuple(others))
    return Command(options=options, policies=("shared",)), tuned


def _limit(options: Options, rounds: Option) -> Command:
    return Command(options={**options, "rounds": rounds}, policies=("random",))


def _with_parameters(play: Play) -> str:
    """Return a policy with its parameters as the command line takes them."""
    return f"{play.policy}:" + ",".join(f"{key}={x}" for key, x in play.parameters.items())
