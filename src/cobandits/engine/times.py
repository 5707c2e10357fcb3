"""How long things took, as a histogram: Prometheus reads it, and so does a benchmark."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

__all__ = ["Histogram", "Times"]

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_EDGES = [*(f"{edge:g}" if edge < 1 else f"{float(edge)}" for edge in _SECONDS), "+Inf"]


class Histogram(NamedTuple):
    """What was counted until a moment."""

    within: list[tuple[str, float]]  # edges in seconds, each with the number of times up to it
    total: float  # seconds, of all


class Times:
    """Counts times, by the edges that they are within.

    >>> times = Times()
    >>> for seconds in (0.003, 0.004, 0.02):
    ...     times.add(seconds)
    >>> times.histogram.within[1:6]
    [('0.002', 0.0), ('0.005', 2.0), ('0.01', 2.0), ('0.025', 3.0), ('0.05', 3.0)]
    """

    __slots__ = ("_counts", "total")

    def __init__(self) -> None:
        self._counts = [0] * len(_EDGES)
        self.total = 0.0  # seconds

    def add(self, seconds: float) -> None:
        """Take one."""
        self._counts[bisect_left(_SECONDS, seconds)] += 1
        self.total += seconds

    @property
    def histogram(self) -> Histogram:
        """What was counted until now."""
        found, sum_so_far = [], 0
        for edge, count in zip(_EDGES, list(self._counts), strict=True):
            sum_so_far += count
            found.append((edge, float(sum_so_far)))
        return Histogram(found, self.total)
