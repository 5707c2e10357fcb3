"""The row store: bounded memory, no loss for least squares, and no change in place."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.row_store import DROPPED, NEW, RowStore
from cobandits.policies.shared.state import State
from cobandits.policies.shared.transitions import refit

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def drawn(rng: np.random.Generator, m: int, dim: int, n_tasks: int) -> tuple[Codes, Floats]:
    """Draw the tasks of some rows, and the rows ``[phi, 1, y]``."""
    F = rng.standard_normal((m, dim + 2))
    F[:, -2] = 1
    return rng.integers(0, n_tasks, m), F


def gram(store: RowStore, task: int) -> Floats:
    """Return ``F'F`` of the rows of a task."""
    slot = store.slots[task : task + 1]
    F = store.rows(slot, int(store.sizes[slot[0]]))[0]
    return np.asarray(F.T @ F)


@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.integers(1, 4),
    n_tasks=st.integers(1, 5),
    batches=st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1, max_size=8),
)
def test_products_are_those_of_all_rows_whatever_the_batches_and_compressions(
    seed: int, dim: int, n_tasks: int, batches: list[tuple[int, bool]]
) -> None:
    rng = np.random.default_rng(seed)
    sizes = [size for size, _ in batches]
    tasks, F = drawn(rng, sum(sizes), dim, n_tasks)
    store = RowStore.empty(n_tasks=n_tasks, dim=dim)
    splits = np.split(np.arange(len(F)), np.cumsum(sizes)[:-1])
    for some, (_, compress) in zip(splits, batches, strict=True):
        store = store.added(tasks[some], F[some])
        if compress:
            store = store.compressed(2 * store.width)
            assert (store.sizes <= 2 * store.width).all()
    np.testing.assert_allclose(store.products(), F.T @ F, atol=1e-12 * max(1, len(F)))
    for t in range(n_tasks):
        mine = F[tasks == t]
        if not len(mine):
            assert store.slots[t] == NEW
            continue
        np.testing.assert_allclose(gram(store, t), mine.T @ mine, atol=1e-12 * len(F))
        slots = store.slots[t : t + 1]
        ones = store.rows(slots, int(store.sizes[slots[0]]))[..., -2]
        assert (ones**2).sum() == pytest.approx(len(mine), rel=1e-12)


def test_features_of_very_different_sizes_keep_their_own_products() -> None:
    """Relative to the sizes of its two features: a large one does not wipe out a small one."""
    tasks, F = drawn(np.random.default_rng(0), 2000, 3, 1)
    F *= np.array([1e-6, 1.0, 1e6, 1.0, 1e-3])
    store = RowStore.empty(n_tasks=1, dim=3)
    for part in range(20):
        store = store.added(tasks[100 * part : 100 * part + 100], F[100 * part : 100 * part + 100])
        store = store.compressed(store.width)
    assert store.used == store.width
    sizes = np.sqrt(np.diag(F.T @ F))
    off = np.abs(store.products() - F.T @ F) / np.outer(sizes, sizes)
    assert off.max() < 1e-13


def test_only_tasks_with_many_rows_are_compressed() -> None:
    store, rng = RowStore.empty(n_tasks=3, dim=2), np.random.default_rng(0)
    tasks = np.repeat([0, 1, 2], [5, 9, 2])
    F = drawn(rng, 16, 2, 3)[1]
    store = store.added(tasks, F)
    store = store.compressed(8)
    assert store.sizes.tolist() == [5, 4, 2]
    np.testing.assert_array_equal(store.rows(np.array([0]), 5)[0], F[:5])
    store = store.compressed(1)  # fewer rows than features and two would not say the same
    assert store.sizes.tolist() == [4, 4, 2]
    np.testing.assert_allclose(store.products(), F.T @ F, atol=1e-12)


def test_slots_are_numbered_in_the_order_in_which_tasks_first_come() -> None:
    store = RowStore.empty(n_tasks=9, dim=1)
    store = store.added(np.array([7, 2, 7, 4]), np.ones((4, 3)))
    store = store.added(np.array([2, 8, 0]), np.ones((3, 3)))
    assert store.tasks.tolist() == [7, 2, 4, 8, 0]
    assert store.sizes.tolist() == [2, 2, 1, 1, 1]
    assert store.slots.tolist() == [4, NEW, 1, NEW, 2, NEW, NEW, 0, 3]


def test_rows_are_those_that_came_and_then_zeros() -> None:
    store, F = RowStore.empty(n_tasks=4, dim=1), np.arange(1.0, 16).reshape(5, 3)
    store = store.added(np.array([3, 1, 3, 3, 1]), F)
    rows = store.rows(np.array([1, 0]), 4)  # of the tasks 1 and 3
    expected = np.zeros((2, 4, 3))
    expected[0, :2], expected[1, :3] = F[[1, 4]], F[[0, 2, 3]]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(store.rows(np.array([0]), 2)[0], F[[0, 2]])
    owners, flat = store.flat
    for slot, mine in enumerate(([0, 2, 3], [1, 4])):
        np.testing.assert_array_equal(flat[owners == slot], F[mine])


@given(
    seed=st.integers(0, 2**32 - 1),
    n_tasks=st.integers(1, 40),
    asked=st.integers(0, 8),
    length=st.integers(0, 12),
)
def test_rows_are_the_same_from_a_store_that_is_sorted(
    seed: int, n_tasks: int, asked: int, length: int
) -> None:
    """Of few slots of many, in any order, one of them twice; nothing is moved for that."""
    rng = np.random.default_rng(seed)
    tasks, F = drawn(rng, 60, 2, n_tasks)
    store = RowStore.empty(n_tasks=n_tasks, dim=2)
    for start in range(0, 60, 15):
        store = store.added(tasks[start : start + 15], F[start : start + 15])
    slots = rng.integers(0, len(store.tasks), asked)
    before = store.flat[1].copy()
    found = store.rows(slots, length)
    np.testing.assert_array_equal(store.flat[1], before)
    store = store.sorted()
    np.testing.assert_array_equal(store.rows(slots, length), found)
    assert found.shape == (asked, length, 4)
    for rows, slot in zip(found, slots, strict=True):
        mine = F[tasks == store.tasks[slot]][:length]
        np.testing.assert_array_equal(rows[: len(mine)], mine)
        assert (rows[len(mine) :] == 0).all()


def test_few_slots_of_many_are_read_without_copying_the_others() -> None:
    """As little memory as their rows, and a byte or so for each of all rows."""
    n, d = 40_000, 30
    tasks, F = drawn(np.random.default_rng(0), n, d, 4000)
    store = RowStore.empty(n_tasks=4000, dim=d)
    store = store.added(tasks, F)
    slots = store.slots[[17, 3999, 0]]
    length = int(store.sizes[slots].max())
    tracemalloc.start()
    found = store.rows(slots, length)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < store.nbytes / 20
    for rows, t in zip(found, (17, 3999, 0), strict=True):
        np.testing.assert_array_equal(rows[: (tasks == t).sum()], F[tasks == t])


@pytest.mark.parametrize("when_sorted", ["never", "before", "after"])
def test_slots_without_rows_have_zeros(when_sorted: str) -> None:
    store, F = RowStore.empty(n_tasks=4, dim=1), np.arange(1.0, 10).reshape(3, 3)
    store = store.added(np.array([2, 1, 2]), F)
    if when_sorted == "before":
        store = store.sorted()
    store = store.with_slots(np.array([0]))  # it has a slot, and no rows yet
    if when_sorted == "after":
        store = store.sorted()
    found = store.rows(store.slots[[0, 1]], 2)
    np.testing.assert_array_equal(found, [np.zeros((2, 3)), [F[1], np.zeros(3)]])
    np.testing.assert_array_equal(store.rows(store.slots[[0]], 2), np.zeros((1, 2, 3)))


def test_no_rows_at_all_are_no_error() -> None:
    store = RowStore.empty(n_tasks=2, dim=1)
    store = store.added(np.zeros(0, np.int64), np.zeros((0, 3)))
    store = store.compressed(6)
    assert store.accepts(np.zeros(0, np.int64)).tolist() == []
    assert store.tasks.tolist() == []
    np.testing.assert_array_equal(store.products(), np.zeros((3, 3)))


def test_slots_for_tasks_without_rows_change_no_rows() -> None:
    store, F = RowStore.empty(n_tasks=4, dim=1), np.arange(1.0, 16).reshape(5, 3)
    store = store.added(np.array([3, 1, 3, 3, 1]), F)
    store = store.with_slots(np.array([1, 0, 2, 2]))
    np.testing.assert_array_equal(store.products(), F.T @ F)
    store = store.added(np.array([1, 0]), np.ones((2, 3)))
    np.testing.assert_array_equal(gram(store, 1), F[[1, 4]].T @ F[[1, 4]] + 1)
    np.testing.assert_array_equal(gram(store, 0), np.ones((3, 3)))


def test_rows_are_added_to_memory_that_was_taken_before() -> None:
    store, rng = RowStore.empty(n_tasks=4, dim=1), np.random.default_rng(0)
    tasks, F = drawn(rng, 30, 1, 4)
    store = store.added(tasks[:5], F[:5])
    store = store.with_room(25)
    size, where = store.nbytes, store.flat[1].ctypes.data
    assert size == 30 * 3 * 8
    np.testing.assert_array_equal(store.flat[1], F[:5])
    for i in range(5, 30):
        store = store.added(tasks[i : i + 1], F[i : i + 1])
    assert (store.nbytes, store.flat[1].ctypes.data) == (size, where)
    np.testing.assert_allclose(store.products(), F.T @ F, atol=1e-12)
    for t in range(4):
        np.testing.assert_allclose(gram(store, t), F[tasks == t].T @ F[tasks == t], atol=1e-12)
    before = store.nbytes
    store = store.with_room(0)
    assert store.nbytes == before


def test_rows_that_are_sorted_stay_so_where_memory_is_taken() -> None:
    store, F = RowStore.empty(n_tasks=4, dim=1), np.arange(1.0, 16).reshape(5, 3)
    store = store.added(np.array([3, 1, 3, 3, 1]), F)
    store = store.sorted()
    rows = store.rows(np.array([0, 1]), 3)
    store = store.with_room(100)
    np.testing.assert_array_equal(store.rows(np.array([0, 1]), 3), rows)
    np.testing.assert_array_equal(store.flat[1], F[[0, 2, 3, 1, 4]])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> RowStore:
    """Return a store of 20 tasks with memory for 24 rows in all."""
    monkeypatch.setattr(config, "ROW_BYTES", 1)
    store = RowStore.empty(n_tasks=20, dim=1)
    assert store.most == 24
    return store


def test_where_memory_is_scarce_new_tasks_are_not_accepted(small: RowStore) -> None:
    tasks = np.arange(18)
    assert small.accepts(tasks).all()
    small = small.added(tasks, np.ones((18, 3)))
    assert small.accepts(np.array([3, 19, 18, 4])).tolist() == [True, False, False, True]
    assert small.tasks.tolist() == tasks.tolist()  # asking changes nothing


def test_where_memory_is_full_the_rows_of_tasks_with_fewest_are_dropped(
    small: RowStore,
) -> None:
    """Three rows say all of tasks 5 and 7; with two of task 9 there are places for four more."""
    rng = np.random.default_rng(0)
    tasks = np.repeat([5, 1, 7, 2, 9, 3, 4, 6, 8], [5, 1, 6, 1, 2, 1, 1, 1, 1])
    F = drawn(rng, 19, 1, 1)[1]
    small = small.added(tasks, F)
    more, G = np.array([5, 5, 8, 5, 8, 5]), drawn(rng, 6, 1, 1)[1]
    small = small.added(more, G)  # 25 rows
    assert np.flatnonzero(small.slots >= 0).tolist() == [1, 2, 3, 4, 5, 7, 9]
    assert np.flatnonzero(small.slots == DROPPED).tolist() == [6, 8]
    assert small.accepts(np.array([6, 9, 8, 10])).tolist() == [False, True, False, True]
    for t in (5, 7, 9):
        mine = np.concatenate([F[tasks == t], G[more == t]])
        np.testing.assert_allclose(gram(small, t), mine.T @ mine, atol=1e-12)
    assert small.used == 12 + 4  # the new rows of task 8 are gone too


def test_a_refit_takes_no_more_memory_than_there_is(small: RowStore) -> None:
    """It takes memory for all rows until the next one, if there is any."""
    state, new = State.fresh(dim=1, kind="gaussian"), tuple(range(20))
    F = drawn(np.random.default_rng(0), 20, 1, 1)[1]
    store = refit(state.snapshot(np.repeat([4], 20), new, F)).state.store
    assert store.used == 3  # compressed
    assert store.nbytes == (3 + 3 * config.SETTLED_GROWTH) * 3 * 8
    store = refit(state.snapshot(np.arange(20), new, F)).state.store
    assert store.used == 20
    assert store.nbytes == small.most * 3 * 8


def test_memory_is_bounded_and_the_busiest_task_loses_nothing(small: RowStore) -> None:
    rng = np.random.default_rng(1)
    total: dict[int, Floats] = {t: np.zeros((3, 3)) for t in range(20)}
    for _ in range(200):
        tasks, F = drawn(rng, 6, 1, 20)
        tasks = np.where(rng.random(6) < 0.5, 0, tasks)
        for t, row in zip(tasks, F, strict=True):
            total[int(t)] += np.outer(row, row)
        small = small.added(tasks, F)
        assert small.nbytes <= 24 * 3 * 8
        for t in small.tasks[small.sizes > 0]:  # all rows of a task are stored, or none
            np.testing.assert_allclose(gram(small, t), total[int(t)], rtol=1e-10, atol=1e-10)
    assert small.slots[0] >= 0
    assert len(small.dropped) > 5


def test_a_task_that_is_not_accepted_is_dropped_for_good(small: RowStore) -> None:
    """Were its later rows stored, they would be taken for all that it has had."""
    small = small.added(np.repeat([0, 1], 9), np.ones((18, 3)))
    small = small.added(np.array([5, 0, 5]), np.ones((3, 3)))
    assert small.dropped.tolist() == [5]
    assert small.sizes.tolist() == [10, 9]
    small = small.compressed(small.width)  # memory is free again
    assert small.accepts(np.array([5, 6])).tolist() == [False, True]
    assert small.added(np.array([5]), np.ones((1, 3))).used == small.used


# ---- what follows from a store does not change it


def copied(store: RowStore) -> list[Floats | Codes]:
    """Return copies of all that a store holds."""
    return [each.copy() for each in (store.slots, store.tasks, store.sizes, *store.flat)]


CHANGES: dict[str, Callable[[RowStore], RowStore]] = {
    "added": lambda store: store.added(np.array([2, 4, 2]), np.full((3, 3), 7.0)),
    "added, without memory": lambda store: store.added(np.full(99, 2), np.full((99, 3), 7.0)),
    "compressed": lambda store: store.compressed(3),
    "sorted": RowStore.sorted,
    "sorted, and then added": lambda store: store.sorted().added(np.array([2]), np.ones((1, 3))),
    "drop": lambda store: store.drop(np.array([0])),
    "with_slots": lambda store: store.with_slots(np.array([0, 1])),
    "with_room": lambda store: store.with_room(50),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_is_unchanged_by_what_follows_from_it(change: str) -> None:
    tasks = np.array([4, 2, 4, 4, 3, 4, 2, 4])
    store = RowStore.empty(n_tasks=5, dim=1).with_room(20)
    store = store.added(tasks, drawn(np.random.default_rng(0), 8, 1, 1)[1])
    before = copied(store)
    following = CHANGES[change](store)
    assert following is not store
    for here, there in zip(copied(store), before, strict=True):
        np.testing.assert_array_equal(here, there)
    for field in dataclasses.fields(store):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(store, field.name, 0)


@given(
    seed=st.integers(0, 2**32 - 1),
    room=st.integers(0, 30),
    turns=st.lists(st.booleans(), min_size=1, max_size=12),
)
def test_a_store_and_its_snapshot_may_both_be_added_to(
    seed: int, room: int, turns: list[bool]
) -> None:
    """In any order, with or without memory at hand: neither sees what the other is given."""
    rng = np.random.default_rng(seed)
    tasks, F = drawn(rng, 6, 2, 4)
    store = RowStore.empty(n_tasks=4, dim=2).with_room(room).added(tasks, F)
    stores = [store, store.snapshot()]
    given_tasks, given_rows = [[tasks], [tasks]], [[F], [F]]
    for turn in turns:
        some, rows = drawn(rng, int(rng.integers(0, 5)), 2, 4)
        stores[turn] = stores[turn].added(some, rows)
        given_tasks[turn].append(some)
        given_rows[turn].append(rows)
    for each, some_tasks, some_rows in zip(stores, given_tasks, given_rows, strict=True):
        owners, rows = each.flat
        np.testing.assert_array_equal(each.tasks[owners], np.concatenate(some_tasks))
        np.testing.assert_array_equal(rows, np.concatenate(some_rows))
        np.testing.assert_array_equal(each.sizes, np.bincount(owners, minlength=len(each.tasks)))


def test_a_snapshot_shares_its_memory_with_the_store() -> None:
    tasks, F = drawn(np.random.default_rng(0), 20_000, 30, 50)
    store = RowStore.empty(n_tasks=50, dim=30).added(tasks, F).with_room(1000)
    tracemalloc.start()
    snapshot = store.snapshot()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000  # bytes, of 5 million
    for here, there in zip(snapshot.flat, store.flat, strict=True):
        assert np.shares_memory(here, there)
        np.testing.assert_array_equal(here, there)
    later = store.added(tasks[:9], F[:9])
    assert np.shares_memory(later.flat[1], store.flat[1])
    assert not np.shares_memory(snapshot.added(tasks[:9], F[:9]).flat[1], store.flat[1])


def test_the_latest_rows_keep_spare_memory() -> None:
    """So that adding the next rows copies nothing."""
    store = RowStore.empty(n_tasks=3, dim=1).added(np.array([0, 0, 1, 0]), np.ones((4, 3)))
    store = store.with_room(50)
    none = np.zeros(0, np.int64)
    assert store.with_latest(none, none) is store
    kept = store.with_latest(np.array([0]), np.array([1]))
    assert kept.sizes.tolist() == [1, 1]
    assert kept.added(np.full(50, 2), np.ones((50, 3))).row_buffer is kept.row_buffer
