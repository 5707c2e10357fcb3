"""Bodies of events as JSON: exact for numbers, the same text for the same content."""

from __future__ import annotations

import datetime
from typing import Any, TypeVar

import numpy as np

from cobandits.errors import DataError, MissingExtraError

try:
    import msgspec
except ImportError as error:  # pragma: no cover - tests have every extra
    raise MissingExtraError("msgspec", "engine") from error

__all__ = ["Struct", "decoded", "decoded_as", "encoded", "field"]

Struct = msgspec.Struct
field = msgspec.field
Made = TypeVar("Made")


def _plain(value: object) -> Any:
    """Return a value of NumPy or a date as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, datetime.date):
        return value.isoformat()
    raise NotImplementedError


_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=_plain)
_decoder = msgspec.json.Decoder()


def encoded(value: object) -> bytes:
    """Return JSON with sorted names; NaN becomes null, which means missing.

    >>> encoded({"b": np.float64(0.1), "a": [float("nan")]})
    b'{"a":[null],"b":0.1}'
    """
    try:
        return _encoder.encode(value)
    except (TypeError, NotImplementedError, ValueError, RecursionError) as error:
        raise DataError(
            f"this cannot be written as JSON ({error}); give texts, numbers, lists and mappings"
        ) from None


def decoded(text: bytes | str) -> Any:
    """Return what :func:`encoded` was given, as plain lists, mappings, texts and numbers."""
    return _decoder.decode(text)


def decoded_as(kind: type[Made], text: bytes | str) -> Made:
    """Return JSON as a :class:`Struct`; refuse what does not fit it."""
    return msgspec.json.decode(text, type=kind)
