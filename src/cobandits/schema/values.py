"""The values of one field, and what is wrong with them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.frames import Frame, is_nan
from cobandits.schema.dates import Order, parsed

__all__ = ["Problems", "Values", "as_numbers", "as_times", "columns_of_rows", "values_of"]

Cells = NDArray[Any]
Mask = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Rows = Sequence[Mapping[str, object]] | Mapping[str, Any] | Frame

_WITHOUT_NAN = frozenset({str, int, bool, type(None)})
_SHOWN = 3  # bad values named in a message


class Values(NamedTuple):
    """The values of one field, and which of them are missing."""

    cells: Cells  # (n,)
    missing: Mask  # (n,)

    def where(self, mask: Mask) -> Values:
        """Return the values where ``mask``, (n,), is true."""
        return self if mask.all() else Values(self.cells[mask], self.missing[mask])

    @property
    def present(self) -> list[Any]:
        """The values that are not missing, as Python objects."""
        kept: list[Any] = self.cells[~self.missing].tolist()
        return kept


class Problems:
    """Collects what is wrong, so that one message names all of it."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def add(self, field: str, text: str) -> None:
        """Add a problem of a field."""
        self._found.append(f"{field}: {text}")

    def bad_values(self, field: str, expected: str, values: Cells, bad: Mask) -> None:
        """Add the values where ``bad``, if there are any."""
        where = np.flatnonzero(bad)
        if len(where):
            first = zip(values[where[:_SHOWN]].tolist(), where.tolist(), strict=False)
            shown = ", ".join(f"{value!r} in row {row}" for value, row in first)
            more = f" and {len(where) - _SHOWN} more" if len(where) > _SHOWN else ""
            self.add(field, f"expected {expected}, got {shown}{more}")

    def bad_numbers(self, field: str, values: Cells, bad: Mask) -> None:
        """Add the values where ``bad``; where such a one made text of a column, it alone."""
        words = bad & ~np.fromiter(map(_reads_as_number, values.tolist()), np.bool_, len(values))
        self.bad_values(field, "a number", values, words if words.any() else bad)

    def refuse(self) -> None:
        """Raise one error that names all problems, if there are any."""
        if self._found:
            raise DataError("; ".join(self._found))


def values_of(cells: object) -> Values:
    """Return a column of an array, a series or a list, with None, NaN and NaT as missing.

    What this has returned before is returned as it is.
    """
    if isinstance(cells, Values):
        return cells
    array = cells if isinstance(cells, np.ndarray) else _array(cells)
    if array.dtype.kind == "f":
        return Values(array, np.isnan(array))
    if array.dtype.kind in "mM":
        return Values(array, np.isnat(array))
    if array.dtype.kind == "O":
        listed = array.tolist()
        if _WITHOUT_NAN.issuperset(map(type, listed)):  # mostly text: None alone is missing
            return Values(array, np.array([v is None for v in listed], np.bool_))
        return Values(array, np.fromiter(map(_is_missing, listed), np.bool_, len(array)))
    return Values(array, np.zeros(len(array), np.bool_))


def _array(cells: object) -> Cells:
    to_numpy = getattr(cells, "to_numpy", None)
    if to_numpy is not None:
        return np.asarray(to_numpy())
    listed = list(cells) if isinstance(cells, Sequence) else [cells]
    array = np.empty(len(listed), object)
    array[:] = listed
    return array


def _reads_as_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _is_missing(value: object) -> bool:
    if value is None:
        return True
    return not isinstance(value, (str, Sequence, np.ndarray)) and is_nan(value)


def columns_of_rows(rows: Rows, names: Sequence[str]) -> dict[str, Values]:
    """Return the named columns of a frame, of a mapping of columns, or of a list of rows.

    A list of rows may lack names, which are missing there, but may not have others.
    """
    if isinstance(rows, (Mapping, Frame)):
        known = list(rows.keys() if isinstance(rows, Mapping) else rows.columns)
        lacking = [name for name in names if name not in known]
        if lacking:
            raise DataError(
                f"no column {', '.join(lacking)}; there are: {', '.join(known)}; add it, or leave "
                "it out of the schema"
            )
        return {name: values_of(rows[name]) for name in names}
    unknown = sorted({name for row in rows for name in row} - set(names))
    if unknown:
        raise DataError(
            f"unknown field {', '.join(map(repr, unknown))}; the schema has: {', '.join(names)}"
        )
    return {name: values_of([row.get(name) for row in rows]) for name in names}


def as_numbers(values: Values) -> tuple[Doubles, Mask]:
    """Return numbers, 0 where there is none, and where a value that is present is not finite."""
    cells, missing = values
    if cells.dtype.kind in "biuf":
        found = cells.astype(np.float64)
        bad = ~missing & ~np.isfinite(found)
    else:
        listed = cells.tolist() if cells.dtype.kind not in "mM" else [None] * len(cells)
        found = np.array([_number(cell) for cell in listed], np.float64).reshape(len(cells))
        bad = ~missing & ~np.isfinite(found)
    return np.where(missing | bad, 0.0, found), bad


def _number(cell: object) -> float:
    if isinstance(cell, (str, bytes)) or not hasattr(cell, "__float__"):
        return np.nan
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def as_times(values: Values, order: Order | None = None) -> tuple[Doubles, Mask]:
    """Return seconds since 1970 in UTC, 0 where there are none, and where text is no date.

    ``order`` says what comes first in dates such as 2/1/2025.
    """
    cells, missing = values
    if cells.dtype.kind == "M":
        seconds = cells.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(missing, 0.0, seconds), np.zeros(len(cells), np.bool_)
    known: dict[object, float] = {}
    seconds_of = partial(_seconds, order=order)
    found = np.array([_looked_up(known, cell, seconds_of) for cell in cells.tolist()], np.float64)
    bad = ~missing & np.isnan(found)
    return np.where(missing | bad, 0.0, found), bad


def _looked_up(known: dict[object, float], cell: object, make: Callable[[object], float]) -> float:
    try:
        return known[cell]
    except KeyError:
        return known.setdefault(cell, make(cell))
    except TypeError:  # a list is no date
        return np.nan


def _seconds(cell: object, order: Order | None) -> float:
    if isinstance(cell, str):
        cell = parsed(cell, order)
    if isinstance(cell, np.datetime64):
        cell = cell.astype("datetime64[us]").item()
    if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
        cell = datetime.datetime(cell.year, cell.month, cell.day)
    if not isinstance(cell, datetime.datetime):
        return np.nan
    known_zone = cell if cell.tzinfo else cell.replace(tzinfo=datetime.UTC)
    return known_zone.timestamp()
