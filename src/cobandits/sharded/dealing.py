"""Requests to the shards of their tasks, and answers back in their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.ragged import RaggedArms
from cobandits.sharded.hashing import shards_of

__all__ = ["Deal"]

Values = NDArray[Any] | RaggedArms


class Deal:
    """Which requests go to which of ``n`` shards.

    >>> deal = Deal(np.array([0, 1, 2, 3]), 2)
    >>> deal.parts(np.array([5, 6, 7, 8]))
    [(array([7]),), (array([5, 6, 8]),)]
    """

    def __init__(self, tasks: NDArray[Any], n: int) -> None:
        owners = shards_of(tasks, n)
        self._places = [np.flatnonzero(owners == shard) for shard in range(n)]
        self._count = len(tasks)

    def parts(self, *values: Values, empty: bool = False) -> list[tuple[Any, ...] | None]:
        """Return the part of each shard; None where it has no request, unless ``empty``."""
        return [
            tuple(one[places] for one in values) if empty or len(places) else None
            for places in self._places
        ]

    def joined(self, answers: Sequence[tuple[NDArray[Any], ...] | None]) -> list[NDArray[Any]]:
        """Return arrays, (m, ..) each, from those of shards."""
        found: list[NDArray[Any]] = []
        for places, arrays in zip(self._places, answers, strict=True):
            if arrays is None:
                continue
            if not found:
                found = [np.empty((self._count, *a.shape[1:]), a.dtype) for a in arrays]
            for whole, part in zip(found, arrays, strict=True):
                whole[places] = part
        return found
