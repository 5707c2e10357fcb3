"""Data of many tasks that this process holds: how they are made, and how they grow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from cobandits.errors import DataError, UnknownTaskError
from cobandits.frames import Frame, columns_of, read_frame
from cobandits.tasks.base import TaskData
from cobandits.tasks.checks import Codes, Floats, Labels, checked_rows, encoded

__all__ = ["HeldTasks"]


class HeldTasks(TaskData):
    """The data of many tasks in the memory of this process.

    Make ``TaskRows`` or ``TaskStatistics`` with :meth:`from_arrays`, :meth:`from_stacked`,
    :meth:`from_frame` or :meth:`from_file`; add rows with :meth:`add`; call :meth:`compact` to
    keep statistics in place of rows where that is smaller.
    """

    def __init__(self, dim: int, feature_names: Sequence[str] | None = None) -> None:
        super().__init__(dim, feature_names)
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
    def nbytes(self) -> int:
        """The size of the data in bytes."""

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

    @abstractmethod
    def rewards_alone(self) -> HeldTasks:
        """Return the same rewards with one feature that is 1 in every row."""

    @abstractmethod
    def compact(self) -> HeldTasks:
        """Return the data in the smaller form: as they are, or as statistics."""

    # ---- arrays with a column per task

    def kept(self, columns: Floats) -> Floats:
        """Return the array as it is: it is in memory."""
        return columns

    def repeated(self, column: Floats) -> Floats:
        """Return (k, T) with this column, (k,), for every task."""
        return np.repeat(column[:, None], self.n_tasks, axis=1)

    def columns_of(self, labels: Sequence[Hashable], columns: Floats) -> Floats:
        """Return for each task the column of its label, (k, T); 0 for other labels."""
        places = {label: place for place, label in enumerate(labels)}
        known = [(t, places[label]) for t, label in enumerate(self.labels) if label in places]
        found = np.zeros((len(columns), self.n_tasks))
        if known:
            to, of = np.array(known).T
            found[:, to] = columns[:, of]
        return found
