"""Rows of many tasks in bounded memory, for least squares.

A row is ``[phi, 1, y]``, (d + 2,). Where a task has many of them, a QR decomposition replaces
them by at most d + 2 rows with the same products, ``F'F``. They have the same count, sums and
least-squares fits under every prior, so nothing is lost. Where memory does not suffice for all
tasks, the rows of those that have fewest are dropped, and only their posteriors remain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cobandits import pages
from cobandits.policies.shared import config
from cobandits.policies.shared.discount import age_weights
from cobandits.policies.shared.equivalent_rows import compress
from cobandits.policies.shared.packing import packed, packed_codes, unpacked
from cobandits.policies.shared.reader import Part, Reader, refused
from cobandits.policies.shared.row_places import places

__all__ = ["DROPPED", "NEW", "RowStore"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

NEW, DROPPED = -1, -2  # slots of tasks without rows


@dataclass(frozen=True, kw_only=True, eq=False)
class RowStore:
    """The rows of all tasks; a store stays as it is, and every change returns another one.

    A store shares its memory with the one that it follows from, and only appends to it. So of
    stores that follow from each other only the last may be added to. A :meth:`snapshot` may be
    added to as well: it takes memory of its own then.

    >>> store = RowStore.empty(n_tasks=5, dim=1)
    >>> store = store.added(np.array([3, 3]), np.array([[2.0, 1.0, 7.0], [4.0, 1.0, 9.0]]))
    >>> store.tasks.tolist(), store.sizes.tolist()
    ([3], [2])
    """

    slots: Codes  # (T,), slot of each task, NEW or DROPPED if it has none
    tasks: Codes  # task of each slot
    sizes: Codes  # rows of each slot
    used: int  # rows of all slots
    row_buffer: Doubles  # (capacity, width), rows in the order in which they came
    owner_buffer: Codes  # (capacity,), slot of each row
    starts: Codes | None = None  # first row of each slot, where rows are sorted by slot
    discount: float = 1.0  # weight of a row over that of the task's next one

    @classmethod
    def empty(cls, *, n_tasks: int, dim: int) -> RowStore:
        """Return a store without rows."""
        none = np.zeros(0, np.int64)
        return cls(
            slots=np.full(n_tasks, NEW),
            tasks=none,
            sizes=none,
            used=0,
            row_buffer=np.zeros((0, dim + 2)),
            owner_buffer=none,
        )

    @property
    def width(self) -> int:
        """Numbers per row, d + 2."""
        return int(self.row_buffer.shape[1])

    @property
    def memory(self) -> float:
        """How many rows of a task weigh as much as any number of them with the discount."""
        return 1 / (1 - self.discount) if self.discount < 1 else np.inf

    @property
    def most(self) -> int:
        """The most rows of all tasks together."""
        return max(config.FEWEST_ROWS * self.width, config.ROW_BYTES // (8 * self.width))

    @property
    def nbytes(self) -> int:
        """Memory of the rows, in bytes."""
        return self.row_buffer.nbytes

    @property
    def flat(self) -> tuple[Codes, Doubles]:
        """The slots of all rows, (n,), and the rows, (n, width); the order per task is kept."""
        return self.owner_buffer[: self.used], self.row_buffer[: self.used]

    @property
    def dropped(self) -> Codes:
        """The tasks whose rows were dropped."""
        return np.flatnonzero(self.slots == DROPPED)

    def accepts(self, tasks: Codes) -> NDArray[np.bool_]:
        """Tell for each of the tasks, (m,), whether new rows of it would be stored."""
        slots = self.slots[tasks]
        room = self.used < 3 * self.most // 4
        return np.asarray((slots >= 0) | ((slots == NEW) & room))

    def may_drop(self, n_rows: int) -> bool:
        """Tell whether tasks were dropped, or may be where so many rows are added."""
        return len(self.dropped) > 0 or self.used + n_rows > 3 * self.most // 4

    def snapshot(self) -> RowStore:
        """Return the same rows, without a copy; adding to either does not change the other."""
        owners, rows = self.flat
        return replace(self, row_buffer=rows, owner_buffer=owners)

    def added(self, tasks: Codes, rows: Doubles) -> RowStore:
        """Return the store with rows, (m, width), of tasks, (m,), as far as it accepts them.

        A task that is not accepted is dropped: its later rows would not be all of its rows.
        """
        accepted = self.accepts(tasks)
        if accepted.all():
            return _appended(self._roomy(len(tasks)), tasks, rows)
        store = _appended(self._roomy(int(accepted.sum())), tasks[accepted], rows[accepted])
        return store.drop(tasks[~accepted])

    def _roomy(self, n_rows: int) -> RowStore:
        """Return the store with room for ``n_rows`` more; some tasks are dropped if need be."""
        store = self if self.used + n_rows <= self.most else self._within(self.most // 2)
        missing = store.used + n_rows - len(store.row_buffer)
        if missing <= 0:
            return store
        half_more = min(len(store.row_buffer) * 3 // 2, self.most) - store.used
        return store.with_room(max(n_rows, half_more))

    def _within(self, most: int) -> RowStore:
        """Return the store with at most ``most`` rows: those of the busiest tasks."""
        store = self.compressed(self.width)
        order = np.argsort(-store.sizes, kind="stable")
        staying = np.cumsum(store.sizes[order]) <= most
        return store.only(order[staying]).drop(store.tasks[order[~staying]])

    def only(self, slots: Codes) -> RowStore:
        """Return the store with the rows of some slots, (m,), alone; the order is kept."""
        (owners, rows), kept = self.flat, np.zeros(len(self.sizes), bool)
        kept[slots] = True
        staying, sizes = kept[owners], np.where(kept, self.sizes, 0)
        return self.holding(owners[staying], rows[staying], sizes=sizes)

    def drop(self, tasks: Codes) -> RowStore:
        """Return the store with some tasks, which must have no rows, marked as dropped."""
        slots = self.slots.copy()
        slots[tasks] = DROPPED
        return replace(self, slots=slots)

    def with_latest(self, slots: Codes, lengths: Codes) -> RowStore:
        """Return the store with only the last rows of some slots, as many as ``lengths``, (m,)."""
        if not len(slots):
            return self
        (owners, rows), sizes = self.flat, self.sizes.copy()
        staying = np.ones(len(owners), bool)
        for slot, length in zip(slots.tolist(), lengths.tolist(), strict=True):
            staying[np.flatnonzero(owners == slot)[:-length]] = False
        sizes[slots] = lengths
        held = self.holding(owners[staying], rows[staying], sizes=sizes)
        return held.with_room(len(self.row_buffer) - self.used)

    def with_tasks(self, n_tasks: int) -> RowStore:
        """Return the store for so many tasks in all, of which the last are new."""
        new = np.full(n_tasks - len(self.slots), NEW)
        return replace(self, slots=np.concatenate([self.slots, new]))

    def with_room(self, n_rows: int) -> RowStore:
        """Return the store with memory for ``n_rows`` more."""
        if len(self.row_buffer) >= (capacity := self.used + n_rows):
            return self
        owners, rows = np.empty(capacity, np.int64), pages.zeros((capacity, self.width))
        owners[: self.used], rows[: self.used] = self.flat
        return replace(self, row_buffer=rows, owner_buffer=owners)

    def compressed(self, longest: int, spared: Codes | None = None) -> RowStore:
        """Return the store with equivalent rows for tasks that have over ``longest``, sorted.

        These are as many as there are columns that are not 0 in all rows of the task. The slots
        ``spared``, (m,), keep theirs. Where there is nothing to compress, the order stays too.
        """
        full = self.sizes > max(longest, self.width)
        if spared is not None:
            full[spared] = False
        if not full.any():
            return self
        owners, F = self.flat
        rows = self._reserved(int(np.where(full, self.width, self.sizes).sum()))
        order = np.argsort(owners, kind="stable")
        sizes = compress(F, order, self.sizes, full, self.discount, out=rows)
        return self._sorted(rows, sizes)

    def rows(self, slots: Codes, length: int) -> Doubles:
        """Return the first rows of some slots, (m, length, width), weighted by age, or 0.

        Where all slots are asked for, a few at a time, use a store that is :meth:`sorted`.
        """
        if not self.sizes[slots].any():
            return np.zeros((len(slots), length, self.width))
        steps = np.arange(length)
        held = self.row_buffer[places(self.flat[0], self.sizes, self.starts, slots, steps)]
        held[steps >= self.sizes[slots, None]] = 0
        if self.discount < 1:
            held *= np.sqrt(age_weights(held, self.discount))[..., None]
        return np.asarray(held)

    def products(self) -> Doubles:
        """Return ``F'F`` of all rows, (width, width); it is computed once."""
        return self._products

    @cached_property
    def _products(self) -> Doubles:
        return np.asarray(self.flat[1].T @ self.flat[1])

    def reward_products(self) -> Doubles:
        """Return the part of the products that is of intercepts and rewards, (2, 2)."""
        F = self.flat[1][:, -2:]
        return np.asarray(F.T @ F)

    def sorted(self) -> RowStore:
        """Return the store with rows sorted by slot; the order per task is kept."""
        if self.starts is not None:
            return self
        (owners, F), rows = self.flat, self._reserved(self.used)
        order = np.argsort(owners, kind="stable")
        F.take(order, axis=0, out=rows[: self.used], mode="clip")
        return self._sorted(rows, self.sizes)

    def _reserved(self, n_rows: int) -> Doubles:
        """Return memory for so many rows, and those until the next refit; taken when written to."""
        capacity = min(int(n_rows * (1 + config.SETTLED_GROWTH)), self.most)
        return pages.zeros((max(n_rows, capacity), self.width))

    def _sorted(self, rows: Doubles, sizes: Codes) -> RowStore:
        """Return a store of the same tasks with rows that are sorted by slot, in a buffer."""
        owners, used = np.empty(len(rows), np.int64), int(sizes.sum())
        owners[:used] = np.repeat(np.arange(len(sizes)), sizes)
        held = self.holding(owners, rows, sizes=sizes)
        return replace(held, used=used, starts=np.cumsum(sizes) - sizes)

    def saved(self) -> Part:
        """Return what a checkpoint holds of it; rows keep their order, since sums round by it."""
        owners, rows = self.flat
        held = {"tasks": self.tasks, "sizes": self.sizes, "owners": packed_codes(owners)}
        return Part({}, {**held, **packed("rows", rows), "dropped": self.dropped})

    @classmethod
    def read(cls, reader: Reader, *, n_tasks: int, dim: int) -> RowStore:
        """Read what :meth:`saved` returned."""
        tasks = reader.codes("tasks", (None,), below=n_tasks)
        sizes = reader.codes("sizes", tasks.shape)
        if len(np.unique(tasks)) < len(tasks):
            raise refused("store.tasks that are not different")
        owners = reader.codes("owners", (int(sizes.sum()),), below=max(1, len(tasks)))
        if not np.array_equal(np.bincount(owners, minlength=len(tasks)), sizes):
            raise refused("store.owners of rows that are not as many as store.sizes says")
        rows = unpacked(reader, "rows", (len(owners), dim + 2))
        dropped = reader.codes("dropped", (None,), below=n_tasks)
        if sizes[np.isin(tasks, dropped)].any():
            raise refused("store.sizes above 0 of store.dropped")
        store = cls.empty(n_tasks=n_tasks, dim=dim).with_slots(tasks).drop(dropped)
        return store.holding(owners, rows, sizes=sizes)

    def with_slots(self, tasks: Codes) -> RowStore:
        """Return the store with a slot for each new task, in the order in which they come."""
        new = tasks[self.slots[tasks] == NEW]
        if not len(new):
            return self
        different, first = np.unique(new, return_index=True)
        new, slots = different[np.argsort(first)], self.slots.copy()
        slots[new] = len(self.tasks) + np.arange(len(new))
        return replace(
            self,
            slots=slots,
            tasks=np.concatenate([self.tasks, new]),
            sizes=np.concatenate([self.sizes, np.zeros(len(new), np.int64)]),
            starts=None,
        )

    def holding(self, owners: Codes, rows: Doubles, *, sizes: Codes) -> RowStore:
        """Return a store of the same tasks with these rows, (n, width), of slots, (n,), alone."""
        return replace(
            self, owner_buffer=owners, row_buffer=rows, used=len(owners), sizes=sizes, starts=None
        )


def _appended(store: RowStore, tasks: Codes, rows: Doubles) -> RowStore:
    """Return the store with rows appended, except of dropped tasks; there must be room."""
    used, store = store.used, store.with_slots(tasks)
    slots = store.slots[tasks]
    if slots.min(initial=0) < 0:  # dropped to make room
        slots, rows = slots[slots >= 0], rows[slots >= 0]
    following = used + len(slots)
    store.owner_buffer[used:following] = slots
    store.row_buffer[used:following] = rows
    sizes = store.sizes + np.bincount(slots, minlength=len(store.sizes))
    return replace(store, used=following, sizes=sizes, starts=None)
