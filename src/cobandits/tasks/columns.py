"""Arrays with a column per task that stay on nodes: lazy, in NumPy's notation."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cobandits.errors import DataError
from cobandits.tasks.checks import Floats
from cobandits.tasks.programs import (
    Expression,
    Merge,
    Output,
    added,
    compiled_program,
    merged,
    restacked,
)
from cobandits.tasks.shards import MISSING, run

__all__ = ["Columns", "Driver", "Nodes"]

Sources = tuple["Columns", ...]

_SHALLOW = 2  # kept columns upon others; deeper ones take too many passes to be computed again


class Nodes(Protocol):
    """Several shards of data, each somewhere: all that an engine must offer."""

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        """Return ``function(shard, *arguments)`` of every shard, in the order of the shards."""


class Driver:
    """Has nodes evaluate expressions, and knows which values they remember."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._held: dict[int, bool] = {}  # tokens to remember, and whether all nodes do
        self._pending: dict[int, tuple[Expression, Sources]] = {}  # to compute with the next call
        self._optional: set[int] = set()  # whose definition is always sent
        self._forget: list[int] = []

    def evaluate(self, *outputs: Output) -> list[Any]:
        """Return the value of each output over all nodes, in one call where nothing was lost."""
        pending = [expression for expression, _ in self._pending.values()]
        forget = tuple(self._forget)
        while True:
            program = compiled_program(outputs, pending, self._held, self._optional, forget)
            answers = self.nodes.call(run, program)
            if MISSING not in answers:
                break
            self._held = dict.fromkeys(self._held, False)  # a node was lost: send definitions
        del self._forget[: len(forget)]
        for token in program.remember & self._held.keys():
            self._held[token] = token not in self._optional
            self._pending.pop(token, None)
        parts = [answer for answer in answers if answer is not None]
        if not parts:
            raise DataError("there are no tasks on any node; give at least one row")
        return merged(parts, [output.merge for output in outputs])

    def value(self, merge: Merge, function: Callable[..., Any], *arguments: object) -> Any:
        """Return ``function`` of every node's own arguments, merged."""
        return self.evaluate(Output(Expression(function, *arguments), merge))[0]

    def keep(self, columns: Columns) -> Columns:
        """Have nodes compute ``columns`` with the next call and remember them while they live."""
        token = columns.expression.token
        if token not in self._held:
            self._held[token] = False
            columns.depth = 1 + max((source.depth for source in columns.sources), default=0)
            if columns.depth <= _SHALLOW:
                self._optional.add(token)
            self._pending[token] = columns.expression, columns.sources
            columns.sources, columns.is_kept = (), True
            weakref.finalize(columns, self._drop, token)
        return columns

    def remember(self, owner: object, expression: Expression) -> None:
        """Have nodes remember a value, if they have room for it, while ``owner`` lives."""
        self._held[expression.token] = False
        self._optional.add(expression.token)
        weakref.finalize(owner, self._drop, expression.token)

    def _drop(self, token: int) -> None:
        self._held.pop(token)
        self._optional.discard(token)
        self._pending.pop(token, None)
        self._forget.append(token)


class Columns(np.lib.mixins.NDArrayOperatorsMixin):
    """An array whose last axis is the task, (k, T) or (T,), as an expression on the nodes.

    Arithmetic gives other expressions. Sums, extremes, products over tasks and the triangle
    of a QR decomposition are computed where the tasks are, and their sizes do not depend on T.
    What would bring a column per task here is refused, but for :meth:`gather`.
    """

    def __init__(
        self,
        driver: Driver,
        shape: tuple[int, ...],
        function: Callable[..., Any],
        *arguments: object,
    ) -> None:
        self.driver, self.shape = driver, shape
        self.is_kept, self.depth = False, 0  # how many kept columns one upon the other
        columns = [one for one in arguments if isinstance(one, Columns)]
        plain = (one.expression if isinstance(one, Columns) else one for one in arguments)
        self.expression: Expression = Expression(function, *plain)
        self.sources: Sources = tuple({id(s): s for one in columns for s in one.anchors}.values())

    @property
    def anchors(self) -> Sources:
        """The columns that nodes must remember to evaluate this: itself, if it is kept."""
        return (self,) if self.is_kept else self.sources

    @property
    def ndim(self) -> int:
        """1 or 2."""
        return len(self.shape)

    @property
    def T(self) -> Transposed:  # noqa: N802
        """The transpose, for products over tasks."""
        return Transposed(self)

    def as_array(self) -> NDArray[np.float64]:
        """Return itself under the type of an array: estimators need not tell them apart."""
        return cast("NDArray[np.float64]", self)

    def gather(self) -> NDArray[Any]:
        """Return the columns of all tasks as an array in this process."""
        parts = self.driver.value(added, _alone, self.expression)
        return np.concatenate(parts, axis=-1)

    def astype(self, dtype: DTypeLike) -> Columns:
        """Return the array in another floating-point type."""
        return Columns(self.driver, self.shape, _astype, self, np.dtype(dtype).str)

    def sum(self, axis: int | None = None) -> Any:
        """Return the sum of all entries, or over rows (axis 0) or tasks (axis 1) of (k, T)."""
        if self.ndim == 2 and axis == 0:
            return Columns(self.driver, self.shape[1:], np.sum, self, 0)
        if axis is None:
            return self.driver.value(added, np.sum, self.expression)
        return self.driver.value(added, np.sum, self.expression, -1)

    def max(self) -> Any:
        """Return the largest entry."""
        return self.driver.value(np.maximum, np.max, self.expression)

    def min(self) -> Any:
        """Return the smallest entry."""
        return self.driver.value(np.minimum, np.min, self.expression)

    def any(self) -> bool:
        """Return whether an entry is not 0."""
        return bool((self != 0).max())

    def all(self) -> bool:
        """Return whether no entry is 0."""
        return bool((self != 0).min())

    def __array__(self, *_: object, **__: object) -> NDArray[Any]:
        raise TypeError("columns of tasks stay on their nodes; sum them there, or gather() them")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        if ufunc is np.matmul:
            return _product(*inputs)
        shape = np.broadcast_shapes(*(np.shape(one) for one in inputs))
        return Columns(self.driver, shape, ufunc, *(_operand(one) for one in inputs))

    def __array_function__(
        self, function: Callable[..., Any], _: object, inputs: Sequence[Any], options: Any
    ) -> Any:
        if function is np.linalg.norm:
            squares = (self * self).sum(**options)
            return np.sqrt(squares)
        if function is np.vdot:
            return (inputs[0] * inputs[1]).sum()
        if function is np.shape:
            return self.shape
        return NotImplemented

    def times(self, left: NDArray[Any]) -> Columns:
        """Return ``left @ self`` for an array (k,) or (m, k)."""
        return Columns(self.driver, (*left.shape[:-1], self.shape[-1]), np.matmul, left, self)

    def over_tasks(self, other: Columns) -> Any:
        """Return ``self @ other.T``, a sum over tasks."""
        return self.driver.value(added, _over_tasks, self.expression, other.expression)


class Transposed:
    """The transpose of columns: (T, k)."""

    __array_priority__ = 1.0

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.shape = columns.shape[::-1]

    @property
    def T(self) -> Columns:  # noqa: N802
        """The columns."""
        return self.columns

    def __matmul__(self, other: NDArray[Any]) -> Transposed:
        return self.columns.times(other.T).T

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc is np.matmul and method == "__call__" and not options:
            return _product(*inputs)
        return NotImplemented

    def __array_function__(
        self, function: Callable[..., Any], _: object, inputs: Sequence[Any], options: Any
    ) -> Any:
        if function is np.linalg.qr and options == {"mode": "r"}:
            return self.columns.driver.value(restacked, _triangle, self.columns.expression)
        return NotImplemented


def _product(left: Any, right: Any) -> Any:
    """Return the product of two matrices, of which one or both have a column per task."""
    if isinstance(left, Columns):
        if isinstance(right, Transposed):
            return left.over_tasks(right.columns)
        if isinstance(right, Columns) and right.ndim == 1:
            return left.over_tasks(right)
        return NotImplemented
    if isinstance(left, Transposed) or not isinstance(right, Columns):
        return NotImplemented
    return right.times(left)


def _operand(one: Any) -> Any:
    """Return an operand of arithmetic; refuse arrays of this process with a column per task."""
    shape = np.shape(one)
    if not isinstance(one, Columns) and shape and shape[-1] != 1:
        raise TypeError(
            f"an array of shape {shape} has a column per task, but these tasks are on nodes; "
            "make it from their own arrays, or with columns_of"
        )
    return one


def _alone(columns: NDArray[Any]) -> list[NDArray[Any]]:
    return [columns]


def _astype(columns: NDArray[Any], dtype: str) -> NDArray[Any]:
    return columns.astype(dtype, copy=False)


def _over_tasks(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(left @ right.T)


def _triangle(columns: Floats) -> Floats:
    return np.asarray(np.linalg.qr(columns.T, mode="r"))
