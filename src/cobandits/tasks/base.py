"""What rows and statistics of many tasks have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import DataError, UnknownTaskError
from cobandits.frames import Frame, columns_of, read_frame
from cobandits.kernels import Fit, Marginal, RidgePenalty
from cobandits.tasks.checks import Codes, Floats, Labels, checked_rows, encoded

__all__ = ["Averages", "TaskData"]

_CONSTANT = 1e-12  # variance, as a share of the mean square, below which a feature is constant
_FREE = 1e-6  # share of the penalty that a constant feature pays


class Averages(NamedTuple):
    """Means over the rows of each task, and mean squares over all rows."""

    features: Floats  # (d, T)
    rewards: Floats  # (T,)
    products: Floats  # (d, T), of feature times reward
    squares: Floats  # (d,), mean square of each feature over all rows


class TaskData(ABC):
    """The data of many tasks: every row (``TaskRows``), or ``TaskStatistics`` of the rows.

    Make one of the two with :meth:`from_arrays`, :meth:`from_stacked`, :meth:`from_frame`
    or :meth:`from_file`; add rows with :meth:`add`; call :meth:`compact` to keep statistics
    in place of rows where that is smaller.

    Estimators use the methods of this class alone. What needs single rows (cross-validation,
    sample splitting) is refused by data that have none.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        """Refuse to make a plain ``TaskData``."""
        if cls is TaskData:
            raise TypeError("TaskData is abstract; make a TaskRows, or a TaskStatistics")
        return super().__new__(cls)

    def __init__(self, dim: int, feature_names: Sequence[str] | None = None) -> None:
        if dim < 1:
            raise DataError(f"a row needs at least 1 feature, got {dim}")
        if feature_names is not None and len(feature_names) != dim:
            raise DataError(f"{len(feature_names)} feature names for {dim} features")
        self.dim = dim
        self.feature_names = None if feature_names is None else tuple(feature_names)
        self._codes: dict[Hashable, int] = {}

    # ---- how one is made

    @classmethod
    def from_arrays(
        cls,
        features: ArrayLike,
        rewards: ArrayLike,
        tasks: Labels,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Make one from flat arrays, (n, d) and (n,), and one hashable task label per row.

        An array of times gives labels of Python's own kind, ``date`` or ``datetime``. The
        rows are copied; they need not be sorted by task.
        """
        Phi, y = checked_rows(features, rewards)
        data = cls(Phi.shape[1], feature_names)
        data._append(Phi, y, *encoded(tasks, len(y), {}))
        data._merge()
        return data

    @classmethod
    def from_stacked(
        cls, features: ArrayLike, rewards: ArrayLike, labels: Sequence[Hashable] | None = None
    ) -> Self:
        """Make one from n rows per task, (T, n, d) and (T, n), by default labelled 0 to T - 1."""
        Phi, y = np.asarray(features), np.asarray(rewards)
        if Phi.ndim != 3 or y.shape != Phi.shape[:2]:
            raise DataError(
                f"expected features (T, n, d) and rewards (T, n), got {Phi.shape} and {y.shape}"
            )
        T, n, d = Phi.shape
        labels = range(T) if labels is None else labels
        if len(labels) != T or len(set(labels)) != T:
            raise DataError(f"expected {T} different labels, one per task")
        data = cls(d)
        rows, values = checked_rows(Phi.reshape(T * n, d), y.reshape(T * n))
        data._append(rows, values, np.repeat(np.arange(T), n), labels)
        data._merge()
        return data

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        task: str,
        reward: str,
        features: Sequence[str] | None = None,
        intercept: bool = False,
    ) -> Self:
        """Make one from a polars or pandas frame; see :func:`cobandits.frames.columns_of`."""
        columns = columns_of(
            frame, task=task, reward=reward, features=features, intercept=intercept
        )
        return cls.from_arrays(
            columns.features, columns.rewards, columns.labels, feature_names=columns.names
        )

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        task: str,
        reward: str,
        features: Sequence[str] | None = None,
        intercept: bool = False,
    ) -> Self:
        """Make one from a Parquet or CSV file (needs the extra ``data``)."""
        return cls.from_frame(
            read_frame(path), task=task, reward=reward, features=features, intercept=intercept
        )

    # ---- what it holds

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The tasks' labels, in order of first appearance."""
        return tuple(self._codes)

    @property
    def n_tasks(self) -> int:
        """The number of tasks, T."""
        return len(self._codes)

    @property
    def n_rows(self) -> int:
        """The number of rows of all tasks."""
        return int(self.counts.sum())

    @property
    @abstractmethod
    def counts(self) -> Codes:
        """The number of rows per task, (T,)."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The size of the data in bytes."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[np.floating]:
        """The floating-point type that the data are kept in."""

    @property
    @abstractmethod
    def squares(self) -> NDArray[np.float64]:
        """``y_t' y_t``, (T,)."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """The total squared error below which a fit is exact up to rounding."""

    def code(self, label: Hashable) -> int:
        """Return the number of the task with this label."""
        try:
            return self._codes[label]
        except (KeyError, TypeError):
            raise UnknownTaskError(f"no task {label!r} among {self.n_tasks} tasks") from None

    # ---- growing

    def add(self, features: ArrayLike, rewards: ArrayLike, tasks: Labels) -> None:
        """Add rows; new labels make new tasks. Either all rows are taken or none."""
        Phi, y = checked_rows(features, rewards)
        if Phi.shape[1] != self.dim:
            raise DataError(f"expected rows of {self.dim} features, got {Phi.shape[1]}")
        self._append(Phi.copy(), y.copy(), *encoded(tasks, len(y), self._codes))

    def _append(self, Phi: Floats, y: Floats, codes: Codes, fresh: Sequence[Hashable]) -> None:
        n_tasks = self.n_tasks + len(fresh)
        self._take(Phi, y, codes, n_tasks)
        self._codes.update(zip(fresh, range(self.n_tasks, n_tasks), strict=True))

    @abstractmethod
    def _merge(self) -> None:
        """Sort added rows to their tasks, if that was put off."""

    @abstractmethod
    def _take(self, Phi: Floats, y: Floats, codes: Codes, n_tasks: int) -> None:
        """Store checked rows, all or none; with them there are ``n_tasks`` tasks."""

    # ---- what estimators compute with

    @abstractmethod
    def least_squares(self, B: Floats, ridge: RidgePenalty = 0.0) -> Fit:
        """Solve every task in the span of ``B``; see :func:`cobandits.kernels.least_squares`."""

    @abstractmethod
    def residuals(self, Theta: Floats) -> tuple[Floats, NDArray[np.float64]]:
        """Return ``Phi_t'(Phi_t theta_t - y_t)``, (d, T), and squared residuals, (T,)."""

    @abstractmethod
    def moments(self, largest_square: float = np.inf) -> Floats:
        """Return ``Phi_t' y_t``, (d, T), without the rows whose y^2 exceeds ``largest_square``."""

    @abstractmethod
    def squared_moment(self, largest_square: float = np.inf) -> Floats:
        """Return the sum of ``y^2 phi phi'`` over all rows with y^2 up to the bound, (d, d)."""

    @abstractmethod
    def averages(self) -> Averages:
        """Return each task's means, 0 without rows, and the features' mean squares."""

    @abstractmethod
    def mean_squares(self) -> Floats:
        """Return the mean square of each feature over all rows, (d,)."""

    def penalty_scale(self) -> Floats:
        """Return the weight of each feature in a ridge penalty, (d,): its mean square.

        With these weights the units of the features do not matter. A constant feature is an
        intercept, which should not be shrunk, so its weight is close to 0.
        """
        averages = self.averages()
        squares = averages.squares
        means = averages.features @ self.counts / self.n_rows
        constant = squares - means**2 <= _CONSTANT * squares
        return np.where(squares > 0, np.where(constant, _FREE, 1.0) * squares, 1.0)

    @abstractmethod
    def covariance(self, averages: Averages, *, centred: bool = True) -> Floats:
        """Return the features' covariance around task means, (d, d); not ``centred``: around 0."""

    @abstractmethod
    def gram(self) -> Floats:
        """Return the sum of ``phi phi'`` over all rows of all tasks, (d, d)."""

    @abstractmethod
    def ridge(self, penalty: RidgePenalty, centre: Floats | None = None) -> Floats:
        """Return each task's ridge regression, (d, T), shrunken to ``centre``, (d,), or to 0."""

    @abstractmethod
    def marginal(self, variances: Floats) -> Marginal:
        """Return the likelihood's sums if thetas vary; see :class:`cobandits.kernels.Marginal`."""

    # ---- what needs single rows: refused where there are none

    @abstractmethod
    def leave_one_out_errors(self, penalties: Floats, units: Floats) -> Floats:
        """Return the squared leave-one-out error of ridge regression per task, by penalty.

        Each row is predicted from the other rows of its task. Errors are summed over the rows
        of all tasks, (len(penalties),).

        Parameters
        ----------
        penalties : (k,)
            For features divided by ``units``.
        units : (d,)
        """

    @abstractmethod
    def cross_validation(
        self, n_folds: int, rng: np.random.Generator
    ) -> Iterator[tuple[TaskData, TaskData]]:
        """Yield the training data and the held-out data of each fold; all have every task.

        Each task's rows are dealt to the folds at random, as evenly as possible.
        """

    @abstractmethod
    def split(self, n_parts: int, rng: np.random.Generator) -> Sequence[TaskData]:
        """Return disjoint random parts with about as many rows of each task (sample splitting)."""

    @abstractmethod
    def rewards_alone(self) -> TaskData:
        """Return the same rewards with one feature that is 1 in every row."""

    @abstractmethod
    def every(self, step: int) -> TaskData:
        """Return every ``step``-th task alone, from the first on."""

    @abstractmethod
    def compact(self) -> TaskData:
        """Return the data in the smaller form: as they are, or as statistics."""
