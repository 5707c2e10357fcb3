"""TraceNorm, the convex relaxation: a penalty on the singular values in place of a rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, takewhile
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate, Status
from cobandits.estimators.base import (
    Progress,
    Record,
    check_at_least,
    check_iterations,
    check_positive,
    check_rows,
    finished,
    free_parameters,
    starting_basis,
)
from cobandits.estimators.lowrank import LowRank
from cobandits.linalg import factor
from cobandits.randomness import RandomSource, generator
from cobandits.tasks import TaskData, TaskRows

__all__ = ["TraceNorm", "largest_penalty", "theory_penalty"]

Floats = NDArray[np.floating]

_PATH = 19  # penalties that cross-validation tries
_SMALLEST = 1e-6  # of them, and of theory's, as a share of the largest
_PATIENCE = 2  # penalties in a row that predict worse, after which a fold tries no more
_PATH_TOLERANCE = 1e-3  # while penalties are compared
_PATH_ITERATIONS = 500  # for each of them
_STAGE = 4.0  # ratio of penalties on the way to a small one
_STAGE_TOLERANCE = 0.1
_CHECK_EVERY = 10  # iterations between two duality gaps
_POWER_ITERATIONS = 30
_MARGIN = 1.05  # on the curvature, which power iterations find from below
_GRAM_RESOLVES = 1e-5  # singular values down to this share of the largest


def largest_penalty(tasks: TaskData) -> float:
    """Return the penalty from which on theta is zero: ``|[Phi_t' y_t]_t|_op / n_rows``."""
    return float(np.linalg.norm(tasks.moments(), 2)) / tasks.n_rows


def theory_penalty(tasks: TaskData, noise_std: float) -> float:
    """Return the operator norm that noise gives to the gradient at the true theta.

    That gradient is ``[Phi_t' eta_t]_t / n_rows``. For Gaussian features with second moment
    ``C``, its columns have covariance ``noise_std^2 n_t C``, and Chevet's inequality bounds
    the mean of its norm by
    ::

        noise_std (sqrt(n_rows |C|_op) + sqrt(n_max tr C)) / n_rows

    which is ``noise_std (sqrt(T) + sqrt(d)) / (T sqrt(n))`` for white features and equal
    counts, and close to the norm itself. Noise alone then gives theta zero. Oracle
    inequalities for the trace norm ask for a constant times this.
    """
    C = np.asarray(tasks.gram(), np.float64) / tasks.n_rows
    spread = np.sqrt(tasks.n_rows * np.linalg.eigvalsh(C)[-1])
    spread += np.sqrt(float(tasks.counts.max()) * np.trace(C))
    return float(noise_std * spread / tasks.n_rows)


@dataclass(frozen=True, kw_only=True)
class TraceNorm:
    """Least squares with a penalty on the sum of theta's singular values.

    The relaxation of Cella et al. (2023), which section 6 compares with. It minimises
    ::

        1 / (2 n_rows) sum_t |y_t - Phi_t theta_t|^2 + penalty |Theta|_*

    by proximal gradient steps with momentum (FISTA), which is lost where it leads uphill.
    The first term is quadratic, so the gradient at the extrapolated point follows from
    those at the last two points, and an iteration is one pass over the data. It stops when
    the duality gap, a bound on how far the cost is above its minimum, is small. The
    estimate's rank is that of the minimiser. The history has the cost above.

    Parameters
    ----------
    penalty : float, "theory" or "cv"
        ``"theory"`` follows from the noise, see :func:`theory_penalty`. ``"cv"`` takes the
        one with the least error on held-out rows, folds within tasks; it predicts better,
        takes ten to twenty times as long, and needs rows, not statistics.
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

    def fit(
        self,
        tasks: TaskData,
        *,
        start: Estimate | None = None,
        rng: RandomSource = None,
        truth: Floats | None = None,
        progress: Progress | None = None,
    ) -> Estimate:
        """Fit the rows of ``tasks``; see :class:`cobandits.estimators.base.Estimator`.

        ``rng`` deals the rows to the folds of ``"cv"``. A start may have any rank.
        """
        check_rows(tasks)
        if start is not None:
            starting_basis(start, tasks, start.rank)
        penalty, largest = self.choose_penalty(tasks, rng), largest_penalty(tasks)
        record = Record(self.iterations, truth, progress)
        solver = _Solver(tasks, lambda p: record.note(p.value(penalty), p.left, p.right))
        if start is not None and penalty < largest:
            solver.begin(start.theta_of(tasks.labels))
            stages = [penalty]
        else:
            solver.begin(np.zeros((tasks.dim, tasks.n_tasks)))
            stages = _stages(largest, penalty)
        status = self._solve(solver, stages)
        point = solver.point
        B, W = factor(point.Theta, max(1, point.right.shape[0]))
        name = type(self).__name__
        return finished(tasks, B, W, status=status, record=record, estimator=name)

    def choose_penalty(self, tasks: TaskData, rng: RandomSource = None) -> float:
        """Return the penalty that :meth:`fit` takes: as given, from the noise, or by folds."""
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
        if not isinstance(tasks, TaskRows):
            raise DataError(
                "penalty 'cv' needs rows, not statistics; use penalty 'theory' or give a number"
            )
        if tasks.counts.max() < 2:
            raise DataError(
                "penalty 'cv' needs tasks with at least 2 rows, all have fewer; "
                "add rows, use penalty 'theory' or give a number"
            )
        path = largest_penalty(tasks) * np.geomspace(1, _SMALLEST, _PATH)
        hands = tasks.folds(self.n_folds, rng)
        errors = np.zeros(_PATH)
        for hand in range(int(hands.max()) + 1):
            held = hands == hand
            errors += _held_out_errors(tasks.select(~held), tasks.select(held), path)
        return float(path[np.argmin(errors)])

    def _solve(self, solver: _Solver, stages: list[float]) -> Status:
        """Descend on the cost of each penalty in turn, to the tolerance on the last."""
        used = 0
        for stage in stages[:-1]:
            used += solver.descend(stage, _STAGE_TOLERANCE, self.iterations - used)
        penalty = stages[-1]
        used += solver.descend(penalty, self.tolerance, self.iterations - used)
        gap = solver.gap(penalty) / (solver.point.value(penalty) or 1.0)
        reached = solver.is_done(penalty, self.tolerance)
        advice = "" if reached else "; raise iterations or tolerance"
        return Status(
            outcome="converged" if reached else "limit",
            message=f"duality gap {max(gap, 0.0):.1e} of the cost at penalty {penalty:.3g}{advice}",
            iterations=used,
        )


class _Point(NamedTuple):
    """A theta, and what there is to know of the cost there."""

    left: Floats  # (d, k)
    right: Floats  # (k, T)
    Theta: Floats  # (d, T), left times right
    nuclear: float  # sum of its singular values
    gradient: Floats  # (d, T), of the loss
    loss: float  # squared residuals over 2 n_rows

    def value(self, penalty: float) -> float:
        """Return the cost."""
        return self.loss + penalty * self.nuclear


class _Solver:
    """Accelerated proximal gradient descent, and the point that it has reached."""

    point: _Point

    def __init__(self, tasks: TaskData, note: Callable[[_Point], None]) -> None:
        self._tasks, self._note = tasks, note
        self._curvature = _MARGIN * _largest_curvature(tasks)
        self._null_loss = float(tasks.squares.sum()) / (2 * tasks.n_rows)

    def begin(self, Theta: Floats) -> None:
        """Move to ``Theta``."""
        left, right = factor(Theta, int(np.linalg.matrix_rank(Theta)))
        self.point = self._at(left, right, float(np.linalg.norm(right, "nuc")))
        self._note(self.point)

    def descend(self, penalty: float, tolerance: float, limit: int) -> int:
        """Go on until the duality gap is small; return the number of iterations."""
        Y, gradient, momentum = self.point.Theta, self.point.gradient, 1.0
        for iteration in range(limit):
            if iteration % _CHECK_EVERY == 0 and self.is_done(penalty, tolerance):
                return iteration
            last, self.point = self.point, self._stepped(Y, gradient, penalty)
            moved = self.point.Theta - last.Theta
            if np.vdot(Y - self.point.Theta, moved) > 0:  # the momentum leads uphill
                momentum = 1.0
            grown = (1 + float(np.sqrt(1 + 4 * momentum**2))) / 2
            share, momentum = (momentum - 1) / grown, grown
            Y = self.point.Theta + share * moved
            gradient = self.point.gradient + share * (self.point.gradient - last.gradient)
            self._note(self.point)
        return limit

    def gap(self, penalty: float) -> float:
        """Return the cost minus that of a dual point, so at least its distance to the minimum.

        With residuals ``e``, the dual point is ``s e / n_rows``, and its value
        ``s <e, y> / n_rows - s^2 |e|^2 / (2 n_rows)`` for the best ``s`` that is feasible:
        ``|s| |[Phi_t' e_t]_t|_op <= penalty n_rows``.
        """
        Theta, gradient, loss = self.point.Theta, self.point.gradient, self.point.loss
        against = 2 * loss - float(np.vdot(gradient, Theta))  # <e, y> / n_rows
        norm = float(np.linalg.norm(gradient, 2))
        bound = penalty / norm if norm > 0 else np.inf
        s = float(np.clip(against / (2 * loss), -bound, bound)) if loss > 0 else 0.0
        return self.point.value(penalty) - (s * against - s**2 * loss)

    def is_done(self, penalty: float, tolerance: float) -> bool:
        """Tell whether the gap is within the tolerance, or no more than rounding."""
        rounding = 10 * float(np.finfo(self.point.gradient.dtype).eps) * self._null_loss
        return self.gap(penalty) <= max(tolerance * self.point.value(penalty), rounding)

    def _stepped(self, Y: Floats, gradient: Floats, penalty: float) -> _Point:
        descended = Y - gradient.astype(np.float64) / self._curvature
        return self._at(*_shrunk(descended, penalty / self._curvature))

    def _at(self, left: Floats, right: Floats, nuclear: float) -> _Point:
        Theta, n = left @ right, self._tasks.n_rows
        G, costs = self._tasks.residuals(Theta)
        return _Point(left, right, Theta, nuclear, G / n, float(costs.sum()) / (2 * n))


def _shrunk(Z: Floats, threshold: float) -> tuple[Floats, Floats, float]:
    """Return factors of ``Z`` with singular values lowered by ``threshold``, and their sum.

    From the smaller Gram matrix, which is faster than an SVD, unless the threshold is too
    small for it.
    """
    A = Z if Z.shape[0] >= Z.shape[1] else Z.T
    values, V = np.linalg.eigh(A.T @ A)
    s = np.sqrt(np.maximum(values, 0))
    if threshold < _GRAM_RESOLVES * s[-1]:
        _, s, Vt = np.linalg.svd(A, full_matrices=False)
        V = Vt.T
    V, s = V[:, s > threshold], s[s > threshold]
    U = A @ V * (1 - threshold / s)
    nuclear = float(np.sum(s - threshold))
    return (U, V.T, nuclear) if A is Z else (V, U.T, nuclear)


def _largest_curvature(tasks: TaskData) -> float:
    """Return the top eigenvalue of all ``Phi_t' Phi_t``, over n_rows, from below.

    Power iterations on all tasks at once, from differences of gradients at thetas that
    predict rewards of the usual size, so that no digits are lost.
    """
    nothing = np.zeros((tasks.dim, tasks.n_tasks))
    X = np.asarray(generator(None).standard_normal(nothing.shape))
    with np.errstate(all="ignore"):  # what is not finite is refused below
        reward, feature = tasks.squares.sum() / tasks.n_rows, tasks.mean_squares().sum()
        size = np.sqrt(reward / feature) if reward > 0 and feature > 0 else 1.0
        at_zero = tasks.residuals(nothing)[0].astype(np.float64)
        for _ in range(_POWER_ITERATIONS):
            lengths = np.linalg.norm(X, axis=0)
            X = np.divide(X, lengths, out=nothing.copy(), where=lengths > 0)
            X = (tasks.residuals(size * X)[0] - at_zero) / size
        curvature = float(np.linalg.norm(X, axis=0).max()) / tasks.n_rows
    if not np.isfinite(curvature) or (curvature == 0 and tasks.moments().any()):
        extent = "small" if curvature == 0 else "large"
        raise DataError(f"the features are too {extent} to square; scale them to about 1")
    return curvature


def _stages(largest: float, penalty: float) -> list[float]:
    """Return falling penalties that end at ``penalty``: each solution starts the next."""
    falling = (largest / _STAGE**k for k in count(1))
    return [*takewhile(lambda stage: stage > 2 * penalty, falling), penalty]


def _held_out_errors(training: TaskRows, held: TaskRows, path: Floats) -> Floats:
    """Return squared errors on ``held`` of fits to ``training``, by penalty.

    Those after the errors have clearly begun to rise are infinite.
    """
    solver = _Solver(training, lambda _: None)
    solver.begin(np.zeros((training.dim, training.n_tasks)))
    errors = np.full(len(path), np.inf)
    for k, penalty in enumerate(path):
        solver.descend(float(penalty), _PATH_TOLERANCE, _PATH_ITERATIONS)
        errors[k] = float(held.residuals(solver.point.Theta)[1].sum())
        if k >= int(np.argmin(errors)) + _PATIENCE:
            break
    return errors


def _noise_std(tasks: TaskData) -> float:
    """Return the residual standard deviation of a low-rank fit, for its free parameters."""
    estimate = LowRank().fit(tasks)
    cost = float(tasks.residuals(estimate.theta)[1].sum())
    spare = tasks.n_rows - free_parameters(tasks, estimate.rank)
    return float(np.sqrt(cost / max(1, spare)))
