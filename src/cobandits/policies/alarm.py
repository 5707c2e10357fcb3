"""Notice when rewards are no longer what was learned."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["Alarm"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_RATIO = 4.0  # of squared errors to the usual ones, that is looked for
_LARGEST = 16.0  # that one reward can count
_THRESHOLD = 40.0  # a false alarm every e^40 rewards, were errors Gaussian
_MEMORY = 20  # rewards a task, that what is usual is the mean of
_TASKS = 4  # that it takes to raise the alarm
_ALONE = 1.01  # times its share of the threshold, that a task can count
_TINY = float(np.finfo(float).tiny)
_LEAST_CALIBRATION = 1e-6
_LEAST_ROWS = 30  # before which nothing is usual


class Alarm:
    """A cumulative sum test (Page 1954) of whether errors have become larger than usual.

    An error counts only if it is large in two ways: against the errors of late, and against
    what the model expects of it, relative to how that was of late. So neither new tasks raise
    the alarm, whose errors are large but expected, nor a model that is too sure of itself.
    No task raises it alone, where there are others: it takes four, or all if there are fewer.
    What is usual grows slowly, but for the first error that is not 0: where clicks are rare, all
    rewards before the first click are 0, and predicted to be.
    """

    def __init__(self, n_tasks: int) -> None:
        self._most = max(_LEAST_ROWS, _MEMORY * n_tasks)
        self.rows = 0  # that what is usual was learned from
        self.usual: Doubles = np.zeros(2)  # squared error, and the same over its expected square
        self.evidence = 0.0
        self.gained: dict[int, float] = {}  # by task, since there was no evidence

    def after(self, tasks: Codes, squares: Doubles, expected: Doubles, *, n_active: int) -> Alarm:
        """Return the alarm after squared errors, (m,), that were expected to be so large.

        ``n_active`` is how many tasks have had rewards.
        """
        following = Alarm.__new__(Alarm)
        following._most, m = self._most, len(squares)
        following.evidence, following.gained = self.evidence, self.gained
        ratios = squares / expected
        if self.rows >= _LEAST_ROWS:
            usual, usual_ratio = self.usual.tolist()
            most, most_ratio = _LARGEST * max(usual, _TINY), _LARGEST * max(usual_ratio, _TINY)
            limited, limited_ratios = np.minimum(squares, most), np.minimum(ratios, most_ratio)
            larger = _LARGEST * np.minimum(limited / most, limited_ratios / most_ratio)
            gains = 0.5 * (larger * (1 - 1 / _RATIO) - math.log(_RATIO))
            following._weigh(tasks, gains, _ALONE * _THRESHOLD / min(_TASKS, max(1, n_active)))
            squares = limited if usual > 0 else squares
            ratios = limited_ratios if usual_ratio > 0 else ratios
        weight = m / (min(self.rows, self._most) + m)
        now = np.array([squares.sum(), ratios.sum()]) / m
        following.usual = self.usual + weight * (now - self.usual)
        following.rows = self.rows + m
        return following

    def _weigh(self, tasks: Codes, gains: Doubles, most: float) -> None:
        """Add gains to the evidence, for it at most so much of each task."""
        if self.evidence + float(gains.sum()) <= 0:  # whatever is counted of each task
            self.evidence, self.gained = 0.0, {}
            return
        self.evidence += float(np.minimum(gains, 0).sum())
        self.gained = dict(self.gained)
        up = np.flatnonzero(gains > 0)
        for task, gain in zip(tasks[up].tolist(), gains[up].tolist(), strict=True):
            before = self.gained.get(task, 0.0)
            self.gained[task] = min(most, before + gain)
            self.evidence += self.gained[task] - before
        if self.evidence <= 0:
            self.evidence, self.gained = 0.0, {}

    @property
    def calibration(self) -> float:
        """Squared errors over what was expected of them, where that is less than 1."""
        if self.rows < _LEAST_ROWS:
            return 1.0
        return float(np.clip(self.usual[1], _LEAST_CALIBRATION, 1))

    @property
    def raised(self) -> bool:
        """Whether errors are larger than usual."""
        return self.evidence > _THRESHOLD
