"""Parts of a checkpoint, and a reader that refuses what does not fit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.archives import Arrays, Header
from cobandits.errors import ModelFileError

__all__ = ["ADVICE", "Part", "Reader", "refused"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
Shape = tuple[int | None, ...]  # None for any length

ADVICE = "load another copy, or let a new policy relearn its log"


class Part(NamedTuple):
    """What a part of the state writes: numbers and texts that JSON can hold, and arrays."""

    numbers: Header
    arrays: Arrays


def refused(what: str) -> ModelFileError:
    """Return the error that a damaged file raises."""
    return ModelFileError(f"holds {what}; it is damaged: {ADVICE}")


class Reader:
    """The part of a file whose names begin with a prefix.

    >>> reader = Reader("drift", {"drift": {"rows": 3}}, {"drift.baseline": np.ones(2)})
    >>> reader.count("rows"), reader.doubles("baseline", (2,)).tolist()
    (3, [1.0, 1.0])
    """

    def __init__(self, prefix: str, header: Header, arrays: Arrays) -> None:
        self._prefix, self._numbers, self._arrays = prefix, header[prefix], arrays

    def has(self, name: str) -> bool:
        """Tell whether there is an array of that name."""
        return self._full(name) in self._arrays

    def doubles(self, name: str, shape: Shape, *, above: float = -np.inf) -> Doubles:
        """Return an array of finite numbers above a bound."""
        values = self._finite_ones(name, shape, "f8")
        if not values.min(initial=np.inf) > above:
            raise refused(f"{values.min()} in {self._full(name)}, which are above {above:g}")
        return np.ascontiguousarray(values, np.float64)

    def singles(self, name: str, shape: Shape) -> NDArray[np.float32]:
        """Return an array of finite numbers of single precision."""
        return np.asarray(self._finite_ones(name, shape, "f4"), np.float32)

    def bits(self, name: str, shape: Shape) -> NDArray[np.uint8]:
        """Return an array of bytes."""
        return np.asarray(self._fitting(name, shape, "u1"), np.uint8)

    def codes(self, name: str, shape: Shape, *, least: int = 0, below: int = 2**62) -> Codes:
        """Return an array of whole numbers within bounds."""
        values = self._fitting(name, shape, "i8", "u1", "u2", "u4")
        if values.min(initial=least) < least:
            raise refused(f"{values.min()} in {self._full(name)}, the least is {least}")
        if values.size and values.max() >= below:
            raise refused(f"{values.max()} in {self._full(name)}, which are below {below}")
        return np.ascontiguousarray(values, np.int64)

    def number(self, name: str) -> float:
        """Return a finite number."""
        return self._finite(self._numbers[name], name)

    def pair(self, name: str) -> tuple[float, float]:
        """Return two finite numbers."""
        first, second = self._numbers[name]
        return self._finite(first, name), self._finite(second, name)

    def _finite(self, given: Any, name: str) -> float:
        """Return a number, or refuse it by its name if it is not finite."""
        value = float(given)
        if not np.isfinite(value):
            raise refused(f"{value} as {self._full(name)}")
        return value

    def variance(self, name: str) -> float:
        """Return a finite number of at least 0."""
        value = self.number(name)
        if value < 0:
            raise refused(f"{value} as {self._full(name)}, the least is 0")
        return value

    def count(self, name: str) -> int:
        """Return a whole number of at least 0."""
        value = int(self._numbers[name])
        if value < 0:
            raise refused(f"{value} as {self._full(name)}, the least is 0")
        return value

    def plain(self, name: str) -> Any:
        """Return a value of the header as it is."""
        return self._numbers[name]

    def _full(self, name: str) -> str:
        return f"{self._prefix}.{name}"

    def _finite_ones(self, name: str, shape: Shape, kind: str) -> NDArray[Any]:
        """Return an array of finite numbers of a type."""
        values = self._fitting(name, shape, kind)
        if not np.isfinite(values).all():
            raise refused(f"a NaN or an infinite value in {self._full(name)}")
        return values

    def _fitting(self, name: str, shape: Shape, *kinds: str) -> NDArray[Any]:
        """Return an array of numbers of one of some types, in any byte order."""
        values = self._arrays[self._full(name)]
        lengths = zip(values.shape, shape, strict=False)
        fits = values.ndim == len(shape) and all(n in (has, None) for has, n in lengths)
        if not fits or f"{values.dtype.kind}{values.dtype.itemsize}" not in kinds:
            wanted = str(shape).replace("None", "any")
            raise refused(
                f"{self._full(name)} of shape {values.shape} and type {values.dtype}, "
                f"expected {wanted} of type {kinds[0]}"
            )
        return values
