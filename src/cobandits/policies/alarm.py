"""Notice when rewards are no longer what was learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Alarm"]

Doubles = NDArray[np.float64]

_RATIO = 4.0  # of squared errors to the usual ones, that is looked for
_LARGEST = 16.0  # that one reward can count
_THRESHOLD = 40.0  # a false alarm every e^40 rewards, were errors Gaussian
_MEMORY = 20  # rewards a task, that what is usual is the mean of
_LEAST_CALIBRATION = 1e-6
_LEAST_ROWS = 30  # before which nothing is usual


class Alarm:
    """A cumulative sum test (Page 1954) of whether errors have become larger than usual.

    An error counts only if it is large in two ways: against the errors of late, and against
    what the model expects of it, relative to how that was of late. So neither new tasks raise
    the alarm, whose errors are large but expected, nor a model that is too sure of itself.
    What is usual grows slowly, but for the first error that is not 0: where clicks are rare, all
    rewards before the first click are 0, and predicted to be.
    """

    def __init__(self, n_tasks: int) -> None:
        self._most = max(_LEAST_ROWS, _MEMORY * n_tasks)
        self.rows = 0  # that what is usual was learned from
        self.usual: Doubles = np.zeros(2)  # squared error, and the same over its expected square
        self.evidence = 0.0

    def after(self, squares: Doubles, expected: Doubles) -> Alarm:
        """Return the alarm after squared errors, (m,), that were expected to be so large."""
        now = np.stack([squares, squares / expected])  # (2, m)
        following = Alarm.__new__(Alarm)
        following._most, m = self._most, len(squares)
        following.evidence = self.evidence
        if self.rows >= _LEAST_ROWS:
            most = _LARGEST * np.maximum(self.usual, np.finfo(float).tiny)[:, None]
            ratios = _LARGEST * (np.minimum(now, most) / most).min(axis=0)
            gains = 0.5 * (ratios * (1 - 1 / _RATIO) - np.log(_RATIO))
            following.evidence = max(0.0, self.evidence + float(gains.sum()))
            now = np.where(self.usual[:, None] > 0, np.minimum(now, most), now)
        weight = m / (min(self.rows, self._most) + m)
        following.usual = self.usual + weight * (now.mean(axis=1) - self.usual)
        following.rows = self.rows + m
        return following

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
