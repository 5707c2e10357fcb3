"""What a field of a row can be, and the columns that it becomes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from cobandits.errors import ConfigurationError
from cobandits.schema.base import Doubles, Field
from cobandits.schema.dates import Order
from cobandits.schema.values import Problems, Values, as_numbers, as_times

__all__ = ["KINDS", "Category", "Cyclic", "Date", "Flag", "Number", "Vector", "category_text"]

_DAY = 86_400.0  # seconds
_YEAR = 365.2425 * _DAY
_MONDAY = 4 * _DAY  # 1970-01-05, in seconds since 1970
_PERIODS = {"year": _YEAR, "week": 7 * _DAY, "day": _DAY}
_PARTS = ("trend", *_PERIODS)


@dataclass(frozen=True, kw_only=True)
class Number(Field):
    """A number: ``(value - centre) / scale``; ``fill`` stands in for a missing value."""

    kind: ClassVar[str] = "number"

    fill: float = 0.0
    centre: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite([self.fill, self.centre, self.scale]).all() and self.scale > 0):
            raise ConfigurationError(
                f"fill, centre and scale must be finite and scale above 0, got {self.fill}, "
                f"{self.centre} and {self.scale}"
            )

    def _names(self, field: str) -> tuple[str, ...]:
        return (field,)

    def _encode(self, field: str, values: Values, problems: Problems, out: Doubles) -> None:
        numbers, bad = as_numbers(values)
        problems.bad_numbers(field, values.cells, bad)
        filled = np.where(values.missing, self.fill, numbers)
        out[:, 0] = (filled - self.centre) / self.scale


@dataclass(frozen=True, kw_only=True)
class Category(Field):
    """One of several values: a column for each, 1 for the value and 0 for the others.

    With ``values``, other ones share a column (``unknown="other"``), are 0 in all columns
    (``"zero"``) or are refused (``"error"``). Without, any value may come: it is hashed to one
    of ``buckets`` columns.
    """

    kind: ClassVar[str] = "category"

    values: tuple[str, ...] | None = None
    unknown: Literal["other", "zero", "error"] = "other"
    buckets: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unknown not in ("other", "zero", "error"):
            raise ConfigurationError(
                f"unknown must be 'other', 'zero' or 'error', got {self.unknown!r}"
            )
        if self.buckets < 1:
            raise ConfigurationError(f"buckets must be at least 1, got {self.buckets}")
        if self.values is not None:
            object.__setattr__(self, "values", tuple(category_text(v) for v in self.values))

    def _names(self, field: str) -> tuple[str, ...]:
        if self.values is None:
            return tuple(f"{field}#{bucket}" for bucket in range(self.buckets))
        shown = tuple(f"{field}={value}" for value in self.values)
        return (*shown, f"{field}=other") if self.unknown == "other" else shown

    def _encode(self, field: str, values: Values, problems: Problems, out: Doubles) -> None:
        cells: list[Any] = values.cells.tolist()
        known = {v: i for i, v in enumerate(self.values or ())}
        codes: dict[Any, int] = {None: -1}
        try:
            for cell in set(cells):
                codes[cell] = self._code(category_text(cell), known)
            where = np.array([codes[cell] for cell in cells], np.int64)
        except TypeError:
            problems.add(field, "expected text or numbers, got a list")
            where = np.full(len(cells), -1)
        where[values.missing] = -1
        if self.unknown == "error" and self.values is not None:
            expected = f"one of {', '.join(self.values)}"
            problems.bad_values(field, expected, values.cells, (where < 0) & ~values.missing)
        out[:] = 0
        present = np.flatnonzero(where >= 0)
        out[present, where[present]] = 1

    def _code(self, text: str, known: dict[str, int]) -> int:
        if self.values is None:
            digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
            return int.from_bytes(digest, "big") % self.buckets
        return known.get(text, len(known) if self.unknown == "other" else -1)


def category_text(value: object) -> str:
    """Return a value of a category as text: 1 and 1.0 are the same.

    >>> category_text(3.0), category_text(True), category_text("3")
    ('3', 'true', '3')
    """
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


@dataclass(frozen=True, kw_only=True)
class Flag(Field):
    """True or false, also as 1 and 0."""

    kind: ClassVar[str] = "flag"

    def _names(self, field: str) -> tuple[str, ...]:
        return (field,)

    def _encode(self, field: str, values: Values, problems: Problems, out: Doubles) -> None:
        numbers, bad = as_numbers(values)
        bad |= (numbers != 0) & (numbers != 1)
        problems.bad_values(field, "true or false", values.cells, bad)
        out[:, 0] = numbers


@dataclass(frozen=True, kw_only=True)
class Cyclic(Field):
    """A number on a circle, as sine and cosine: an hour of the day has the period 24."""

    kind: ClassVar[str] = "cyclic"

    period: float = 24.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.period) and self.period > 0):
            raise ConfigurationError(f"period must be above 0, got {self.period}")

    def _names(self, field: str) -> tuple[str, ...]:
        return f"{field} sin", f"{field} cos"

    def _encode(self, field: str, values: Values, problems: Problems, out: Doubles) -> None:
        numbers, bad = as_numbers(values)
        problems.bad_numbers(field, values.cells, bad)
        out[:] = _on_circle(numbers / self.period) * ~values.missing[:, None]


@dataclass(frozen=True, kw_only=True)
class Date(Field):
    """A date or time: years since ``origin``, and places in the year, the week and the day.

    Text is ISO 8601, or another common form; ``order`` says whether ``"day"`` or ``"month"`` comes
    first in dates such as 2/1/2025, which are refused without it. Times without a zone are
    taken as UTC.
    """

    kind: ClassVar[str] = "date"

    parts: tuple[str, ...] = _PARTS
    origin: float = 0.0  # of the trend, seconds since 1970
    order: Order | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parts", tuple(self.parts))
        if not self.parts or not set(self.parts) <= set(_PARTS):
            raise ConfigurationError(f"parts must be some of {', '.join(_PARTS)}, got {self.parts}")
        if self.order not in (None, "day", "month"):
            raise ConfigurationError(f"order must be 'day' or 'month', got {self.order!r}")

    def _names(self, field: str) -> tuple[str, ...]:
        circles = (p for p in self.parts if p != "trend")
        names = (f"{field} {part} {wave}" for part in circles for wave in ("sin", "cos"))
        return (*((f"{field} trend",) if "trend" in self.parts else ()), *names)

    def _encode(self, field: str, values: Values, problems: Problems, out: Doubles) -> None:
        seconds, bad = as_times(values, self.order)
        problems.bad_values(field, "a date such as 2025-01-31", values.cells, bad)
        columns = [((seconds - self.origin) / _YEAR)[:, None]] if "trend" in self.parts else []
        columns += [
            _on_circle((seconds - _MONDAY) / _PERIODS[p]) for p in self.parts if p != "trend"
        ]
        out[:] = np.concatenate(columns, axis=1) * ~values.missing[:, None]


@dataclass(frozen=True, kw_only=True)
class Vector(Field):
    """A list of ``size`` numbers, taken as they are."""

    kind: ClassVar[str] = "vector"

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            raise ConfigurationError(f"size must be at least 1, got {self.size}")

    def _names(self, field: str) -> tuple[str, ...]:
        return tuple(f"{field}[{index}]" for index in range(self.size))

    def _encode(self, field: str, values: Values, problems: Problems, out: Doubles) -> None:
        out[:] = 0
        bad = np.zeros(len(out), np.bool_)
        for row in np.flatnonzero(~values.missing).tolist():
            given = _floats(values.cells[row])
            bad[row] = given.shape != (self.size,) or not np.isfinite(given).all()
            out[row] = 0 if bad[row] else given
        problems.bad_values(field, f"{self.size} numbers", values.cells, bad)


def _floats(cell: object) -> Doubles:
    """Return a list of numbers as an array; an empty one if it is none."""
    try:
        return np.asarray(cell, np.float64)
    except (TypeError, ValueError):
        return np.empty(0)


def _on_circle(turns: Doubles) -> Doubles:
    angle = 2 * np.pi * turns
    return np.column_stack([np.sin(angle), np.cos(angle)])


KINDS: dict[str, type[Field]] = {
    one.kind: one for one in (Number, Category, Flag, Cyclic, Date, Vector)
}
