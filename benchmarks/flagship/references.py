"""References for synthetic 1: greedy play that is told the rank and the noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.flagship.changing import columns
from benchmarks.flagship.figures import SHARED, Cell, mean_target
from benchmarks.flagship.kept import Kept, Line
from benchmarks.flagship.most_likely import MostLikelyBasis
from benchmarks.flagship.page import Part, plus_minus
from benchmarks.flagship.sections import NOISES, SEED, Scale
from benchmarks.report import Table
from cobandits.environments import Synthetic
from cobandits.policies import Shared
from cobandits.simulate import simulate

__all__ = ["reference_trial", "references"]

LIKELY = MostLikelyBasis.name
AT_MOST = 1.1  # of the regret of a reference, geometric mean over cells


def reference_trial(world: Synthetic, rounds: int, seed: int, trial: int) -> Line:
    """Return the regret per task of ``shared`` and of the most likely basis, on the same rounds."""
    d, T = world.dim, world.n_tasks
    likely = MostLikelyBasis(
        dim=d, n_tasks=T, rank=world.rank, noise_std=world.noise_std, rounds=rounds
    )
    return {
        policy.name: simulate(policy, world, rounds, seed, trial=trial).regret_per_task
        for policy in (Shared(dim=d, n_tasks=T), likely)
    }


def references(kept: Kept, scale: Scale) -> Part:
    """Compare with the most likely basis in the cells of synthetic 1, in each noise."""
    tables, targets = [], []
    for noise_std in (1e-3, *NOISES):
        cells = _cells(kept, scale, noise_std)
        tables.append(_table(cells, f"Noise of standard deviation {noise_std:g}."))
        against = f"of the {LIKELY}, noise {noise_std:g}"
        targets.append(mean_target(against, cells, LIKELY, AT_MOST))
    return Part(
        title="References for synthetic 1",
        text="A player that is told the rank and the noise maximises the marginal likelihood of "
        "the basis in every round, by L-BFGS with annealed noise, weights integrated out, and "
        "takes the best arm by the posterior mean. It meets the rounds of synthetic 1, the first "
        f"{scale.reference_trials} trials of each cell alone, since it takes long.",
        commands=[],
        tables=tables,
        targets=targets,
    )


def _cells(kept: Kept, scale: Scale, noise_std: float) -> list[Cell]:
    cells = []
    for n_tasks, rank in scale.cells:
        world = Synthetic(dim=scale.dim, n_tasks=n_tasks, rank=rank, noise_std=noise_std)
        trial = partial(reference_trial, world, scale.rounds, SEED)
        name = f"references{noise_std:g}-T{n_tasks}-r{rank}"
        lines = kept.trials(name, f"references, {trial.args}", trial, scale.reference_trials)
        cells.append(Cell(setting={"T": n_tasks, "r": rank}, regrets=columns(lines)))
    return cells


def _table(cells: Sequence[Cell], title: str) -> Table:
    rows = [
        (
            *(str(value) for value in cell.setting.values()),
            *(plus_minus(cell.mean(name), cell.half(name)) for name in (SHARED, LIKELY)),
            f"{cell.ratio(LIKELY):.2f}",
        )
        for cell in cells
    ]
    columns = (*cells[0].setting, SHARED, LIKELY, f"shared / {LIKELY}")
    return Table(title=title, columns=columns, rows=rows)
