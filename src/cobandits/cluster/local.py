"""Shards on this machine, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cobandits.tasks.held import HeldTasks
from cobandits.tasks.shards import InMemory, Recipe, Shard

__all__ = ["LocalNodes"]


class LocalNodes:
    """Shards in this process, in order.

    With shards on disk (``cobandits.tasks.scratch``) it fits data larger than memory.
    """

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._shards = [Shard(recipe, number) for number, recipe in enumerate(recipes)]

    @classmethod
    def of(cls, parts: Sequence[HeldTasks]) -> LocalNodes:
        """Return nodes with these tasks, a part for each."""
        return cls([InMemory(tasks) for tasks in parts])

    def call(self, function: Callable[..., Any], *arguments: object) -> Sequence[Any]:
        """Return ``function(shard, *arguments)`` of every shard."""
        return [function(shard, *arguments) for shard in self._shards]
