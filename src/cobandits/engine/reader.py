"""In place of the engine's thread, where a database is only read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from cobandits.engine.core import Core
from cobandits.engine.errors import OwnedError
from cobandits.engine.events import Event
from cobandits.engine.fold import SpaceFold
from cobandits.engine.jobs import Call, Job
from cobandits.engine.times import Times

__all__ = ["Reader"]

Done = TypeVar("Done")


class Reader:
    """Does what reads, and refuses what writes."""

    busy = False
    refitting: tuple[int, ...] = ()

    def __init__(self, core: Core) -> None:
        self.core = core
        self.times: dict[str, Times] = {}  # it has no thread of its own
        self._lock = threading.RLock()

    def put(self, _: Call | Job) -> None:
        """Refuse requests."""
        raise _refused()

    def write(self, *_: object, **__: object) -> Event:
        """Refuse an event."""
        raise _refused()

    def keep(self, _: SpaceFold) -> None:
        """Refuse a snapshot."""
        raise _refused()

    def forget(self, _: int) -> int:
        """Refuse to remove events."""
        raise _refused()

    def tick(self) -> None:
        """Do nothing: windows end when the owner says so."""

    def call(self, action: Callable[[], Done]) -> Done:
        """Do something, one thread at a time."""
        with self._lock:
            return action()

    def close(self) -> None:
        """Do nothing."""


def _refused() -> OwnedError:
    return OwnedError("this engine was opened for reading; open it without readonly to decide")
