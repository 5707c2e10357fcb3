"""The reader of checkpoints: what does not fit is refused, by the name of the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cobandits.errors import ModelFileError
from cobandits.policies.shared.reader import ADVICE, Reader, refused

Array = NDArray[Any]


def reader(**values: object) -> Reader:
    """Return a reader of a part called "store", with arrays and numbers by name."""
    arrays = {
        f"store.{name}": value for name, value in values.items() if isinstance(value, np.ndarray)
    }
    numbers = {name: value for name, value in values.items() if not isinstance(value, np.ndarray)}
    return Reader("store", {"store": numbers}, arrays)


def test_arrays_are_returned_as_they_are_in_this_machines_byte_order() -> None:
    rows, owners = np.arange(6.0).reshape(2, 3), np.arange(4)
    for order in "<>":
        held = reader(rows=rows.astype(f"{order}f8"), owners=owners.astype(f"{order}i8"))
        found, codes = held.doubles("rows", (None, 3)), held.codes("owners", (4,), below=4)
        np.testing.assert_array_equal(found, rows)
        np.testing.assert_array_equal(codes, owners)
        assert (found.dtype, codes.dtype) == (np.dtype(np.float64), np.dtype(np.int64))
        assert found.dtype.isnative
        assert codes.dtype.isnative


def test_arrays_are_contiguous_however_they_were_stored() -> None:
    rows = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    found = reader(rows=rows).doubles("rows", (2, 3))
    np.testing.assert_array_equal(found, rows)
    assert found.flags.c_contiguous


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value: float) -> None:
    rows = np.ones((2, 3))
    rows[1, 2] = value
    with pytest.raises(ModelFileError, match=r"a NaN or an infinite value in store\.rows; it is"):
        reader(rows=rows).doubles("rows", (2, 3))


@pytest.mark.parametrize(
    ("values", "shape", "message"),
    [
        (np.ones((2, 3)), (2, 4), r"\(2, 3\) and type float64, expected \(2, 4\) of type f8"),
        (np.ones((2, 3)), (None, 2), r"\(2, 3\) and type float64, expected \(any, 2\) of type f8"),
        (np.ones((2, 3)), (None,), r"\(2, 3\) and type float64, expected \(any,\) of type f8"),
        (np.ones(2), (2, 1), r"\(2,\) and type float64, expected \(2, 1\) of type f8"),
        (np.ones(()), (None,), r"\(\) and type float64, expected \(any,\) of type f8"),
    ],
)
def test_wrong_shapes_are_refused(
    values: Array, shape: tuple[int | None, ...], message: str
) -> None:
    with pytest.raises(ModelFileError, match=rf"store\.rows of shape {message}"):
        reader(rows=values).doubles("rows", shape)


@pytest.mark.parametrize("kind", ["f4", "i8", "u8", "c16", "bool", "U8", "O"])
def test_arrays_of_other_kinds_than_doubles_are_refused(kind: str) -> None:
    with pytest.raises(ModelFileError, match=r"store\.rows of shape \(2,\) .*expected .* f8"):
        reader(rows=np.ones(2).astype(kind)).doubles("rows", (2,))


@pytest.mark.parametrize("kind", ["i4", "f8", "u8", "bool", "U8", "O"])
def test_arrays_of_other_kinds_than_whole_numbers_are_refused(kind: str) -> None:
    with pytest.raises(ModelFileError, match=r"store\.tasks of shape \(2,\) .*expected .* i8"):
        reader(tasks=np.ones(2).astype(kind)).codes("tasks", (2,))


def test_bounds_of_whole_numbers() -> None:
    tasks = np.array([0, -1, 5])
    assert reader(tasks=tasks).codes("tasks", (3,), least=-1, below=6).tolist() == [0, -1, 5]
    with pytest.raises(ModelFileError, match=r"-1 in store\.tasks, the least is 0"):
        reader(tasks=tasks).codes("tasks", (3,))
    with pytest.raises(ModelFileError, match=r"5 in store\.tasks, which are below 5"):
        reader(tasks=tasks).codes("tasks", (3,), least=-1, below=5)


def test_bounds_of_doubles() -> None:
    noises = np.array([2.0, 0.5])
    assert reader(noises=noises).doubles("noises", (2,), above=0.4).tolist() == [2, 0.5]
    with pytest.raises(ModelFileError, match=r"0\.5 in store\.noises, which are above 0\.5"):
        reader(noises=noises).doubles("noises", (2,), above=0.5)


def test_empty_arrays_are_within_all_bounds() -> None:
    held = reader(noises=np.zeros(0), tasks=np.zeros(0, np.int64))
    assert held.doubles("noises", (None,), above=1.0).shape == (0,)
    assert held.codes("tasks", (None,), least=3, below=4).shape == (0,)


def test_numbers_pairs_counts_and_plain_values() -> None:
    held = reader(noise=0.5, rows=3, range=[-1, 2.5], status={"outcome": "converged"}, none=None)
    assert (held.number("noise"), held.variance("noise"), held.count("rows")) == (0.5, 0.5, 3)
    assert held.pair("range") == (-1.0, 2.5)
    assert held.plain("status") == {"outcome": "converged"}
    assert held.plain("none") is None


REFUSED: dict[str, tuple[object, Callable[[Reader], object], str]] = {
    "number": (np.inf, lambda held: held.number("x"), r"inf as store\.x"),
    "number, NaN": (np.nan, lambda held: held.number("x"), r"nan as store\.x"),
    "variance": (-0.5, lambda held: held.variance("x"), r"-0\.5 as store\.x, the least is 0"),
    "variance, NaN": (np.nan, lambda held: held.variance("x"), r"nan as store\.x"),
    "count": (-1, lambda held: held.count("x"), r"-1 as store\.x, the least is 0"),
    "pair": ([0.0, -np.inf], lambda held: held.pair("x"), r"-inf as store\.x"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_numbers_that_do_not_fit_are_refused(what: str) -> None:
    value, read, message = REFUSED[what]
    with pytest.raises(ModelFileError, match=message):
        read(reader(x=value))


def test_a_refusal_says_what_to_do() -> None:
    assert str(refused("nonsense")) == f"holds nonsense; it is damaged: {ADVICE}"
    assert "relearn" in ADVICE


def test_a_part_reads_its_own_arrays_only() -> None:
    arrays = {"store.rows": np.ones(2), "pending.rows": np.zeros(2)}
    header = {"store": {"n": 1}, "pending": {"n": 2}}
    assert Reader("store", header, arrays).doubles("rows", (2,)).tolist() == [1, 1]
    assert Reader("pending", header, arrays).doubles("rows", (2,)).tolist() == [0, 0]
    assert Reader("pending", header, arrays).count("n") == 2
    with pytest.raises(KeyError, match=r"store\.sizes"):
        Reader("store", header, arrays).doubles("sizes", (2,))
