"""What every request needs: its checks, the features of the chosen arm, and errors to compare.

A service asks for one task at a time, and then a call of NumPy costs more than its work. So each
of these is one compiled call (``compiled/_fast_checks.c``) where the extension was built and the
numbers are doubles that lie side by side, and NumPy elsewhere.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from cobandits.compiled import _fast_checks
except ImportError:  # no compiler at installation
    COMPILED = False
else:
    COMPILED = True

__all__ = [
    "COMPILED",
    "add_errors",
    "are_at_most",
    "are_codes",
    "find_places",
    "is_plain",
    "take_rows",
    "take_vectors",
]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]

# Types are compared by identity, which is fast; an equal type that is another object takes the
# slower way.
_DOUBLE, _CODE = np.dtype(np.float64), np.dtype(np.int64)


def are_at_most(values: Floats, most: float) -> bool:
    """Tell whether all values are numbers of at most that size.

    >>> are_at_most(np.array([1.0, -2.0]), 2.0), are_at_most(np.array([np.nan]), 2.0)
    (True, False)
    """
    if COMPILED and is_plain(values):
        return _fast_checks.are_at_most(values, most)
    return bool((np.abs(values) <= np.float64(most)).all())  # 32 bits may not hold it


def are_codes(codes: Codes, count: int) -> bool:
    """Tell whether all codes, (m,), are from 0 to below ``count``.

    >>> are_codes(np.array([0, 2]), 3), are_codes(np.array([3]), 3)
    (True, False)
    """
    if COMPILED and codes.flags.c_contiguous:
        return _fast_checks.are_codes(codes, count)
    return bool(((codes >= 0) & (codes < count)).all())


def find_places(codes: Codes, places: dict[Hashable, int]) -> tuple[Codes, int]:
    """Return the place of each code, (m,), and how many have none: those get the next place.

    Codes lie side by side. Where any is negative, the number is -1.

    >>> found, missing = find_places(np.array([7, 5]), {5: 0})
    >>> found.tolist(), missing
    ([1, 0], 1)
    """
    if COMPILED:
        found = np.empty(len(codes), np.int64)
        return found, _fast_checks.find_places(codes, places, found)
    following = len(places)
    if codes.min(initial=0) < 0:
        return codes, -1
    found = np.array([places.get(code, following) for code in codes.tolist()], np.int64)
    return found, int((found == following).sum())


def take_rows(arms: Floats, chosen: Codes) -> Floats:
    """Return the features of chosen arms, (m, d), of all arms, (m, K, d).

    >>> take_rows(np.array([[[1.0], [2.0]], [[3.0], [4.0]]]), np.array([1, 0])).tolist()
    [[2.0], [3.0]]
    """
    m, K, d = arms.shape
    if COMPILED and is_plain(arms) and chosen.dtype is _CODE and chosen.flags.c_contiguous:
        rows = np.empty((m, d))
        _fast_checks.take_rows(arms, chosen, rows, K, d)
        return rows
    return np.asarray(arms[np.arange(m), chosen])


def take_vectors(
    arms: list[Any], name: str, dim: int, most: float
) -> tuple[list[str], NDArray[np.float64]] | None:
    """Return ids and numbers, (K, dim), of arms that have a list of numbers, and an id or none.

    Where no arm has an id, it is its place. None for all others, as where a number is larger than
    ``most``, and without the extension.
    """
    if not COMPILED:
        return None
    numbers = np.empty((len(arms), dim))
    ids = _fast_checks.take_vectors(arms, name, "id", numbers, most)
    return None if ids is None else (ids, numbers)


def add_errors(
    sums: NDArray[np.float64], thetas: NDArray[np.float64], places: Codes, rows: NDArray[np.float64]
) -> None:
    """Add the squared errors of predicting rows ``[x, y]``, (m, width + 1), to sums, (rivals,).

    Row i is predicted with each of the rivals' thetas at its place, (places, rivals, width); one
    whose place is -1 not at all.

    >>> sums = np.zeros(2)
    >>> add_errors(sums, np.array([[[1.0], [2.0]]]), np.array([0]), np.array([[3.0, 5.0]]))
    >>> sums.tolist()
    [4.0, 1.0]
    """
    if COMPILED and len(rows) and is_plain(rows):
        _fast_checks.add_errors(thetas, places, rows, sums)
        return
    there = places >= 0
    predicted = np.einsum("md,mcd->mc", rows[there, :-1], thetas[places[there]])
    sums += ((rows[there, -1:] - predicted) ** 2).sum(axis=0)


def is_plain(values: Floats) -> bool:
    """Tell whether values are doubles that lie side by side."""
    return values.dtype is _DOUBLE and values.flags.c_contiguous
