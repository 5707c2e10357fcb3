"""Every row of every task."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cobandits import kernels
from cobandits.tasks.checks import Codes, Floats, Labels, checked_rows, encoded
from cobandits.tasks.held import HeldTasks
from cobandits.tasks.layout import joined, sorting
from cobandits.tasks.leave_one_out import ridge_errors
from cobandits.tasks.prepared import passes_over
from cobandits.tasks.results import LeastSquares, Scatter, TaskFit, TaskMeans
from cobandits.tasks.statistics import TaskStatistics
from cobandits.tasks.sums import scatter_around, squared_moment

__all__ = ["TaskRows"]


class TaskRows(HeldTasks):
    """Every row of every task, in flat arrays sorted by task.

    >>> rows = TaskRows.from_arrays([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]], [1, 2, 3], "aba")
    >>> rows.labels, rows.counts.tolist(), rows.dim
    (('a', 'b'), [2, 1], 2)
    """

    def __init__(self, dim: int, feature_names: Sequence[str] | None = None) -> None:
        super().__init__(dim, feature_names)
        self._rows: Floats = np.empty((0, dim))
        self._rewards: Floats = np.empty(0)
        self._offsets: Codes = np.zeros(1, np.int64)
        self._pending: list[tuple[Floats, Floats, Codes]] = []
        self._counts: Codes = np.zeros(0, np.int64)  # with room for tasks to come

    @classmethod
    def adopting(
        cls, features: Floats, rewards: Floats, tasks: Labels, feature_names: Sequence[str]
    ) -> TaskRows:
        """Make one from arrays that nobody changes later: they are copied only to be sorted."""
        Phi, y = checked_rows(features, rewards)
        codes, labels = encoded(tasks, len(y), {})
        order = sorting(codes)
        if order is not None:
            Phi, y, codes = joined([Phi], order), y[order], codes[order]
        return cls._of_sorted(Phi, y, codes, labels, feature_names)

    @classmethod
    def _of_sorted(
        cls,
        Phi: Floats,
        y: Floats,
        codes: Codes,
        labels: Sequence[Hashable],
        feature_names: Sequence[str] | None,
    ) -> TaskRows:
        """Return rows that are kept where they are."""
        data = cls(Phi.shape[1], feature_names)
        data._append(Phi, y, codes, labels)
        data._rows, data._rewards, data._pending = Phi, y, []
        data._merge()
        return data

    def _take(self, Phi: Floats, y: Floats, codes: Codes, n_tasks: int) -> None:
        room = len(self._counts)
        if n_tasks > room:
            self._counts = np.pad(self._counts, (0, max(n_tasks, 2 * room) - room))
        np.add.at(self._counts, codes, 1)
        self._pending.append((Phi, y, codes))  # merged when they are read: adding is cheap

    def _merge(self) -> None:
        """Sort pending rows to their tasks; within a task, rows stay in the order they came in."""
        if not self._pending and len(self._offsets) == self.n_tasks + 1:
            return
        owners = np.repeat(np.arange(len(self._offsets) - 1), np.diff(self._offsets))
        held = [(self._rows, self._rewards, owners)] if len(owners) else []
        chunks = held + self._pending
        if chunks:
            Phis, ys, codes = zip(*chunks, strict=True)
            order = sorting(np.concatenate(codes))
            y = np.concatenate(ys)
            self._rows = joined(Phis, order)
            self._rewards = y if order is None else y[order]
        self._offsets = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)
        self._pending = []

    def emptied(self) -> TaskRows:
        """Return the same tasks without the memory of their rows, which must be lent."""
        self._merge()
        twin = TaskRows(self.dim, self.feature_names)
        twin._codes, twin._counts, twin._offsets = self._codes, self._counts, self._offsets
        return twin

    def lend(self, rows: Floats, rewards: Floats) -> None:
        """Take these arrays, sorted by task, as the rows, without a copy."""
        self._rows, self._rewards = rows, rewards

    @property
    def rows(self) -> Floats:
        """All rows, (n_rows, d), sorted by task."""
        self._merge()
        return self._rows

    @property
    def rewards(self) -> Floats:
        """All rewards, (n_rows,), in the order of the rows."""
        self._merge()
        return self._rewards

    @property
    def offsets(self) -> Codes:
        """Task t owns the rows ``offsets[t]`` to ``offsets[t + 1]``, (T + 1,)."""
        self._merge()
        return self._offsets

    @property
    def owners(self) -> Codes:
        """The number of each row's task, (n_rows,)."""
        return np.repeat(np.arange(self.n_tasks), self.counts)

    @property
    def counts(self) -> Codes:
        """The number of rows per task, (T,)."""
        return self._counts[: self.n_tasks].copy()

    @property
    def nbytes(self) -> int:
        """The size of the rows and rewards in bytes."""
        parts = [(self._rows, self._rewards), *(part[:2] for part in self._pending)]
        return sum(Phi.nbytes + y.nbytes for Phi, y in parts)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The floating-point type of the rows."""
        return self.rows.dtype

    @property
    def squares(self) -> NDArray[np.float64]:
        """``y_t' y_t``, (T,)."""
        squared = self.rewards.astype(np.float64) ** 2
        return np.bincount(self.owners, squared, self.n_tasks).astype(np.float64, copy=False)

    @property
    def rounding(self) -> float:
        """The total squared error below which a fit is exact up to rounding."""
        eps = float(np.finfo(self.rows.dtype).eps)
        y = self.rewards.astype(np.float64, copy=False)
        return 100 * self.dim * eps**2 * float(y @ y)

    def folds(self, n_folds: int, rng: np.random.Generator, first: int = 0) -> Codes:
        """Return the number of the fold of each row, (n_rows,), after ``first`` other rows.

        Each task's rows are dealt to ``n_folds`` folds at random, as evenly as possible. A
        task continues with the fold after the last task's, so that tasks with a single row do
        not all end up in the same fold.
        """
        order = np.lexsort((rng.random(self.n_rows), self.owners))
        dealt = np.empty(self.n_rows, np.int64)
        dealt[order] = first + np.arange(self.n_rows)
        return dealt % n_folds

    def select(self, mask: NDArray[np.bool_]) -> TaskRows:
        """Return the rows where ``mask``, (n_rows,), is true; every task stays, even if empty."""
        chosen = np.flatnonzero(mask)
        return TaskRows._of_sorted(
            joined([self.rows], chosen),
            self.rewards[chosen],
            self.owners[chosen],
            self.labels,
            self.feature_names,
        )

    def rewards_alone(self) -> TaskRows:
        """Return the same rewards with one feature that is 1 in every row."""
        alone = TaskRows(1)
        alone._append(np.ones((self.n_rows, 1)), self.rewards, self.owners, self.labels)
        alone._merge()
        return alone

    def leave_one_out_errors(self, penalties: Floats, units: Floats) -> Floats:
        """Return the squared leave-one-out error of ridge regression per task, by penalty."""
        errors = np.zeros(len(penalties))
        for first, last in pairwise(self.offsets):
            errors += ridge_errors(
                self.rows[first:last] / units, self.rewards[first:last], penalties
            )
        return errors

    def cross_validation(
        self, n_folds: int, rng: np.random.Generator
    ) -> Iterator[tuple[TaskRows, TaskRows]]:
        """Yield the training rows and the held-out rows of each fold; all have every task."""
        folds = self.folds(n_folds, rng)
        for fold in range(min(n_folds, self.n_rows)):
            held = folds == fold
            yield self.select(~held), self.select(held)

    def split(self, n_parts: int, rng: np.random.Generator) -> list[TaskRows]:
        """Return disjoint random parts with about as many rows of each task (sample splitting)."""
        parts = self.folds(n_parts, rng)
        return [self.select(parts == part) for part in range(n_parts)]

    def least_squares(self, B: Floats, ridge: kernels.RidgePenalty = 0.0) -> TaskFit:
        """Solve every task in the span of ``B``; see :func:`cobandits.kernels.least_squares`."""
        self._merge()
        fit = kernels.least_squares(self._rows, self._rewards, self._offsets, B, ridge)
        return TaskFit.of(fit, self._counts[: self.n_tasks])

    def prepared(self) -> LeastSquares:
        """Return statistics of the features that tasks use, where these are much smaller."""
        return passes_over(self, self.rows, self.rewards, self.offsets)

    def residuals(self, Theta: Floats) -> tuple[Floats, NDArray[np.float64]]:
        """Return ``Phi_t'(Phi_t theta_t - y_t)``, (d, T), and squared residuals, (T,)."""
        Theta = Theta.astype(self.rows.dtype, copy=False)
        return kernels.residuals(self.rows, self.rewards, self.offsets, Theta)

    def moments(self, largest_square: float = np.inf) -> Floats:
        """Return ``Phi_t' y_t``, (d, T), without the rows whose y^2 exceeds ``largest_square``."""
        y = self.rewards
        kept = y if largest_square == np.inf else np.where(y**2 <= largest_square, y, 0)
        return kernels.pull_backs(self.rows, kept[:, None], self.offsets)[:, 0].T

    def squared_moment(self, largest_square: float = np.inf) -> Floats:
        """Return the sum of ``y^2 phi phi'`` over all rows with y^2 up to the bound, (d, d)."""
        kept = np.where(self.rewards**2 <= largest_square, self.rewards, 0)
        return squared_moment(self.rows, kept)

    def task_means(self) -> TaskMeans:
        """Return the means over each task's rows, 0 without rows."""
        counts = np.maximum(self.counts, 1)
        weights = np.column_stack([np.ones_like(self.rewards), self.rewards])  # (n_rows, 2)
        sums = kernels.pull_backs(self.rows, weights, self.offsets)  # (T, 2, d)
        rewards = np.bincount(self.owners, self.rewards, self.n_tasks)
        return TaskMeans(
            features=sums[:, 0].T / counts, rewards=rewards / counts, products=sums[:, 1].T / counts
        )

    def square_sums(self) -> Floats:
        """Return the sum of each feature's squares over all rows, (d,)."""
        return np.asarray(np.einsum("nd,nd->d", self.rows, self.rows, dtype=np.float64))

    def scatter(
        self, means: Floats, every: int, first: int = 0, *, centred: bool = True
    ) -> Scatter:
        """Return the sum of ``v v'`` over every ``every``-th row, counted from ``-first``."""
        chosen = slice(-first % every, None, every)
        rows = self.rows[chosen]
        if centred or rows.dtype != np.float64:
            total = scatter_around(rows, means.T, self.owners[chosen])
        else:
            total = rows.T @ rows
        return Scatter(total, len(rows), sampled=True)

    def gram(self) -> Floats:
        """Return the sum of ``phi phi'`` over all rows of all tasks, (d, d)."""
        total = np.zeros((self.dim, self.dim))
        for chunk in kernels.chunks(self.n_rows, self.dim * total.itemsize):
            Phi = self.rows[chunk].astype(np.float64, copy=False)
            total += Phi.T @ Phi
        return total

    def ridge(self, penalty: kernels.RidgePenalty, centre: Floats | None = None) -> Floats:
        """Return each task's ridge regression, (d, T), shrunken to ``centre``, (d,), or to 0."""
        if centre is None:
            return kernels.ridge(self.rows, self.rewards, self.offsets, penalty)
        rest = self.rewards - self.rows @ centre
        return kernels.ridge(self.rows, rest, self.offsets, penalty) + centre[:, None]

    def marginal(self, variances: Floats) -> kernels.Marginal:
        """Return the likelihood's sums if thetas vary; see :class:`cobandits.kernels.Marginal`."""
        return kernels.marginal(self.rows, self.rewards, self.offsets, variances)

    def every(self, step: int) -> TaskRows:
        """Return every ``step``-th task alone, from the first on."""
        kept = self.owners % step == 0
        some = TaskRows(self.dim, self.feature_names)
        codes = self.owners[kept] // step
        some._append(self.rows[kept], self.rewards[kept], codes, self.labels[::step])
        return some

    def compact(self) -> HeldTasks:
        """Return the data in the smaller form: as they are, or as statistics."""
        return self.statistics() if self.is_long else self

    @property
    def is_long(self) -> bool:
        """Whether there are so many rows that their statistics are smaller."""
        return self.nbytes > self.n_tasks * (self.dim + 1) ** 2 * 8

    def statistics(self) -> TaskStatistics:
        """Return the statistics of these rows, with the tasks in the same order."""
        return TaskStatistics.of(self)
