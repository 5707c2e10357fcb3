"""Arrays in few bytes: every bit comes back, and files that do not fit are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.archives import Arrays
from cobandits.errors import ModelFileError
from cobandits.policies import Shared
from cobandits.policies.shared.packing import packed, packed_codes, unpacked
from cobandits.policies.shared.reader import Reader
from tests.shared_states import assert_same, content, state_of, write

Doubles = NDArray[np.float64]
T, D = 80, 12


def read(arrays: Arrays, shape: tuple[int, ...]) -> Doubles:
    named = {f"store.{name}": values for name, values in arrays.items()}
    return unpacked(Reader("store", {"store": {}}, named), "rows", shape)


def triangles() -> Doubles:
    return np.triu(np.random.default_rng(0).standard_normal((60, 24, 24))).reshape(-1, 24)


def singles() -> Doubles:
    found = np.random.default_rng(1).standard_normal((900, 30), dtype=np.float32)
    return np.asarray(found, np.float64)


def fields() -> Doubles:
    rows = np.zeros((70_001, 9))
    rows[np.arange(len(rows)), np.arange(len(rows)) % 7] = 1
    rows[:, -1] = np.random.default_rng(2).standard_normal(len(rows))
    return rows


def extremes() -> Doubles:
    """Zeros and numbers that single precision holds or not: too large, too small, negative zero."""
    some = [0.0, 0.0, 0.0, -0.0, 1.0, -2.5, 1e300, -1e300, 1e-300, 5e-324, 1e-45, 0.1, 3.4028235e38]
    return np.resize(np.array(some), (10_000, 3))


@pytest.mark.parametrize(
    ("made", "share"), [(triangles, 0.55), (singles, 0.55), (fields, 0.2), (extremes, 0.75)]
)
def test_every_bit_comes_back_from_fewer_bytes(made: object, share: float) -> None:
    assert callable(made)
    values = made()
    arrays = packed("rows", values)
    assert sum(one.nbytes for one in arrays.values()) < share * values.nbytes
    assert read(arrays, values.shape).tobytes() == values.tobytes()


def test_numbers_without_a_pattern_and_few_numbers_are_written_as_they_are() -> None:
    values = np.random.default_rng(0).standard_normal((3000, 20))
    assert packed("rows", values)["rows"] is values
    assert list(packed("rows", np.zeros((20, 20)))) == ["rows"]


@pytest.mark.parametrize(("most", "size"), [(0, 1), (255, 1), (256, 2), (70_000, 4)])
def test_codes_have_as_few_bytes_as_hold_them(most: int, size: int) -> None:
    codes = np.linspace(0, most, 100_000).astype(np.int64)
    found = packed_codes(codes)
    assert found.itemsize == size
    again = Reader("store", {"store": {}}, {"store.owners": found}).codes("owners", (None,))
    assert again.dtype == np.int64
    np.testing.assert_array_equal(again, codes)


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("present", lambda a: a[1:], "holds store.rows.present of shape"),
        ("present", lambda a: a | 255, "more than 630009 bits"),
        ("single", lambda a: a[1:], "holds store.rows.single of shape"),
        ("short", lambda a: a[1:], "holds store.rows.short of shape"),
        ("short", lambda a: np.full_like(a, np.inf), "an infinite value in store.rows.short"),
        ("short", lambda a: a.astype(float), "store.rows.short of shape .* expected .* type f4"),
        ("long", lambda a: a[1:], "holds store.rows.long of shape"),
        ("long", lambda a: np.full_like(a, np.nan), "a NaN or an infinite value in store.rows.l"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(part: str, change: object, message: str) -> None:
    arrays, shape = packed("rows", fields()), fields().shape
    assert callable(change)
    arrays[f"rows.{part}"] = change(arrays[f"rows.{part}"])
    with pytest.raises(ModelFileError, match=message):
        read(arrays, shape)


def test_a_bit_beyond_the_last_number_is_refused() -> None:
    values = fields()[:20_001]  # 180,009 numbers: 7 bits of the last byte are none
    arrays = packed("rows", values)
    arrays["rows.present"][-1] |= 1
    with pytest.raises(ModelFileError, match="more than 180009 bits"):
        read(arrays, values.shape)


def played(policy: Shared, rounds: range) -> None:
    world = np.random.default_rng(0)
    thetas = world.standard_normal((T, 2)) @ world.standard_normal((2, D))
    for n in rounds:
        rng = np.random.default_rng([1, n])
        arms = rng.standard_normal((T, 3, D))
        made = policy.decide(np.arange(T), arms, rng)
        rewards = np.einsum("td,td->t", made.features(arms), thetas) + rng.standard_normal(T) / 9
        policy.learn(np.arange(T), arms, made, rewards)


def test_a_policy_with_packed_rows_goes_on_to_the_last_bit(tmp_path: Path) -> None:
    """Over refits; its file is far smaller than one without packing."""
    policy = Shared(dim=D, n_tasks=T)
    played(policy, range(60))
    policy.save(tmp_path / "file")
    found = content(tmp_path / "file")
    rows = sum(a.nbytes for name, a in found.arrays.items() if name.startswith("store.rows."))
    assert 0 < rows < 0.8 * state_of(policy).store.used * (D + 2) * 8
    again, before = Shared.load(tmp_path / "file"), policy.prior
    assert_same(policy, again)
    for one in (policy, again):
        played(one, range(60, 130))
    assert policy.prior is not before
    assert_same(policy, again)


@pytest.mark.parametrize("part", ["present", "long"])
def test_files_without_a_part_are_refused(tmp_path: Path, part: str) -> None:
    policy = Shared(dim=D, n_tasks=T)
    played(policy, range(60))
    policy.save(tmp_path / "file")
    header, arrays = content(tmp_path / "file")
    del arrays[f"store.rows.{part}"]
    header["arrays"] = list(arrays)
    write(tmp_path / "bad", header, arrays)
    with pytest.raises(ModelFileError, match=r"not a whole .*KeyError|holds store\.rows\.long of"):
        Shared.load(tmp_path / "bad")
