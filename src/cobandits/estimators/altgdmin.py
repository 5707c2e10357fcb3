"""AltGDMin, the paper's estimator: Algorithm 2 to start, Algorithm 3 to descend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate, Status
from cobandits.estimators.base import Estimator, HistoryWriter, Solution, ended
from cobandits.estimators.checks import (
    check_at_least,
    check_iterations,
    check_positive,
    starting_basis,
)
from cobandits.linalg import largest_eigenvalue, orthonormal, top_left_vectors
from cobandits.randomness import RandomSource, generator
from cobandits.tasks import LeastSquares, TaskData, TaskFit

__all__ = ["AltGDMin", "spectral_start"]

Floats = NDArray[np.floating]

_SMALL = 1e-3  # mean square of features below which a step may be lost in rounding
_MANY = 100  # iterations from which it pays to prepare the tasks for them
_RISE = 1e-6  # share of the squared rewards by which the cost may exceed that of the start


def spectral_start(
    tasks: TaskData,
    rank: int,
    *,
    truncation: float = 9.0,
    matrix: Literal["moments", "squares"] = "moments",
) -> Floats:
    """Return the truncated spectral start of Algorithm 2, an orthonormal (d, r) basis.

    ``"moments"``: the top left singular vectors of ``[Phi_t' y_t / n_t]_t``, as in
    Algorithm 2. ``"squares"``: those of the sum of ``y^2 phi phi'``, as in the proof of
    Theorem 5.1 in the appendix. Rows with ``y^2`` over ``truncation`` times its mean are
    left out; statistics have no single rows, so nothing is left out of them.
    """
    bound = truncation * float(tasks.squares.sum()) / tasks.n_rows
    if matrix == "squares":
        return top_left_vectors(tasks.squared_moment(bound), rank)
    return top_left_vectors(tasks.moments(bound) / np.maximum(tasks.counts, 1), rank)


@dataclass(frozen=True, kw_only=True)
class AltGDMin(Estimator):
    """Alternating gradient descent in the basis and minimisation in the weights.

    An iteration is lines 6 to 9 of Algorithm 3: ``w_t = (Phi_t B)^+ y_t`` for each task,
    one gradient step in ``B``, and QR. The step is ``step / (n sigma_max^2)``, the
    ``gamma = c_gamma / sigma_max*^2`` of Theorem 5.2, with the top singular value of the
    current ``W`` in place of the unknown one. If tasks have different numbers of rows,
    ``n sigma_max^2`` is the squared top singular value of ``W diag(sqrt(n_t))``.

    Parameters
    ----------
    rank : int
        Number of columns of the basis.
    step : float
        ``c_gamma`` of Theorem 5.2, which proves convergence up to 0.5.
    iterations : int
        ``L``, the most steps to take; the paper's figures take 2000.
    tolerance : float
        Stop when a step lowers the cost by less than this share of it; 0 takes all steps.
    truncation : float
        ``C`` of Algorithm 2: the start leaves out rows with y^2 over C times its mean.
    start_matrix : {"moments", "squares"}
        See :func:`spectral_start`.
    split : bool
        Use disjoint rows for the start, each ``W`` and each gradient (2 L + 1 parts), as
        the analysis assumes. ``rng`` of a fit deals the rows.
    divisor : {"part", "epoch"}
        With ``split``: whether the gradient over a part is divided by the part's rows, or by all
        rows, as line 8 of Algorithm 3 reads. The latter makes steps shorter by the number of parts.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> problem = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=15, seed=1)
    >>> estimate = AltGDMin(rank=2).fit(problem.tasks, truth=problem.theta)
    >>> estimate.status.outcome, bool(estimate.history.errors[-1] < 1e-3)
    ('converged', True)
    """

    name: ClassVar[str] = "altgdmin"

    rank: int
    step: float = 0.4
    iterations: int = 10_000
    tolerance: float = 1e-9
    truncation: float = 9.0
    start_matrix: Literal["moments", "squares"] = "moments"
    split: bool = False
    divisor: Literal["part", "epoch"] = "part"

    def __post_init__(self) -> None:
        check_positive("step", self.step)
        check_positive("truncation", self.truncation)
        check_iterations(self.iterations)
        check_at_least("tolerance", self.tolerance, 0)
        if self.start_matrix not in ("moments", "squares"):
            raise ConfigurationError(
                f"start_matrix must be 'moments' or 'squares', got {self.start_matrix!r}"
            )
        if self.divisor not in ("part", "epoch"):
            raise ConfigurationError(f"divisor must be 'part' or 'epoch', got {self.divisor!r}")

    def _fit(
        self, tasks: TaskData, start: Estimate | None, rng: RandomSource, history: HistoryWriter
    ) -> Solution:
        samples = self._samples(tasks, rng, with_start=start is None)
        if start is None:
            B = spectral_start(
                samples.for_start(), self.rank, truncation=self.truncation, matrix=self.start_matrix
            )
        else:
            B = starting_basis(start, tasks, self.rank)
        B, status = self._descend(samples, B, history)
        final = tasks.least_squares(B)  # W for the last B, on all rows
        return Solution(B, final.weights, status, history)

    def _descend(
        self, samples: _Samples, B: Floats, history: HistoryWriter
    ) -> tuple[Floats, Status]:
        """Take the steps of Algorithm 3; return the last basis and the status."""
        tasks = samples.tasks
        rounding, most = tasks.rounding, np.inf
        square = float(tasks.mean_squares().mean())  # small features make small steps
        tolerance = self.tolerance * min(1.0, square)
        best, previous = (np.inf, B), float("nan")
        for iteration in range(self.iterations + 1):
            last = iteration == self.iterations
            fit = samples.for_weights(iteration).least_squares(B)
            cost = fit.cost
            if not (last and self.split):  # the cost on all rows is not comparable
                history.note(cost, B, fit.weights)
            if iteration == 0 and not self.split:
                most = cost + _RISE * float(tasks.squares.sum())
            if not cost <= most:
                advice = "the steps diverge; lower step, or scale the features to variance 1"
                return best[1], ended("refused", advice, iteration)
            if cost <= rounding:
                return B, ended("converged", "the rows are fitted exactly", iteration)
            fall = previous - cost
            stalled = 0 < fall <= tolerance * previous or (fall == 0 and square > _SMALL)
            if stalled and not self.split:
                return B, ended("converged", "the cost no longer falls", iteration)
            if last:
                break
            best, previous = min(best, (cost, B), key=lambda found: found[0]), cost
            B = self._step(B, fit, samples.for_gradient(iteration), tasks.counts)
        advice = "raise iterations, or use LowRank, which needs fewer"
        return B, ended("limit", advice, self.iterations)

    def _step(
        self, B: Floats, fit: TaskFit, rows: TaskData, counts: NDArray[np.int64] | None = None
    ) -> Floats:
        """Return the basis after one gradient step on ``rows`` and QR; ``counts`` are of all."""
        W = fit.weights
        gradient, weighted = fit.gradient, fit.weighted
        if self.split:
            n = rows.counts if counts is None or self.divisor == "part" else counts
            gradient, weighted = rows.residuals(B @ W)[0] @ W.T, W * n @ W.T
        curvature = largest_eigenvalue(weighted)  # n sigma_max(W)^2 for equal n
        if curvature <= 0:  # all weights are zero: so is the gradient
            return B
        return orthonormal(B - self.step / curvature * gradient)

    def _samples(self, tasks: TaskData, rng: RandomSource, *, with_start: bool) -> _Samples:
        """Split the rows into 2 L parts, and one more for the start, if ``split`` is on."""
        if not self.split:
            many = self.iterations >= _MANY
            passes = tasks.prepared() if many else tasks
            return _Samples(tasks=tasks, passes=passes, parts=(), iterations=self.iterations)
        n_parts = 2 * self.iterations + with_start
        fewest, needed = int(tasks.counts.min()), n_parts * self.rank
        if fewest < needed:
            raise DataError(
                f"sample splitting needs (2 iterations + 1) rank = {needed} rows per task, the "
                f"smallest task has {fewest}; lower iterations to at most "
                f"{max(0, (fewest // self.rank - with_start) // 2)}, add rows or turn split off"
            )
        parts = tasks.split(n_parts, generator(rng))
        return _Samples(tasks=tasks, passes=tasks, parts=parts, iterations=self.iterations)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Samples:
    """The rows of each step: all of them, or disjoint parts (Algorithm 1, sample-split)."""

    tasks: TaskData
    passes: LeastSquares  # over all of them
    parts: Sequence[TaskData]  # L for weights, L for gradients, one for the start; or none
    iterations: int

    def for_weights(self, iteration: int) -> LeastSquares:
        used = self.parts and iteration < self.iterations  # the last is on all rows
        return self.parts[iteration] if used else self.passes

    def for_gradient(self, iteration: int) -> TaskData:
        return self.parts[self.iterations + iteration] if self.parts else self.tasks

    def for_start(self) -> TaskData:
        return self.parts[-1] if self.parts else self.tasks
