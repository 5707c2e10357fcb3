"""Rows made ready for many passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cobandits.kernels import ActiveStatistics, active_least_squares, active_statistics
from cobandits.tasks.checks import Codes, Floats
from cobandits.tasks.results import LeastSquares, TaskFit

__all__ = ["ActivePasses", "passes_over"]


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


def passes_over(tasks: LeastSquares, rows: Floats, rewards: Floats, offsets: Codes) -> LeastSquares:
    """Return passes over the statistics of rows where these are much smaller, else ``tasks``."""
    found = active_statistics(rows, rewards, offsets)
    return tasks if found is None else ActivePasses(found, np.diff(offsets), tasks)
