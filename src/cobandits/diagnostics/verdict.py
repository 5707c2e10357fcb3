"""Whether sharing helps: a report of held-out errors, task by task."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError

__all__ = [
    "ALL",
    "IN_WORDS",
    "LEAST_ROWS",
    "MEAN",
    "MODELS",
    "NEGLIGIBLE",
    "Change",
    "Sharing",
    "by_task",
]

Floats = NDArray[np.floating]

MODELS = ("shared", "common", "pooled", "independent")
MEAN = "mean"  # the zero of R^2: each task's own mean, shrunken to the mean of all
ALL = (*MODELS, MEAN)
NEGLIGIBLE = 1e-9  # share of the squared rewards below which both fits are as good as exact
LEAST_ROWS = 8  # that a task needs to be named; standard errors of fewer mean little

_SHARING = ("pooled", "common", "shared")  # the simplest first
_ALONE = ("independent", MEAN)
IN_WORDS = {
    "pooled": "one pooled model",
    "common": "a common mean with own deviations",
    "shared": "the shared basis",
    "independent": "tasks alone",
    MEAN: "each task's own mean",
}
_LEVEL = 0.975  # of a one-sided test; intervals are of 95 %
_CLUSTERS = 10  # tasks; errors of fewer do not tell the spread between tasks
_SHOWN = 5  # tasks named in a report


def by_task(counts: NDArray[np.int64]) -> bool:
    """Return whether standard errors are taken over tasks (cluster-robust), or over rows.

    Where a few tasks have most of the rows, they are as few as ``(sum n)^2 / sum n^2``.
    """
    rows = counts.astype(np.float64)
    return bool(rows.sum() ** 2 >= _CLUSTERS * (rows @ rows))


class Change(NamedTuple):
    """How much lower one held-out squared error is than another, as a share, with 95 %."""

    low: float
    gain: float  # 1 - error / other error
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        side = "below" if self.gain > 0 else "above"
        if not np.isfinite([self.low, self.high]).all():
            return f"far {side}"
        ends = sorted((self.low, self.high) if self.gain > 0 else (-self.low, -self.high))
        return f"{_percent(self.gain)} ({' to '.join(_signed(end) for end in ends)}) {side}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Sharing:
    """Held-out errors of models that share between tasks, and of models that do not.

    ``shared`` is a shared basis, ``common`` a common mean with own deviations, ``pooled`` one
    theta for all; ``independent`` has each task's own theta and ``mean`` its own mean alone,
    both shrunken. Differences are paired: all models predict the same rows. Their intervals,
    of 95 %, are cluster-robust: taken over tasks, or over rows if there are fewer than 10
    tasks. Nothing is said to help or to hurt unless the interval excludes 0.

    Single tasks are named by intervals over their rows. These do not include the uncertainty
    of the fits; of twenty tasks without a difference, about one is named by chance. Tasks with
    fewer than 8 rows are never named.
    """

    labels: tuple[Hashable, ...]
    counts: NDArray[np.int64]  # (T,)
    squared_errors: dict[str, Floats]  # (T,) each, by model, and "mean"
    varies: NDArray[np.bool_]  # (T,), whether a task's rewards differ
    standard_errors: Floats  # (T,), of the differences; infinite for a task with one row
    pair_errors: Floats  # (5, 5), standard errors of the differences of two models' sums
    ranks: tuple[int, ...]  # of the shared fit, by fold

    def r_squared(self, name: str) -> float:
        """Return ``1 - held-out squared error / that of each task's mean`` over all tasks.

        The mean is that of the rows that were not held out, shrunken to the mean of all tasks
        as far as their spread says: a task without other rows is predicted by the mean of
        all. A fit without an intercept may be far below 0. NaN if the rewards of no task vary.
        """
        return self.change(name, MEAN).gain if self.varies.any() else float("nan")

    def change(self, name: str, other: str) -> Change:
        """Return how much lower the squared error of one model is than another's, as a share."""
        for one in (name, other):
            if one not in self.squared_errors:
                raise ConfigurationError(f"name must be one of {', '.join(ALL)}, got {one!r}")
        error, of_other = (float(self.squared_errors[one].sum()) for one in (name, other))
        half = self._quantile * float(self.pair_errors[ALL.index(name), ALL.index(other)])
        if of_other == 0:
            return Change(*(np.full(3, -np.inf if error > half else 0.0).tolist()))
        return Change(*(((of_other - error + end) / of_other) for end in (-half, 0.0, half)))

    @property
    def _quantile(self) -> float:
        n = len(self.labels) if by_task(self.counts) else int(self.counts.sum())
        return float(scipy.special.stdtrit(n - 1, _LEVEL))

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
    def best(self) -> str:
        """The model to use: the simplest that no other clearly beats.

        A model that shares must clearly beat those that do not. ``"mean"`` if nothing clearly
        beats each task's own mean.
        """
        if len(self.labels) == 1 or not any(self._beats(name, MEAN) for name in MODELS):
            return MEAN
        sharing, alone = self._least(_SHARING), self._least(_ALONE)
        if not self._beats(sharing, alone):
            return alone
        return next(name for name in _SHARING if not self._beats(sharing, name))

    @property
    def lowest(self) -> str:
        """The model with the least held-out error, be it by chance."""
        return self._least(ALL)

    @property
    def helps(self) -> bool:
        """Whether a model that shares clearly lowers the error of all tasks together."""
        return self.best in _SHARING

    @property
    def hurts(self) -> bool:
        """Whether no model that shares helps, and the shared basis clearly raises the error."""
        alone = self._least(_ALONE)
        return len(self.labels) > 1 and not self.helps and self._beats(alone, "shared")

    @property
    def gaining(self) -> tuple[Hashable, ...]:
        """Tasks whose error the shared basis clearly lowers, the largest :attr:`gain` first."""
        return self._named_by(self.gain, self.differences)

    @property
    def losing(self) -> tuple[Hashable, ...]:
        """Tasks whose error the shared basis clearly raises, the least :attr:`gain` first."""
        return self._named_by(-self.gain, -self.differences)

    @property
    def verdict(self) -> str:
        """One sentence: whether sharing helps or hurts, and by how much."""
        nothing = self._nothing_to_tell
        if nothing:
            return nothing
        alone = self._least(_ALONE)
        if self.helps:
            change = self.change(self._least(_SHARING), alone)
            return f"sharing helps: {_error(change, alone)}{self._choice}"
        if self.hurts:
            change = self.change("shared", alone)
            return f"sharing hurts: {_error(change, alone)}; {_instead(alone)}"
        return f"sharing neither helps nor hurts by more than chance; {_instead(alone)}"

    @property
    def _nothing_to_tell(self) -> str:
        """Why nothing can be said about sharing, or why it cannot help; empty otherwise."""
        if len(self.labels) == 1:
            return "there is one task: nothing to share"
        if self.counts.max() < 2:
            return "cannot be told: no task has two rows"
        if not self.varies.any():
            return "cannot be told: the rewards of no task vary"
        if self.best == MEAN:
            return "no model predicts better than each task's own mean by more than chance"
        return ""

    @property
    def _choice(self) -> str:
        """What to use in place of the shared basis, if something simpler does, or better."""
        best = self.best
        if best == "shared":
            return ""
        worse = self.change("shared", best)
        if self._beats(best, "shared"):
            return f"; use {IN_WORDS[best]}: the shared basis is {worse} it"
        return f"; {IN_WORDS[best]} does as well as the shared basis"

    def named(self, labels: Sequence[Hashable]) -> str:
        """Return how many tasks these are, and the first few with their change of error."""
        enough = int(np.count_nonzero(self.counts >= LEAST_ROWS))
        if enough == 0:
            return f"none named: no task has {LEAST_ROWS} rows"
        few = f" tasks with {LEAST_ROWS} rows or more" if enough < len(self.labels) else ""
        count = f"{len(labels)} of {enough}{few}"
        if not labels:
            return f"{count}, each judged alone"
        gains = dict(zip(self.labels, self.gain.tolist(), strict=True))
        change = "lower" if gains[labels[0]] > 0 else "higher"
        shown = ", ".join(f"{_percent(gains[label])} ({label})" for label in labels[:_SHOWN])
        more = ", ..." if len(labels) > _SHOWN else ""
        return f"{count}: squared error {change} by {shown}{more}"

    def _least(self, names: Sequence[str]) -> str:
        """Return the model with the least error."""
        return min(names, key=lambda name: float(self.squared_errors[name].sum()))

    def _beats(self, name: str, other: str) -> bool:
        return self.change(name, other).low > 0

    def _named_by(self, sizes: Floats, differences: Floats) -> tuple[Hashable, ...]:
        factors = scipy.special.stdtrit(np.maximum(self.counts - 1, 1), _LEVEL)
        bounds = factors * self.standard_errors
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


def _error(change: Change, other: str) -> str:
    of = f"that of {IN_WORDS[other]}" if other == "independent" else f"{IN_WORDS[other]}'s"
    return f"held-out squared error {change} {of}"


def _instead(alone: str) -> str:
    return "fit the tasks one by one" if alone == "independent" else "use each task's own mean"


def _percent(gain: float) -> str:
    """Return a share in percent, with two digits below 10 %."""
    size = 100 * abs(gain)
    return f"{size:.2g}%" if size < 9.95 else f"{size:.0f}%" if np.isfinite(size) else "far"


def _signed(share: float) -> str:
    return f"{'-' if share < 0 else ''}{_percent(share)}"
