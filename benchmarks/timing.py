"""Times of several functions in one run, so that noise of the machine hits all alike."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["REPETITIONS", "Timings", "exponent", "geometric_mean", "interleaved"]

REPETITIONS = 5
LEAST_SECONDS = 0.02  # of a repetition: shorter ones measure the clock


@dataclass(frozen=True, kw_only=True, eq=False)
class Timings:
    """Seconds per call of each function, one number per repetition."""

    seconds: Mapping[str, NDArray[np.float64]]  # (repetition,)

    def median(self, name: str) -> float:
        """Return the median time of a call, in seconds."""
        return float(np.median(self.seconds[name]))

    def ratio(self, slow: str, fast: str) -> float:
        """Return the median, over repetitions, of the time of ``slow`` over that of ``fast``."""
        return float(np.median(self.seconds[slow] / self.seconds[fast]))


def interleaved(
    functions: Mapping[str, Callable[[], object]],
    *,
    repetitions: int = REPETITIONS,
    least_seconds: float = LEAST_SECONDS,
) -> Timings:
    """Time the functions in turn (a, b, c, a, b, c, ...), each called often enough per turn."""
    calls = {name: _calls(function, least_seconds) for name, function in functions.items()}
    seconds = {name: np.empty(repetitions) for name in functions}
    for repetition in range(repetitions):
        for name, function in functions.items():
            seconds[name][repetition] = _seconds_per_call(function, calls[name])
    return Timings(seconds=seconds)


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    return math.exp(float(np.mean(np.log(list(values)))))


def exponent(sizes: Iterable[float], times: Iterable[float]) -> tuple[float, float]:
    """Return b of ``time = a size^b`` by least squares in logarithms, and its standard error.

    >>> slope, error = exponent([1, 2, 4, 8], [3, 6, 12, 24])
    >>> round(slope, 9), round(error, 9)
    (1.0, 0.0)
    """
    x, y = np.log(list(sizes)), np.log(list(times))
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    residual = y - y.mean() - slope * x
    variance = float(residual @ residual) / (len(x) - 2)
    return slope, math.sqrt(variance / float(x @ x))


def _calls(function: Callable[[], object], least_seconds: float) -> int:
    """Return how many calls take ``least_seconds``; the first call warms up."""
    function()
    once = _seconds_per_call(function, 1)
    return max(1, math.ceil(least_seconds / once))


def _seconds_per_call(function: Callable[[], object], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - begin) / calls
