"""Snapshots that are being written: piece by piece, when nobody waits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from cobandits.engine.errors import EngineError
from cobandits.engine.snapshots import parts_of
from cobandits.engine.stores import Batch, Saved
from cobandits.engine.stores.base import Part

__all__ = ["QUIET", "Pieces"]

QUIET = 0.02  # seconds without requests, after which a piece is written
_SELDOM = 0.1  # seconds after the last one, if there are always requests


class Pieces:
    """A queue of pieces; a snapshot counts when its last one is written."""

    def __init__(self) -> None:
        self._waiting: deque[Part | Saved] = deque()
        self._wrote = 0.0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, space: int, number: int, content: bytes) -> None:
        """Take a snapshot of a space, in place of an older one that is not written yet."""
        self.drop(space)
        parts = parts_of(content)
        self._waiting += [Part(space, number, n, data) for n, data in enumerate(parts)]
        self._waiting.append(Saved(space, number, len(parts)))

    def drop(self, space: int) -> None:
        """Forget what waits of a space."""
        self._waiting = deque(one for one in self._waiting if one.space != space)

    def due(self, asked: float) -> bool:
        """Tell whether to write one now; ``asked`` is when there last were requests."""
        now = time.monotonic()
        return bool(self._waiting) and (now - asked > QUIET or now - self._wrote > _SELDOM)

    def write_one(self, commit: Callable[[Batch, Callable[[], None]], None]) -> None:
        """Write the next piece; where that fails give up, as a snapshot is a short cut only."""
        self._wrote = time.monotonic()
        piece = self._waiting.popleft()
        batch = Batch(parts=[piece]) if isinstance(piece, Part) else Batch(saved=[piece])
        try:
            commit(batch, lambda: None)
        except EngineError:
            self._waiting.clear()

    def write_all(self, commit: Callable[[Batch, Callable[[], None]], None]) -> None:
        """Write what waits."""
        while self._waiting:
            self.write_one(commit)
