"""What has nodes evaluate expressions, and brings their sums."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from cobandits.errors import DataError
from cobandits.tasks.programs import Expression, Merge, Output, added, compiled_program, merged
from cobandits.tasks.shards import MISSING, Piece, next_piece, run, run_for_piece, unpacked

__all__ = ["USUAL_WIDTH", "Driver", "Nodes"]

USUAL_WIDTH = 8  # columns of a basis, where the rank is not known
_SPARE = 128  # numbers more in a piece: few small ones would cost more than they save
_SHALLOW = 2  # kept columns upon others; deeper ones take too many passes to be computed again

Column = TypeVar("Column", bound="Kept")


class Nodes(Protocol):
    """Several shards of data, each somewhere: all that an engine must offer."""

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        """Return ``function(shard, *arguments)`` of every shard, in the order of the shards."""


class Kept(Protocol):
    """What nodes can remember: :class:`cobandits.tasks.columns.Columns`."""

    expression: Expression
    sources: tuple[Any, ...]
    depth: int

    def settle(self) -> None:
        """Note that nodes remember it, and let go of what it is made of."""


class Driver:
    """Has nodes evaluate expressions, and knows which values they remember.

    A matrix of d^2 numbers is brought in pieces of about ``2 d width``: what an iteration of
    a fit with a basis of ``width`` columns sends and brings.
    """

    def __init__(self, nodes: Nodes) -> None:
        self.nodes, self.width = nodes, USUAL_WIDTH
        self._held: dict[int, bool] = {}  # tokens to remember, and whether all nodes do
        self._pending: dict[
            int, tuple[Expression, tuple[Any, ...]]
        ] = {}  # to compute with the next call
        self._optional: set[int] = set()  # whose definition is always sent
        self._forget: list[int] = []

    def evaluate(self, *outputs: Output) -> list[Any]:
        """Return the value of each output over all nodes, in one call where nothing was lost."""
        return self._evaluated(outputs, run)

    def matrix(
        self, shape: Sequence[int], expression: Expression, *others: Output, symmetric: bool
    ) -> list[Any]:
        """Return the sum of a large matrix over all nodes, in pieces, and the other outputs.

        Of a symmetric one nodes send the lower triangle. Each holds its matrix until the last
        piece; a node that was lost computes it again.
        """
        outputs = Output(expression, added), *others
        rows, columns = shape
        size = rows * (rows + 1) // 2 if symmetric else rows * columns
        step = 2 * max(shape) * self.width + _SPARE
        piece = Piece(expression.token, 0, step, symmetric)
        first, *rest = self._evaluated(outputs, run_for_piece, piece)
        parts = [first]
        for begin in range(step, size, step):
            piece = piece._replace(first=begin, last=begin + step)
            answers = self.nodes.call(next_piece, piece)
            if MISSING in answers:
                parts.append(self._evaluated(outputs, run_for_piece, piece)[0])
            else:
                parts.append(_merged(answers, outputs[:1])[0])
        return [unpacked(np.concatenate(parts), shape, symmetric=symmetric), *rest]

    def _evaluated(
        self, outputs: Sequence[Output], function: Callable[..., Any], *arguments: object
    ) -> list[Any]:
        pending = [expression for expression, _ in self._pending.values()]
        forget = tuple(self._forget)
        while True:
            program = compiled_program(outputs, pending, self._held, self._optional, forget)
            answers = self.nodes.call(function, program, *arguments)
            if MISSING not in answers:
                break
            self._held = dict.fromkeys(self._held, False)  # a node was lost: send definitions
        del self._forget[: len(forget)]
        for token in program.remember:
            if token in self._held:  # it may be dropped with another one that was pending
                self._held[token] = token not in self._optional
                self._pending.pop(token, None)
        return _merged(answers, outputs)

    def value(self, merge: Merge, function: Callable[..., Any], *arguments: object) -> Any:
        """Return ``function`` of every node's own arguments, merged."""
        return self.evaluate(Output(Expression(function, *arguments), merge))[0]

    def keep(self, columns: Column) -> Column:
        """Have nodes compute ``columns`` with the next call and remember them while they live."""
        token = columns.expression.token
        if token not in self._held:
            self._held[token] = False
            columns.depth = 1 + max((source.depth for source in columns.sources), default=0)
            if columns.depth <= _SHALLOW:
                self._optional.add(token)
            self._pending[token] = columns.expression, columns.sources
            columns.settle()
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


def _merged(answers: Sequence[Any], outputs: Sequence[Output]) -> list[Any]:
    """Return the outputs of all nodes that have tasks as one."""
    parts = [answer for answer in answers if answer is not None]
    if not parts:
        raise DataError("there are no tasks on any node; give at least one row")
    return merged(parts, [output.merge for output in outputs])
