"""Checks of rows, and the numbers that stand for task labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import DataError
from cobandits.frames import is_nan, plain_labels

__all__ = ["Codes", "Floats", "Labels", "check_finite", "checked_rows", "encoded"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Labels = Iterable[Hashable] | NDArray[Any]


def checked_rows(features: ArrayLike, rewards: ArrayLike) -> tuple[Floats, Floats]:
    """Return features (n, d) and rewards (n,) as finite floats of one type, or refuse them."""
    Phi, y = np.asarray(features), np.asarray(rewards)
    if Phi.ndim != 2 or y.ndim != 1 or len(Phi) != len(y):
        raise DataError(f"expected features (n, d) and rewards (n,), got {Phi.shape} and {y.shape}")
    if not len(y):
        raise DataError("no rows; give at least one")
    if Phi.dtype != np.float32:
        Phi = _as_floats(Phi, "features")
    with np.errstate(over="ignore"):  # too large for float32: infinite, and refused below
        y = _as_floats(y, "rewards").astype(Phi.dtype, copy=False)
    check_finite(Phi, "features")
    check_finite(y, "rewards")
    return Phi, y


def check_finite(values: Floats, name: str) -> None:
    """Refuse values that are NaN or infinite, and say where the first is."""
    with np.errstate(invalid="ignore", over="ignore"):
        suspicious = not np.isfinite(values.sum())  # may also be an overflow of the sum
    if suspicious and not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise DataError(
            f"{name} hold a NaN or an infinite value, first in row {row}; "
            "fill it in or drop the row"
        )


def _as_floats(values: NDArray[Any], name: str) -> NDArray[np.float64]:
    if values.dtype.kind not in "biuf":
        raise DataError(f"{name} must be real numbers, got values of type {values.dtype}")
    return values.astype(np.float64, copy=False)


def encoded(
    tasks: Labels, n_rows: int, known: Mapping[Hashable, int]
) -> tuple[Codes, list[Hashable]]:
    """Return the task number of each row, (n_rows,), and the labels that are not ``known`` yet.

    New labels get the numbers after the known ones, in order of first appearance.
    """
    values = plain_labels(tasks).tolist() if isinstance(tasks, np.ndarray) else list(tasks)
    if len(values) != n_rows:
        raise DataError(f"{len(values)} task labels for {n_rows} rows; give one label per row")
    try:
        different = dict.fromkeys(values)  # of these rows alone: there may be many known ones
        fresh = [label for label in different if label not in known]
        code_of = {label: known[label] for label in different if label in known}
    except TypeError as error:
        raise DataError(f"task labels must be hashable: {error}") from error
    if any(is_nan(label) for label in fresh):
        raise DataError("a task label is NaN; drop those rows or give them a label")
    code_of |= {label: len(known) + i for i, label in enumerate(fresh)}
    return np.fromiter(map(code_of.__getitem__, values), np.int64, n_rows), fresh
