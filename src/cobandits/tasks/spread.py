"""The data of many tasks on several nodes, of which only sums come here."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.kernels import Marginal, RidgePenalty
from cobandits.tasks import node_side
from cobandits.tasks.base import TaskData
from cobandits.tasks.checks import Codes, Floats
from cobandits.tasks.columns import Columns
from cobandits.tasks.driver import USUAL_WIDTH, Driver, Nodes
from cobandits.tasks.programs import HERE, Expression, Output, added
from cobandits.tasks.results import Scatter, TaskFit, TaskMeans
from cobandits.tasks.shards import Facts, check_apart, facts

__all__ = ["SpreadTasks"]


class SpreadTasks(TaskData):
    """The data of many tasks, each on one of several nodes.

    Estimators take it like any other data. Arrays with a column per task are
    :class:`Columns`, which stay on the nodes; an iteration of a fit sends a basis out, and
    brings a gradient and an (r, r) matrix back from every node, however many tasks there are.
    The order of the tasks is that of the shards. Every task must be on one shard only.

    >>> from cobandits.cluster.local import LocalNodes
    >>> from cobandits.tasks import TaskRows
    >>> a = TaskRows.from_arrays([[1.0], [1.0]], [1.0, 3.0], ["a", "a"])
    >>> b = TaskRows.from_arrays([[2.0]], [2.0], ["b"])
    >>> tasks = SpreadTasks.on(LocalNodes.of([a, b]))
    >>> tasks.n_tasks, tasks.n_rows, float(tasks.gram()[0, 0])
    (2, 3, 6.0)
    """

    def __init__(self, driver: Driver, data: Expression, known: Facts) -> None:
        super().__init__(known.dim, known.feature_names)
        self.driver, self._data, self._known = driver, data, known

    @classmethod
    def on(cls, nodes: Nodes) -> Self:
        """Return the tasks that these nodes hold; refuse shards that do not fit together."""
        found: Sequence[Facts] = nodes.call(facts)
        filled = [one for one in found if one.n_tasks] or found[:1]
        kinds = {one._replace(n_tasks=0, n_rows=0, sketch=frozenset()) for one in filled}
        if len(kinds) != 1:
            raise DataError(
                "shards must have the same features and one floating-point type, got "
                f"{sorted({(one.dim, one.dtype) for one in kinds})}"
            )
        check_apart(found)
        known = kinds.pop()._replace(
            n_tasks=sum(one.n_tasks for one in found), n_rows=sum(one.n_rows for one in found)
        )
        return cls(Driver(nodes), Expression(node_side.data, HERE), known)

    # ---- what it holds

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels of all tasks, gathered from the nodes, in the order of the shards."""
        return tuple(self.driver.value(added, node_side.labels, self._data))

    @property
    def n_tasks(self) -> int:
        """The number of tasks, T."""
        return self._known.n_tasks

    @property
    def n_rows(self) -> int:
        """The number of rows of all tasks."""
        return self._known.n_rows

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The floating-point type that the data are kept in."""
        return np.dtype(self._known.dtype)

    @property
    def counts(self) -> Codes:
        """The number of rows per task, (T,), on the nodes."""
        return cast("Codes", self._columns((), node_side.attribute, self._data, "counts"))

    @property
    def squares(self) -> NDArray[np.float64]:
        """``y_t' y_t``, (T,), on the nodes."""
        return self._columns((), node_side.attribute, self._data, "squares").as_array()

    @cached_property
    def rounding(self) -> float:
        """The total squared error below which a fit is exact up to rounding."""
        return float(self.driver.value(added, node_side.attribute, self._data, "rounding"))

    def limit_messages(self, rank: int | None) -> None:
        """Have nodes send no more at once than in an iteration with ``rank`` columns."""
        self.driver.width = USUAL_WIDTH if rank is None else rank

    # ---- sums over all tasks

    def least_squares(self, B: Floats, ridge: RidgePenalty = 0.0) -> TaskFit:
        """Solve every task in the span of ``B``; weights and costs stay on the nodes."""
        arguments = "least_squares", np.ascontiguousarray(B), ridge
        fit = Expression(node_side.called, self._data, *arguments)
        weights = self._columns(B.shape[1:], node_side.attribute, fit, "weights")
        self.driver.keep(weights)
        gradient, cost, weighted, unclear = self.driver.value(added, node_side.fit_sums, fit)
        return TaskFit(
            weights=weights.as_array(),
            gradient=gradient,
            costs=self._columns((), node_side.attribute, fit, "costs").as_array(),
            determined=unclear == 0,
            cost=float(cost),
            weighted=weighted,
        )

    def squared_moment(self, largest_square: float = np.inf) -> Floats:
        """Return the sum of ``y^2 phi phi'`` over all rows with y^2 up to the bound, (d, d)."""
        return self._symmetric("squared_moment", largest_square)

    def square_sums(self) -> Floats:
        """Return the sum of each feature's squares over all rows, (d,)."""
        return self._sum("square_sums")

    def gram(self) -> Floats:
        """Return the sum of ``phi phi'`` over all rows of all tasks, (d, d)."""
        return self._symmetric("gram")

    def marginal(self, variances: Floats) -> Marginal:
        """Return the likelihood's sums if thetas vary; see :class:`cobandits.kernels.Marginal`."""
        sums = self.driver.value(added, node_side.called, self._data, "marginal", variances)
        return Marginal(*sums)

    def leave_one_out_errors(self, penalties: Floats, units: Floats) -> Floats:
        """Return the squared leave-one-out error of ridge regression per task, by penalty."""
        return self._sum("leave_one_out_errors", penalties, units)

    def scatter(
        self, means: Floats, every: int, first: int = 0, *, centred: bool = True
    ) -> Scatter:
        """Return the sum of ``v v'`` over every ``every``-th row of all shards."""
        before = {place: first + count for place, count in self._rows_before.items()}
        arguments = _on_nodes(means).expression, every, before, centred
        found = Expression(node_side.scatter, HERE, self._data, *arguments)
        parts = [Expression(node_side.item, found, k) for k in range(3)]
        others = (Output(part, added) for part in parts[1:])
        total, n_rows, sampled = self._matrix(parts[0], *others)
        return Scatter(total, n_rows, sampled=bool(sampled))

    # ---- arrays with a column per task

    def residuals(self, Theta: Floats) -> tuple[Floats, NDArray[np.float64]]:
        """Return ``Phi_t'(Phi_t theta_t - y_t)``, (d, T), and squared residuals, (T,)."""
        both = self._columns((), node_side.called, self._data, "residuals", _on_nodes(Theta))
        G = self._columns((self.dim,), node_side.item, both, 0)
        return G.as_array(), self._columns((), node_side.item, both, 1).as_array()

    def moments(self, largest_square: float = np.inf) -> Floats:
        """Return ``Phi_t' y_t``, (d, T), without the rows whose y^2 exceeds ``largest_square``."""
        return self._by_feature("moments", largest_square)

    def task_means(self) -> TaskMeans:
        """Return the means over each task's rows, 0 without rows."""
        found = Expression(node_side.called, self._data, "task_means")
        shapes = (self.dim,), (), (self.dim,)
        means = [self._columns(shape, node_side.item, found, k) for k, shape in enumerate(shapes)]
        return TaskMeans(*(self.driver.keep(one).as_array() for one in means))

    def ridge(self, penalty: RidgePenalty, centre: Floats | None = None) -> Floats:
        """Return each task's ridge regression, (d, T), shrunken to ``centre``, (d,), or to 0."""
        return self._by_feature("ridge", penalty, centre)

    def kept(self, columns: Floats) -> Floats:
        """Return the array, computed with the next call to the nodes and held there."""
        return self.driver.keep(cast("Columns", columns)).as_array()

    def repeated(self, column: Floats) -> Floats:
        """Return (k, T) with this column, (k,), for every task."""
        shape = (len(column),)
        return self._columns(shape, node_side.called, self._data, "repeated", column).as_array()

    def columns_of(self, labels: Sequence[Hashable], columns: Floats) -> Floats:
        """Return for each task the column of its label, (k, T); 0 for other labels.

        The labels and columns are sent to all nodes, once.
        """
        arguments = "columns_of", tuple(labels), columns
        shape = (len(columns),)
        return self.kept(self._columns(shape, node_side.called, self._data, *arguments).as_array())

    def taken(
        self, labels: Sequence[Hashable], columns: Columns
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the columns of these labels, (k, m), and which of them there are, (m,)."""
        values, known = self.driver.value(
            added, node_side.taken, self._data, columns.expression, tuple(labels)
        )
        return values, known > 0

    def write(
        self, path: str | Path, function: Callable[..., int], columns: Columns, *more: object
    ) -> None:
        """Have each node write what ``function`` makes of its columns to a file in ``path``."""
        own = HERE, self._data, columns.expression
        self.driver.value(added, function, *own, str(path), *more)

    def compact(self) -> SpreadTasks:
        """Return the data in the smaller form, on the nodes: as they are, or as statistics."""
        data = Expression(node_side.called, self._data, "compact")
        return self._held(data, self._known)

    def every(self, step: int) -> SpreadTasks:
        """Return every ``step``-th task of each shard alone, from the first on."""
        data = Expression(node_side.called, self._data, "every", step)
        n_tasks, n_rows = self._count(data, "n_tasks"), self._count(data, "n_rows")
        return self._held(data, self._known._replace(n_tasks=n_tasks, n_rows=n_rows))

    # ---- parts of the rows

    def cross_validation(
        self, n_folds: int, rng: np.random.Generator
    ) -> Iterator[tuple[SpreadTasks, SpreadTasks]]:
        """Yield the training rows and the held-out rows of each fold; all have every task."""
        folds = self._folds(n_folds, rng)
        for fold in range(min(n_folds, self.n_rows)):
            yield self._part(folds, fold, without=True), self._part(folds, fold)

    def split(self, n_parts: int, rng: np.random.Generator) -> list[SpreadTasks]:
        """Return disjoint random parts with about as many rows of each task (sample splitting)."""
        folds = self._folds(n_parts, rng)
        return [self._part(folds, part) for part in range(n_parts)]

    def _folds(self, n_folds: int, rng: np.random.Generator) -> Expression:
        """Return the fold of each row: the same as if all rows were in one place."""
        here = copy.deepcopy(rng)
        node_side.skip(rng, self.n_rows)
        return Expression(node_side.folds, HERE, self._data, n_folds, here, self._rows_before)

    def _part(self, folds: Expression, fold: int, *, without: bool = False) -> SpreadTasks:
        data = Expression(node_side.selected, self._data, folds, fold, without)
        return self._held(data, self._known._replace(n_rows=self._count(data, "n_rows")))

    def _count(self, data: Expression, name: str) -> int:
        return int(self.driver.value(added, node_side.attribute, data, name))

    def _held(self, data: Expression, known: Facts) -> SpreadTasks:
        """Return tasks that the nodes hold as long as these are used."""
        part = SpreadTasks(self.driver, data, known)
        self.driver.remember(part, data)
        return part

    # ---- expressions

    @cached_property
    def _rows_before(self) -> dict[tuple[int, int], int]:
        """The number of rows before each block of each shard."""
        held = self.driver.value(node_side.joined, node_side.rows_here, HERE, self._data)
        places = sorted(held)
        return dict(zip(places, accumulate((held[p] for p in places), initial=0), strict=False))

    def _sum(self, name: str, *arguments: object) -> Floats:
        return np.asarray(self.driver.value(added, node_side.called, self._data, name, *arguments))

    def _symmetric(self, name: str, *arguments: object) -> Floats:
        found = self._matrix(Expression(node_side.called, self._data, name, *arguments))
        return np.asarray(found[0])

    def _matrix(self, expression: Expression, *others: Output) -> list[Any]:
        """Return the sum of symmetric (d, d) matrices, and other sums."""
        return self.driver.matrix((self.dim, self.dim), expression, *others, symmetric=True)

    def _by_feature(self, name: str, *arguments: object) -> Floats:
        shape = (self.dim,)
        return self._columns(shape, node_side.called, self._data, name, *arguments).as_array()

    def _columns(
        self, shape: tuple[int, ...], function: Callable[..., Any], *arguments: object
    ) -> Columns:
        return Columns(self.driver, (*shape, self.n_tasks), function, *arguments)


def _on_nodes(columns: Any) -> Columns:
    """Return an array with a column per task; refuse one of this process."""
    if not isinstance(columns, Columns):
        raise TypeError("an array with a column per task must be on the nodes; see columns_of")
    return columns
