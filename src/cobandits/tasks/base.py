"""What rows and statistics of many tasks have in common."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.kernels import Marginal, PlainVariances, RidgePenalty, Variances
from cobandits.tasks.checks import Codes, Floats
from cobandits.tasks.results import (
    Averages,
    LeastSquares,
    RidgedLeastSquares,
    Scatter,
    TaskFit,
    TaskMeans,
)

__all__ = ["TaskData"]

_CONSTANT = 1e-12  # variance, as a share of the mean square, below which a feature is constant
_FREE = 1e-6  # share of the penalty that a constant feature pays
_KEPT = 0.8  # sampled correlations are shrunk to this share
_RESOLVED_BY_ROWS = 1e-8  # share of a mean square; a smaller variance is lost in the subtraction
_RESOLVED_BY_SUMS = 1e-12  # the same, where the sums are over all rows
_ROWS_PER_FEATURE = 16  # sampled for a covariance that only scales features


class TaskData(ABC):
    """The data of many tasks: what estimators may ask of them, and nothing else.

    ``TaskRows`` holds every row, ``TaskStatistics`` their sufficient statistics, and
    ``SpreadTasks`` stands for data on several nodes. Single rows never leave an object: what
    needs them (cross-validation, sample splitting) is an operation here, which statistics refuse.

    An array with a column per task (its last axis is the task) may be lazy: ``SpreadTasks``
    returns expressions that nodes evaluate. They take NumPy's arithmetic, and sums, extremes
    and products over tasks give plain numbers and arrays; other functions refuse them.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        """Refuse to make a plain ``TaskData``."""
        if inspect.isabstract(cls):
            raise TypeError(f"{cls.__name__} is abstract; make a TaskRows, or a TaskStatistics")
        return super().__new__(cls)

    def __init__(self, dim: int, feature_names: Sequence[str] | None = None) -> None:
        if dim < 1:
            raise DataError(f"a row needs at least 1 feature, got {dim}")
        if feature_names is not None and len(feature_names) != dim:
            raise DataError(f"{len(feature_names)} feature names for {dim} features")
        self.dim = dim
        self.feature_names = None if feature_names is None else tuple(feature_names)

    # ---- what it holds

    @property
    @abstractmethod
    def labels(self) -> tuple[Hashable, ...]:
        """The tasks' labels, in order."""

    @property
    @abstractmethod
    def n_tasks(self) -> int:
        """The number of tasks, T."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """The number of rows of all tasks."""

    @property
    @abstractmethod
    def counts(self) -> Codes:
        """The number of rows per task, (T,)."""

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

    def limit_messages(self, rank: int | None) -> None:  # noqa: B027, nothing is sent here
        """Have nodes, if there are any, send no more at once than an iteration of this rank does.

        None if the rank is not known yet.
        """

    # ---- what estimators compute with

    @abstractmethod
    def least_squares(self, B: Floats, ridge: RidgePenalty = 0.0) -> TaskFit:
        """Solve every task in the span of ``B``; see :func:`cobandits.kernels.least_squares`."""

    def prepared(self) -> LeastSquares:
        """Return what solves :meth:`least_squares` for many bases, in the form that is fastest."""
        return self

    def packed(self) -> RidgedLeastSquares:
        """Return what solves it for some bases, in a form that is made in the time of a few."""
        return self

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
    def task_means(self) -> TaskMeans:
        """Return the means over each task's rows, 0 without rows."""

    @abstractmethod
    def square_sums(self) -> Floats:
        """Return the sum of each feature's squares over all rows, (d,)."""

    @abstractmethod
    def scatter(
        self, means: Floats, every: int, first: int = 0, *, centred: bool = True
    ) -> Scatter:
        """Return the sum of ``v v'`` for features around their tasks' ``means``, (d, T).

        Rows may take every ``every``-th row alone, counted from ``-first``. If not
        ``centred``, rows may be taken as they are, which is faster.
        """

    def mean_squares(self) -> Floats:
        """Return the mean square of each feature over all rows, (d,)."""
        return np.asarray(self.square_sums() / max(1, self.n_rows))

    def averages(self) -> Averages:
        """Return each task's means, 0 without rows, and the features' mean squares."""
        return Averages(*self.task_means(), squares=self.mean_squares())

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

    def covariance(self, averages: Averages, *, centred: bool = True) -> Floats:
        """Return the features' covariance around their tasks' means, (d, d).

        Rows take variances from all rows, and correlations from a sample, which is enough to
        scale features. Sampled correlations are shrunk, so that a feature that is rare or
        absent in the sample does no harm.
        """
        squares, means = averages.squares, averages.features
        every = max(1, self.n_rows // (_ROWS_PER_FEATURE * self.dim))
        found = self.scatter(means, every, centred=centred)
        C = found.total / max(1, found.n_rows)
        scattered = np.diagonal(C).copy()
        if not found.sampled:
            np.fill_diagonal(C, np.maximum(scattered, _RESOLVED_BY_SUMS * squares))
            return C
        exact = squares - means**2 @ self.counts / self.n_rows
        variances = np.where(exact > _RESOLVED_BY_ROWS * squares, exact, scattered)
        ratio = np.divide(variances, scattered, out=np.zeros(self.dim), where=scattered > 0)
        scale = np.sqrt(ratio)
        C *= np.outer(_KEPT * scale, scale)
        np.fill_diagonal(C, variances)
        return C

    @abstractmethod
    def gram(self) -> Floats:
        """Return the sum of ``phi phi'`` over all rows of all tasks, (d, d)."""

    @abstractmethod
    def ridge(self, penalty: RidgePenalty, centre: Floats | None = None) -> Floats:
        """Return each task's ridge regression, (d, T), shrunken to ``centre``, (d,), or to 0."""

    @abstractmethod
    def marginal(self, variances: Floats) -> Marginal:
        """Return the likelihood's sums if thetas vary; see :class:`cobandits.kernels.Marginal`."""

    def variances(self, apart: NDArray[np.bool_], units: Floats) -> Variances:
        """Return the same sums for many pairs of variances: of features set apart, and of others.

        They are for features divided by ``units``, (d,).
        """
        return PlainVariances(self.marginal, apart, units)

    @abstractmethod
    def compact(self) -> TaskData:
        """Return the data in the smaller form: as they are, or as statistics."""

    # ---- arrays with a column per task

    @abstractmethod
    def kept(self, columns: Floats) -> Floats:
        """Return the array, computed where the tasks are and held there as long as it is used."""

    @abstractmethod
    def repeated(self, column: Floats) -> Floats:
        """Return (k, T) with this column, (k,), for every task."""

    @abstractmethod
    def columns_of(self, labels: Sequence[Hashable], columns: Floats) -> Floats:
        """Return for each task the column of its label, (k, T); 0 for other labels."""

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
    def every(self, step: int) -> TaskData:
        """Return every ``step``-th task alone, from the first on."""
