"""References for synthetic 1: greedy players that are told the rank and the noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.flagship.changing import columns
from benchmarks.flagship.figures import SHARED, Cell, geometric_mean, mean_target
from benchmarks.flagship.hamiltonian import SampledBasis
from benchmarks.flagship.kept import Kept, Line
from benchmarks.flagship.most_likely import MostLikelyBasis
from benchmarks.flagship.page import Part, plus_minus
from benchmarks.flagship.sections import NOISES, SEED, Scale
from benchmarks.report import Table
from cobandits.environments import Synthetic
from cobandits.policies import Shared
from cobandits.simulate import simulate

__all__ = ["likely_trial", "references", "sampled_trial", "shared_trial"]

LIKELY, SAMPLED = MostLikelyBasis.name, SampledBasis.name
AT_MOST = 1.1  # of the regret of a reference, geometric mean over cells


def shared_trial(world: Synthetic, rounds: int, seed: int, trial: int) -> Line:
    """Return the regret per task of ``shared``."""
    policy = Shared(dim=world.dim, n_tasks=world.n_tasks)
    return {SHARED: simulate(policy, world, rounds, seed, trial=trial).regret_per_task}


def likely_trial(world: Synthetic, rounds: int, seed: int, trial: int) -> Line:
    """Return the regret per task of the most likely basis, on the same rounds."""
    policy = _told(MostLikelyBasis, world, rounds)
    return {LIKELY: simulate(policy, world, rounds, seed, trial=trial).regret_per_task}


def sampled_trial(world: Synthetic, rounds: int, seed: int, trial: int) -> Line:
    """Return the regret per task of the posterior mean, on the same rounds."""
    policy = _told(SampledBasis, world, rounds)
    return {SAMPLED: simulate(policy, world, rounds, seed, trial=trial).regret_per_task}


def references(kept: Kept, scale: Scale) -> Part:
    """Compare with the most likely basis in the cells of synthetic 1, in each noise."""
    tables, targets, notes = [], [], []
    for noise_std in (1e-3, *NOISES):
        cells = [_cell(kept, scale, noise_std, *sizes) for sizes in scale.cells]
        tables.append(_table(cells, f"Noise of standard deviation {noise_std:g}."))
        against = f"of the {LIKELY}, noise {noise_std:g}"
        targets.append(mean_target(against, cells, LIKELY, AT_MOST))
        notes.append(f"Noise {noise_std:g}. {_sampled_note(cells)}")
    return Part(
        title="References for synthetic 1",
        text="Two players are told the rank and the noise, and take the best arm by expected "
        f"rewards. The {LIKELY} maximises the marginal likelihood in every round, by L-BFGS with "
        f"annealed noise, weights integrated out. The {SAMPLED} is that over bases sampled by "
        "Hamiltonian Monte Carlo in every round, from the most likely one on. They meet the rounds "
        f"of synthetic 1, and only the first {scale.reference_trials} trials of a cell; bases are "
        "sampled in some cells alone, since that takes long.",
        commands=[],
        tables=tables,
        targets=targets,
        notes=notes,
    )


def _cell(kept: Kept, scale: Scale, noise_std: float, n_tasks: int, rank: int) -> Cell:
    world = Synthetic(dim=scale.dim, n_tasks=n_tasks, rank=rank, noise_std=noise_std)
    name, arguments = f"references{noise_std:g}-T{n_tasks}-r{rank}", (world, scale.rounds, SEED)
    trials, said = scale.reference_trials, f"references, {arguments}"
    works = {"likely": likely_trial}
    if (n_tasks, rank) in scale.sampled:
        works["sampled"] = sampled_trial
    regrets = columns(kept.trials(name, said, partial(shared_trial, *arguments), trials))
    for called, work in works.items():
        trial = partial(work, *arguments)
        regrets |= columns(kept.trials(f"{name}-{called}", said, trial, trials, rival=True))
    return Cell(setting={"T": n_tasks, "r": rank}, regrets=regrets)


def _told(kind: type[MostLikelyBasis], world: Synthetic, rounds: int) -> MostLikelyBasis:
    return kind(
        dim=world.dim,
        n_tasks=world.n_tasks,
        rank=world.rank,
        noise_std=world.noise_std,
        rounds=rounds,
    )


def _sampled_note(cells: Sequence[Cell]) -> str:
    """Say how the two references compare, where both played."""
    both = [cell for cell in cells if SAMPLED in cell.regrets]
    if not both:
        return "No bases were sampled."
    likely = geometric_mean([cell.ratio(LIKELY, SAMPLED) for cell in both])
    shared = geometric_mean([cell.ratio(SAMPLED) for cell in both])
    return (
        f"In {len(both)} cells the {SAMPLED} has {likely:.2f} of the regret of the {LIKELY}, and "
        f"`shared` {shared:.2f} of that (geometric means)."
    )


def _table(cells: Sequence[Cell], title: str) -> Table:
    names = (SHARED, LIKELY, SAMPLED)
    rows = [
        (
            *(str(value) for value in cell.setting.values()),
            *(
                plus_minus(cell.mean(name), cell.half(name)) if name in cell.regrets else "-"
                for name in names
            ),
            f"{cell.ratio(LIKELY):.2f}",
        )
        for cell in cells
    ]
    return Table(title=title, columns=(*cells[0].setting, *names, f"shared / {LIKELY}"), rows=rows)
