"""Where the rows of a shard come from: files that nodes read by themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from cobandits.tasks.rows import TaskRows
from cobandits.tasks.shards import Block, InMemory

__all__ = ["RowFiles", "Source", "parquet_shards"]


class Source(Protocol):
    """Rows that can be read again, piece by piece."""

    def pieces(self) -> Iterator[TaskRows]:
        """Yield the rows in pieces; a task is in one piece only."""


class RowFiles(NamedTuple):
    """Parquet or CSV files with the rows of a shard; a recipe that is as small as their names.

    The nodes must find the files under these paths.
    """

    paths: tuple[str, ...]
    task: str
    reward: str
    features: tuple[str, ...] | None = None
    intercept: bool = False

    def pieces(self) -> Iterator[TaskRows]:
        """Yield the rows of each file."""
        for path in self.paths:
            yield TaskRows.from_file(
                path,
                task=self.task,
                reward=self.reward,
                features=self.features,
                intercept=self.intercept,
            )

    def blocks(self) -> Sequence[Block]:
        """Return the rows of all files as one block in memory; a task may be in several files."""
        whole: TaskRows | None = None
        for piece in self.pieces():
            if whole is None:
                whole = piece
            else:
                labels = piece.labels
                whole.add(piece.rows, piece.rewards, [labels[t] for t in piece.owners])
        assert whole is not None  # there is at least one path
        return [InMemory(whole)]


def parquet_shards(
    paths: Sequence[str],
    n_shards: int,
    *,
    task: str,
    reward: str,
    features: Sequence[str] | None = None,
    intercept: bool = False,
) -> list[RowFiles]:
    """Deal files that each hold whole tasks to shards, neighbours together.

    >>> [shard.paths for shard in parquet_shards("abc", 2, task="t", reward="y")]
    [('a',), ('b', 'c')]
    """
    chosen = None if features is None else tuple(features)
    cuts = [len(paths) * k // n_shards for k in range(n_shards + 1)]
    return [
        RowFiles(tuple(map(str, paths[first:last])), task, reward, chosen, intercept)
        for first, last in itertools.pairwise(cuts)
        if first < last
    ]
