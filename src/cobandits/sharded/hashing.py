"""Which shard a task belongs to."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.labels import encoded_label

__all__ = ["shards_of"]

Codes = NDArray[np.int64]

_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


def shards_of(tasks: NDArray[Any], n: int) -> Codes:
    """Return the shard of each task, (m,), the same in every process and on every machine.

    >>> shards_of(np.array([0, 1, 2, 3, 0]), 2).tolist()
    [1, 1, 0, 1, 1]
    """
    if tasks.dtype.kind == "O":
        texts = (json.dumps(encoded_label(label)) for label in tasks.tolist())
        hashed = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
        return np.array([int.from_bytes(one, "little") % n for one in hashed], np.int64)
    z = tasks.astype(np.uint64) + _MIX[0]  # splitmix64: neighbours are spread
    z = (z ^ (z >> np.uint64(30))) * _MIX[1]
    z = (z ^ (z >> np.uint64(27))) * _MIX[2]
    mixed = z ^ (z >> np.uint64(31))
    return np.asarray(mixed % np.uint64(n), np.int64)
