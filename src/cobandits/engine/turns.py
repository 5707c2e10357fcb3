"""Work beside the engine's thread that lets it run soon, although one thread runs at a time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["giving_way"]

# Python lets a thread run for 5 ms before another one gets its turn. A decision needs two or three
# turns, of the caller and of the engine, and takes less than a millisecond itself.
_TURN = 0.0005  # seconds


class _Turns:
    """The interpreter's own setting, while at least one thread asks for short turns."""

    def __init__(self) -> None:
        self._lock, self._asking, self._before = threading.Lock(), 0, 0.0

    def change(self, by: int) -> None:
        """Count a thread that asks for it, or no longer does."""
        with self._lock:
            if not self._asking:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(_TURN, self._before))
            self._asking += by
            if not self._asking:
                sys.setswitchinterval(self._before)


_turns = _Turns()


@contextmanager
def giving_way() -> Iterator[None]:
    """Let other threads have their turn soon, while this one works for long."""
    _turns.change(1)
    try:
        yield
    finally:
        _turns.change(-1)
