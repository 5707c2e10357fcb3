"""Arrays with a column per task that stay on nodes: lazy, in NumPy's notation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cobandits.tasks.checks import Floats
from cobandits.tasks.driver import Driver
from cobandits.tasks.programs import Expression, Output, added, restacked

__all__ = ["Columns"]

Sources = tuple["Columns", ...]


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
        self.factors: tuple[Floats, Columns] | None = None  # whose product this is
        columns = [one for one in arguments if isinstance(one, Columns)]
        plain = (one.expression if isinstance(one, Columns) else one for one in arguments)
        self.expression: Expression = Expression(function, *plain)
        self.sources: Sources = tuple({id(s): s for one in columns for s in one.anchors}.values())

    @property
    def anchors(self) -> Sources:
        """The columns that nodes must remember to evaluate this: itself, if it is kept."""
        return (self,) if self.is_kept else self.sources

    def settle(self) -> None:
        """Note that nodes remember these columns, and let go of what they are made of."""
        self.sources, self.factors, self.is_kept = (), None, True

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
        """Return ``left @ self`` for an array (k,) or (m, k).

        The product of two arrays of this process and columns is computed from the left.
        """
        if self._tall is not None:
            factor, base = self._tall
            return base.times(left @ factor)
        product = Columns(self.driver, (*left.shape[:-1], self.shape[-1]), np.matmul, left, self)
        if left.ndim == 2:
            product.factors = left, self
        return product

    def over_tasks(self, other: Columns) -> Any:
        """Return ``self @ other.T``, a sum over tasks; nodes send no more at once than in a fit.

        What can be multiplied here is: a (d, d) factor is not sent, and many columns are asked
        for in turn.
        """
        if self._tall is not None:
            factor, base = self._tall
            if other is self:
                return factor @ base.over_tasks(base) @ factor.T
            return factor @ base.over_tasks(other)
        width = self.driver.width
        if other.factors is not None and len(other.factors[0]) > width:
            left, base = other.factors
            if other is self:
                return left @ base.over_tasks(self)
            parts = [left[k : k + width] for k in range(0, len(left), width)]
            return np.concatenate([self.over_tasks(base.times(part)) for part in parts], axis=-1)
        shape = (*self.shape[:-1], *other.shape[:-1])
        product = Expression(_over_tasks, self.expression, other.expression)
        if len(shape) == 2 and min(shape) > 2 * width:
            return self.driver.matrix(shape, product, symmetric=other is self)[0]
        return self.driver.evaluate(Output(product, added))[0]

    @property
    def _tall(self) -> tuple[Floats, Columns] | None:
        """The factors of a product that nodes do not hold, if the first is not the smaller."""
        if self.factors is None:
            return None
        m, k = self.factors[0].shape
        return self.factors if m >= k else None


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
