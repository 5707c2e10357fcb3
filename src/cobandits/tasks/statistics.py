"""Sufficient statistics of every task."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cobandits import kernels
from cobandits.errors import DataError
from cobandits.tasks.base import TaskData
from cobandits.tasks.checks import Codes, Floats
from cobandits.tasks.held import HeldTasks
from cobandits.tasks.prepared import PackedPasses
from cobandits.tasks.results import RidgedLeastSquares, Scatter, TaskFit, TaskMeans
from cobandits.tasks.sums import Sums, check_sums, no_sums, squared_moment, task_sums

if TYPE_CHECKING:
    from cobandits.tasks.rows import TaskRows

__all__ = ["TaskStatistics"]

_NO_CROSS_VALIDATION = (
    "cross-validation needs rows, not statistics; keep the rows, or give the penalty as a number"
)


class TaskStatistics(HeldTasks):
    """Sufficient statistics of each task: all that least squares needs of its rows.

    Rows are not kept, so what needs single rows is not possible: rewards are not truncated,
    and sample splitting and cross-validation are refused.

    >>> statistics = TaskStatistics(dim=2)
    >>> statistics.add([[1.0, 0.0], [1.0, 1.0]], [1.0, 3.0], ["a", "a"])
    >>> statistics.ridge(0.0).round(6).tolist()
    [[1.0], [2.0]]
    """

    def __init__(self, dim: int, feature_names: Sequence[str] | None = None) -> None:
        super().__init__(dim, feature_names)
        self._store: Sums = no_sums(dim)
        self._squared_moment: Floats = np.zeros((dim, dim))  # of all tasks together

    @classmethod
    def of(cls, tasks: TaskRows) -> TaskStatistics:
        """Return the statistics of all rows, with the same tasks."""
        statistics = cls(tasks.dim, tasks.feature_names)
        statistics._append(tasks.rows, tasks.rewards, tasks.owners, tasks.labels)
        return statistics

    @classmethod
    def of_some(cls, tasks: TaskRows, mask: NDArray[np.bool_]) -> TaskStatistics:
        """Return the statistics of the rows where ``mask``, with the same tasks.

        Without the sum of ``y^2 phi phi'``, which takes as long as all the others.
        """
        chosen = np.flatnonzero(mask)
        ends = np.searchsorted(chosen, tasks.offsets).tolist()
        rewards = tasks.rewards[chosen].astype(np.float64, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused
            sums = task_sums(tasks.rows, rewards, ends, chosen)
        check_sums(sums)
        return cls._of_sums(sums, tasks.labels, tasks.feature_names)

    @classmethod
    def _of_sums(
        cls, sums: Sums, labels: Sequence[Hashable], feature_names: Sequence[str] | None
    ) -> TaskStatistics:
        """Return statistics that hold these sums, without that of ``y^2 phi phi'``."""
        dim = sums["moments"].shape[1]
        statistics = cls(dim, feature_names)
        statistics._codes = {label: code for code, label in enumerate(labels)}
        statistics._store = sums
        statistics._squared_moment = np.full((dim, dim), np.nan)
        return statistics

    @property
    def sums(self) -> dict[str, Floats]:
        """The sums over the rows of each task, by name; the first axis is the task."""
        return {name: self._part(name) for name in self._store}

    def rewards_alone(self) -> TaskStatistics:
        """Return the statistics of the same rewards with one feature that is 1 in every row."""
        alone = TaskStatistics(1)
        alone._codes = dict(self._codes)
        counts, sums = self._part("counts"), self._part("reward_sums")
        alone._store = {
            "grams": counts[:, None, None],
            "moments": sums[:, None],
            "feature_sums": counts[:, None],
            "reward_sums": sums,
            "squares": self._part("squares"),
            "counts": counts,
        }
        alone._squared_moment = self._part("squares").sum().reshape(1, 1)
        return alone

    def _reserve(self, n_tasks: int) -> None:
        """Make room for ``n_tasks`` tasks, and for some more."""
        room = len(self._store["counts"])
        if n_tasks > room:
            room = max(n_tasks, room + room // 4)
            self._store = {name: _grown(held, room) for name, held in self._store.items()}

    def _take(self, Phi: Floats, y: Floats, codes: Codes, n_tasks: int) -> None:
        if np.any(np.diff(codes) < 0):
            order = np.argsort(codes, kind="stable")
            Phi, y, codes = Phi[order], y[order], codes[order]
        X, v = Phi.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is refused below
            new = task_sums(X, v, [*starts.tolist(), len(v)])
            moment = self._squared_moment + squared_moment(X, v)
            self._reserve(n_tasks)
            tasks = codes[starts]
            if self.n_tasks:
                new = {name: self._store[name][tasks] + part for name, part in new.items()}
        check_sums({**new, "moment": moment})
        for name, part in new.items():
            if len(part) == len(self._store[name]):  # all tasks, in order
                self._store[name] = part
            else:
                self._store[name][tasks] = part
        self._squared_moment = moment

    def _merge(self) -> None:
        """Do nothing: rows are summed as they are added."""

    def _part(self, name: str) -> Floats:
        return self._store[name][: self.n_tasks]

    @property
    def counts(self) -> Codes:
        """The number of rows per task, (T,)."""
        return self._part("counts").astype(np.int64)

    @property
    def nbytes(self) -> int:
        """The size of the statistics in bytes."""
        return sum(array.nbytes for array in self._store.values()) + self._squared_moment.nbytes

    @property
    def grams(self) -> Floats:
        """``Phi_t' Phi_t``, (T, d, d)."""
        return self._part("grams")

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The floating-point type of the statistics."""
        return self.grams.dtype

    @property
    def squares(self) -> NDArray[np.float64]:
        """``y_t' y_t``, (T,)."""
        return self._part("squares").astype(np.float64, copy=False)

    @property
    def rounding(self) -> float:
        """The total squared error below which a fit is exact up to rounding.

        It is larger than for rows: squared errors are differences of larger numbers here.
        """
        return float(10 * np.finfo(np.float64).eps * self.squares.sum())

    def least_squares(self, B: Floats, ridge: kernels.RidgePenalty = 0.0) -> TaskFit:
        """Solve every task in the span of ``B``; see :func:`cobandits.kernels.least_squares`."""
        fit = kernels.gram_least_squares(
            self._part("grams"), self._part("moments"), self.squares, B, ridge
        )
        return TaskFit.of(fit, self.counts)

    def packed(self) -> RidgedLeastSquares:
        """Return halves of the Gram matrices of the features that tasks use, if much smaller."""
        sums = self.sums
        found = kernels.packed_statistics(sums["grams"], sums["moments"], sums["squares"])
        return self if found is None else PackedPasses(found, sums, self.counts)

    def residuals(self, Theta: Floats) -> tuple[Floats, NDArray[np.float64]]:
        """Return ``Phi_t'(Phi_t theta_t - y_t)``, (d, T), and squared residuals, (T,)."""
        return kernels.gram_residuals(
            self._part("grams"), self._part("moments"), self.squares, Theta
        )

    def moments(self, largest_square: float = np.inf) -> Floats:
        """Return ``Phi_t' y_t``, (d, T); the bound needs single rows and is not applied."""
        return self._part("moments").T

    def squared_moment(self, largest_square: float = np.inf) -> Floats:
        """Return the sum of ``y^2 phi phi'``, (d, d); the bound is not applied."""
        return self._squared_moment

    def task_means(self) -> TaskMeans:
        """Return the means over each task's rows, 0 without rows."""
        counts = np.maximum(self._part("counts"), 1)
        return TaskMeans(
            features=self._part("feature_sums").T / counts,
            rewards=self._part("reward_sums") / counts,
            products=self._part("moments").T / counts,
        )

    def square_sums(self) -> Floats:
        """Return the sum of each feature's squares over all rows, (d,)."""
        return np.asarray(np.einsum("tdd->d", self._part("grams")))

    def scatter(
        self, means: Floats, every: int, first: int = 0, *, centred: bool = True
    ) -> Scatter:
        """Return the sum of ``v v'`` over all rows, around their tasks' means."""
        total = self.gram() - (means * self._part("counts")) @ means.T
        return Scatter(total, self.n_rows, sampled=False)

    def gram(self) -> Floats:
        """Return the sum of ``phi phi'`` over all rows of all tasks, (d, d)."""
        return np.asarray(self._part("grams").sum(axis=0))

    def ridge(self, penalty: kernels.RidgePenalty, centre: Floats | None = None) -> Floats:
        """Return each task's ridge regression, (d, T), shrunken to ``centre``, (d,), or to 0."""
        grams, moments = self._part("grams"), self._part("moments")
        if centre is None:
            return kernels.gram_ridge(grams, moments, penalty)
        return kernels.gram_ridge(grams, moments - grams @ centre, penalty) + centre[:, None]

    def marginal(self, variances: Floats) -> kernels.Marginal:
        """Return the likelihood's sums if thetas vary; see :class:`cobandits.kernels.Marginal`."""
        return kernels.gram_marginal(
            self._part("grams"), self._part("moments"), self.squares, variances
        )

    def variances(self, apart: NDArray[np.bool_], units: Floats) -> kernels.Variances:
        """Return the same sums for many pairs of variances, by one decomposition per task."""
        return kernels.GramVariances(
            self._part("grams"), self._part("moments"), self.squares, apart, units
        )

    def leave_one_out_errors(self, penalties: Floats, units: Floats) -> Floats:
        """Refuse: there are no rows to leave out."""
        raise DataError(_NO_CROSS_VALIDATION)

    def cross_validation(
        self, n_folds: int, rng: np.random.Generator
    ) -> Iterator[tuple[TaskData, TaskData]]:
        """Refuse: there are no rows to hold out."""
        raise DataError(_NO_CROSS_VALIDATION)

    def split(self, n_parts: int, rng: np.random.Generator) -> Sequence[TaskData]:
        """Refuse: there are no rows to split."""
        raise DataError("sample splitting needs rows, not statistics; turn split off")

    def every(self, step: int) -> TaskStatistics:
        """Return every ``step``-th task alone, without the sum of ``y^2 phi phi'``."""
        some = {name: part[::step] for name, part in self.sums.items()}
        return TaskStatistics._of_sums(some, self.labels[::step], self.feature_names)

    def compact(self) -> HeldTasks:
        """Return the data as they are: they cannot be turned back into rows."""
        return self


def _grown(held: Floats, length: int) -> Floats:
    grown = np.zeros((length, *held.shape[1:]))
    grown[: len(held)] = held
    return grown
