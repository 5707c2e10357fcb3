"""From a data frame or a file to arrays: features, rewards, labels and names."""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import partial
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError, MissingExtraError

__all__ = [
    "INTERCEPT",
    "MISSING_CELLS",
    "Columns",
    "Frame",
    "columns_of",
    "feature_columns",
    "features_of",
    "is_nan",
    "parquet_bytes",
    "plain_labels",
    "read_frame",
]

INTERCEPT = "(intercept)"

# Cells of a CSV file that hold no value.
MISSING_CELLS = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "NaN", "nan", "None")
_ON_ENCODING = "; text must be in UTF-8"
_FIRST_ROWS = 10_000  # of a CSV file, which tell the types of its columns
_PARQUET = (".parquet", ".pq")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}


@runtime_checkable
class Frame(Protocol):
    """The part of a polars or pandas frame that is used here."""

    @property
    def columns(self) -> Sequence[str]:
        """The columns' names."""
        ...

    def __getitem__(self, name: str, /) -> Column: ...
    def __len__(self) -> int: ...


class Column(Protocol):
    """A column of a frame."""

    def to_numpy(self) -> NDArray[np.generic]:
        """Return the values."""
        ...


class Columns(NamedTuple):
    """The parts of a frame that a fit needs."""

    features: NDArray[np.float64]  # (n_rows, d)
    rewards: NDArray[np.float64]  # (n_rows,)
    labels: NDArray[np.generic]  # (n_rows,)
    names: tuple[str, ...]


def features_of(frame: Frame, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the named columns of a frame, (n_rows, d); "(intercept)" is a column of ones."""
    known = list(frame.columns)
    missing = [name for name in names if name not in known and name != INTERCEPT]
    if missing:
        raise DataError(f"no column {', '.join(missing)}; the fit used: {', '.join(names)}")
    table = np.ones((len(frame), len(names)))
    for index, name in enumerate(names):
        if name in known:
            table[:, index] = _numbers(frame, name)
    return table


def read_frame(path: str | Path) -> Frame:
    """Read a Parquet, CSV or TSV file with polars."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (*_PARQUET, *_SEPARATORS):
        known = ", ".join((*_PARQUET, *_SEPARATORS))
        raise DataError(f"{path.name}: expected a file that ends in {known}")
    if not path.is_file():
        raise DataError(f"there is no file {path}; check the path")
    polars = _polars()
    try:
        if suffix in _PARQUET:
            frame: Frame = polars.read_parquet(path)
        else:
            _check_separator(path, _SEPARATORS[suffix])
            frame = _read_csv(polars, path, _SEPARATORS[suffix])
    except (polars.exceptions.PolarsError, OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path.name} cannot be read ({reason}); it may be truncated or of another format"
            f"{_ON_ENCODING if 'utf-8' in reason.lower() else ''}"
        ) from error
    return frame


def _read_csv(polars: ModuleType, path: Path, separator: str) -> Frame:
    """Read a file of text; all rows tell the types of its columns, if the first ones do not.

    They do not where the parser refuses a later cell as one of that type, or where a column has no
    cell among them. It takes ``" 5"`` and ``nan`` for numbers among numbers, not in a column's
    first rows.
    """
    read = partial(polars.read_csv, path, separator=separator, null_values=list(MISSING_CELLS))
    try:
        frame = read(infer_schema_length=_FIRST_ROWS)
    except polars.exceptions.ComputeError:
        return cast("Frame", read(infer_schema_length=None))
    first = frame.head(_FIRST_ROWS)
    empty = any(first[name].null_count() == len(first) for name in first.columns)
    return cast("Frame", read(infer_schema_length=None) if empty else frame)


def _check_separator(path: Path, separator: str) -> None:
    """Refuse a file whose first line has another separator instead."""
    with path.open(encoding="utf-8") as file:
        try:
            header = file.readline()
        except UnicodeDecodeError as error:
            raise DataError(f"{path.name} cannot be read ({error}){_ON_ENCODING}") from error
    names = {",": "commas", "\t": "tabs", ";": "semicolons"}
    other = next((s for s in names if s in header), separator)
    if separator not in header and other != separator:
        raise DataError(
            f"{path.name} has {names[other]} between columns, expected {names[separator]}; "
            "write it with commas as .csv or with tabs as .tsv"
        )


def _polars() -> ModuleType:
    try:
        return importlib.import_module("polars")
    except ImportError as error:
        raise MissingExtraError("polars", "data") from error


def parquet_bytes(columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> bytes:
    """Return a table as the content of a Parquet file."""
    buffer = io.BytesIO()
    _polars().DataFrame(dict(columns)).write_parquet(buffer)
    return buffer.getvalue()


def columns_of(
    frame: Frame,
    *,
    task: str,
    reward: str,
    features: Sequence[str] | None = None,
    intercept: bool = False,
) -> Columns:
    """Return the label, reward and feature columns of a polars or pandas frame.

    Without ``features``, every other column is a feature. ``intercept`` adds a column of
    ones, named "(intercept)".
    """
    chosen = feature_columns(frame, task, reward, features)
    if not chosen and not intercept:
        raise DataError(f"no feature columns besides {task} and {reward}; add at least one")
    if len(frame) == 0:
        raise DataError("there are no rows, only names of columns; add rows")
    table = np.ones((len(frame), len(chosen) + intercept))
    for index, name in enumerate(chosen):
        table[:, index] = _numbers(frame, name, "drop it or name the features with features=")
    labels = _labels(frame, task)
    rewards = _numbers(
        frame, reward, "rewards must be numbers, so name another column or encode it"
    )
    return Columns(table, rewards, labels, (*chosen, *([INTERCEPT] if intercept else [])))


def feature_columns(
    frame: Frame, task: str, reward: str, features: Sequence[str] | None
) -> list[str]:
    """Return the names of the feature columns; refuse names that do not fit the frame."""
    if hasattr(frame, "collect") and not hasattr(frame, "__len__"):
        raise DataError("a LazyFrame has no values yet; call .collect() first")
    names = list(frame.columns)
    duplicated = sorted({name for name in names if names.count(name) > 1})
    if duplicated:
        raise DataError(f"columns appear twice: {', '.join(duplicated)}; rename or drop one")
    chosen = [n for n in names if n not in (task, reward)] if features is None else list(features)
    missing = [name for name in (task, reward, *chosen) if name not in names]
    if missing:
        known = ", ".join(map(str, names))
        raise DataError(f"no column {', '.join(missing)}; the file has: {known}")
    if task in chosen or reward in chosen or task == reward:
        raise DataError("task, reward and features must be different columns")
    if len(set(chosen)) < len(chosen):
        raise DataError("a feature is named twice; name each once")
    return chosen


def _numbers(
    frame: Frame, name: str, advice: str = "give the numbers that were fitted"
) -> NDArray[np.float64]:
    values = np.asarray(frame[name].to_numpy())
    if values.dtype.kind not in "biufO":
        kind = {"M": "times", "m": "durations"}.get(values.dtype.kind, "text")
        raise DataError(f"column {name} holds {kind}; {advice}")
    numbers = _objects(values, name, advice) if values.dtype.kind == "O" else values
    numbers = numbers.astype(np.float64)
    missing, infinite = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
    if missing or infinite:
        found = [(missing, "missing"), (infinite, "infinite")]
        counts = (f"{n} {kind} value{'s' * (n > 1)}" for n, kind in found if n)
        raise DataError(f"column {name} has {' and '.join(counts)}; fill in or drop such rows")
    return numbers


def _objects(values: NDArray[Any], name: str, advice: str) -> NDArray[np.float64]:
    """Return a column of Python objects as floats; missing values are NaN."""
    present = [None if v is None or is_nan(v) else v for v in values.tolist()]
    odd = next((v for v in present if not (v is None or isinstance(v, Real | Decimal))), None)
    if odd is not None:
        kind = "text" if isinstance(odd, str) else f"values of type {type(odd).__name__}"
        raise DataError(f"column {name} holds {kind}; {advice}")
    return np.array([np.nan if v is None else float(v) for v in present])


def plain_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels with times as ``date`` or ``datetime`` objects; missing times are NaN."""
    if labels.dtype.kind != "M":
        return labels
    days = np.datetime_data(labels.dtype)[0] == "D"
    times = labels.astype("datetime64[D]" if days else "datetime64[us]").astype(object)
    times[np.isnat(labels)] = np.nan
    return times


def is_nan(label: object) -> bool:
    """Return whether a label is NaN, NaT or NA: not equal to itself."""
    try:
        return bool(label != label)
    except TypeError:  # NA of pandas: neither true nor false
        return True


def _labels(frame: Frame, task: str) -> NDArray[Any]:
    labels = plain_labels(np.asarray(frame[task].to_numpy()))
    if labels.dtype.kind in "fc":
        missing = int(np.count_nonzero(~np.isfinite(labels)))
    elif labels.dtype.kind == "O":
        missing = sum(label is None or is_nan(label) for label in labels.tolist())
    else:
        missing = 0
    if missing:
        raise DataError(f"column {task} has {missing} missing labels; drop those rows")
    return labels
