"""Rows of many tasks, and their statistics: how they come in, and that they stay as they are."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cobandits.errors import DataError, UnknownTaskError
from cobandits.tasks import TaskData, TaskRows, TaskStatistics
from cobandits.tasks.checks import encoded
from cobandits.tasks.held import HeldTasks
from tests.support import Floats, drawn, flat, parts

kinds = pytest.mark.parametrize("kind", [TaskRows, TaskStatistics])
Codes = NDArray[np.int64]
Kind = type[TaskRows] | type[TaskStatistics]


def numbers(n: int, d: int, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng([n, d, seed])
    return rng.standard_normal((n, d)), rng.standard_normal(n)


def contents(tasks: TaskData) -> list[Floats | Codes]:
    """Return all that an estimator can see of the data."""
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((tasks.dim, min(2, tasks.dim))))[0]
    Theta = np.ones((tasks.dim, tasks.n_tasks))
    return [
        tasks.counts,
        tasks.squares,
        *tasks.least_squares(B)[:3],
        *tasks.residuals(Theta),
        tasks.moments(),
        tasks.squared_moment(),
        *tasks.averages(),
        tasks.gram(),
        tasks.ridge(0.1),
    ]


def check_same(a: TaskData, b: TaskData, tolerance: float = 1e-9) -> None:
    assert a.labels == b.labels
    for mine, other in zip(contents(a), contents(b), strict=True):
        np.testing.assert_allclose(mine, other, atol=tolerance, rtol=tolerance)


# ---- from arrays


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_every_row_goes_to_its_task_in_order(owners: list[int]) -> None:
    Phi, y = numbers(len(owners), 3)
    tasks = TaskRows.from_arrays(Phi, y, owners)
    assert tasks.labels == tuple(dict.fromkeys(owners))  # in order of first appearance
    assert tasks.n_rows == len(owners)
    for label, (rows, rewards) in zip(tasks.labels, parts(tasks), strict=True):
        mine = [i for i, owner in enumerate(owners) if owner == label]
        np.testing.assert_array_equal(rows, Phi[mine])
        np.testing.assert_array_equal(rewards, y[mine])
        assert tasks.counts[tasks.code(label)] == len(mine)


LABELS: dict[str, list[Hashable]] = {
    "strings": ["b", "a", "", "ä", "a b"],
    "integers": [3, -1, 0, 10**30, 7],
    "tuples": [("a", 1), ("a", 2), (), ("b", (1, 2)), ("a", 1, None)],
    "mixed kinds": [1, "1", (1,), None, 2.5],
    "numpy scalars": [np.int64(3), np.str_("x"), np.float64(2.5), np.bool_(False), np.int8(-4)],
    "frozen sets": [frozenset({1}), frozenset(), frozenset({1, 2}), frozenset({"a"}), 0],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@kinds
def test_labels_of_any_hashable_kind(kind: Kind, labels: list[Hashable]) -> None:
    data = kind(2)
    data.add(*numbers(10, 2), labels + labels[::-1])
    assert data.labels == tuple(labels)
    assert data.counts.tolist() == [2] * 5
    assert [data.code(label) for label in labels] == list(range(5))


@pytest.mark.parametrize(
    "tasks",
    [["x", "y", "x"], ("x", "y", "x"), np.array(["x", "y", "x"]), polars.Series(["x", "y", "x"])],
    ids=["list", "tuple", "numpy", "polars"],
)
def test_labels_in_any_container(tasks: list[str]) -> None:
    assert TaskRows.from_arrays(*numbers(3, 2), tasks).labels == ("x", "y")
    assert TaskRows.from_arrays(*numbers(3, 2), (label for label in tasks)).labels == ("x", "y")


def test_numpy_labels_are_found_as_plain_ones() -> None:
    tasks = TaskRows.from_arrays(*numbers(3, 2), np.array([7, 8, 7]))
    assert tasks.code(7) == tasks.code(np.int64(7)) == 0


@pytest.mark.parametrize("label", ["c", 0, None, (), [1], {}])
def test_unknown_label_has_no_code(label: Hashable) -> None:
    with pytest.raises(UnknownTaskError, match="no task"):
        TaskRows.from_arrays(*numbers(2, 2), ["a", "b"]).code(label)


@pytest.mark.parametrize("kind", [int, bool, np.uint8, np.float16, np.float64])
def test_numbers_of_any_real_type_become_floats(kind: type) -> None:
    tasks = TaskRows.from_arrays(np.ones((2, 3), kind), np.ones(2, kind), [0, 0])
    assert tasks.rows.dtype == tasks.rewards.dtype == np.float64


def test_float32_rows_stay_float32_until_wider_ones_join() -> None:
    Phi, y = numbers(4, 3)
    tasks = TaskRows.from_arrays(Phi.astype(np.float32), y, [0, 1, 0, 1])
    assert tasks.rows.dtype == tasks.rewards.dtype == np.float32
    tasks.add(Phi, y, [0, 1, 0, 1])
    assert tasks.rows.dtype == tasks.rewards.dtype == np.float64


def test_stacked_rows_and_their_labels() -> None:
    Phi, y = numbers(12, 3)
    tasks = TaskRows.from_stacked(Phi.reshape(4, 3, 3), y.reshape(4, 3), labels="abcd")
    assert tasks.labels == ("a", "b", "c", "d")
    np.testing.assert_array_equal(tasks.rows, Phi)
    np.testing.assert_array_equal(tasks.owners, np.repeat(np.arange(4), 3))
    for labels in ("abc", "abca"):
        with pytest.raises(DataError, match="expected 4 different labels"):
            TaskRows.from_stacked(Phi.reshape(4, 3, 3), y.reshape(4, 3), labels=labels)
    with pytest.raises(DataError, match=r"\(T, n, d\) and rewards \(T, n\)"):
        TaskRows.from_stacked(Phi, y)


def test_rows_are_copied_to_the_beginning_of_a_cache_line() -> None:
    Phi, y = numbers(6, 3)
    for owners in ([0, 0, 1, 1, 2, 2], [2, 0, 1, 0, 1, 2]):
        tasks = TaskRows.from_arrays(Phi, y, owners)
        assert not np.shares_memory(tasks.rows, Phi)
        assert tasks.rows.ctypes.data % 64 == 0
        tasks.add(Phi, y, owners)
        assert tasks.rows.ctypes.data % 64 == 0


# ---- growing


@kinds
@given(data=st.data())
def test_rows_in_chunks_equal_rows_at_once(kind: Kind, data: st.DataObject) -> None:
    owners = data.draw(st.lists(st.sampled_from("abcd"), min_size=2, max_size=40))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(owners) - 1), max_size=5)))
    Phi, y = numbers(len(owners), 3)
    grown, whole = kind(3), kind(3)
    whole.add(Phi, y, owners)
    for a, b in zip([0, *cuts], [*cuts, len(owners)], strict=True):
        grown.add(Phi[a:b], y[a:b], owners[a:b])
        if data.draw(st.booleans()):
            assert grown.n_rows == b  # reading in between changes nothing
    check_same(grown, whole)
    if isinstance(grown, TaskRows) and isinstance(whole, TaskRows):
        np.testing.assert_array_equal(grown.rows, whole.rows)


@kinds
def test_added_rows_are_copied(kind: Kind) -> None:
    Phi, y = numbers(6, 3)
    right, data = kind(3), kind(3)
    right.add(Phi.copy(), y.copy(), [0, 0, 1, 1, 2, 2])
    data.add(Phi, y, [0, 0, 1, 1, 2, 2])
    Phi[:], y[:] = np.nan, np.nan  # the caller uses its buffer again
    check_same(data, right)


def bad_additions() -> dict[str, tuple[object, object, object]]:
    Phi, y = numbers(2, 3)
    hole = Phi.copy()
    hole[1, 1] = np.nan
    return {
        "NaN feature": (hole, y, ["new", "a"]),
        "infinite reward": (Phi, np.array([1.0, np.inf]), ["new", "a"]),
        "wrong width": (Phi[:, :2], y, ["new", "a"]),
        "too few labels": (Phi, y, ["new"]),
        "too many rewards": (Phi, np.ones(3), ["new", "a"]),
        "unhashable label": (Phi, y, ["new", ["a"]]),
        "NaN label": (Phi, y, ["new", float("nan")]),
        "no rows": (Phi[:0], y[:0], []),
        "text": (Phi.astype(str), y, ["new", "a"]),
        "complex": (Phi, y * 1j, ["new", "a"]),
        "one dimension": (Phi[0], y[:1], ["new"]),
    }


@pytest.mark.parametrize("name", bad_additions())
@kinds
def test_refused_rows_leave_the_data_as_they_were(kind: Kind, name: str) -> None:
    data, before = kind(3), kind(3)
    for each in (data, before):
        each.add(*numbers(5, 3), ["a", "b", "a", "b", "a"])
    with pytest.raises(DataError):
        data.add(*bad_additions()[name])  # type: ignore[arg-type]
    check_same(data, before, tolerance=0)


@pytest.fixture
def joins(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of arrays that were put together, in a list that grows."""
    sizes: list[int] = []
    concatenate = np.concatenate

    def counted(arrays: Sequence[Floats]) -> Floats:
        joined: Floats = concatenate(arrays)
        sizes.append(len(joined))
        return joined

    monkeypatch.setattr(np, "concatenate", counted)
    return sizes


def test_adding_is_cheap(joins: list[int]) -> None:
    """Rows wait until they are read, so a thousand additions copy the data once."""
    data = TaskRows(3)
    Phi, y = numbers(1, 3)
    joins.clear()
    for i in range(1000):
        data.add(Phi + i, y, [i % 7])
    assert not joins
    assert len(data.rows) == max(joins) == data.n_rows == 1000
    assert data.counts.tolist() == [143] * 6 + [142]


class Looked(dict[Hashable, int]):
    """Known labels that can be looked up, and not walked over."""

    def __iter__(self) -> Iterator[Hashable]:
        raise AssertionError("all labels were walked over")

    def keys(self) -> Any:
        raise AssertionError("all labels were walked over")


def test_labels_become_numbers_without_a_walk_over_all_known_ones() -> None:
    codes, fresh = encoded(["b", "x", "b", "y", "x"], 5, Looked(a=0, b=1, c=2))
    assert codes.tolist() == [1, 3, 1, 4, 3]
    assert fresh == ["x", "y"]


def test_asking_for_the_number_of_rows_brings_nothing_together(joins: list[int]) -> None:
    """So a loop that adds and asks takes time in proportion to its rounds."""
    data = TaskRows(3)
    Phi, y = numbers(2, 3)
    joins.clear()
    for i in range(2000):
        data.add(Phi, y, [i % 7, f"new {i}"])
        assert data.n_rows == data.counts.sum() == 2 * (i + 1)
    counts, nbytes = data.counts, data.nbytes
    assert not joins
    assert len(data.rows) == max(joins) == 4000
    np.testing.assert_array_equal(data.counts, counts)
    np.testing.assert_array_equal(np.diff(data.offsets), counts)
    assert data.nbytes == nbytes


def test_statistics_refuse_rows_that_are_too_large_to_square() -> None:
    data, before = TaskStatistics(3), TaskStatistics(3)
    for each in (data, before):
        each.add(*numbers(5, 3), ["a", "b", "a", "b", "a"])
    Phi, y = numbers(2, 3)
    for features, rewards in ((1e200 * Phi, y), (Phi, 1e200 * y), (1e100 * Phi, 1e100 * y)):
        with pytest.raises(DataError, match="too large to square; scale the features"):
            data.add(features, rewards, ["new", "a"])
    check_same(data, before, tolerance=0)


@kinds
def test_no_memory_for_rows_leaves_the_data_as_they_were(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, before = kind(3), kind(3)
    for each in (data, before):
        each.add(*numbers(5, 3), ["a", "b", "a", "b", "a"])

    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(kind, "_take", fail)
    with pytest.raises(MemoryError):
        data.add(*numbers(2, 3), ["new", "a"])
    monkeypatch.undo()
    check_same(data, before, tolerance=0)
    data.add(*numbers(2, 3), ["new", "a"])
    assert data.counts.tolist() == [4, 2, 1]


# ---- folds and selections


@given(
    counts=st.lists(st.integers(1, 17), min_size=1, max_size=8),
    n_folds=st.integers(1, 9),
    seed=st.integers(0, 99),
)
def test_folds_deal_each_task_evenly(counts: list[int], n_folds: int, seed: int) -> None:
    owners = np.repeat(np.arange(len(counts)), counts)
    tasks = flat(*numbers(len(owners), 2), owners)
    folds = tasks.folds(n_folds, np.random.default_rng(seed))
    assert folds.shape == (len(owners),)
    for t, count in enumerate(counts):
        sizes = np.bincount(folds[owners == t], minlength=n_folds)
        assert len(sizes) == n_folds
        assert set(sizes.tolist()) <= {count // n_folds, -(-count // n_folds)}


def test_folds_are_random_and_reproducible() -> None:
    tasks = drawn(T=3, n=40).tasks
    a, b, c = (tasks.folds(5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


def test_split_parts_are_disjoint_and_hold_every_row() -> None:
    tasks = drawn(d=8, T=6, r=2, n=70).tasks
    pieces = tasks.split(7, np.random.default_rng(5))
    assert [piece.counts.tolist() for piece in pieces] == [[10] * 6] * 7
    together = np.concatenate([piece.rows for piece in pieces])
    np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(tasks.rows, axis=0))


@pytest.mark.parametrize("n_folds", [3, 50])
def test_cross_validation_holds_out_every_row_once(n_folds: int) -> None:
    tasks = drawn(d=4, T=5, n=6).tasks
    pairs = list(tasks.cross_validation(n_folds, np.random.default_rng(0)))
    assert len(pairs) == min(n_folds, tasks.n_rows)
    for training, held in pairs:
        assert training.labels == held.labels == tasks.labels
        together = np.concatenate([training.rows, held.rows])
        np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(tasks.rows, axis=0))
    held_out = np.concatenate([held.rows for _, held in pairs])
    assert len(held_out) == tasks.n_rows
    np.testing.assert_array_equal(np.unique(held_out, axis=0), np.unique(tasks.rows, axis=0))


def test_statistics_refuse_what_needs_rows() -> None:
    statistics, rng = drawn().tasks.statistics(), np.random.default_rng(0)
    with pytest.raises(DataError, match="cross-validation needs rows, not statistics; keep"):
        statistics.cross_validation(3, rng)
    with pytest.raises(DataError, match="cross-validation needs rows, not statistics; keep"):
        statistics.leave_one_out_errors(np.ones(2), np.ones(statistics.dim))
    with pytest.raises(DataError, match="splitting needs rows, not statistics; turn split off"):
        statistics.split(3, rng)


def test_rows_are_copied() -> None:
    Phi, y = numbers(4, 3)
    tasks, before = flat(Phi, y, [0, 0, 1, 1]), Phi.copy()
    Phi[:] = 7
    np.testing.assert_array_equal(tasks.rows, before)


def test_selection_keeps_all_tasks_and_the_order_of_rows() -> None:
    tasks = drawn(d=4, T=5, n=6).tasks
    mask = (tasks.owners != 3) & (np.arange(30) % 2 == 0)
    part = tasks.select(mask)
    assert part.labels == tasks.labels
    assert part.counts.tolist() == [3, 3, 3, 0, 3]
    np.testing.assert_array_equal(part.rows, tasks.rows[mask])
    np.testing.assert_array_equal(part.rewards, tasks.rewards[mask])
    assert part.feature_names == tasks.feature_names
    nothing = tasks.select(np.zeros(30, bool))
    assert nothing.n_rows == 0
    assert nothing.n_tasks == 5


def test_selection_and_its_complement_hold_every_row_once() -> None:
    tasks = drawn(d=4, T=5, n=6).tasks
    folds = tasks.folds(3, np.random.default_rng(0))
    pieces = [tasks.select(folds == k) for k in range(3)]
    assert sum(piece.n_rows for piece in pieces) == tasks.n_rows
    together = np.concatenate([piece.rows for piece in pieces])
    np.testing.assert_array_equal(np.unique(together, axis=0), np.unique(tasks.rows, axis=0))


# ---- statistics


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(sum),
    d=st.sampled_from([1, 2, 5, 17]),
)
def test_statistics_say_what_the_rows_say(counts: list[int], d: int) -> None:
    rows = TaskRows(d)
    owners = np.repeat(np.arange(len(counts)), counts)
    rows.add(*numbers(len(owners), d), owners)
    check_same(rows.statistics(), rows, tolerance=1e-7)


def test_covariance_is_around_the_means_of_the_tasks() -> None:
    tasks = drawn(d=5, T=4, n=200).tasks
    shifted = flat(tasks.rows + 10.0 * tasks.owners[:, None], tasks.rewards, tasks.owners)
    expected = sum((Phi - Phi.mean(0)).T @ (Phi - Phi.mean(0)) for Phi, _ in parts(tasks)) / 800
    for data in (shifted, tasks):
        statistics, averages = data.statistics(), data.averages()
        np.testing.assert_allclose(statistics.covariance(averages), expected, atol=1e-9)
        sampled = np.linalg.eigvalsh(data.covariance(averages))  # from a part of the rows
        assert 0.2 < sampled[0] < sampled[-1] < 3


def test_covariance_needs_no_centring_where_means_are_small() -> None:
    tasks = drawn(d=5, T=4, n=400).tasks
    averages = tasks.averages()
    quick = tasks.covariance(averages, centred=False)
    np.testing.assert_allclose(quick, tasks.covariance(averages), atol=0.02)
    np.testing.assert_allclose(np.diagonal(quick), np.diagonal(tasks.covariance(averages)))


def test_gram_of_single_precision_is_summed_in_double() -> None:
    rows = np.full((100_000, 2), 4097.0, np.float32)  # its square takes 25 bits, float32 has 24
    tasks = flat(rows, rows[:, 0], np.zeros(len(rows), np.int64))
    np.testing.assert_array_equal(tasks.gram(), np.full((2, 2), 4097.0**2 * 100_000))


def test_statistics_of_no_rows() -> None:
    tasks = drawn(d=4, T=5, n=6).tasks
    nothing = tasks.select(np.zeros(30, bool)).statistics()
    assert nothing.labels == tasks.labels
    assert nothing.counts.tolist() == [0] * 5


def test_truncated_moments_leave_out_large_rewards() -> None:
    tasks = drawn(d=18, T=4, n=9).tasks
    bound = float(np.median(tasks.rewards**2))
    moments, squared = tasks.moments(bound), tasks.squared_moment(bound)
    total = np.zeros((18, 18))
    for t, (Phi, y) in enumerate(parts(tasks)):
        kept = y**2 <= bound
        np.testing.assert_allclose(moments[:, t], Phi[kept].T @ y[kept], atol=1e-12)
        total += (Phi[kept].T * y[kept] ** 2) @ Phi[kept]
    np.testing.assert_allclose(squared, total, atol=1e-12)


@pytest.mark.parametrize(("n", "smaller"), [(3, TaskRows), (500, TaskStatistics)])
def test_compact_takes_the_smaller_form(n: int, smaller: type) -> None:
    tasks = drawn(d=10, T=4, n=n).tasks
    compact = tasks.compact()
    assert type(compact) is smaller
    assert compact.nbytes <= tasks.nbytes
    assert compact.compact() is compact
    check_same(compact, tasks, tolerance=1e-7)
    compact.add(*numbers(3, 10), [0, "new", 1])
    assert compact.n_rows == 4 * n + 3
    assert compact.labels == (0, 1, 2, 3, "new")


def test_memory_of_statistics_does_not_grow_with_rows() -> None:
    data = TaskStatistics(8)
    data.add(*numbers(20, 8), np.arange(20) % 4)
    before = data.nbytes
    for seed in range(50):
        data.add(*numbers(40, 8, seed), np.arange(40) % 4)
    assert data.nbytes == before
    assert data.n_rows == 2020


@kinds
def test_many_tasks_that_come_one_by_one(kind: Kind) -> None:
    data, whole = kind(2), kind(2)
    Phi, y = numbers(60, 2)
    for i in range(60):
        data.add(Phi[i : i + 1], y[i : i + 1], [f"task {i}"])
    whole.add(Phi, y, [f"task {i}" for i in range(60)])
    check_same(data, whole)


# ---- construction


def test_there_are_two_kinds_to_make() -> None:
    with pytest.raises(TypeError, match="make a TaskRows, or a TaskStatistics"):
        HeldTasks.from_arrays(*numbers(2, 2), ["a", "b"])
    with pytest.raises(TypeError, match="make a TaskRows, or a TaskStatistics"):
        HeldTasks.from_stacked(np.ones((2, 3, 4)), np.ones((2, 3)))


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_times_become_those_of_python(unit: str) -> None:
    times = np.array(["2024-01-01", "2024-01-02"], f"datetime64[{unit}]")
    tasks = TaskRows.from_arrays(*numbers(2, 2), times)
    kind = datetime.date if unit == "D" else datetime.datetime
    assert tasks.labels == (kind(2024, 1, 1), kind(2024, 1, 2))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["2024-01-01", "NaT"], "datetime64[ns]"),
        np.array(["a", pandas.NA], object),
        [pandas.NA, "a"],
        [pandas.NaT, "a"],
    ],
    ids=str,
)
def test_missing_labels_are_refused(labels: list[Hashable]) -> None:
    with pytest.raises(DataError, match="a task label is NaN; drop those rows"):
        TaskRows.from_arrays(*numbers(2, 2), labels)


def test_dimensions_and_names_are_checked() -> None:
    with pytest.raises(DataError, match="at least 1 feature, got 0"):
        TaskRows(0)
    with pytest.raises(DataError, match="1 feature names for 2 features"):
        TaskStatistics(2, ["a"])
    names = ("width", "height")
    tasks = TaskRows.from_arrays(*numbers(3, 2), [0, 0, 1], feature_names=names)
    assert tasks.feature_names == tasks.select(tasks.owners == 0).feature_names == names
    assert tasks.statistics().feature_names == names


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_statistics_of_some_rows_are_those_of_the_selected_ones(dtype: type) -> None:
    rows = drawn(d=4, T=5, r=1, n=9, noise=0.1).tasks
    tasks = TaskRows.from_arrays(rows.rows.astype(dtype), rows.rewards, rows.owners)
    mask = np.random.default_rng(0).random(tasks.n_rows) < 0.6
    mask[tasks.owners == 2] = False  # a task without rows stays
    some, expected = TaskStatistics.of_some(tasks, mask), tasks.select(mask).statistics()
    assert (some.labels, some.counts.tolist()) == (tasks.labels, expected.counts.tolist())
    assert some.counts[2] == 0
    assert set(some.sums) == set(expected.sums)
    for name, sums in expected.sums.items():
        np.testing.assert_allclose(some.sums[name], sums, rtol=1e-12)
    assert np.isnan(some.squared_moment()).all()  # not computed


def test_statistics_of_some_rows_refuse_what_cannot_be_squared() -> None:
    tasks = TaskRows.from_arrays([[1e200], [1.0]], [1.0, 1.0], "aa")
    with pytest.raises(DataError, match="too large to square"):
        TaskStatistics.of_some(tasks, np.array([True, False]))
    assert TaskStatistics.of_some(tasks, np.array([False, True])).n_rows == 1


def test_adopted_arrays_are_copied_only_to_be_sorted() -> None:
    Phi, y = numbers(4, 2)
    for labels, kept in (("aabb", True), ("abab", False)):
        tasks = TaskRows.adopting(Phi, y, labels, ["one", "two"])
        expected = TaskRows.from_arrays(Phi, y, labels, feature_names=["one", "two"])
        assert np.shares_memory(tasks.rows, Phi) == kept
        assert not np.shares_memory(expected.rows, Phi)
        assert (tasks.labels, tasks.feature_names) == (expected.labels, expected.feature_names)
        for name in ("rows", "rewards", "offsets", "counts"):
            np.testing.assert_array_equal(getattr(tasks, name), getattr(expected, name))
        tasks.add([[5.0, 6.0]], [7.0], "c")  # they grow like others
        assert tasks.counts.tolist() == [2, 2, 1]
    with pytest.raises(DataError, match="NaN or an infinite value"):
        TaskRows.adopting(np.full((1, 1), np.nan), np.ones(1), "a", ["one"])


def test_rewards_alone_have_one_feature_of_ones() -> None:
    tasks = drawn(d=4, T=5, r=1, n=9, noise=0.1).tasks
    means = [y.mean() for y in np.split(tasks.rewards, 5)]
    for data in (tasks, tasks.statistics()):
        alone = data.rewards_alone()
        assert (alone.dim, alone.labels) == (1, tasks.labels)
        np.testing.assert_allclose(alone.ridge(0.0)[0], means)
        np.testing.assert_allclose(alone.averages().rewards, means)
        np.testing.assert_allclose(alone.squared_moment()[0, 0], np.sum(tasks.rewards**2))


@pytest.mark.parametrize("step", [1, 2, 3, 9])
def test_every_kth_task_is_as_it_was(step: int) -> None:
    tasks = drawn(d=4, T=7, r=1, n=9, noise=0.1).tasks
    tasks = tasks.select(np.arange(tasks.n_rows) % 5 > 0)
    for data in (tasks, tasks.statistics()):
        some = data.every(step)
        assert some.labels == tasks.labels[::step]
        np.testing.assert_array_equal(some.counts, tasks.counts[::step])
        np.testing.assert_allclose(some.ridge(0.5), tasks.ridge(0.5)[:, ::step], rtol=1e-9)
