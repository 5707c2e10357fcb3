"""Rows of many tasks in bounded memory, for least squares.

A row is ``[phi, 1, y]``, (d + 2,). Where a task has many of them, a QR decomposition replaces
them by d + 2 rows with the same products, ``F'F``, and so with the same count, sums and
least-squares fits under every prior: nothing is lost. Where memory does not suffice for all tasks,
the rows of those that have fewest are given up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["GIVEN_UP", "NEW", "Histories"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_MOST_BYTES = 2**30
NEW, GIVEN_UP = -1, -2  # slots of tasks without rows


class Histories:
    """What tasks have seen.

    >>> histories = Histories(n_tasks=5, dim=1)
    >>> histories.add(np.array([3, 3]), np.array([[2.0, 1.0, 7.0], [4.0, 1.0, 9.0]]))
    >>> histories.tasks.tolist(), histories.sizes.tolist()
    ([3], [2])
    """

    def __init__(self, *, n_tasks: int, dim: int) -> None:
        self.width = dim + 2
        self.most = max(8 * self.width, _MOST_BYTES // (8 * self.width))  # rows of all tasks
        self.slots: Codes = np.full(n_tasks, NEW)  # of each task, negative if it has none
        self.tasks: Codes = np.zeros(0, np.int64)  # of each slot
        self.sizes: Codes = np.zeros(0, np.int64)  # rows of each slot
        self.used = 0
        self._rows: Doubles = np.zeros((0, self.width))  # in the order in which they came
        self._owners: Codes = np.zeros(0, np.int64)  # slots
        self._starts: Codes | None = None  # of each slot, in rows that are sorted by it

    @property
    def nbytes(self) -> int:
        """Memory of the rows."""
        return self._rows.nbytes

    @property
    def flat(self) -> tuple[Codes, Doubles]:
        """The slots of all rows, (n,), and the rows, (n, width); a task's are in order."""
        return self._owners[: self.used], self._rows[: self.used]

    def kept(self, tasks: Codes) -> NDArray[np.bool_]:
        """Tell whose rows are kept, (m,), were these tasks to add some now."""
        slots = self.slots[tasks]
        room = self.used < 3 * self.most // 4
        return np.asarray((slots >= 0) | ((slots == NEW) & room))

    def reserve(self, tasks: Codes) -> None:
        """Make room for a row of each of the tasks, which are kept: adding cannot fail then."""
        new = tasks[self.slots[tasks] == NEW]
        needed = self.used + len(tasks)
        if needed > self.most:
            self._give_up(self.most // 2)
            needed = self.used + len(tasks)
        if needed > len(self._rows):
            self._resize(min(max(needed, len(self._rows) * 3 // 2), max(needed, self.most)))
        if len(new):
            new = _in_order(new)
            self.slots[new] = len(self.tasks) + np.arange(len(new))
            self.tasks = np.concatenate([self.tasks, new])
            self.sizes = np.concatenate([self.sizes, np.zeros(len(new), np.int64)])

    def make_room(self, rows: int) -> None:
        """Take memory for so many rows more, if there is that much, so that adding is fast."""
        capacity = min(self.used + rows, self.most)
        if capacity > len(self._rows):
            self._resize(capacity)

    def add(self, tasks: Codes, rows: Doubles) -> None:
        """Add rows, (m, width), of tasks that are kept."""
        self.reserve(tasks)
        slots = self.slots[tasks]
        if slots.min(initial=0) < 0:  # some were given up to make room
            slots, rows = slots[slots >= 0], rows[slots >= 0]
        following = self.used + len(slots)
        self._owners[self.used : following] = slots
        self._rows[self.used : following] = rows
        np.add.at(self.sizes, slots, 1)
        self.used, self._starts = following, None

    def give_up(self, tasks: Codes) -> None:
        """Keep no rows of tasks that have none: later ones would not be all of them."""
        self.slots[tasks] = GIVEN_UP

    def compress(self, longest: int) -> None:
        """Replace the rows of slots with more than ``longest`` by as few as say the same."""
        full = np.flatnonzero(self.sizes > max(longest, self.width))
        if not len(full):
            return
        self.sort()
        owners, F = self.flat
        replaced = np.isin(owners, full)
        parts = [self.rows(np.array([slot]), int(self.sizes[slot]))[0] for slot in full]
        short = [np.asarray(np.linalg.qr(part, mode="r")) for part in parts]
        self.sizes[full] = self.width
        self.set(
            np.concatenate([owners[~replaced], np.repeat(full, self.width)]),
            np.concatenate([F[~replaced], *short]),
        )

    def rows(self, slots: Codes, length: int) -> Doubles:
        """Return the first rows of some slots, (m, length, width), 0 where there are none.

        Where all slots are asked for, a few at a time, :meth:`sort` before.
        """
        steps = np.arange(length)
        if self._starts is not None:
            places = np.minimum(self._starts[slots, None] + steps, self.used - 1)
        else:
            places = self._found(slots, steps)
        held = self._rows[places]
        held[steps >= self.sizes[slots, None]] = 0
        return np.asarray(held)

    def products(self) -> Doubles:
        """Return ``F'F`` of all rows, (width, width)."""
        F = self._rows[: self.used]
        return np.asarray(F.T @ F)

    def count(self, slots: Codes) -> float:
        """Return how many rows some slots have been given."""
        owners, F = self.flat
        counts = np.bincount(owners, weights=F[:, -2] ** 2, minlength=len(self.sizes))
        return float(counts[slots].sum())

    def _found(self, slots: Codes, steps: Codes) -> Codes:
        """Return where rows of some slots are, (m, steps); anywhere, where there are none."""
        owners = self._owners[: self.used]
        wanted = np.zeros(len(self.sizes), bool)
        wanted[slots] = True
        places = np.flatnonzero(wanted[owners])
        places = places[np.argsort(owners[places], kind="stable")]
        if not len(places):
            return np.zeros((len(slots), len(steps)), np.int64)
        starts = np.searchsorted(owners[places], slots)
        return np.asarray(places[np.minimum(starts[:, None] + steps, len(places) - 1)])

    def sort(self) -> None:
        """Sort rows by slot, so that those of each are together."""
        if self._starts is None:
            order = np.argsort(self._owners[: self.used], kind="stable")
            self.set(self._owners[order], self._rows[order])
            self._starts = np.cumsum(self.sizes) - self.sizes

    def _give_up(self, most: int) -> None:
        """Give up the rows of the tasks that have fewest, until there are at most so many."""
        self.compress(self.width)
        order = np.argsort(-self.sizes, kind="stable")
        dropped = order[np.cumsum(self.sizes[order]) > most]
        self.slots[self.tasks[dropped]] = GIVEN_UP
        staying = ~np.isin(self._owners[: self.used], dropped)
        self.sizes[dropped] = 0
        self.set(self._owners[: self.used][staying], self._rows[: self.used][staying])

    def _resize(self, capacity: int) -> None:
        owners, rows = np.empty(capacity, np.int64), np.empty((capacity, self.width))
        owners[: self.used], rows[: self.used] = self.flat
        owners[self.used :], rows[self.used :] = 0, 0  # memory is slow when first written to
        self._owners, self._rows = owners, rows

    def set(self, owners: Codes, rows: Doubles) -> None:
        """Hold these rows, (n, width), of these slots, and no others."""
        self._owners, self._rows, self.used, self._starts = owners, rows, len(owners), None


def _in_order(tasks: Codes) -> Codes:
    """Return the different tasks, in the order in which they come."""
    different, first = np.unique(tasks, return_index=True)
    return different[np.argsort(first)]
