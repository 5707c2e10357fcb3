"""Drift detection per task: notice when one task no longer follows what was learned of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels import turns
from cobandits.policies.shared import change_config
from cobandits.policies.shared.drift import log_ratios
from cobandits.policies.shared.reader import Part, Reader, refused

__all__ = ["TaskChange", "TaskDrift", "is_general"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_EVIDENCE, _SINCE, _SQUARES, _COUNT, _ERROR, _RATIO = range(6)  # columns of the table
_N_COLUMNS = 6
_TINY = float(np.finfo(float).tiny)


class TaskChange(NamedTuple):
    """A task that was found to have changed, and after how many rewards in all."""

    rewards: int
    task: object  # its number or label


class _Update(NamedTuple):
    """Rows of the table that errors have changed, and the moments with them."""

    places: Codes  # (m,), different ones
    rows: Doubles  # (m, columns)


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskDrift:
    """A one-sided CUSUM test per task of whether its squared errors exceed its own baseline.

    As in :class:`DriftDetector`, an error is evidence only if both its square and the ratio to the
    expected square are above their baselines, and it is capped. The baselines are running means of
    the task's own errors while there was no evidence, drawn to those of all tasks while there are
    few.

    Evidence is a log-likelihood ratio of Gaussian errors. Where errors have heavier tails, as those
    of clicks, it rises by chance, and is scaled down: increments with mean ``-m`` and variance
    ``s`` count ``min(1, m / s)`` times. The moments are those of increments of all tasks that had
    no evidence before, so a change adds one to them at most.

    What the last errors changed is kept beside the table, and written into it with the next ones.
    So a state that is not taken leaves the one before it as it was.
    """

    table: Doubles  # (room, columns): evidence, rewards since it was 0, their squared errors, ...
    moments: Doubles = field(default_factory=lambda: np.zeros(3))  # count, mean, mean square
    update: _Update | None = None

    @classmethod
    def none(cls, room: int) -> TaskDrift:
        """Return the test before any reward, with room for tasks."""
        return cls(table=np.zeros((room, _N_COLUMNS)))

    def grown(self, room: int) -> TaskDrift:
        """Return the test with room for more tasks."""
        more = np.zeros((room - len(self.table), _N_COLUMNS))
        return replace(self, table=np.concatenate([self.table, more]))

    def after(
        self, places: Codes, squares: Doubles, expected: Doubles, *, usual: Doubles
    ) -> TaskDrift:
        """Return the test after squared errors, (m,), and the expected ones, (m,).

        ``usual``, (2,), are the baselines of all tasks. Of very many rewards of a task at once,
        which the same theta predicts, only the first are evidence.
        """
        touched, index = np.unique(places, return_inverse=True)
        rows, moments = self.write().table[touched], self.moments
        turn = turns(places)
        for n in range(min(int(turn.max(initial=-1)) + 1, change_config.TASK_PATIENCE)):
            some = np.flatnonzero(turn == n)  # each task once
            part = index[some]
            rows[part], gains = _stepped(rows[part], squares[some], expected[some], usual)
            moments = _with_gains(moments, gains)
        late = turn >= change_config.TASK_PATIENCE
        if late.any():  # they say nothing new of a change, but are rewards since its onset
            hot, n = rows[:, _EVIDENCE] > 0, len(rows)
            rows[:, _SINCE] += hot * np.bincount(index[late], minlength=n)
            rows[:, _SQUARES] += hot * np.bincount(index[late], squares[late], minlength=n)
        return replace(self, moments=moments, update=_Update(touched, rows))

    def written(self) -> TaskDrift:
        """Return the same with a table of its own."""
        return replace(self, table=self.table.copy()).write()

    def write(self) -> TaskDrift:
        """Write what errors changed into the table: it says the same before and after."""
        if self.update is not None:
            self.table[self.update.places] = self.update.rows
        return replace(self, update=None)

    def reset(self, places: Codes) -> TaskDrift:
        """Return the test with nothing known of some tasks, of those that last had errors."""
        assert self.update is not None
        rows = self.update.rows.copy()
        rows[np.searchsorted(self.update.places, places)] = 0
        return replace(self, update=self.update._replace(rows=rows))

    def evidence(self, places: Codes) -> Doubles:
        """Return the evidence of a change of tasks, (m,), as a log-likelihood ratio."""
        return np.asarray(self._rows(places)[:, _EVIDENCE] * self.scale)

    def since(self, places: Codes) -> Codes:
        """Return how many rewards tasks, (m,), have had since their evidence was 0."""
        return self._rows(places)[:, _SINCE].astype(np.int64)

    def squares(self, places: Codes) -> Doubles:
        """Return the sums of their squared errors, (m,)."""
        return np.asarray(self._rows(places)[:, _SQUARES])

    @property
    def raised(self) -> Codes:
        """The tasks, of those that last had errors, for which there is enough evidence.

        It takes twice as much where most of them seem to have changed, so that the test of all
        tasks comes first.
        """
        if self.update is None:
            return np.zeros(0, np.int64)
        places = self.update.places
        evidence, enough = self.evidence(places), change_config.TASK_THRESHOLD
        return places[evidence > (2 if is_general(evidence) else 1) * enough]

    @property
    def scale(self) -> float:
        """By how much evidence is scaled for tails that are heavier than Gaussian ones."""
        count, mean, square = self.moments
        if count < change_config.GAIN_LEAST or mean >= 0:
            return 0.0
        return float(min(1.0, -mean / max(square - mean**2, _TINY)))

    def saved(self, n_tasks: int) -> Part:
        """Return what a checkpoint holds of the first tasks."""
        table = self.written().table[:n_tasks]
        return Part({}, {"table": table, "moments": self.moments})

    @classmethod
    def read(cls, reader: Reader, *, n_tasks: int) -> TaskDrift:
        """Read what :meth:`saved` returned."""
        table = reader.doubles("table", (n_tasks, _N_COLUMNS))
        if table.min(initial=0) < 0:
            raise refused(f"{table.min()} in task_drift.table, the least is 0")
        return cls(table=table, moments=reader.doubles("moments", (3,)))

    def _rows(self, places: Codes) -> Doubles:
        """Return rows of the table, as the update has them."""
        rows = self.table[places]
        if self.update is not None:
            at = np.searchsorted(self.update.places, places)
            at = np.minimum(at, len(self.update.places) - 1)
            new = self.update.places[at] == places
            rows[new] = self.update.rows[at[new]]
        return rows


def is_general(evidence: Doubles) -> bool:
    """Tell whether most tasks, (m,), seem to have changed, not only a few of them."""
    changed = np.count_nonzero(evidence > change_config.GENERAL_EVIDENCE)
    return bool(changed > change_config.GENERAL_SHARE * len(evidence))


def _stepped(
    rows: Doubles, squares: Doubles, expected: Doubles, usual: Doubles
) -> tuple[Doubles, Doubles]:
    """Return rows of the table after an error each, and the increments of tasks without evidence.

    Parameters
    ----------
    rows : (m, columns)
    squares, expected : (m,)
    usual : (2,)
        The baselines of all tasks: mean squared error, and mean ratio to the expected one.
    """
    pseudo, n = change_config.TASK_PSEUDO_REWARDS, rows[:, _COUNT]
    errors = np.column_stack([squares, squares / expected])  # (m, 2)
    own = rows[:, [_ERROR, _RATIO]]
    baseline = np.maximum((n[:, None] * own + pseudo * usual) / (n[:, None] + pseudo), _TINY)
    larger = np.minimum(errors, change_config.DRIFT_CAP * baseline) / baseline
    gains, ready = log_ratios(larger.min(axis=1)), n >= change_config.TASK_LEAST
    found = rows.copy()
    found[:, _EVIDENCE] = np.maximum(0, rows[:, _EVIDENCE] + gains) * ready
    found[:, _SINCE] += 1
    found[:, _SQUARES] += squares
    found[found[:, _EVIDENCE] == 0, _EVIDENCE : _SQUARES + 1] = 0
    calm = rows[:, _EVIDENCE] == 0  # before this error, so the mean has no bias
    count = np.minimum(n + 1, change_config.TASK_MEMORY)[:, None]
    found[calm, _COUNT] = count[calm, 0]
    found[np.ix_(calm, [_ERROR, _RATIO])] += ((larger * baseline - own) / count)[calm]
    return found, gains[ready & calm]


def _with_gains(moments: Doubles, gains: Doubles) -> Doubles:
    """Return running moments with more increments, (m,)."""
    if not len(gains):
        return moments
    count = min(moments[0], change_config.GAIN_MEMORY) + len(gains)
    now = np.array([gains.mean(), (gains**2).mean()])
    return np.concatenate([[count], moments[1:] + (now - moments[1:]) * len(gains) / count])
