"""Records: what the run of one cell leaves, as one flat row of a table.

Everywhere in the lab a record is this, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Record", "array", "configuration", "scalar"]

Record = dict[str, str | int | float | list[int] | list[float] | None]
Floats = NDArray[np.float64]

_REMEMBERED = 2**15  # configurations: all of a full reproduction


def configuration(record: Record) -> Mapping[str, Any]:
    """Return the configuration of the record's cell; each is parsed once.

    >>> configuration({"configuration": '{"rounds":40}'})["rounds"]
    40
    """
    return _parsed(str(record["configuration"]))


@lru_cache(maxsize=_REMEMBERED)
def _parsed(text: str) -> Mapping[str, Any]:
    return dict(json.loads(text))


def scalar(record: Record, column: str) -> float:
    """Return the number in a column.

    >>> scalar({"trial": 3}, "trial")
    3.0
    """
    value = record[column]
    assert isinstance(value, (int, float)), f"{column} is no number: {value!r}"
    return float(value)


def array(record: Record, column: str) -> Floats:
    """Return the numbers in a column, (n,)."""
    return np.asarray(record[column], np.float64)
