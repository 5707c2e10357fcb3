"""Figures from plays: means, ratios, and what the targets ask for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.flagship.kept import Play
from benchmarks.report import Target
from benchmarks.timing import geometric_mean
from cobandits import policies
from cobandits.intervals import t_interval

__all__ = [
    "BASELINES",
    "BEST",
    "LIMIT",
    "POOLED",
    "SHARED",
    "Cell",
    "chosen",
    "geometric_mean",
    "limit_rounds",
    "mean_target",
    "seconds_per_trial",
    "worst_target",
]

BASELINES = ("ridge", "thompson", "linucb")  # learn each task alone
POOLED = ("global", "global-own")  # learn all tasks together; not in all sections
BEST = "best tuned"  # of all of these that play
LIMIT = "limit"  # random play for as many rounds as there must be, then perfect play
SHARED = "shared"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The regrets of several policies in one setting."""

    setting: Mapping[str, str | float]  # what tells the cell from others
    regrets: Mapping[str, Sequence[float]]  # of each policy, by trial
    plays: Sequence[Play] = field(default=(), repr=False)

    @classmethod
    def of(cls, setting: Mapping[str, str | float], plays: Sequence[Play]) -> Cell:
        """Put the plays of a policy together."""
        regrets: dict[str, list[float]] = {}
        for play in sorted(plays, key=lambda play: play.trial):
            regrets.setdefault(play.policy, []).append(play.regret)
        return cls(setting=setting, regrets=regrets, plays=plays)

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.setting.items())

    @property
    def best(self) -> str:
        """The baseline with the least mean regret on the reported trials."""
        tuned = (*BASELINES, *POOLED)
        return min((name for name in tuned if name in self.regrets), key=self.mean)

    def mean(self, policy: str) -> float:
        """Return the mean over trials."""
        return float(np.mean(self.regrets[policy]))

    def half(self, policy: str) -> float:
        """Return half of the 95 % t-interval of the mean."""
        return float(t_interval(np.asarray(self.regrets[policy]))[1])

    def ratio(self, other: str, policy: str = SHARED) -> float:
        """Return the mean regret as a share of another's; ``BEST`` is the best baseline's."""
        return self.mean(policy) / self.mean(self.best if other == BEST else other)


def limit_rounds(*, dim: int, n_tasks: int, rank: int) -> int:
    """Return how many rounds have as many rewards as a theta of this rank has parameters.

    That is ``ceil(r (d + T - r) / T)``.

    >>> limit_rounds(dim=100, n_tasks=100, rank=2)
    4
    """
    return math.ceil(rank * (dim + n_tasks - rank) / n_tasks)


def mean_target(name: str, cells: Sequence[Cell], other: str, at_most: float) -> Target:
    """Bound the geometric mean over cells of the ratio to another policy."""
    measured = geometric_mean([cell.ratio(other) for cell in cells])
    return Target(
        name=f"{name}, geometric mean of {len(cells)} cells", measured=measured, at_most=at_most
    )


def worst_target(name: str, cells: Sequence[Cell], other: str, at_most: float) -> Target:
    """Bound the ratio to another policy in each cell; the worst of several is named."""
    worst = max(cells, key=lambda cell: cell.ratio(other))
    above = sum(cell.ratio(other) > at_most for cell in cells)
    if len(cells) > 1:
        name += f", in each of {len(cells)} cells (worst: {worst}; {above} above the bound)"
    return Target(name=name, measured=worst.ratio(other), at_most=at_most)


def seconds_per_trial(cells: Sequence[Cell]) -> dict[str, float]:
    """Return the mean seconds of each policy, over cells and trials."""
    seconds: dict[str, list[float]] = {}
    for cell in cells:
        for play in cell.plays:
            seconds.setdefault(play.policy, []).append(play.seconds)
    return {policy: float(np.mean(values)) for policy, values in seconds.items()}


def chosen(cells: Sequence[Cell]) -> dict[str, str]:
    """Return, for each parameter of a baseline, which values were chosen in how many cells.

    A star marks the least and the largest value that were tried.
    """
    told: dict[str, str] = {}
    for policy in (*BASELINES, *POOLED):
        for name, tried in policies.available()[policy].grid.items():
            counts = Counter(
                float(play.parameters[name])
                for cell in cells
                for play in cell.plays
                if play.policy == policy and play.trial == 0
            )
            edges = (min(tried), max(tried))
            if counts:
                told[f"{policy}, {name}"] = ", ".join(
                    f"{value:g}{'*' if value in edges else ''} ({count})"
                    for value, count in sorted(counts.items())
                )
    return told
