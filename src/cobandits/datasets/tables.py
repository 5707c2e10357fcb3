"""Labelled tables: those that come with scikit-learn, and files."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError, MissingExtraError
from cobandits.frames import Frame, features_of, is_nan, plain_labels, read_frame

__all__ = [
    "EMBEDDED",
    "LabelledTable",
    "builtin",
    "checked_labels",
    "digits",
    "is_text",
    "keep_read_only",
    "table",
]

EMBEDDED = ("breast_cancer", "digits", "iris", "wine")  # in scikit-learn


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledTable:
    """Rows of features, the class of each, and its group where rows come in groups.

    >>> LabelledTable(features=np.eye(2), labels=np.array(["cat", "dog"])).features.shape
    (2, 2)
    """

    features: NDArray[np.floating]  # (n, d)
    labels: NDArray[Any]  # (n,)
    groups: NDArray[Any] | None = None  # (n,)

    def __post_init__(self) -> None:
        features = _checked_features(np.asarray(self.features))
        keep_read_only(self, "features", features)
        keep_read_only(self, "labels", checked_labels("labels", self.labels, len(features)))
        if self.groups is not None:
            keep_read_only(self, "groups", checked_labels("groups", self.groups, len(features)))


def keep_read_only(table: object, name: str, values: NDArray[Any]) -> None:
    """Set a field of a frozen table to a read-only view: loaded tables are shared."""
    view = values.view()
    view.flags.writeable = False
    object.__setattr__(table, name, view)


def _checked_features(features: NDArray[Any]) -> NDArray[np.floating]:
    if features.dtype.kind not in "biuf":
        raise DataError(f"features must be real numbers, got values of type {features.dtype}")
    if features.ndim != 2 or not features.size:
        raise DataError(
            f"expected features (n, d) with at least one row and column, got {features.shape}"
        )
    if features.dtype != np.float32:
        features = features.astype(np.float64, copy=False)
    finite = np.isfinite(features).all(axis=1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise DataError(
            f"features hold a NaN or an infinite value, first in row {row}; fill it in or drop "
            "the row"
        )
    return features


def checked_labels(what: str, labels: NDArray[Any], n_rows: int) -> NDArray[Any]:
    """Return labels, (n_rows,); refuse missing ones."""
    labels = plain_labels(np.asarray(labels))
    if labels.shape != (n_rows,):
        raise DataError(f"expected {what} ({n_rows},), one for each row, got {labels.shape}")
    if labels.dtype.kind in "fcO":
        missing = sum(label is None or is_nan(label) for label in labels.tolist())
        if missing:
            raise DataError(f"{missing} of {n_rows} {what} are missing; drop those rows")
    return labels


@lru_cache(maxsize=len(EMBEDDED))
def builtin(name: str) -> LabelledTable:
    """Return one of the data sets that come with scikit-learn, as it is.

    >>> builtin("iris").features.shape
    (150, 4)
    """
    if name not in EMBEDDED:
        raise ConfigurationError(
            f"no embedded data set {name!r}; choose from {', '.join(EMBEDDED)}"
        )
    try:
        loaders = importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "sklearn") from error
    features, labels = getattr(loaders, f"load_{name}")(return_X_y=True)
    return LabelledTable(features=features, labels=labels)


@lru_cache(maxsize=1)
def digits() -> LabelledTable:
    """Return scikit-learn's 1,797 handwritten digits of 8 x 8 pixels in [0, 1].

    >>> digits().features.shape, float(digits().features.max())
    ((1797, 64), 1.0)
    """
    raw = builtin("digits")
    return LabelledTable(features=raw.features / 16, labels=raw.labels)


def table(
    path: str | Path, label: str, group: str | None = None, features: Sequence[str] | None = None
) -> LabelledTable:
    """Read a labelled table from a Parquet, CSV or TSV file.

    Without ``features``, every column but the label and the group is a feature.
    """
    path = Path(path)
    state = path.stat() if path.is_file() else None  # a file that changes is read again
    version = (state.st_size, state.st_mtime_ns) if state else (0, 0)
    chosen = None if features is None else tuple(features)
    return _read_table(path.absolute(), version, label, group, chosen)


@lru_cache(maxsize=8)
def _read_table(
    path: Path,
    _version: tuple[int, int],
    label: str,
    group: str | None,
    features: tuple[str, ...] | None,
) -> LabelledTable:
    frame = read_frame(path)
    special = [label] if group is None else [label, group]
    names = list(frame.columns)
    chosen = [n for n in names if n not in special] if features is None else list(features)
    missing = [name for name in (*special, *chosen) if name not in names]
    if missing:
        raise DataError(f"no column {', '.join(missing)}; {path.name} has: {', '.join(names)}")
    if len({*special, *chosen}) < len(special) + len(chosen):
        raise DataError("label, group and features must be different columns, each named once")
    for name in chosen:
        _refuse_text(frame, name)
    return LabelledTable(
        features=features_of(frame, chosen),
        labels=np.asarray(frame[label].to_numpy()),
        groups=None if group is None else np.asarray(frame[group].to_numpy()),
    )


def _refuse_text(frame: Frame, name: str) -> None:
    if is_text(np.asarray(frame[name].to_numpy())):
        raise DataError(
            f"column {name} holds text; drop it from the file, or (in Python) name the features "
            "without it"
        )


def is_text(values: NDArray[Any]) -> bool:
    """Return whether a column holds text."""
    return values.dtype.kind == "O" and any(isinstance(value, str) for value in values.tolist())
