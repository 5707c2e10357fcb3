"""Rewards that posteriors have learned, and that wait to be stored and tested for drift."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import change_config, config
from cobandits.policies.shared.reader import Part, Reader, refused

__all__ = ["Pending", "pending_limit"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]


class Pending(NamedTuple):
    """Rows of tasks, and the errors of predicting them before they were learned."""

    tasks: Codes  # (m,)
    rows: Doubles  # (m, d + 2), [phi, 1, y]
    squares: Doubles  # (m,), squared errors
    expected: Doubles  # (m,), the expected squared errors

    @classmethod
    def joined(cls, parts: Sequence[Pending]) -> Pending:
        """Return parts as one, in their order."""
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    @classmethod
    def none(cls, width: int) -> Pending:
        """Return an empty part."""
        return cls(np.zeros(0, np.int64), np.zeros((0, width)), np.zeros(0), np.zeros(0))

    @property
    def resolved_squares(self) -> Doubles:
        """Squared errors, (m,), 0 where they are no more than rounding."""
        rounding = change_config.ROUNDING * self.rows[:, -1] ** 2
        return np.where(self.squares > rounding, self.squares, 0.0)

    def part(self, rows: slice) -> Pending:
        """Return some of the rows."""
        return Pending(self.tasks[rows], self.rows[rows], self.squares[rows], self.expected[rows])

    def saved(self) -> Part:
        """Return what a checkpoint holds of it."""
        return Part({}, dict(self._asdict()))

    @classmethod
    def read(cls, reader: Reader, *, counts: Codes, width: int) -> Pending:
        """Read what :meth:`saved` returned; ``counts``, (T,), has the rewards per task."""
        tasks = reader.codes("tasks", (None,), below=len(counts))
        if (np.bincount(tasks, minlength=len(counts)) > counts).any():
            raise refused("pending.tasks with more rows than rewards")
        squares = reader.doubles("squares", tasks.shape)
        if squares.min(initial=0) < 0:
            raise refused(f"{squares.min()} in pending.squares, the least is 0")
        return cls(
            tasks=tasks,
            rows=reader.doubles("rows", (len(tasks), width)),
            squares=squares,
            expected=reader.doubles("expected", tasks.shape, above=0.0),
        )


def pending_limit(n_tasks: int) -> int:
    """Return how many rewards may wait.

    >>> pending_limit(3), pending_limit(20), pending_limit(500)
    (8, 20, 128)
    """
    many = config.PENDING_LIMIT
    return many if n_tasks >= many // 2 else max(config.PENDING_LEAST, n_tasks)
