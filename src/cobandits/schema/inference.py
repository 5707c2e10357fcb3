"""A first guess of what the fields of a table are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError
from cobandits.frames import Frame
from cobandits.schema.base import Field
from cobandits.schema.dates import Order, day_or_month_first
from cobandits.schema.fields import Category, Date, Flag, Number, Vector, category_text
from cobandits.schema.values import (
    Problems,
    Rows,
    Values,
    as_numbers,
    as_times,
    columns_of_rows,
)

__all__ = ["Inferred", "infer_fields"]

Doubles = NDArray[np.float64]
Gaps = Literal["indicator", "error"]

_MOST_VALUES = 32  # columns of a category; rarer values share one
_REPEATS = 0.5  # different texts per row above which they are names, not categories
_FEW_ROWS = 20  # of which nothing can be said to repeat
_ROW_STEP = 1.25  # of row numbers, in the mean: a fifth of the rows may have been left out
_EXACT = 2.0**53  # from here on whole numbers are not all exact: such ones name things
_YEAR_SPAN, _WEEK_SPAN = 180 * 86_400.0, 14 * 86_400.0  # seconds, for a place in year and week
_LEAST_DATE = 8  # letters of a date: numbers as text are shorter, or longer


_PLURALS = {
    "number": "numbers",
    "category": "categories",
    "flag": "flags",
    "date": "dates",
    "vector": "vectors",
}


@dataclass(frozen=True, kw_only=True)
class Inferred:
    """The fields that were found, and why others were left out."""

    fields: dict[str, Field]
    left_out: dict[str, str]  # name: reason
    missing: dict[str, int]  # cells by field, where there are any

    def __str__(self) -> str:
        groups: dict[str, list[str]] = {}
        for name, field in self.fields.items():
            groups.setdefault(_PLURALS[field.kind], []).append(_described(name, field))
        parts = [f"{words} {', '.join(named)}" for words, named in groups.items()]
        gaps = [f"{name} ({count:,})" for name, count in self.missing.items()]
        parts += [f"missing cells in {', '.join(gaps)}"] if gaps else []
        reasons = [f"{name} ({why})" for name, why in self.left_out.items()]
        parts += [f"left out {', '.join(reasons)}"] if reasons else []
        alike = [one for name, field in self.fields.items() for one in _look_alikes(name, field)]
        parts += [f"values that differ in case or spaces only: {', '.join(alike)}"] if alike else []
        return "; ".join(parts)


def _described(name: str, field: Field) -> str:
    if isinstance(field, Category) and field.values is not None:
        rest = " and others" if field.unknown == "other" else ""
        return f"{name} ({len(field.values)} values{rest})"
    return name


def _look_alikes(name: str, field: Field) -> list[str]:
    """Return the values of a category that are likely to be one, misspelt.

    >>> _look_alikes("weather", Category(values=("Rain ", "rain", "sun")))
    ["weather ('Rain ' and 'rain')"]
    """
    groups: dict[str, list[str]] = {}
    for value in (field.values or ()) if isinstance(field, Category) else ():
        groups.setdefault(" ".join(str(value).casefold().split()), []).append(repr(value))
    return [f"{name} ({' and '.join(same)})" for same in groups.values() if len(same) > 1]


@dataclass(frozen=True, kw_only=True)
class _Options:
    categorical: frozenset[str]
    dates: frozenset[str]
    missing: Literal["indicator", "mean"]
    standardise: bool


def infer_fields(
    rows: Rows,
    *,
    categorical: Sequence[str] = (),
    dates: Sequence[str] = (),
    missing: Literal["indicator", "mean"] = "indicator",
    standardise: bool = False,
) -> Inferred:
    """Return what the fields of rows like these are.

    Text becomes a category of its most frequent values, or a date if all of it is one.
    Constant fields, row numbers and text that hardly ever repeats are left out.

    Parameters
    ----------
    rows
        A frame, a mapping of columns, or a sequence of rows.
    categorical, dates
        Fields that are categories or dates, whatever they look like.
    missing
        What missing numbers become: an indicator beside them, or their mean alone.
    standardise
        Whether numbers are divided by their standard deviation, after the mean is taken off.
    """
    options = _Options(
        categorical=frozenset(categorical),
        dates=frozenset(dates),
        missing=missing,
        standardise=standardise,
    )
    return _inferred(columns_of_rows(rows, _names(rows)), options)


def _inferred(columns: Mapping[str, Values], options: _Options) -> Inferred:
    lacking = sorted((options.categorical | options.dates) - set(columns))
    if lacking:
        raise DataError(f"no feature {', '.join(lacking)}; there are: {', '.join(columns)}")
    problems, fields, left_out = Problems(), {}, {}
    for name, values in columns.items():
        found = _field(name, values, options, problems)
        if isinstance(found, str):
            left_out[name] = found
        else:
            fields[name] = found
    problems.refuse()
    gaps = {name: int(columns[name].missing.sum()) for name in fields}
    return Inferred(
        fields=fields, left_out=left_out, missing={name: n for name, n in gaps.items() if n}
    )


def _names(rows: Rows) -> list[str]:
    if isinstance(rows, Mapping):
        return list(rows)
    if isinstance(rows, Frame):
        return list(rows.columns)
    return list(dict.fromkeys(name for row in rows for name in row))


def _field(name: str, values: Values, options: _Options, problems: Problems) -> Field | str:
    """Return what a field is, or why it is left out."""
    if values.missing.all():
        return "empty"
    missing: Gaps = "indicator" if values.missing.any() else "error"
    if name in options.dates:
        order = _order(name, values, problems)
        bad = as_times(values, order)[1]
        problems.bad_values(name, "a date such as 2025-01-31", values.cells, bad)
        return _date(values, missing, order)
    if name in options.categorical:
        return _category(values, missing, left_out=False)
    return _by_its_values(name, values, options, missing, problems)


def _by_its_values(
    name: str, values: Values, options: _Options, missing: Gaps, problems: Problems
) -> Field | str:
    first: object = values.cells[int(np.argmin(values.missing))]
    if isinstance(first, (list, tuple, np.ndarray)):
        return Vector(size=len(first), missing=missing)
    if _all_flags(values):
        return Flag(missing=missing)
    if values.cells.dtype.kind == "M":
        return _date(values, missing, None)
    if _all_dates(values):
        return _date(values, missing, _order(name, values, problems))
    if isinstance(first, str):
        return _category(values, missing, left_out=True)
    numbers, bad = as_numbers(values)
    problems.bad_values(name, "a finite number", values.cells, bad)
    return _number(numbers[~values.missing], missing, options)


def _all_flags(values: Values) -> bool:
    if values.cells.dtype.kind != "O":
        return values.cells.dtype.kind == "b"
    return all(isinstance(value, bool) for value in values.present)


def _number(present: Doubles, missing: Gaps, options: _Options) -> Field | str:
    """Return a number with what stands in for missing ones."""
    if missing == "error" and len(present) > 1 and present.min() == present.max():
        return "constant"
    if missing == "error" and _are_row_numbers(present):
        return "row numbers"
    if np.abs(present).max() >= _EXACT and np.all(present == np.rint(present)):
        return "identifiers of 16 digits or more"
    mean, std = float(present.mean()), float(present.std())
    return Number(
        fill=mean,
        centre=mean if options.standardise else 0.0,
        scale=std if options.standardise and std > 0 else 1.0,
        missing="fill" if options.missing == "mean" else missing,
    )


def _are_row_numbers(present: Doubles) -> bool:
    """Return whether numbers count rows, of which a few may have been left out."""
    if len(present) <= _FEW_ROWS:
        return False
    steps = np.diff(present)
    few_gaps = steps.sum() < _ROW_STEP * len(steps)
    return bool(few_gaps and np.all(steps >= 1) and np.all(steps == np.rint(steps)))


def _category(values: Values, missing: Gaps, *, left_out: bool) -> Field | str:
    counts = Counter(values.present)
    total = sum(counts.values())
    if left_out and total > _FEW_ROWS and len(counts) > _REPEATS * total:
        return f"{len(counts):,} different texts"
    if left_out and len(counts) == 1 < total and missing == "error":
        return "constant"
    texts = Counter[str]()
    for cell, count in counts.items():
        texts[category_text(cell)] += count
    frequent = [text for text, _ in texts.most_common(_MOST_VALUES)]
    unknown: Literal["other", "zero"] = "other" if len(texts) > _MOST_VALUES else "zero"
    return Category(values=tuple(sorted(frequent)), unknown=unknown, missing=missing)


def _all_dates(values: Values) -> bool:
    """Return whether all that is present is dates; a few are looked at first."""
    if values.cells.dtype.kind != "O":
        return False
    present = values.present
    if any(isinstance(v, str) and (len(v) < _LEAST_DATE or v.isdigit()) for v in present[:50]):
        return False
    few = Values(values.cells[~values.missing][:50], np.zeros(len(present[:50]), np.bool_))
    orders: tuple[Order, ...] = ("day", "month")
    return any(
        not as_times(few, order)[1].any() and not as_times(values, order)[1].any()
        for order in orders
    )


def _order(name: str, values: Values, problems: Problems) -> Order | None:
    """Return whether days or months come first, or None and, if it cannot be told, a problem."""
    texts = {cell for cell in values.present if isinstance(cell, str)}
    found = day_or_month_first(texts)
    if found == "unclear":
        shown = min(text for text in texts if day_or_month_first([text]) is not None)
        problems.add(
            name,
            f"whether days or months come first cannot be told from dates such as {shown!r}; "
            "write them as 2025-01-31, or name the column with --categorical",
        )
        return "day"  # so that this is the only problem
    return found


def _date(values: Values, missing: Gaps, order: Order | None) -> Field | str:
    seconds = as_times(values, order)[0][~values.missing]
    span = float(np.ptp(seconds))
    if span == 0 and missing == "error":
        return "constant"
    has = {
        "trend": True,
        "year": span > _YEAR_SPAN,
        "week": span > _WEEK_SPAN,
        "day": bool((seconds % 86_400 != seconds[0] % 86_400).any()),
    }
    parts = tuple(part for part, there in has.items() if there)
    return Date(parts=parts, origin=float(seconds.min()), order=order, missing=missing)
