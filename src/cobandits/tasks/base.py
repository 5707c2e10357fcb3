"""What rows and statistics of many tasks have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import DataError, UnknownTaskError
from cobandits.frames import Frame, columns_of, is_nan, plain_labels, read_frame
from cobandits.kernels import Fit, Ridge

__all__ = ["Averages", "Codes", "Floats", "TaskData", "check_finite", "checked_rows"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Labels = Iterable[Hashable] | NDArray[Any]

_CONSTANT = 1e-12  # share of a mean square that is no variance
_FREE = 1e-6  # share of the penalty that a constant feature pays


class Averages(NamedTuple):
    """Means over the rows of each task, and of squares over those of all."""

    features: Floats  # (d, T)
    rewards: Floats  # (T,)
    products: Floats  # (d, T), of features and reward
    squares: Floats  # (d,), of each feature over all rows


class TaskData(ABC):
    """Rows (feature vector, reward) of many tasks: ``TaskRows``, or ``TaskStatistics`` of them.

    Make one of the two with :meth:`from_arrays`, :meth:`from_stacked`, :meth:`from_frame`
    or :meth:`from_file`; add rows with :meth:`add`; call :meth:`compact` to keep statistics
    in place of rows where that is smaller.
    """

    def __new__(cls, *_: object, **__: object) -> Self:
        """Refuse to make a ``TaskData`` that is neither of the two."""
        if cls is TaskData:
            raise TypeError(
                "TaskData is what two kinds of data share; make a TaskRows, or a TaskStatistics"
            )
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
        """Make one from flat arrays, (n, d) and (n,), with a label of any hashable kind a row.

        An array of times gives labels of Python's own kind, ``date`` or ``datetime``. Rows
        that are sorted by task already are not copied.
        """
        Phi, y = checked_rows(features, rewards)
        data = cls(Phi.shape[1], feature_names)
        data._append(Phi, y, *data._encode(tasks, len(y)))
        data._merge()
        return data

    @classmethod
    def from_stacked(
        cls, features: ArrayLike, rewards: ArrayLike, labels: Sequence[Hashable] | None = None
    ) -> Self:
        """Make one from equally many rows a task, (T, n, d) and (T, n), labelled 0 to T - 1."""
        Phi, y = np.asarray(features), np.asarray(rewards)
        if Phi.ndim != 3 or y.shape != Phi.shape[:2]:
            raise DataError(
                f"expected features (T, n, d) and rewards (T, n), got {Phi.shape} and {y.shape}"
            )
        T, n, d = Phi.shape
        labels = range(T) if labels is None else labels
        if len(labels) != T or len(set(labels)) != T:
            raise DataError(f"expected {T} different labels, one a task")
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
        """How many tasks there are."""
        return len(self._codes)

    @property
    def n_rows(self) -> int:
        """How many rows there are in all."""
        return int(self.counts.sum())

    @property
    @abstractmethod
    def counts(self) -> Codes:
        """Rows of each task, (T,)."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory of the data itself."""

    @property
    @abstractmethod
    def squares(self) -> NDArray[np.float64]:
        """``y_t' y_t``, (T,)."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """The total cost that is no more than rounding error."""

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
        self._append(Phi.copy(), y.copy(), *self._encode(tasks, len(y)))

    def _append(self, Phi: Floats, y: Floats, codes: Codes, fresh: Sequence[Hashable]) -> None:
        n_tasks = self.n_tasks + len(fresh)
        self._take(Phi, y, codes, n_tasks)
        self._codes.update(zip(fresh, range(self.n_tasks, n_tasks), strict=True))

    def _encode(self, tasks: Labels, n_rows: int) -> tuple[Codes, list[Hashable]]:
        """Return a code a row, and the labels not seen before in the order of their codes."""
        values = plain_labels(tasks).tolist() if isinstance(tasks, np.ndarray) else list(tasks)
        if len(values) != n_rows:
            raise DataError(f"{len(values)} task labels for {n_rows} rows; give one a row")
        fresh: dict[Hashable, int] = {}
        known, start = self._codes, len(self._codes)

        def code_of(label: Hashable) -> int:
            code = known.get(label)
            return fresh.setdefault(label, start + len(fresh)) if code is None else code

        try:
            codes = np.fromiter((code_of(label) for label in values), np.int64, n_rows)
        except TypeError as error:
            raise DataError(f"task labels must be hashable: {error}") from error
        if any(is_nan(label) for label in fresh):
            raise DataError("a task label is NaN; drop those rows or give them a label")
        return codes, list(fresh)

    @abstractmethod
    def _merge(self) -> None:
        """Bring what was added to its tasks, where that was put off."""

    @abstractmethod
    def _take(self, Phi: Floats, y: Floats, codes: Codes, n_tasks: int) -> None:
        """Store checked rows, all or none; with them there are ``n_tasks`` tasks."""

    # ---- what estimators compute with

    @abstractmethod
    def least_squares(self, B: Floats, ridge: Ridge = 0.0) -> Fit:
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
        """Return what a ridge is best proportional to, (d,): the features' mean squares.

        So their units do not matter. A feature that is constant is an intercept, which a
        ridge should not draw to 0: it counts next to nothing.
        """
        averages = self.averages()
        squares = averages.squares
        means = averages.features @ self.counts / self.n_rows
        constant = squares - means**2 <= _CONSTANT * squares
        return np.where(squares > 0, np.where(constant, _FREE, 1.0) * squares, 1.0)

    @abstractmethod
    def covariance(self, averages: Averages, *, centred: bool = True) -> Floats:
        """Return the features' covariance around their tasks' means, (d, d).

        From rows this is an estimate from evenly spread ones, enough to scale features. If
        not ``centred``, its correlations may be those around 0, which are quicker to have.
        """

    @abstractmethod
    def gram(self) -> Floats:
        """Return the sum of ``phi phi'`` over all rows of all tasks, (d, d)."""

    @abstractmethod
    def ridge(self, penalty: Ridge) -> Floats:
        """Return each task's ridge regression, (d, T); see :func:`cobandits.kernels.ridge`."""

    @abstractmethod
    def compact(self) -> TaskData:
        """Return these data in the form that is smaller: as they are, or as statistics."""


def checked_rows(features: ArrayLike, rewards: ArrayLike) -> tuple[Floats, Floats]:
    """Return features (n, d) and rewards (n,) as finite floats of one type, or refuse them."""
    Phi, y = np.asarray(features), np.asarray(rewards)
    if Phi.ndim != 2 or y.ndim != 1 or len(Phi) != len(y):
        raise DataError(f"expected features (n, d) and rewards (n,), got {Phi.shape} and {y.shape}")
    if not len(y):
        raise DataError("no rows; give at least one")
    if Phi.dtype != np.float32:
        Phi = _as_floats(Phi, "features")
    with np.errstate(over="ignore"):  # too large for float32: infinite, and refused below
        y = _as_floats(y, "rewards").astype(Phi.dtype, copy=False)
    check_finite(Phi, "features")
    check_finite(y, "rewards")
    return Phi, y


def check_finite(values: Floats, name: str) -> None:
    """Refuse values that are NaN or infinite, and say where the first is."""
    with np.errstate(invalid="ignore", over="ignore"):
        suspicious = not np.isfinite(values.sum())  # may also be an overflow of the sum
    if suspicious and not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise DataError(
            f"{name} hold a NaN or an infinite value, first in row {row}; "
            "fill it in or drop the row"
        )


def _as_floats(values: NDArray[Any], name: str) -> NDArray[np.float64]:
    if values.dtype.kind not in "biuf":
        raise DataError(f"{name} must be real numbers, got values of type {values.dtype}")
    return values.astype(np.float64, copy=False)
