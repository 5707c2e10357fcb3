"""MethodOfMoments: the shared basis from one eigendecomposition, no iterations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # its parts are loaded when they are first used

from cobandits.estimate import Estimate
from cobandits.estimators.base import Estimator, HistoryWriter, Solution, solved_directly
from cobandits.randomness import RandomSource
from cobandits.tasks import TaskData

__all__ = ["MethodOfMoments"]


@dataclass(frozen=True, kw_only=True)
class MethodOfMoments(Estimator):
    """The basis from second moments weighted by squared rewards, then least squares per task.

    ``B`` is the ``r`` leading eigenvectors of the mean of ``y^2 phi phi'`` over all rows,
    and ``w_t = (Phi_t B)^+ y_t`` (section 6, after Tripuraneni et al. 2021 and Yang et al.
    2020). For standard Gaussian features the expectation of that mean is
    ``(2 Theta Theta' + tr(Theta Theta') I) / T`` plus the noise variance times ``I``, whose
    leading eigenvectors span ``B*``. Features with a mean, or correlated ones, bias it.
    The solution is in closed form: ``start`` and ``rng`` of a fit have no effect.

    Parameters
    ----------
    rank : int
        Number of columns of the basis.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> problem = Synthetic(dim=10, n_tasks=20, rank=1).problem(n_rows=500, seed=1)
    >>> estimate = MethodOfMoments(rank=1).fit(problem.tasks, truth=problem.theta)
    >>> bool(estimate.history.errors[-1] < 0.1)
    True
    """

    name: ClassVar[str] = "moments"

    rank: int

    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        d = tasks.dim
        mean = tasks.squared_moment() / tasks.n_rows
        _, vectors = scipy.linalg.eigh(mean, subset_by_index=(d - self.rank, d - 1))
        B = np.asarray(vectors)
        solved = tasks.least_squares(B)
        return solved_directly(B, solved.weights, float(solved.costs.sum()), history)
