"""AltGDMin, the paper's estimator: Algorithm 2 to start, Algorithm 3 to descend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Estimate, Status
from cobandits.estimators.base import (
    Progress,
    Record,
    check_at_least,
    check_positive,
    check_rank,
    finished,
    starting_basis,
)
from cobandits.kernels import Fit
from cobandits.linalg import orthonormal, top_left_vectors
from cobandits.randomness import RandomSource, generator
from cobandits.tasks import TaskData, TaskRows

__all__ = ["AltGDMin", "spectral_start"]

Floats = NDArray[np.floating]
Samples = Callable[[int], TaskData]  # from the number of a part to its rows

_RISE = 1e-6  # of the squared rewards, by which the cost may rise above that of the start


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
    left out; statistics have no single rows, so from them nothing is left out.
    """
    bound = truncation * float(tasks.squares.sum()) / tasks.n_rows
    if matrix == "squares":
        return top_left_vectors(tasks.squared_moment(bound), rank)
    return top_left_vectors(tasks.moments(bound) / np.maximum(tasks.counts, 1), rank)


@dataclass(frozen=True, kw_only=True)
class AltGDMin:
    """Alternating gradient descent in the basis and minimisation in the weights.

    An iteration is lines 6 to 9 of Algorithm 3: ``w_t = (Phi_t B)^+ y_t`` for each task,
    one gradient step in ``B``, and QR. The step is ``step / (n sigma_max^2)``, the
    ``gamma = c_gamma / sigma_max*^2`` of Theorem 5.2, with the top singular value of the
    current ``W`` for the unknown one; where tasks have different numbers of rows, that
    of ``W diag(sqrt(n_t))`` takes the place of both factors.

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
        the analysis asks.

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

    def __post_init__(self) -> None:
        check_positive("step", self.step)
        check_positive("truncation", self.truncation)
        check_at_least("iterations", self.iterations, 1)
        check_at_least("tolerance", self.tolerance, 0)
        if self.start_matrix not in ("moments", "squares"):
            raise ConfigurationError(
                f"start_matrix must be 'moments' or 'squares', got {self.start_matrix!r}"
            )

    def fit(
        self,
        tasks: TaskData,
        *,
        start: Estimate | None = None,
        rng: RandomSource = None,
        truth: Floats | None = None,
        progress: Progress | None = None,
    ) -> Estimate:
        """Fit the rows of ``tasks``; see :class:`cobandits.estimators.base.Estimator`."""
        check_rank(self.rank, tasks)
        sample = self._samples(tasks, rng)
        if start is None:
            B = spectral_start(
                sample(0), self.rank, truncation=self.truncation, matrix=self.start_matrix
            )
        else:
            B = starting_basis(start, tasks, self.rank)
        record = Record(self.iterations, truth, progress)
        B, status = self._descend(sample, B, tasks, record)
        final = tasks.least_squares(B)  # W for the last B, on all rows
        if status.outcome == "limit":
            record.note(float(final.costs.sum()), B, final.weights)
        return finished(
            tasks, B, final.weights, status=status, record=record, estimator=type(self).__name__
        )

    def _descend(
        self, sample: Samples, B: Floats, tasks: TaskData, record: Record
    ) -> tuple[Floats, Status]:
        """Take the steps of Algorithm 3; return the basis and how it ended."""
        rounding, most = tasks.rounding, np.inf
        best, previous = (np.inf, B), float("nan")
        for iteration in range(self.iterations):
            fit = sample(1 + iteration).least_squares(B)
            cost = float(fit.costs.sum())
            record.note(cost, B, fit.weights)
            if iteration == 0 and not self.split:
                most = cost + _RISE * float(tasks.squares.sum())
            if not cost <= most or not np.isfinite(cost):
                advice = "the steps diverge; lower step, or scale the features to variance 1"
                return best[1], _status("refused", advice, iteration)
            if cost <= rounding:
                return B, _status("converged", "the rows are fitted exactly", iteration)
            if 0 <= previous - cost <= self.tolerance * previous and not self.split:
                return B, _status("converged", "the cost no longer falls", iteration)
            best, previous = min(best, (cost, B), key=lambda found: found[0]), cost
            gradient = self._gradient(sample(1 + self.iterations + iteration), B, fit)
            B = self._step(B, gradient, fit.weights, sample(1 + iteration).counts)
        advice = "raise iterations, or use LowRank, which needs fewer"
        return B, _status("limit", advice, self.iterations)

    def _gradient(self, held_out: TaskData, B: Floats, fit: Fit) -> Floats:
        """Return half the gradient in ``B``, on other rows than ``W`` if rows are split."""
        if not self.split:
            return fit.gradient
        G, _ = held_out.residuals(B @ fit.weights)
        return G @ fit.weights.T

    def _step(self, B: Floats, gradient: Floats, W: Floats, counts: NDArray[np.int64]) -> Floats:
        weighted = W * counts @ W.T  # (r, r)
        curvature = float(np.linalg.eigvalsh(weighted)[-1])  # n sigma_max(W)^2 for equal n
        if curvature <= 0:  # all weights are zero: so is the gradient
            return B
        return orthonormal(B - self.step / curvature * gradient)

    def _samples(self, tasks: TaskData, rng: RandomSource) -> Samples:
        """Return what gives the rows of a part: all rows, always, unless they are split."""
        if not self.split:
            return lambda _: tasks
        if not isinstance(tasks, TaskRows):
            raise DataError("sample splitting needs rows, not statistics; turn split off")
        parts = 2 * self.iterations + 1
        fewest, needed = int(tasks.counts.min()), parts * self.rank
        if fewest < needed:
            raise DataError(
                f"sample splitting needs (2 iterations + 1) rank = {needed} rows a task, the "
                f"smallest task has {fewest}; lower iterations to at most "
                f"{max(0, (fewest // self.rank - 1) // 2)}, add rows or turn split off"
            )
        folds = tasks.folds(parts, generator(rng))
        return lambda part: tasks.select(folds == part)


def _status(
    outcome: Literal["converged", "limit", "refused"], message: str, iterations: int
) -> Status:
    return Status(outcome=outcome, message=message, iterations=iterations)
