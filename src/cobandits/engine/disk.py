"""How long transactions wait for the disk, and whether that leaves time for other work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Disk"]

# Work of another thread meanwhile costs two more switches between threads, and caches that are
# cold: about 0.4 ms of CPU time in a group of 64 requests.
_LONG = 0.0005  # seconds, from which on it is worth it
_EVERY = 16  # one transaction in so many is measured, alone: other work would be measured with it


class Disk:
    """Times some transactions of one thread: what passes while it does not compute is waiting."""

    def __init__(self) -> None:
        self._written = 0
        self._waited = 0.0  # seconds, in the last one that was measured

    @property
    def is_slow(self) -> bool:
        """Whether the next transaction leaves time for other work; never one that is measured."""
        return self._waited >= _LONG and not self._is_measured

    @property
    def _is_measured(self) -> bool:
        return self._written % _EVERY == 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Go around a transaction."""
        begin = time.perf_counter() - time.thread_time()
        yield
        if self._is_measured:
            self._waited = time.perf_counter() - time.thread_time() - begin
        self._written += 1
