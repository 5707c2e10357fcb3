"""How often intervals of expected rewards hold the truth, and errors over stated variances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Section, Table, Target
from cobandits.environments import Synthetic
from cobandits.intervals import t_interval
from cobandits.policies import Shared
from cobandits.policies.shared.optimism import confidence_radius

__all__ = ["CONFIDENCE", "MOMENTS", "NOISES", "WORLDS", "Look", "looks", "section"]

Doubles = NDArray[np.float64]

CONFIDENCE = 0.9
MOMENTS = (5, 20, 50, 100)  # rewards per task
NOISES = (1e-3, 0.1, 1.0)
SEEDS = range(400, 408)
FRESH = 20  # arms per task that are asked about
WORLDS = {
    f"d={d}, {kind}": Synthetic(dim=d, n_tasks=50, rank=rank, unrelated=kind == "unrelated")
    for d in (100, 20)
    for kind, rank in (("r=2", 2), ("r=4", 4), ("unrelated", 4))
}


@dataclass(frozen=True, kw_only=True)
class Look:
    """What intervals of fresh arms are worth after some rounds."""

    coverage: float  # share of the expected rewards that they hold
    error: float  # mean squared
    variance: float  # mean of those stated


def looks(world: Synthetic, seed: int, moments: Sequence[int] = MOMENTS) -> Iterator[Look]:
    """Play a world, and yield what is stated of fresh arms after so many rewards per task."""
    policy, rng = Shared(dim=world.dim), np.random.default_rng(seed)
    for n, now in enumerate(world.rounds(max(moments), seed=seed), 1):
        decided = policy.decide(now.tasks, now.arms, rng)
        policy.learn(now.tasks, now.arms, decided, now.rewards[now.tasks, decided.chosen])
        if n in moments:
            assert now.truth is not None
            arms = np.random.default_rng([seed, n]).standard_normal(
                (len(now.tasks), FRESH, world.dim)
            )
            yield _look(policy, now.tasks, arms, np.einsum("tkd,dt->tk", arms, now.truth.theta))


def _look(policy: Shared, tasks: NDArray[np.int64], arms: Doubles, truth: Doubles) -> Look:
    low, high = policy.intervals(tasks, arms, confidence=CONFIDENCE)
    std = (high - low) / (2 * confidence_radius(CONFIDENCE, 1))
    return Look(
        coverage=float(((low <= truth) & (truth <= high)).mean()),
        error=float(((low + high - 2 * truth) ** 2 / 4).mean()),
        variance=float((std**2).mean()),
    )


def section() -> Section:
    """Measure all worlds."""
    rows: list[tuple[str | float, ...]] = []
    covered: list[float] = []
    for name, world in WORLDS.items():
        for noise in NOISES:
            cell = replace(world, noise_std=noise)
            found = [list(looks(cell, seed)) for seed in SEEDS]  # (seed, moment)
            shares = np.array([[look.coverage for look in play] for play in found])
            mean, half = t_interval(shares)
            ratios = [
                sum(look.error for look in at) / sum(look.variance for look in at)
                for at in zip(*found, strict=True)
            ]
            covered.extend(mean.tolist())
            texts = [f"{100 * m:.0f} ± {100 * h:.0f}" for m, h in zip(mean, half, strict=True)]
            rows.append((name, noise, *texts, *(f"{ratio:.2f}" for ratio in ratios)))
    within = np.mean([0.85 <= share <= 0.95 for share in covered])
    table = Table(
        title=(
            "Share of expected rewards of fresh arms in their 90 % intervals, in %, and mean "
            f"squared error over stated variance; by rewards per task, seeds {SEEDS[0]} to "
            f"{SEEDS[-1]}, with 95 % intervals"
        ),
        columns=(
            "world",
            "noise",
            *(f"n={n}" for n in MOMENTS),
            *(f"mse/var {n}" for n in MOMENTS),
        ),
        rows=rows,
    )
    targets = [
        Target(
            name="Cells within 85 to 95 %", measured=100 * float(within), at_least=100, unit=" %"
        ),
        Target(name="Least coverage", measured=100 * min(covered), at_least=85, unit=" %"),
        Target(name="Largest coverage", measured=100 * max(covered), at_most=95, unit=" %"),
    ]
    return Section(name="calibration", tables=[table], targets=targets)
