"""A node's share of the tasks, and how it runs a program over them."""

from __future__ import annotations

import hashlib
import heapq
import itertools
import threading
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from cobandits.errors import DataError
from cobandits.tasks.checks import Floats
from cobandits.tasks.held import HeldTasks
from cobandits.tasks.programs import Place, Program, executed, merged

__all__ = [
    "MISSING",
    "Block",
    "Facts",
    "InMemory",
    "Piece",
    "Recipe",
    "Shard",
    "check_apart",
    "facts",
    "next_piece",
    "run",
    "run_for_piece",
    "unpacked",
]

MISSING = "a value that should be known is missing"

_SKETCH = 64  # hashes of labels that a shard shows
_SCATTERED = (
    "a task has rows in several shards, or in several blocks of one; partition the rows by task"
)


class Block(Protocol):
    """Some of a shard's tasks, whose rows are in memory while a program runs over them."""

    @property
    def stays(self) -> bool:
        """Whether the rows stay in memory."""

    def load(self) -> HeldTasks:
        """Return the tasks; they may be overwritten when the next block is loaded."""


class Recipe(Protocol):
    """How a shard is made, wherever it is; small, or no larger than it must be."""

    def blocks(self) -> Sequence[Block]:
        """Return the shard's tasks in blocks."""


class InMemory(NamedTuple):
    """Tasks in memory: a recipe of one block."""

    tasks: HeldTasks

    @property
    def stays(self) -> bool:
        """Whether the rows stay in memory: yes."""
        return True

    def load(self) -> HeldTasks:
        """Return the tasks."""
        return self.tasks

    def blocks(self) -> Sequence[Block]:
        """Return the tasks as one block."""
        return [self]


class Shard:
    """The tasks of a node, and the values that it remembers.

    It is pickled as its recipe: what it remembers can be computed again.
    """

    def __init__(self, recipe: Recipe, number: int) -> None:
        self._recipe, self.number = recipe, number
        self.blocks = recipe.blocks()
        self.memories: list[dict[int, Any]] = [{} for _ in self.blocks]
        self.held: tuple[int, Floats | None] | None = None  # a matrix that is sent in pieces
        self.lock = threading.Lock()  # for one call at a time

    def __reduce__(self) -> tuple[type[Shard], tuple[Recipe, int]]:
        return Shard, (self._recipe, self.number)


def run(shard: Shard, program: Program) -> list[Any] | str | None:
    """Return the program's outputs over all tasks of a shard.

    None without tasks, ``MISSING`` if the shard does not know what it should.
    """
    parts = []
    for number, (block, memory) in enumerate(zip(shard.blocks, shard.memories, strict=True)):
        for token in program.forget:
            memory.pop(token, None)
        data = block.load()
        if data.n_tasks == 0:
            continue
        remember = program.remember if block.stays else program.remember - program.optional
        here = program._replace(remember=remember)
        found = executed(here, Place(data, shard.number, number), memory)
        if found is None:
            return MISSING
        parts.append(found)
    return merged(parts, [merge for _, merge in program.outputs]) if parts else None


class Piece(NamedTuple):
    """A part of a matrix that a shard holds, by the token of its expression."""

    token: int
    first: int
    last: int
    symmetric: bool  # whether it is a part of the lower triangle


def run_for_piece(shard: Shard, program: Program, piece: Piece) -> list[Any] | str | None:
    """Run a program whose first output is a matrix: hold it, and return a piece in its place."""
    found = run(shard, program)
    if isinstance(found, str):
        return found
    packed = None if found is None else _packed(found[0], symmetric=piece.symmetric)
    shard.held = piece.token, packed
    first = next_piece(shard, piece)
    return found if found is None or first is None else [*first, *found[1:]]


def next_piece(shard: Shard, piece: Piece) -> list[Any] | str | None:
    """Return a piece of the matrix that the shard holds; let the matrix go after the last."""
    if shard.held is None or shard.held[0] != piece.token:
        return MISSING
    packed = shard.held[1]
    if packed is None:
        return None
    if piece.last >= len(packed):
        shard.held = None
    return [packed[piece.first : piece.last]]


def _packed(matrix: Floats, *, symmetric: bool) -> Floats:
    return matrix[np.tril_indices(len(matrix))] if symmetric else matrix.ravel()


def unpacked(packed: Floats, shape: Sequence[int], *, symmetric: bool) -> Floats:
    """Return the matrix whose entries, or whose lower triangle, these are."""
    if not symmetric:
        return packed.reshape(shape)
    matrix, places = np.empty(shape, packed.dtype), np.tril_indices(shape[0])
    matrix[places] = matrix.T[places] = packed
    return matrix


class Facts(NamedTuple):
    """What the driver knows of a shard."""

    dim: int
    n_tasks: int
    n_rows: int
    dtype: str
    feature_names: tuple[str, ...] | None
    sketch: frozenset[bytes]  # the smallest hashes of labels: equal ones show a scattered task


def facts(shard: Shard) -> Facts:
    """Return the sizes of a shard, the type of its rows, and a sketch of its labels."""
    tasks = shard.blocks[0].load()
    dim, dtype, names = tasks.dim, tasks.dtype.str, tasks.feature_names
    n_tasks = n_rows = 0
    hashes: list[bytes] = []
    for block in shard.blocks:
        tasks = block.load()
        n_tasks, n_rows = n_tasks + tasks.n_tasks, n_rows + tasks.n_rows
        hashes = heapq.nsmallest(_SKETCH, itertools.chain(hashes, map(_hash, tasks.labels)))
    if len(set(hashes)) < len(hashes):
        raise DataError(_SCATTERED)
    return Facts(dim, n_tasks, n_rows, dtype, names, frozenset(hashes))


def check_apart(shards: Sequence[Facts]) -> None:
    """Refuse shards that have a task in common, as far as their sketches show it.

    Tasks that are scattered at random are always found; a few in millions may not be.
    """
    together = set().union(*(one.sketch for one in shards))
    if len(together) < sum(len(one.sketch) for one in shards):
        raise DataError(_SCATTERED)


def _hash(label: Hashable) -> bytes:
    return hashlib.blake2b(repr(label).encode(), digest_size=8).digest()
