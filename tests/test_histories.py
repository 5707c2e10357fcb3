"""Rows in bounded memory: what least squares needs of them is never lost."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits import histories as module
from cobandits.histories import GIVEN_UP, NEW, Histories

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def drawn(rng: np.random.Generator, m: int, dim: int, n_tasks: int) -> tuple[Codes, Floats]:
    """Draw the tasks of some rows, and the rows ``[phi, 1, y]``."""
    F = rng.standard_normal((m, dim + 2))
    F[:, -2] = 1
    return rng.integers(0, n_tasks, m), F


def gram(histories: Histories, task: int) -> Floats:
    """Return ``F'F`` of what is held of a task."""
    slot = histories.slots[task : task + 1]
    F = histories.rows(slot, int(histories.sizes[slot[0]]))[0]
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
    held = Histories(n_tasks=n_tasks, dim=dim)
    splits = np.split(np.arange(len(F)), np.cumsum(sizes)[:-1])
    for some, (_, compress) in zip(splits, batches, strict=True):
        held.add(tasks[some], F[some])
        if compress:
            held.compress(2 * held.width)
            assert (held.sizes <= 2 * held.width).all()
    np.testing.assert_allclose(held.products(), F.T @ F, atol=1e-12 * max(1, len(F)))
    for t in range(n_tasks):
        mine = F[tasks == t]
        if not len(mine):
            assert held.slots[t] == NEW
            continue
        np.testing.assert_allclose(gram(held, t), mine.T @ mine, atol=1e-12 * len(F))
        assert held.count(held.slots[t : t + 1]) == pytest.approx(len(mine), rel=1e-12)


def test_features_of_very_different_sizes_keep_their_products_each() -> None:
    """Relative to the sizes of its two features: a large one does not wipe out a small one."""
    tasks, F = drawn(np.random.default_rng(0), 2000, 3, 1)
    F *= np.array([1e-6, 1.0, 1e6, 1.0, 1e-3])
    held = Histories(n_tasks=1, dim=3)
    for part in range(20):
        held.add(tasks[100 * part : 100 * part + 100], F[100 * part : 100 * part + 100])
        held.compress(held.width)
    assert held.used == held.width
    sizes = np.sqrt(np.diag(F.T @ F))
    off = np.abs(held.products() - F.T @ F) / np.outer(sizes, sizes)
    assert off.max() < 1e-13


def test_only_long_histories_are_compressed() -> None:
    held, rng = Histories(n_tasks=3, dim=2), np.random.default_rng(0)
    tasks = np.repeat([0, 1, 2], [5, 9, 2])
    F = drawn(rng, 16, 2, 3)[1]
    held.add(tasks, F)
    held.compress(8)
    assert held.sizes.tolist() == [5, 4, 2]
    np.testing.assert_array_equal(held.rows(np.array([0]), 5)[0], F[:5])
    held.compress(1)  # fewer rows than features and two would not say the same
    assert held.sizes.tolist() == [4, 4, 2]
    np.testing.assert_allclose(held.products(), F.T @ F, atol=1e-12)


def test_slots_are_given_in_the_order_in_which_tasks_come_first() -> None:
    held = Histories(n_tasks=9, dim=1)
    held.add(np.array([7, 2, 7, 4]), np.ones((4, 3)))
    held.add(np.array([2, 8, 0]), np.ones((3, 3)))
    assert held.tasks.tolist() == [7, 2, 4, 8, 0]
    assert held.sizes.tolist() == [2, 2, 1, 1, 1]
    assert held.slots.tolist() == [4, NEW, 1, NEW, 2, NEW, NEW, 0, 3]


def test_rows_are_those_that_came_and_then_zeros() -> None:
    held, F = Histories(n_tasks=4, dim=1), np.arange(1.0, 16).reshape(5, 3)
    held.add(np.array([3, 1, 3, 3, 1]), F)
    rows = held.rows(np.array([1, 0]), 4)  # of the tasks 1 and 3
    expected = np.zeros((2, 4, 3))
    expected[0, :2], expected[1, :3] = F[[1, 4]], F[[0, 2, 3]]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(held.rows(np.array([0]), 2)[0], F[[0, 2]])
    owners, flat = held.flat
    for slot, mine in enumerate(([0, 2, 3], [1, 4])):
        np.testing.assert_array_equal(flat[owners == slot], F[mine])


@given(
    seed=st.integers(0, 2**32 - 1),
    n_tasks=st.integers(1, 40),
    asked=st.integers(0, 8),
    length=st.integers(0, 12),
)
def test_rows_are_found_as_they_are_where_they_are_sorted(
    seed: int, n_tasks: int, asked: int, length: int
) -> None:
    """Of few slots of many, in any order, one of them twice; nothing is moved for that."""
    rng = np.random.default_rng(seed)
    tasks, F = drawn(rng, 60, 2, n_tasks)
    held = Histories(n_tasks=n_tasks, dim=2)
    for start in range(0, 60, 15):
        held.add(tasks[start : start + 15], F[start : start + 15])
    slots = rng.integers(0, len(held.tasks), asked)
    before = held.flat[1].copy()
    found = held.rows(slots, length)
    np.testing.assert_array_equal(held.flat[1], before)
    held.sort()
    np.testing.assert_array_equal(held.rows(slots, length), found)
    assert found.shape == (asked, length, 4)
    for rows, slot in zip(found, slots, strict=True):
        mine = F[tasks == held.tasks[slot]][:length]
        np.testing.assert_array_equal(rows[: len(mine)], mine)
        assert (rows[len(mine) :] == 0).all()


def test_few_slots_of_many_are_read_without_touching_the_others() -> None:
    """As little memory as their rows, and a byte or so for each of all rows."""
    n, d = 40_000, 30
    tasks, F = drawn(np.random.default_rng(0), n, d, 4000)
    held = Histories(n_tasks=4000, dim=d)
    held.add(tasks, F)
    slots = held.slots[[17, 3999, 0]]
    length = int(held.sizes[slots].max())
    tracemalloc.start()
    found = held.rows(slots, length)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < held.nbytes / 20
    for rows, t in zip(found, (17, 3999, 0), strict=True):
        np.testing.assert_array_equal(rows[: (tasks == t).sum()], F[tasks == t])


@pytest.mark.parametrize("is_sorted", [False, True])
def test_slots_without_rows_have_zeros(is_sorted: bool) -> None:
    held, F = Histories(n_tasks=4, dim=1), np.arange(1.0, 10).reshape(3, 3)
    held.add(np.array([2, 1, 2]), F)
    held.reserve(np.array([0]))  # it has a slot, and no rows yet
    if is_sorted:
        held.sort()
    found = held.rows(held.slots[[0, 1]], 2)
    np.testing.assert_array_equal(found, [np.zeros((2, 3)), [F[1], np.zeros(3)]])
    np.testing.assert_array_equal(held.rows(held.slots[[0]], 2), np.zeros((1, 2, 3)))


def test_no_rows_are_none() -> None:
    held = Histories(n_tasks=2, dim=1)
    held.add(np.zeros(0, np.int64), np.zeros((0, 3)))
    held.compress(6)
    assert held.kept(np.zeros(0, np.int64)).tolist() == []
    assert held.tasks.tolist() == []
    np.testing.assert_array_equal(held.products(), np.zeros((3, 3)))


def test_reserving_room_changes_no_rows() -> None:
    held, F = Histories(n_tasks=4, dim=1), np.arange(1.0, 16).reshape(5, 3)
    held.add(np.array([3, 1, 3, 3, 1]), F)
    held.reserve(np.array([1, 0, 2, 2]))
    np.testing.assert_array_equal(held.products(), F.T @ F)
    held.add(np.array([1, 0]), np.ones((2, 3)))
    np.testing.assert_array_equal(gram(held, 1), F[[1, 4]].T @ F[[1, 4]] + 1)
    np.testing.assert_array_equal(gram(held, 0), np.ones((3, 3)))


def test_room_that_was_made_is_not_made_again_and_changes_no_rows() -> None:
    held, rng = Histories(n_tasks=4, dim=1), np.random.default_rng(0)
    tasks, F = drawn(rng, 30, 1, 4)
    held.add(tasks[:5], F[:5])
    held.make_room(25)
    size, where = held.nbytes, held.flat[1].ctypes.data
    assert size == 30 * 3 * 8
    np.testing.assert_array_equal(held.flat[1], F[:5])
    for i in range(5, 30):
        held.add(tasks[i : i + 1], F[i : i + 1])
    assert (held.nbytes, held.flat[1].ctypes.data) == (size, where)
    np.testing.assert_allclose(held.products(), F.T @ F, atol=1e-12)
    for t in range(4):
        np.testing.assert_allclose(gram(held, t), F[tasks == t].T @ F[tasks == t], atol=1e-12)
    before = held.nbytes
    held.make_room(0)
    assert held.nbytes == before


def test_rows_that_are_sorted_stay_so_where_room_is_made() -> None:
    held, F = Histories(n_tasks=4, dim=1), np.arange(1.0, 16).reshape(5, 3)
    held.add(np.array([3, 1, 3, 3, 1]), F)
    held.sort()
    rows = held.rows(np.array([0, 1]), 3)
    held.make_room(100)
    np.testing.assert_array_equal(held.rows(np.array([0, 1]), 3), rows)
    np.testing.assert_array_equal(held.flat[1], F[[0, 2, 3, 1, 4]])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Histories:
    """Return histories of 20 tasks with room for 24 rows in all."""
    monkeypatch.setattr(module, "_MOST_BYTES", 1)
    held = Histories(n_tasks=20, dim=1)
    assert held.most == 24
    return held


def test_where_room_is_short_new_tasks_are_not_kept(short: Histories) -> None:
    tasks = np.arange(18)
    assert short.kept(tasks).all()
    short.add(tasks, np.ones((18, 3)))
    assert short.kept(np.array([3, 19, 18, 4])).tolist() == [True, False, False, True]
    assert short.tasks.tolist() == tasks.tolist()  # asking changes nothing


def test_where_there_is_no_room_the_rows_of_tasks_with_fewest_are_given_up(
    short: Histories,
) -> None:
    """Three rows say all of tasks 5 and 7; with two of task 9 there are places for four more."""
    rng = np.random.default_rng(0)
    tasks = np.repeat([5, 1, 7, 2, 9, 3, 4, 6, 8], [5, 1, 6, 1, 2, 1, 1, 1, 1])
    F = drawn(rng, 19, 1, 1)[1]
    short.add(tasks, F)
    more, G = np.array([5, 5, 8, 5, 8, 5]), drawn(rng, 6, 1, 1)[1]
    short.add(more, G)  # 25 rows
    assert np.flatnonzero(short.slots >= 0).tolist() == [1, 2, 3, 4, 5, 7, 9]
    assert np.flatnonzero(short.slots == GIVEN_UP).tolist() == [6, 8]
    assert short.kept(np.array([6, 9, 8, 10])).tolist() == [False, True, False, True]
    for t in (5, 7, 9):
        mine = np.concatenate([F[tasks == t], G[more == t]])
        np.testing.assert_allclose(gram(short, t), mine.T @ mine, atol=1e-12)
    assert short.used == 12 + 4  # the new rows of task 8 are gone too


def test_no_more_room_is_made_than_there_is(short: Histories) -> None:
    short.add(np.arange(5), np.ones((5, 3)))
    short.make_room(10**12)
    assert short.nbytes == 24 * 3 * 8
    assert short.used == 5
    assert short.kept(np.arange(20)).all()


def test_memory_is_bounded_and_the_busiest_tasks_are_kept_whole(short: Histories) -> None:
    rng = np.random.default_rng(1)
    total: dict[int, Floats] = {t: np.zeros((3, 3)) for t in range(20)}
    for _ in range(200):
        tasks, F = drawn(rng, 6, 1, 20)
        tasks = np.where(rng.random(6) < 0.5, 0, tasks)
        for t, row in zip(tasks, F, strict=True):
            total[int(t)] += np.outer(row, row)
        kept = short.kept(tasks)
        short.add(tasks[kept], F[kept])
        assert short.nbytes <= 24 * 3 * 8
    np.testing.assert_allclose(gram(short, 0), total[0], rtol=1e-10)
