"""How often a key may ask."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Bucket"]


class Bucket:
    """A token bucket: ``rate`` requests per second in the long run, one second's worth at once.

    >>> times = iter([0.0, 0.0, 0.0, 0.0, 0.5])
    >>> bucket = Bucket(2.0, clock=lambda: next(times))
    >>> [bucket.take(1) for _ in range(4)]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._most = max(1.0, rate)
        self._room, self._at = self._most, clock()

    def take(self, count: int) -> float:
        """Take ``count`` requests, or return the seconds after which to try again.

        A batch larger than what is left is let in, and the next ones wait for it.
        """
        now = self._clock()
        self._room = min(self._most, self._room + (now - self._at) * self._rate)
        self._at = now
        if self._room >= 1:
            self._room -= count
            return 0.0
        return (1.0 - self._room) / self._rate
