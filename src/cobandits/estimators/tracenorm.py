"""TraceNorm, the convex relaxation: a penalty on the singular values in place of a rank."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, takewhile
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate, Status
from cobandits.estimators.base import Estimator, HistoryWriter, Solution, ended, free_parameters
from cobandits.estimators.checks import (
    check_at_least,
    check_iterations,
    check_positive,
    check_rows,
    starting_basis,
)
from cobandits.estimators.lowrank import LowRank
from cobandits.estimators.proximal import ProximalGradient
from cobandits.linalg import factor, spectral_norm
from cobandits.randomness import RandomSource, generator
from cobandits.tasks import TaskData

__all__ = ["TraceNorm", "largest_penalty", "theory_penalty"]

Floats = NDArray[np.floating]

_PATH = 19  # penalties that cross-validation tries
_SMALLEST = 1e-6  # smallest penalty of "cv" and "theory", as a share of the largest
_PATIENCE = 2  # penalties without a better prediction, after which a fold stops
_PATH_TOLERANCE = 1e-3  # of the fits that cross-validation compares
_PATH_ITERATIONS = 500  # for each of them
_STAGE = 4.0  # ratio of successive penalties on the way to a small one
_STAGE_TOLERANCE = 0.1


def largest_penalty(tasks: TaskData) -> float:
    """Return the smallest penalty with which theta is zero: ``|[Phi_t' y_t]_t|_op / n_rows``."""
    return spectral_norm(tasks.moments()) / tasks.n_rows


def theory_penalty(tasks: TaskData, noise_std: float) -> float:
    """Return a bound on the operator norm of the gradient at the true theta, due to noise.

    That gradient is ``[Phi_t' eta_t]_t / n_rows``. For Gaussian features with second moment
    ``C``, its columns have covariance ``noise_std^2 n_t C``, and Chevet's inequality bounds
    the mean of its norm by
    ::

        noise_std (sqrt(n_rows |C|_op) + sqrt(n_max tr C)) / n_rows

    which is ``noise_std (sqrt(T) + sqrt(d)) / (T sqrt(n))`` for white features and equal
    counts, and close to the norm itself. Pure noise is then fitted by a theta of zero. Oracle
    inequalities for the trace norm ask for a constant times this.
    """
    C = np.asarray(tasks.gram(), np.float64) / tasks.n_rows
    spread = np.sqrt(tasks.n_rows * np.linalg.eigvalsh(C)[-1])
    spread += np.sqrt(float(tasks.counts.max()) * np.trace(C))
    return float(noise_std * spread / tasks.n_rows)


@dataclass(frozen=True, kw_only=True)
class TraceNorm(Estimator):
    """Least squares with a penalty on the sum of theta's singular values.

    The relaxation of Cella et al. (2023), which section 6 compares with. It minimises
    ::

        1 / (2 n_rows) sum_t |y_t - Phi_t theta_t|^2 + penalty |Theta|_*

    by proximal gradient steps with momentum (FISTA), which restarts where it leads uphill.
    An iteration is one pass over the data. It stops when the duality gap, a bound on how far
    the cost is above its minimum, is small. The rank of the estimate is that of the
    minimiser; a ``start`` may have any rank. The history has the cost above.

    Parameters
    ----------
    penalty : float, "theory" or "cv"
        ``"theory"`` computes it from the noise, see :func:`theory_penalty`. ``"cv"`` takes
        the one with the least error on held-out rows of each task, which ``rng`` of a fit
        deals to folds. It predicts better, takes ten to twenty times as long, and needs
        rows, not statistics.
    noise_std : float, optional
        Standard deviation of the noise, for ``"theory"``; if not given, it is estimated
        from the residuals of :class:`LowRank`.
    n_folds : int
        Folds of the cross-validation.
    iterations : int
        The most steps to take.
    tolerance : float
        Stop when the duality gap is below this share of the cost.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> problem = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=15, seed=1)
    >>> estimate = TraceNorm().fit(problem.tasks, truth=problem.theta)
    >>> estimate.status.outcome, bool(estimate.history.errors[-1] < 0.01)
    ('converged', True)
    """

    name: ClassVar[str] = "tracenorm"

    penalty: float | Literal["theory", "cv"] = "theory"
    noise_std: float | None = None
    n_folds: int = 5
    iterations: int = 5000
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        if self.penalty not in ("theory", "cv"):
            if isinstance(self.penalty, str):
                raise ConfigurationError(
                    f"penalty must be a number, 'theory' or 'cv', got {self.penalty!r}"
                )
            check_positive("penalty", self.penalty)
        if self.noise_std is not None:
            check_at_least("noise_std", self.noise_std, 0)
        check_at_least("n_folds", self.n_folds, 2)
        check_iterations(self.iterations)
        check_at_least("tolerance", self.tolerance, 0)

    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        if start is not None:
            starting_basis(start, tasks, start.rank)
        penalty, largest = self.choose_penalty(tasks, rng), largest_penalty(tasks)
        solver = ProximalGradient(tasks, lambda p: history.note(p.value(penalty), p.left, p.right))
        if start is not None and penalty < largest:
            solver.begin(start.theta_for(tasks))
            stages = [penalty]
        else:
            solver.begin(tasks.repeated(np.zeros(tasks.dim)))
            stages = _stages(largest, penalty)
        status = self._solve(solver, stages)
        point = solver.point
        B, W = factor(point.Theta, max(1, point.right.shape[0]))
        return Solution(B, W, status, history)

    def choose_penalty(self, tasks: TaskData, rng: RandomSource = None) -> float:
        """Return the penalty of a fit: as given, from the noise, or by cross-validation."""
        check_rows(tasks)
        if self.penalty == "cv":
            return self._cross_validated(tasks, generator(rng))
        if self.penalty == "theory":
            noise_std = _noise_std(tasks) if self.noise_std is None else self.noise_std
            # without noise there must be some penalty still
            return max(theory_penalty(tasks, noise_std), _SMALLEST * largest_penalty(tasks))
        return self.penalty

    def _cross_validated(self, tasks: TaskData, rng: np.random.Generator) -> float:
        """Return the penalty whose fits predict held-out rows best."""
        if tasks.counts.max() < 2:
            raise DataError(
                "penalty 'cv' needs tasks with at least 2 rows, all have fewer; "
                "add rows, use penalty 'theory' or give a number"
            )
        path = largest_penalty(tasks) * np.geomspace(1, _SMALLEST, _PATH)
        errors = np.zeros(_PATH)
        for training, held in tasks.cross_validation(self.n_folds, rng):
            errors += _held_out_errors(training, held, path)
        return float(path[np.argmin(errors)])

    def _solve(self, solver: ProximalGradient, stages: list[float]) -> Status:
        """Descend on the cost of each penalty in turn, to the tolerance on the last."""
        used = 0
        for stage in stages[:-1]:
            used += solver.descend(stage, _STAGE_TOLERANCE, self.iterations - used)
        penalty = stages[-1]
        used += solver.descend(penalty, self.tolerance, self.iterations - used)
        gap = solver.gap(penalty) / (solver.point.value(penalty) or 1.0)
        reached = solver.is_done(penalty, self.tolerance)
        advice = "" if reached else "; raise iterations or tolerance"
        message = f"duality gap {max(gap, 0.0):.1e} of the cost at penalty {penalty:.3g}{advice}"
        return ended("converged" if reached else "limit", message, used)


def _stages(largest: float, penalty: float) -> list[float]:
    """Return falling penalties that end at ``penalty``; each solution starts the next fit."""
    falling = (largest / _STAGE**k for k in count(1))
    return [*takewhile(lambda stage: stage > 2 * penalty, falling), penalty]


def _held_out_errors(training: TaskData, held: TaskData, path: Floats) -> Floats:
    """Return the squared errors on ``held`` of fits to ``training``, by penalty.

    Once the errors rise, smaller penalties are not tried; their errors are infinite.
    """
    solver = ProximalGradient(training, lambda _: None)
    solver.begin(training.repeated(np.zeros(training.dim)))
    errors = np.full(len(path), np.inf)
    for k, penalty in enumerate(path):
        solver.descend(float(penalty), _PATH_TOLERANCE, _PATH_ITERATIONS)
        errors[k] = float(held.residuals(solver.point.Theta)[1].sum())
        if k >= int(np.argmin(errors)) + _PATIENCE:
            break
    return errors


def _noise_std(tasks: TaskData) -> float:
    """Return the residual standard deviation of a low-rank fit, by its degrees of freedom."""
    estimate = LowRank().fit(tasks)
    cost = float(tasks.residuals(estimate.theta)[1].sum())
    spare = tasks.n_rows - free_parameters(tasks, estimate.rank)
    return float(np.sqrt(cost / max(1, spare)))
