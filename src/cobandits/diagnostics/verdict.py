"""Whether sharing helps: a report of held-out errors, task by task."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from cobandits.errors import ConfigurationError

__all__ = ["LEAST_ROWS", "MODELS", "NEGLIGIBLE", "Sharing"]

Floats = NDArray[np.floating]

MODELS = ("shared", "independent", "pooled")
NEGLIGIBLE = 1e-9  # share of the squared rewards below which both fits are as good as exact
LEAST_ROWS = 8  # that a task needs to be named; standard errors of fewer mean little

_LEVEL = 0.97725  # of a normal distribution below 2 standard errors
_SHOWN = 5  # tasks named in a report


@dataclass(frozen=True, kw_only=True, eq=False)
class Sharing:
    """Held-out errors of a shared fit, of independent fits, and of one pooled fit.

    A difference is clear if it is above 2 standard errors, or above the quantile of Student's
    t at the same level for a task with few rows. Standard errors are those of the paired
    differences: both fits predict the same rows. They do not include the uncertainty of the
    fits; of twenty tasks without a difference, about one is named by chance. Tasks with fewer
    than 8 rows are never named.
    """

    labels: tuple[Hashable, ...]
    counts: NDArray[np.int64]  # (T,)
    squared_errors: dict[str, Floats]  # (T,) each: "shared", "independent", "pooled"
    total: Floats  # (T,), squared deviations of the rewards from their task's mean
    standard_errors: Floats  # (T,), of the differences; infinite for a task with one row
    standard_error: float  # of their sum
    pooled_standard_error: float  # of the sum of pooled minus shared
    ranks: tuple[int, ...]  # of the shared fit, by fold

    def r_squared(self, name: str) -> float:
        """Return ``1 - held-out squared error / total`` over all tasks.

        0 is as good as predicting each task's mean over all of its rows; a fit without an
        intercept may be far below. NaN if the rewards of no task vary.
        """
        if name not in self.squared_errors:
            raise ConfigurationError(f"name must be one of {', '.join(MODELS)}, got {name!r}")
        total = float(self.total.sum())
        return 1 - float(self.squared_errors[name].sum()) / total if total > 0 else float("nan")

    @property
    def differences(self) -> Floats:
        """Squared error of the independent fits minus that of the shared one, (T,)."""
        return self.squared_errors["independent"] - self.squared_errors["shared"]

    @property
    def gain(self) -> Floats:
        """``1 - shared / independent`` of the squared errors by task, (T,).

        0 where both are 0, minus infinity where only that of the independent fit is.
        """
        shared, alone = self.squared_errors["shared"], self.squared_errors["independent"]
        none = np.where(shared > 0, -np.inf, 0.0)
        gain: Floats = 1 - np.divide(shared, alone, out=1 - none, where=alone > 0)
        return gain

    @property
    def helps(self) -> bool:
        """Whether sharing clearly lowers the error of all tasks together.

        Never if the shared fit predicts no better than each task's own mean.
        """
        return self._clear(float(self.differences.sum())) and self.r_squared("shared") > 0

    @property
    def hurts(self) -> bool:
        """Whether sharing clearly raises the error of all tasks together."""
        return self._clear(-float(self.differences.sum()))

    @property
    def gaining(self) -> tuple[Hashable, ...]:
        """Tasks whose error sharing clearly lowers, the largest :attr:`gain` first."""
        return self._named_by(self.gain, self.differences)

    @property
    def losing(self) -> tuple[Hashable, ...]:
        """Tasks whose error sharing clearly raises, the least :attr:`gain` first."""
        return self._named_by(-self.gain, -self.differences)

    @property
    def verdict(self) -> str:
        """One sentence: whether sharing helps or hurts, and by how much."""
        nothing = self._nothing_to_tell
        if nothing:
            return nothing
        if self.hurts:
            return f"sharing hurts: {self._change}; try another rank, or fit the tasks one by one"
        enough = "; one pooled model does as well" if self._pooled_does else ""
        if self.helps:
            return f"sharing helps: {self._change}{enough}"
        alternative = enough or "; the tasks may be fitted alone"
        return f"sharing neither helps nor hurts by more than chance{alternative}"

    @property
    def _nothing_to_tell(self) -> str:
        """Why nothing can be said about sharing, or why it cannot help; empty otherwise."""
        if len(self.labels) == 1:
            return "there is one task: nothing to share"
        if self.counts.max() < 2:
            return "cannot be told: no task has two rows"
        if not self.total.any():
            return "cannot be told: the rewards of no task vary"
        best = max(MODELS, key=self.r_squared)
        if self.r_squared(best) <= 0:
            return "no model predicts better than each task's own mean"
        if self.r_squared("shared") <= 0:
            better = "fit one pooled model" if best == "pooled" else "fit the tasks one by one"
            return f"the shared model predicts no better than each task's own mean; {better}"
        return ""

    @property
    def _change(self) -> str:
        shared, alone = (float(self.squared_errors[name].sum()) for name in MODELS[:2])
        size = _percent(1 - shared / alone if alone > 0 else -np.inf)
        side = "below" if shared < alone else "above"
        return f"held-out squared error {size} {side} that of tasks alone"

    @property
    def _pooled_does(self) -> bool:
        """Whether the error of the pooled fit is not clearly above that of the shared one."""
        shared, pooled = self.squared_errors["shared"], self.squared_errors["pooled"]
        return float((pooled - shared).sum()) <= self._bound(self.pooled_standard_error)

    def named(self, labels: Sequence[Hashable]) -> str:
        """Return how many tasks these are, and the first few with their change of error."""
        enough = int(np.count_nonzero(self.counts >= LEAST_ROWS))
        if enough == 0:
            return f"none named: no task has {LEAST_ROWS} rows"
        few = f" tasks with {LEAST_ROWS} rows or more" if enough < len(self.labels) else ""
        count = f"{len(labels)} of {enough}{few}"
        if not labels:
            return count
        gains = dict(zip(self.labels, self.gain.tolist(), strict=True))
        change = "lower" if gains[labels[0]] > 0 else "higher"
        shown = ", ".join(f"{_percent(gains[label])} ({label})" for label in labels[:_SHOWN])
        more = ", ..." if len(labels) > _SHOWN else ""
        return f"{count}: squared error {change} by {shown}{more}"

    def _bound(self, standard_error: float) -> float:
        return float(stdtrit(self.counts.sum() - 1, _LEVEL)) * standard_error

    def _clear(self, difference: float) -> bool:
        return len(self.labels) > 1 and difference > self._bound(self.standard_error)

    def _named_by(self, sizes: Floats, differences: Floats) -> tuple[Hashable, ...]:
        bounds = stdtrit(np.maximum(self.counts - 1, 1), _LEVEL) * self.standard_errors
        clear = (differences > bounds) & (self.counts >= LEAST_ROWS) & (len(self.labels) > 1)
        order = np.argsort(-sizes, kind="stable")
        return tuple(self.labels[t] for t in order.tolist() if clear[t])

    def __str__(self) -> str:
        scores = ", ".join(f"{name} {self.r_squared(name):.3f}" for name in MODELS)
        return "\n".join(
            [
                f"held-out R^2 (0: each task's own mean): {scores}",
                self.verdict,
                f"tasks that gain: {self.named(self.gaining)}",
                f"tasks that lose: {self.named(self.losing)}",
            ]
        )


def _percent(gain: float) -> str:
    return f"{abs(gain):.0%}" if np.isfinite(gain) else "far"
