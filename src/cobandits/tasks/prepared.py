"""Rows made ready for many passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cobandits.kernels import (
    ActiveStatistics,
    RidgePenalty,
    active_least_squares,
    active_statistics,
    packed_least_squares,
)
from cobandits.tasks.checks import Codes, Floats
from cobandits.tasks.results import LeastSquares, TaskFit

__all__ = ["ActivePasses", "PackedPasses", "passes_over"]


@dataclass(frozen=True, eq=False)
class ActivePasses:
    """Passes over statistics of the features that tasks use.

    Where a task has no single solution, the pass is over the rows.
    """

    statistics: ActiveStatistics
    counts: Codes  # (T,)
    rows: LeastSquares

    def least_squares(self, B: Floats) -> TaskFit:
        """Solve every task in the span of ``B``."""
        fit = active_least_squares(self.statistics, B)
        return self.rows.least_squares(B) if fit is None else TaskFit.of(fit, self.counts)


@dataclass(frozen=True, eq=False)
class PackedPasses:
    """Passes over halves of Gram matrices, of the features that tasks use."""

    packed: ActiveStatistics
    sums: Mapping[str, Floats]  # that were packed
    counts: Codes  # (T,)

    def least_squares(self, B: Floats, ridge: RidgePenalty = 0.0) -> TaskFit:
        """Solve every task in the span of ``B``."""
        grams, moments, squares = (self.sums[name] for name in ("grams", "moments", "squares"))
        fit = packed_least_squares(self.packed, grams, moments, squares, B, ridge)
        return TaskFit.of(fit, self.counts)


def passes_over(tasks: LeastSquares, rows: Floats, rewards: Floats, offsets: Codes) -> LeastSquares:
    """Return passes over the statistics of rows where these are much smaller, else ``tasks``."""
    found = active_statistics(rows, rewards, offsets)
    return tasks if found is None else ActivePasses(found, np.diff(offsets), tasks)
