"""How long things took, as a histogram: Prometheus reads it, and so does a benchmark."""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["Times"]

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_EDGES = [*(f"{edge:g}" if edge < 1 else f"{float(edge)}" for edge in _SECONDS), "+Inf"]


class Times:
    """How many times are within each edge, and the sum of all.

    >>> times = Times()
    >>> for seconds in (0.003, 0.004, 0.02):
    ...     times.add(seconds)
    >>> times.within[:6]
    [('0.001', 0.0), ('0.002', 0.0), ('0.005', 2.0), ('0.01', 2.0), ('0.025', 3.0), ('0.05', 3.0)]
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
    def within(self) -> list[tuple[str, float]]:
        """The edges, in seconds, each with the number of times up to it."""
        found, sum_so_far = [], 0
        for edge, count in zip(_EDGES, list(self._counts), strict=True):
            sum_so_far += count
            found.append((edge, float(sum_so_far)))
        return found
