"""Task labels as JSON, for files: text, numbers, dates, and tuples of them."""

from __future__ import annotations

import datetime
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from cobandits.errors import DataError

__all__ = ["check_labels", "decoded_label", "encoded_label"]

_TIMES = {"datetime": datetime.datetime, "date": datetime.date}  # labels saved as ISO text


def check_labels(labels: Iterable[Hashable]) -> None:
    """Refuse labels that :meth:`cobandits.Estimate.save` cannot write.

    >>> check_labels(["Oslo", 7, ("Oslo", 7)])
    """
    for label in labels:
        encoded_label(label)


def encoded_label(label: Hashable) -> Any:
    """Return a label as JSON; tuples and times as {kind: content}."""
    if isinstance(label, tuple):
        return {"tuple": [encoded_label(part) for part in label]}
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, datetime.date):
        kind, text = _kind_of(label), label.isoformat()
        if _TIMES[kind].fromisoformat(text) == label:  # not so with nanoseconds
            return {kind: text}
    if label is None or isinstance(label, (str, int, float, bool)):
        return label
    raise DataError(
        f"a task label of type {type(label).__name__} cannot be saved; "
        "use strings, numbers, booleans, dates, datetimes, None or tuples of them"
    )


def _kind_of(label: datetime.date) -> str:
    return "datetime" if isinstance(label, datetime.datetime) else "date"


def decoded_label(label: Any) -> Hashable:
    """Return the label of :func:`encoded_label`'s JSON."""
    if isinstance(label, dict):
        ((kind, content),) = label.items()
        if kind in _TIMES:
            return _TIMES[kind].fromisoformat(content)
        return tuple(decoded_label(part) for part in label["tuple"])
    value: Hashable = label
    hash(value)  # a list is no label
    return value
