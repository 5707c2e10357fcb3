"""Callers that were answered wake one after the other, not all at once.

Python runs one thread at a time. Were all callers of a group woken together, each would wake, find
that another one runs, and sleep once more: twice the work of waking. So the engine's thread wakes
one, and each that wakes wakes the next before it returns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import Lock

__all__ = ["PATIENCE", "Turnstile"]

# Seconds in which the next caller should have woken; a thread that computes gives way after as
# many. A caller that was interrupted wakes nobody, and behind a thread that computes each would
# wait for it in turn: then all are woken at once.
PATIENCE = 0.005


class Turnstile:
    """The locks of callers whose answers are there; the first is released, then one by one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: deque[Lock] = deque()
        self._moved = 0.0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, caller: Lock) -> None:
        """Take a caller who waits until its lock is released."""
        self._waiting.append(caller)

    def step(self) -> None:
        """Wake the next caller, if there is one."""
        try:
            caller = self._waiting.popleft()
        except IndexError:
            return
        self._moved = self._clock()
        caller.release()

    def hurry(self) -> None:
        """Wake all, if the last one has not woken the next in time."""
        if self._waiting and self._clock() - self._moved > PATIENCE:
            self.open()

    def open(self) -> None:
        """Wake all."""
        while self._waiting:
            self.step()
