"""Whether sharing helps, by the errors on rows that were held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.diagnostics.few_rows import shared_fit
from cobandits.diagnostics.verdict import ALL, LEAST_ROWS, NEGLIGIBLE, Sharing, by_task
from cobandits.errors import ConfigurationError, DataError
from cobandits.estimators.checks import check_rank
from cobandits.estimators.common import CommonMean, common_and_own
from cobandits.estimators.independent import Pooled
from cobandits.estimators.lowrank import LowRank
from cobandits.randomness import RandomSource, generator
from cobandits.tasks import TaskData, TaskRows, TaskStatistics
from cobandits.tasks.held import HeldTasks

__all__ = ["ENOUGH", "LEAST_ROWS", "ROUGH", "STEPS", "Sharing", "sharing"]

Floats = NDArray[np.floating]
Progress = Callable[[int, int], None]  # folds done, folds in all

ROUGH = 1e-5  # tolerance of shared fits: a smaller part of the cost moves no prediction
STEPS = 100  # the most of a shared fit: later ones gain little
ENOUGH = 20_000  # rows held out, in at least 2 folds: with more, intervals are hardly narrower


def sharing(
    tasks: TaskData,
    *,
    rank: int | Literal["auto"] = "auto",
    ridge: float | Literal["auto"] = "auto",
    n_folds: int = 5,
    rng: RandomSource = None,
    progress: Progress | None = None,
) -> Sharing:
    """Compare models that share between tasks with models that do not, by cross-validation.

    Those that share: :class:`LowRank` (with fewer rows than features per task, and neither rank
    nor ridge given, a Gaussian prior by EM), :class:`CommonMean` and :class:`Pooled`. Those that
    do not: each task's own theta, shrunken (:class:`CommonMean` with ``mean="constant"``), and
    its own mean. All that they choose, they choose on the training rows of a fold.

    Parameters
    ----------
    tasks : TaskRows
        At least 2 rows; statistics are refused.
    rank, ridge
        Of the shared fit, as in :class:`LowRank`.
    n_folds : int
        At least 2. Of large tables only as many of them are held out as have 20,000 rows.
    rng
        Deals each task's rows to the folds.

    >>> from cobandits.environments import Synthetic
    >>> source = Synthetic(dim=20, n_tasks=30, rank=2, noise_std=0.1)
    >>> report = sharing(source.problem(n_rows=12, seed=1).tasks)
    >>> report.helps, len(report.losing), report.ranks
    (True, 0, (2, 2, 2, 2, 2))
    """
    rows = _checked(tasks, rank, n_folds)
    folds = rows.folds(min(n_folds, rows.n_rows), generator(rng))
    shared = LowRank(rank=rank, ridge=ridge, tolerance=ROUGH, iterations=STEPS)
    n_held = _enough_folds(folds)
    errors, ranks = _held_out_errors(rows, folds, n_held, shared, progress)
    held = folds < n_held
    return _summary(rows.rewards_alone().select(held), errors[held], ranks)


def _enough_folds(folds: NDArray[np.int64]) -> int:
    """Return how many of the folds are held out, one after the other."""
    rows = np.cumsum(np.bincount(folds))
    return min(len(rows), max(2, 1 + int(np.searchsorted(rows, ENOUGH))))


def _checked(tasks: TaskData, rank: int | Literal["auto"], n_folds: int) -> TaskRows:
    if not isinstance(tasks, TaskRows):
        raise DataError("held-out errors need rows, not statistics; keep the rows of the tasks")
    if tasks.n_rows < 2:
        raise DataError(
            f"at least 2 rows are needed, one to hold out and one to fit, got {tasks.n_rows}; "
            "add rows"
        )
    if n_folds < 2:
        raise ConfigurationError(f"n_folds must be at least 2, got {n_folds}")
    if rank != "auto":
        check_rank(rank, tasks)
    return tasks


def _held_out_errors(
    rows: TaskRows,
    folds: NDArray[np.int64],
    n_held: int,
    estimator: LowRank,
    progress: Progress | None,
) -> tuple[Floats, tuple[int, ...]]:
    """Return each row's squared error by each model, (n_rows, models), and the shared ranks.

    Rows that are never held out have none. A task without training rows is predicted to be 0 by
    the shared fit.
    """
    errors = np.empty((rows.n_rows, len(ALL)))
    ranks = []
    for fold in range(n_held):
        held = folds == fold
        errors[held], rank = _errors_of_fold(rows, held, estimator)
        ranks.append(rank)
        if progress is not None:
            progress(fold + 1, n_held)
    return errors, tuple(ranks)


def _errors_of_fold(
    rows: TaskRows, held: NDArray[np.bool_], estimator: LowRank
) -> tuple[Floats, int]:
    """Return the squared errors of the rows that are ``held`` out, and the shared rank."""
    training, unseen = _training(rows, ~held), rows.select(held)
    shared = shared_fit(training, estimator)
    common, own = common_and_own(training)
    models = shared, common, Pooled().fit(training), own  # in the order of MODELS
    of_models = _squared_errors(unseen, [model.theta for model in models])
    of_means = (unseen.rewards - _means(training)[unseen.owners]) ** 2
    return np.column_stack([of_models, of_means]), shared.rank


def _training(rows: TaskRows, mask: NDArray[np.bool_]) -> HeldTasks:
    """Return the rows where ``mask``, or their statistics where there are many rows."""
    return TaskStatistics.of_some(rows, mask) if rows.is_long else rows.select(mask)


def _means(training: HeldTasks) -> Floats:
    """Return each task's mean reward, (T,), shrunken to the mean of all tasks."""
    return np.asarray(CommonMean().fit(training.rewards_alone()).theta[0])


def _squared_errors(tasks: TaskRows, thetas: Sequence[Floats]) -> Floats:
    """Return each row's squared error with each theta, (n_rows, len(thetas))."""
    by_task = np.stack(thetas, axis=-1).transpose(1, 0, 2)  # (T, d, thetas)
    errors = np.empty((tasks.n_rows, len(thetas)))
    for t, (first, last) in enumerate(pairwise(tasks.offsets.tolist())):
        predicted = tasks.rows[first:last] @ by_task[t]
        errors[first:last] = (predicted - tasks.rewards[first:last, None]) ** 2
    return errors


def _summary(tasks: TaskRows, errors: Floats, ranks: tuple[int, ...]) -> Sharing:
    counts, owners = tasks.counts, tasks.owners
    differences = errors[:, ALL.index("independent")] - errors[:, ALL.index("shared")]
    deviations = differences - _sums(differences / counts[owners], tasks)[owners]
    spare = np.maximum(counts - 1, 1)
    variances = np.where(counts > 1, _sums(deviations**2, tasks) * counts / spare, np.inf)
    first = tasks.rewards[tasks.offsets[owners]]  # of the row's task
    return Sharing(
        labels=tasks.labels,
        counts=counts,
        squared_errors={name: _sums(errors[:, k], tasks) for k, name in enumerate(ALL)},
        varies=_sums((tasks.rewards != first).astype(np.float64), tasks) > 0,
        standard_errors=np.sqrt(variances) + NEGLIGIBLE * tasks.squares,
        pair_errors=_pair_errors(errors, tasks),
        ranks=ranks,
    )


def _pair_errors(errors: Floats, tasks: TaskRows) -> Floats:
    """Return the standard error of the difference of any two models' sums, (models, models).

    Over tasks it is cluster-robust: rows of a task need not be independent.
    """
    n_models = errors.shape[1]
    found = np.zeros((n_models, n_models))
    for i, j in combinations(range(n_models), 2):
        differences = errors[:, i] - errors[:, j]
        if by_task(tasks.counts):
            sums = _sums(differences - differences.mean(), tasks)
            spread = np.sqrt(tasks.n_tasks / (tasks.n_tasks - 1) * float(sums @ sums))
        else:
            spread = np.sqrt(len(differences)) * np.std(differences, ddof=1)
        found[i, j] = found[j, i] = float(spread) + NEGLIGIBLE * float(tasks.squares.sum())
    return found


def _sums(values: Floats, tasks: TaskRows) -> Floats:
    """Return the sum over the rows of each task, (T,), of one value per row."""
    return np.bincount(tasks.owners, values, tasks.n_tasks).astype(np.float64)
