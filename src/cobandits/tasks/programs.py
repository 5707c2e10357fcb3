"""Expressions over the data of a node, and the programs that nodes run to evaluate them.

An expression is a function of other expressions and of constants, known by a token. Nodes get
a program, the steps in order, and return what is asked for, merged over their blocks of tasks.
They remember the values that the driver still uses. A value that was lost with its node is
computed again from its definition.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from cobandits.tasks.checks import Floats
from cobandits.tasks.held import HeldTasks

__all__ = [
    "HERE",
    "Expression",
    "Merge",
    "Output",
    "Place",
    "Program",
    "added",
    "compiled_program",
    "executed",
    "merged",
    "restacked",
]

Merge = Callable[[Any, Any], Any]  # of the values of two nodes, or of two blocks of a node
_tokens = itertools.count()


class Place(NamedTuple):
    """Where a step runs: a block of tasks, in memory, and its number."""

    data: HeldTasks
    shard: int
    block: int


class Here(NamedTuple):
    """An argument that stands for the :class:`Place` of the step."""


HERE = Here()


class Reference(NamedTuple):
    """An argument that stands for the value of another step."""

    token: int


class Expression:
    """A value that each node computes for its own tasks: ``function(*arguments)``."""

    __slots__ = ("arguments", "function", "token")

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self.function, self.token = function, next(_tokens)
        self.arguments = tuple(map(_as_sent, arguments))


def _as_sent(argument: object) -> object:
    """Return an argument as nodes elsewhere get it: a view with gaps arrives without them.

    Sums are rounded by how an array lies in memory, so that nodes here would have other bits.
    """
    if isinstance(argument, np.ndarray) and not argument.flags.forc:
        return np.ascontiguousarray(argument)
    return argument


class Step(NamedTuple):
    """One step of a program; without a function, a value that nodes should remember."""

    token: int
    function: Callable[..., Any] | None
    arguments: tuple[object, ...]

    def references(self) -> list[int]:
        """Return the tokens of the steps that this one uses."""
        return [one.token for one in self.arguments if isinstance(one, Reference)]


class Output(NamedTuple):
    """An expression that is asked for, and how the values of two nodes become one."""

    expression: Expression
    merge: Merge


class Program(NamedTuple):
    """What a node does in one call."""

    steps: tuple[Step, ...]
    outputs: tuple[tuple[int, Merge], ...]
    remember: frozenset[int]  # tokens whose values are used again
    optional: frozenset[int]  # those of them that can be computed again, where memory is short
    forget: tuple[int, ...]


def compiled_program(
    outputs: Sequence[Output],
    also: Iterable[Expression],
    held: Mapping[int, bool],
    optional: Set[int],
    forget: Iterable[int],
) -> Program:
    """Return the program that evaluates ``outputs``, and ``also`` what is to be remembered.

    ``held`` has the tokens to remember; true for those that every node has already, and whose
    definition is not sent again; never so for the ``optional`` ones.
    """
    steps: dict[int, Step] = {}
    stack = [*also, *(output.expression for output in outputs)][::-1]
    while stack:
        one = stack[-1]
        parts = [a for a in one.arguments if isinstance(a, Expression)]
        waiting = [a for a in parts if a.token not in steps]
        if one.token in steps:
            stack.pop()
        elif held.get(one.token):
            steps[one.token] = Step(one.token, None, ())
        elif waiting:
            stack.extend(reversed(waiting))
        else:
            arguments = tuple(
                Reference(a.token) if isinstance(a, Expression) else a for a in one.arguments
            )
            steps[one.token] = Step(one.token, one.function, arguments)
    return Program(
        steps=tuple(steps.values()),
        outputs=tuple((output.expression.token, output.merge) for output in outputs),
        remember=frozenset(token for token in steps if token in held),
        optional=frozenset(token for token in steps if token in optional),
        forget=tuple(forget),
    )


def executed(program: Program, place: Place, memory: dict[int, Any]) -> list[Any] | None:
    """Return the outputs at one place, or None if a value that should be known is missing.

    ``memory`` has the values that the place remembers, and gets the new ones. Other values are
    dropped after their last use.
    """
    asked = [token for token, _ in program.outputs]
    needed = {*asked, *program.remember}
    for step in reversed(program.steps):
        if step.token in needed and step.token not in memory:
            if step.function is None:
                return None
            needed.update(step.references())
    todo = [step for step in program.steps if step.token in needed - memory.keys()]
    uses = Counter(token for step in todo for token in step.references())
    uses.update(asked)
    values = {token: memory[token] for token in needed & memory.keys()}
    for step in todo:
        values[step.token] = _value(step, place, values)
        if step.token in program.remember:
            memory[step.token] = values[step.token]
        uses.subtract(step.references())
        for token in {token for token in step.references() if not uses[token]}:
            del values[token]
    return [values[token] for token in asked]


def _value(step: Step, place: Place, values: Mapping[int, Any]) -> Any:
    assert step.function is not None
    arguments = (
        values[one.token]
        if isinstance(one, Reference)
        else (place if isinstance(one, Here) else one)
        for one in step.arguments
    )
    with np.errstate(all="ignore"):  # who asks judges what is not finite
        return step.function(*arguments)


def merged(parts: Sequence[Sequence[Any]], merges: Sequence[Merge]) -> list[Any]:
    """Return the outputs of all ``parts`` as one, in their order."""
    return [reduce(merge, values) for merge, *values in zip(merges, *parts, strict=True)]


def added(a: Any, b: Any) -> Any:
    """Return the sum of two values, or of two tuples entry by entry."""
    if isinstance(a, tuple):
        return tuple(added(x, y) for x, y in zip(a, b, strict=True))
    return a + b


def restacked(a: Floats, b: Floats) -> Floats:
    """Return the triangle of two triangles, one below the other (TSQR)."""
    return np.asarray(np.linalg.qr(np.vstack([a, b]), mode="r"))
