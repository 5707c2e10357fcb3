"""Callers that were answered wake one after the other, not all at once.

Python runs one thread at a time. Were all callers of a group woken together, each would wake, find
that another one runs, and sleep once more: twice the work of waking. So the engine's thread wakes
a few, and each that wakes wakes the next before it returns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock

__all__ = ["PATIENCE", "Turnstile"]

# Seconds that a caller may wait for its turn: 64 take about one millisecond. A caller that was
# interrupted wakes nobody, and behind threads or processes that compute each would wait for them in
# turn: then all are woken at once.
PATIENCE = 0.002
# Callers that the engine's thread wakes after a group. With one, a thread that is slow to start on
# a busy machine holds up all others; with all, most wake in vain.
_AWAKE = 4


class Turnstile:
    """The locks of callers whose answers are there; a few are released, then one by one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: deque[tuple[Lock, float]] = deque()  # since when

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, caller: Lock) -> None:
        """Take a caller who waits until its lock is released."""
        self._waiting.append((caller, self._clock()))

    def begin(self) -> None:
        """Wake the first callers, who wake the others."""
        for _ in range(_AWAKE):
            self.step()

    def step(self) -> None:
        """Wake the next caller, if there is one."""
        try:
            caller, _ = self._waiting.popleft()
        except IndexError:
            return
        caller.release()

    def hurry(self) -> None:
        """Wake all, if one has waited too long; for the thread that adds them."""
        try:
            _, since = self._waiting[0]
        except IndexError:
            return
        if self._clock() - since > PATIENCE:
            self.open()

    def open(self) -> None:
        """Wake all."""
        while self._waiting:
            self.step()
