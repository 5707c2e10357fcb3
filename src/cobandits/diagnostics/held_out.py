"""Whether sharing helps, by the errors on rows that were held out."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimators.checks import check_rank
from cobandits.estimators.independent import Independent, Pooled
from cobandits.estimators.lowrank import LowRank
from cobandits.randomness import RandomSource, generator
from cobandits.tasks import TaskData, TaskRows

__all__ = ["LEAST_ROWS", "Sharing", "sharing"]

Floats = NDArray[np.floating]

_NAMES = ("shared", "independent", "pooled")
_LEVEL = 0.97725  # what lies below 2 standard errors where there are many rows
_NEGLIGIBLE = 1e-9  # of the squared rewards, where both fits are as good as exact
LEAST_ROWS = 8  # that a task needs to be named; standard errors of fewer mean little
_SHOWN = 5  # tasks named in a report


@dataclass(frozen=True, kw_only=True, eq=False)
class Sharing:
    """Held-out errors of fits that share, that do not, and of one theta for all.

    A difference is clear if it is beyond 2 standard errors, or as many more as Student's t
    asks for a task with few rows. The standard errors come from the differences row by row:
    both fits predict the same rows, so what is hard for both does not count. They take the
    fits as given; of twenty tasks without a difference, about one is named by chance. Tasks
    with fewer than 8 rows are never named.
    """

    labels: tuple[Hashable, ...]
    counts: NDArray[np.int64]  # (T,)
    squared_errors: dict[str, Floats]  # (T,) each: "shared", "independent", "pooled"
    total: Floats  # (T,), squared deviations of the rewards from their task's mean
    standard_errors: Floats  # (T,), of the differences; infinite for a task with one row
    standard_error: float  # of their sum
    pooled_standard_error: float  # of the sum of pooled minus shared
    ranks: tuple[int, ...]  # of the shared fit, by fold

    def r_squared(self, name: str) -> float:
        """Return ``1 - held-out squared error / total`` over all tasks.

        So 0 is as good as each task's own mean, taken over all its rows: a fit without an
        intercept may be far below. NaN if no task's rewards vary.
        """
        if name not in self.squared_errors:
            raise ConfigurationError(f"name must be one of {', '.join(_NAMES)}, got {name!r}")
        total = float(self.total.sum())
        return 1 - float(self.squared_errors[name].sum()) / total if total > 0 else float("nan")

    @property
    def differences(self) -> Floats:
        """Squared error of the independent fits minus that of the shared one, (T,)."""
        return self.squared_errors["independent"] - self.squared_errors["shared"]

    @property
    def gain(self) -> Floats:
        """``1 - shared / independent`` of the squared errors by task, (T,).

        0 where both are 0, minus infinity where only that of the independent fit is.
        """
        shared, alone = self.squared_errors["shared"], self.squared_errors["independent"]
        none = np.where(shared > 0, -np.inf, 0.0)
        gain: Floats = 1 - np.divide(shared, alone, out=1 - none, where=alone > 0)
        return gain

    @property
    def helps(self) -> bool:
        """Whether sharing clearly lowers the error of all tasks together.

        Never if the shared fit predicts no better than each task's own mean.
        """
        return self._clear(float(self.differences.sum())) and self.r_squared("shared") > 0

    @property
    def hurts(self) -> bool:
        """Whether sharing clearly raises the error of all tasks together."""
        return self._clear(-float(self.differences.sum()))

    @property
    def gaining(self) -> tuple[Hashable, ...]:
        """Tasks whose error sharing clearly lowers, the largest :attr:`gain` first."""
        return self._named_by(self.gain, self.differences)

    @property
    def losing(self) -> tuple[Hashable, ...]:
        """Tasks whose error sharing clearly raises, the least :attr:`gain` first."""
        return self._named_by(-self.gain, -self.differences)

    @property
    def verdict(self) -> str:
        """One sentence: whether sharing helps or hurts, and by how much."""
        nothing = self._nothing_to_tell
        if nothing:
            return nothing
        if self.hurts:
            return f"sharing hurts: {self._change}; try another rank, or fit the tasks one by one"
        enough = "; one pooled model does as well" if self._pooled_does else ""
        if self.helps:
            return f"sharing helps: {self._change}{enough}"
        alternative = enough or "; the tasks may be fitted alone"
        return f"sharing neither helps nor hurts by more than chance{alternative}"

    @property
    def _nothing_to_tell(self) -> str:
        """Why sharing cannot help, whatever tasks alone do; empty where it can."""
        if len(self.labels) == 1:
            return "there is one task: nothing to share"
        if self.counts.max() < 2:
            return "cannot be told: no task has two rows"
        if not self.total.any():
            return "cannot be told: the rewards of no task vary"
        best = max(_NAMES, key=self.r_squared)
        if self.r_squared(best) <= 0:
            return "no model predicts better than each task's own mean"
        if self.r_squared("shared") <= 0:
            better = "fit one pooled model" if best == "pooled" else "fit the tasks one by one"
            return f"the shared model predicts no better than each task's own mean; {better}"
        return ""

    @property
    def _change(self) -> str:
        shared, alone = (float(self.squared_errors[name].sum()) for name in _NAMES[:2])
        size = _percent(1 - shared / alone if alone > 0 else -np.inf)
        side = "below" if shared < alone else "above"
        return f"held-out squared error {size} {side} that of tasks alone"

    @property
    def _pooled_does(self) -> bool:
        """Whether the error of the pooled fit is not clearly above that of the shared one."""
        shared, pooled = self.squared_errors["shared"], self.squared_errors["pooled"]
        return float((pooled - shared).sum()) <= self._bound(self.pooled_standard_error)

    def named(self, labels: Sequence[Hashable]) -> str:
        """Return how many tasks these are, and the first few with their change of error."""
        enough = int(np.count_nonzero(self.counts >= LEAST_ROWS))
        if enough == 0:
            return f"none named: no task has {LEAST_ROWS} rows"
        few = f" tasks with {LEAST_ROWS} rows or more" if enough < len(self.labels) else ""
        count = f"{len(labels)} of {enough}{few}"
        if not labels:
            return count
        gains = dict(zip(self.labels, self.gain.tolist(), strict=True))
        change = "lower" if gains[labels[0]] > 0 else "higher"
        shown = ", ".join(f"{_percent(gains[label])} ({label})" for label in labels[:_SHOWN])
        more = ", ..." if len(labels) > _SHOWN else ""
        return f"{count}: squared error {change} by {shown}{more}"

    def _bound(self, standard_error: float) -> float:
        return float(stdtrit(self.counts.sum() - 1, _LEVEL)) * standard_error

    def _clear(self, difference: float) -> bool:
        return len(self.labels) > 1 and difference > self._bound(self.standard_error)

    def _named_by(self, sizes: Floats, differences: Floats) -> tuple[Hashable, ...]:
        bounds = stdtrit(np.maximum(self.counts - 1, 1), _LEVEL) * self.standard_errors
        clear = (differences > bounds) & (self.counts >= LEAST_ROWS) & (len(self.labels) > 1)
        order = np.argsort(-sizes, kind="stable")
        return tuple(self.labels[t] for t in order.tolist() if clear[t])

    def __str__(self) -> str:
        scores = ", ".join(f"{name} {self.r_squared(name):.3f}" for name in _NAMES)
        return "\n".join(
            [
                f"held-out R^2 (0: each task's own mean): {scores}",
                self.verdict,
                f"tasks that gain: {self.named(self.gaining)}",
                f"tasks that lose: {self.named(self.losing)}",
            ]
        )


def _percent(gain: float) -> str:
    return f"{abs(gain):.0%}" if np.isfinite(gain) else "far"


def sharing(
    tasks: TaskData,
    *,
    rank: int | Literal["auto"] = "auto",
    ridge: float | Literal["auto"] = "auto",
    n_folds: int = 5,
    rng: RandomSource = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sharing:
    """Compare fits that share a basis with fits that do not, on rows that no fit has seen.

    Every row is held out once, with about one in ``n_folds`` of each task's rows. On the
    rest are fitted: ``"shared"``, :class:`LowRank` with ``rank`` and ``ridge``;
    ``"independent"``, :class:`Independent`; and ``"pooled"``, :class:`Pooled`. What they
    choose, they choose on these training rows alone. A task without training rows is
    predicted to be 0 by the first two.

    Parameters
    ----------
    tasks : TaskRows
        Rows, at least 2; statistics will not do.
    rank, ridge
        Of the shared fit, as in :class:`LowRank`.
    n_folds : int
        At least 2; as many as there are rows where those are fewer.
    rng
        Deals the rows.
    progress
        Called with the number of folds done and of all folds.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> problem = Synthetic(dim=20, n_tasks=30, rank=2, noise_std=0.1).problem(n_rows=12, seed=1)
    >>> report = sharing(problem.tasks)
    >>> report.helps, len(report.losing), report.ranks
    (True, 0, (2, 2, 2, 2, 2))
    """
    rows = _checked(tasks, rank, n_folds)
    estimator = LowRank(rank=rank, ridge=ridge)
    n_folds = min(n_folds, rows.n_rows)
    folds = rows.folds(n_folds, generator(rng))
    errors = np.empty((rows.n_rows, len(_NAMES)))
    ranks = []
    for fold in range(n_folds):
        held = folds == fold
        training = rows.select(~held)
        shared = estimator.fit(training)
        others = Independent().fit(training), Pooled().fit(training)
        thetas = [fit.theta for fit in (shared, *others)]
        errors[held] = _squared_errors(rows.select(held), thetas)
        ranks.append(shared.rank)
        if progress is not None:
            progress(fold + 1, n_folds)
    return _summary(rows, errors, tuple(ranks))


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
    differences = errors[:, 1] - errors[:, 0]
    deviations = differences - _sums(differences / counts[owners], tasks)[owners]
    spare = np.maximum(counts - 1, 1)
    variances = np.where(counts > 1, _sums(deviations**2, tasks) * counts / spare, np.inf)
    centred = tasks.rewards - tasks.averages().rewards[owners]
    first = tasks.rewards[tasks.offsets[owners]]  # of the row's task
    varies = _sums((tasks.rewards != first).astype(np.float64), tasks) > 0
    return Sharing(
        labels=tasks.labels,
        counts=counts,
        squared_errors={name: _sums(errors[:, k], tasks) for k, name in enumerate(_NAMES)},
        total=np.where(varies, _sums(centred**2, tasks), 0.0),
        standard_errors=np.sqrt(variances) + _NEGLIGIBLE * tasks.squares,
        standard_error=_of_sum(differences, tasks),
        pooled_standard_error=_of_sum(errors[:, 2] - errors[:, 0], tasks),
        ranks=ranks,
    )


def _of_sum(differences: Floats, tasks: TaskRows) -> float:
    """Return the standard error of the sum of a difference a row."""
    spread = float(np.sqrt(len(differences)) * np.std(differences, ddof=1))
    return spread + _NEGLIGIBLE * float(tasks.squares.sum())


def _sums(values: Floats, tasks: TaskRows) -> Floats:
    """Return the sum of a value a row over the rows of each task, (T,)."""
    return np.bincount(tasks.owners, values, tasks.n_tasks).astype(np.float64)
