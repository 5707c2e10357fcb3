"""From a data frame or a file to arrays: features, rewards, labels and names."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import DataError, MissingExtraError

__all__ = ["INTERCEPT", "Columns", "Frame", "columns_of", "read_frame"]

INTERCEPT = "(intercept)"


class Frame(Protocol):
    """What polars and pandas frames have in common, as far as it is used here."""

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


def read_frame(path: str | Path) -> Frame:
    """Read a Parquet or CSV file with polars."""
    path = Path(path)
    readers = {".parquet": "read_parquet", ".pq": "read_parquet", ".csv": "read_csv"}
    if path.suffix.lower() not in readers:
        raise DataError(f"{path.name}: expected a file that ends in {', '.join(readers)}")
    if not path.is_file():
        raise DataError(f"there is no file {path}; check the path")
    try:
        polars = importlib.import_module("polars")
    except ImportError as error:
        raise MissingExtraError("polars", "data") from error
    try:
        frame: Frame = getattr(polars, readers[path.suffix.lower()])(path)
    except (polars.exceptions.PolarsError, OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path.name} cannot be read ({reason}); it may be truncated or of another format"
        ) from error
    return frame


def columns_of(
    frame: Frame,
    *,
    task: str,
    reward: str,
    features: Sequence[str] | None = None,
    intercept: bool = False,
) -> Columns:
    """Take the label, reward and feature columns of a polars or pandas frame.

    Without ``features``, every other column is one. ``intercept`` adds a column of
    ones, named "(intercept)".
    """
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
    if not chosen and not intercept:
        raise DataError(f"no feature columns besides {task} and {reward}; add at least one")
    width = len(chosen) + intercept
    table = np.ones((len(frame), width))
    for index, name in enumerate(chosen):
        table[:, index] = _numbers(frame, name)
    labels = _labels(frame, task)
    return Columns(
        table, _numbers(frame, reward), labels, (*chosen, *([INTERCEPT] if intercept else []))
    )


def _numbers(frame: Frame, name: str) -> NDArray[np.float64]:
    values = np.asarray(frame[name].to_numpy())
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"column {name} holds {values.dtype} values, not numbers or missing numbers; "
            "encode or drop it, or name the features to use"
        )
    numbers = values.astype(np.float64)
    bad = int(np.count_nonzero(~np.isfinite(numbers)))
    if bad:
        raise DataError(
            f"column {name} has {bad} missing or infinite values; fill or drop those rows"
        )
    return numbers


def _labels(frame: Frame, task: str) -> NDArray[np.generic]:
    """Return the labels; times become Python's own, which are not tied to a unit."""
    labels = np.asarray(frame[task].to_numpy())
    if labels.dtype.kind == "M":
        days = np.datetime_data(labels.dtype)[0] == "D"
        labels = labels.astype("datetime64[D]" if days else "datetime64[us]").astype(object)
    if labels.dtype.kind in "fc":
        missing = int(np.count_nonzero(~np.isfinite(labels)))
    elif labels.dtype.kind == "O":
        missing = sum(label is None or label != label for label in labels.tolist())
    else:
        missing = 0
    if missing:
        raise DataError(f"column {task} has {missing} missing labels; drop those rows")
    return labels
