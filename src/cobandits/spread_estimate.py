"""An estimate whose weights and labels stay on the nodes that hold the tasks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import DataError
from cobandits.estimate import Estimate, check_finite_factor
from cobandits.frames import Frame, read_frame
from cobandits.linalg import triangle
from cobandits.tasks import SpreadTasks, TaskData, node_side
from cobandits.tasks.columns import Columns

__all__ = ["SpreadEstimate"]

Floats = NDArray[np.floating]


@dataclass(frozen=True, kw_only=True, eq=False)
class SpreadEstimate(Estimate):
    """A shared basis, and weights per task that stay where the tasks are.

    ``weights`` and ``theta`` are :class:`~cobandits.tasks.columns.Columns`; ``labels`` is
    empty. :meth:`only` brings some tasks here, :meth:`gather` all of them; :meth:`save` and
    :meth:`predict_there` have each node write its own.

    >>> from cobandits.cluster.local import LocalNodes
    >>> from cobandits.environments import Synthetic
    >>> from cobandits.estimators import LowRank
    >>> problem = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=15, seed=1)
    >>> spread = LowRank(rank=2).fit(SpreadTasks.on(LocalNodes.of([problem.tasks])))
    >>> spread.only([3, 5]).theta.shape, spread.gather().theta.shape
    ((20, 2), (20, 30))
    """

    tasks: SpreadTasks
    labels: tuple[Hashable, ...] = ()

    def __post_init__(self) -> None:
        check_finite_factor("basis", self.basis)
        check_finite_factor("weights", self.weights)

    @cached_property
    def singular_values(self) -> Floats:
        """Singular values of theta, (r,), in falling order."""
        return np.asarray(np.linalg.svd(triangle(self.weights), compute_uv=False))

    def gather(self) -> Estimate:
        """Return the estimate with the weights and labels of all tasks in this process."""
        return self._with(self.tasks.labels, self._columns.gather())

    def only(self, labels: Sequence[Hashable]) -> Estimate:
        """Return the estimate of these tasks; refuse labels that were not fitted."""
        weights, known = self.tasks.taken(labels, self._columns)
        if not known.all():
            unknown = [label for label, is_known in zip(labels, known, strict=True) if not is_known]
            raise DataError(f"not among the {self.tasks.n_tasks} fitted tasks: {unknown[:5]}")
        return self._with(tuple(labels), weights)

    def predict(
        self, features: ArrayLike | Frame, tasks: Iterable[Hashable], *, strict: bool = True
    ) -> NDArray[np.float64]:
        """Return the expected reward of each row, (m, d), for the task of each label, (m,).

        A label that was not fitted is refused or, if not ``strict``, predicted by the mean of
        the fitted tasks.
        """
        labels = list(tasks)
        different = tuple(dict.fromkeys(labels))
        if strict:
            return self.only(different).predict(features, labels)
        weights, known = self.tasks.taken(different, self._columns)
        weights[:, ~known] = (self.weights.sum(axis=1) / self.tasks.n_tasks)[:, None]
        return self._with(different, weights).predict(features, labels)

    def predict_there(self, path: str | Path, tasks: SpreadTasks | None = None) -> None:
        """Have each node predict its own rows, and write them to the directory ``path``.

        A Parquet file per shard or block, with the columns ``task``, ``reward`` and
        ``prediction``. The nodes must share the directory. The rows are those that were fitted,
        or other ``tasks`` with them, such as a fold of a cross-validation.
        """
        over = self.tasks if tasks is None else tasks
        self.theta_for(over)  # refuses tasks on other nodes
        Path(path).mkdir(parents=True, exist_ok=True)
        over.write(path, node_side.predicted, self._columns, self.basis)

    def theta_of(self, labels: Sequence[Hashable]) -> Floats:
        """Return theta for ``labels``, (d, len(labels)); zero for labels that were not fitted."""
        return self.basis @ self.tasks.taken(labels, self._columns)[0]

    def theta_for(self, tasks: TaskData) -> Floats:
        """Return theta for the same tasks on the same nodes, (d, T)."""
        if not (isinstance(tasks, SpreadTasks) and tasks.driver is self.tasks.driver):
            raise DataError("the start is of tasks on other nodes; gather() it first")
        return self.theta

    def save(self, path: str | Path) -> None:
        """Have each node write its labels and weights to the directory ``path``, as Parquet.

        The nodes must share the directory. The basis and the status are in ``basis.npz``.
        """
        Path(path).mkdir(parents=True, exist_ok=True)
        self.tasks.write(path, node_side.written, self._columns)
        self._with((), np.empty((self.rank, 0))).save(Path(path) / "basis.npz")

    @classmethod
    def load(cls, path: str | Path) -> Estimate:
        """Read what :meth:`save` wrote, the weights of all tasks."""
        parts = [read_frame(part) for part in sorted(Path(path).glob("part-*.parquet"))]
        labels = tuple(label for part in parts for label in part["task"].to_numpy().tolist())
        names = [name for name in parts[0].columns if name != "task"]
        weights = np.hstack([[part[name].to_numpy() for name in names] for part in parts])
        return replace(Estimate.load(Path(path) / "basis.npz"), weights=weights, labels=labels)

    @property
    def _columns(self) -> Columns:
        return cast("Columns", self.weights)

    def _with(self, labels: tuple[Hashable, ...], weights: Floats) -> Estimate:
        return Estimate(
            basis=self.basis,
            weights=weights,
            labels=labels,
            status=self.status,
            history=self.history,
            estimator=self.estimator,
            feature_names=self.feature_names,
        )
