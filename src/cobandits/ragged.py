"""Arms of requests that differ in their number, or of which some are excluded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cobandits.errors import DataError

__all__ = ["Group", "RaggedArms", "as_rectangle", "joined_arms", "offered_arms"]

_FIELDS = ("flat", "counts", "numbers", "offered")

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Group(NamedTuple):
    """Requests with the same number of arms."""

    rows: Codes  # (g,), which requests
    arms: Floats  # (g, k, d)
    numbers: Codes  # (g, k), of the arms in their requests


@dataclass(frozen=True, kw_only=True, eq=False)
class RaggedArms:
    """The arms that can be chosen, request after request; those that are excluded are left out.

    Requests with the same number of arms are decided together, so one with very many costs the
    others nothing.

    >>> arms = RaggedArms.of([[[1.0], [2.0]], [[3.0], [4.0], [5.0]]])
    >>> len(arms), arms.counts.tolist(), arms.flat.ravel().tolist()
    (2, [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0])
    >>> RaggedArms.of(np.ones((1, 3, 2)), [[True, False, True]]).numbers.tolist()
    [0, 2]
    """

    flat: Floats  # (N, d)
    counts: Codes  # (m,), arms of each request
    numbers: Codes  # (N,), of each arm in its request, rising
    offered: Codes  # (m,), arms that each request has numbers for, also excluded ones

    @classmethod
    def of(
        cls,
        arms: Floats | ArrayLike | Sequence[ArrayLike],
        available: ArrayLike | Sequence[ArrayLike] | None = None,
    ) -> RaggedArms:
        """Return the arms, (K, d) for each request, of which flags, (K,), say what is available."""
        if isinstance(arms, np.ndarray) and arms.ndim == 3 and available is not None:
            return cls._of_array(arms, np.asarray(available))
        parts = [_checked(part, n) for n, part in enumerate(_each(arms, "arms"))]
        widths = {part.shape[1] for part in parts}
        if len(widths) > 1:
            raise DataError(f"arms have {min(widths)} features and {max(widths)}; give all as many")
        masks = _masks(parts, available)
        kept = [part[mask] for part, mask in zip(parts, masks, strict=True)]
        return cls(
            flat=np.concatenate(kept) if kept else np.zeros((0, 0)),
            counts=np.array([len(part) for part in kept], np.int64),
            numbers=np.concatenate([np.zeros(0, np.int64), *map(np.flatnonzero, masks)]),
            offered=np.array([len(part) for part in parts], np.int64),
        )

    @classmethod
    def _of_array(cls, arms: Floats, available: NDArray[Any]) -> RaggedArms:
        """Return the available ones of arms, (m, K, d), by flags, (m, K)."""
        if available.shape != arms.shape[:2] or available.dtype != np.bool_:
            raise DataError(
                f"available must be True or False for each arm, (m, K) = {arms.shape[:2]} of bool, "
                f"got shape {available.shape} of {available.dtype}"
            )
        counts = available.sum(axis=1)
        _check_counts(counts)
        return cls(
            flat=arms[available],
            counts=counts,
            numbers=np.nonzero(available)[1],
            offered=np.full(len(arms), arms.shape[1]),
        )

    def saved(self) -> dict[str, NDArray[Any]]:
        """Return what a file holds of the arms."""
        return {f"arms.{name}": getattr(self, name) for name in _FIELDS}

    @classmethod
    def read(cls, arrays: dict[str, NDArray[Any]]) -> RaggedArms:
        """Read what :meth:`saved` returned."""
        found = cls(**{name: arrays[f"arms.{name}"] for name in _FIELDS})
        found._check()
        return found

    def _check(self) -> None:
        """Refuse parts that contradict each other, as those of a damaged file may."""
        rows, arms = self.counts.shape, self.numbers.shape
        shapes = self.offered.shape == rows and len(rows) == len(arms) == 1
        whole = all(one.dtype.kind == "i" for one in (self.counts, self.numbers, self.offered))
        if not (shapes and whole and self.flat.ndim == 2 and len(self.flat) == arms[0]):
            raise DataError("arms have parts of different lengths or types")
        if self.counts.min(initial=1) < 1 or self.counts.sum() != arms[0]:
            raise DataError(f"arms of requests are {self.counts.sum()} in all, not {arms[0]}")
        rising = (np.diff(self.numbers) > 0) | (np.diff(self.owners) > 0)
        known = (self.numbers >= 0) & (self.numbers < self.offered[self.owners])
        if not (rising.all() and known.all()):
            raise DataError("numbers of arms must rise in each request, from 0 on")

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def dim(self) -> int:
        """Features of an arm, d."""
        return int(self.flat.shape[1])

    @property
    def width(self) -> int:
        """The most arms of any request, K."""
        return int(self.offered.max(initial=0))

    @cached_property
    def starts(self) -> Codes:
        """The first arm of each request, (m,)."""
        return np.cumsum(self.counts) - self.counts

    @cached_property
    def owners(self) -> Codes:
        """The request of each arm, (N,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    def __getitem__(self, rows: slice | Flags | Codes) -> RaggedArms:
        """Return the arms of some requests."""
        asked = np.arange(len(self))[rows]
        counts = self.counts[asked]
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(self.starts[asked], counts) + steps
        return RaggedArms(
            flat=self.flat[places],
            counts=counts,
            numbers=self.numbers[places],
            offered=self.offered[asked],
        )

    @classmethod
    def concatenate(cls, parts: Sequence[RaggedArms]) -> RaggedArms:
        """Return the requests of several as one."""
        return cls(**{name: np.concatenate([getattr(p, name) for p in parts]) for name in _FIELDS})

    def groups(self) -> Iterator[Group]:
        """Yield the requests that have the same number of arms."""
        for count in np.unique(self.counts).tolist():
            rows = np.flatnonzero(self.counts == count)
            places = self.starts[rows, None] + np.arange(count)  # (g, k)
            yield Group(rows, self.flat[places], self.numbers[places])

    def places(self, chosen: Codes) -> Codes:
        """Return where the chosen arms, (m,), are among all, (N,); refuse those that are not."""
        if len(chosen) != len(self):
            raise DataError(f"{len(chosen)} decisions for {len(self)} sets of arms; give one each")
        width = self.width + 1
        keys = self.owners * width + self.numbers  # rising
        wanted = np.arange(len(self)) * width + np.clip(chosen, 0, self.width)
        found = np.minimum(np.searchsorted(keys, wanted), max(0, len(keys) - 1))
        wrong = (keys[found] != wanted) | (chosen < 0)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            mine = self.numbers[self.starts[row] : self.starts[row] + self.counts[row]]
            raise DataError(
                f"arm {chosen[row]} was never offered in request {row}: it has the arms "
                f"{mine[:10].tolist()}{' and more' if len(mine) > 10 else ''}"
            )
        return np.asarray(found, np.int64)

    def spread(self, values: Floats, missing: float) -> Floats:
        """Return values of all arms, (N,), by request and number, (m, K)."""
        table = np.full((len(self), self.width), missing)
        table[self.owners, self.numbers] = values
        return table


def as_rectangle(arms: ArrayLike | Sequence[ArrayLike]) -> NDArray[Any] | None:
    """Return arms as an array, or None where requests differ in their number.

    >>> as_rectangle([[[1.0]], [[2.0]]]).shape, as_rectangle([[[1.0]], [[2.0], [3.0]]])
    ((2, 1, 1), None)
    """
    if isinstance(arms, np.ndarray) and arms.dtype != object:
        return arms
    try:
        found = np.asarray(arms)
    except ValueError:
        return None
    return None if found.dtype == object else found


def offered_arms(
    arms: ArrayLike | RaggedArms, available: ArrayLike | None = None
) -> NDArray[Any] | RaggedArms:
    """Return arms as an array, or ragged where requests differ in them."""
    if isinstance(arms, RaggedArms):
        return arms
    rectangle = as_rectangle(arms)
    if rectangle is None or available is not None:
        return RaggedArms.of(arms if rectangle is None else rectangle, available)
    return rectangle


def joined_arms(parts: list[Floats | RaggedArms]) -> Floats | RaggedArms:
    """Return the arms of several logs as one; an array where all have the same number."""
    arrays = [part for part in parts if not isinstance(part, RaggedArms)]
    if len(arrays) == len(parts) and len({part.shape[1] for part in arrays}) == 1:
        return np.concatenate(arrays)
    return RaggedArms.concatenate(
        [
            part
            if isinstance(part, RaggedArms)
            else RaggedArms.of(part, np.ones(part.shape[:2], bool))
            for part in parts
        ]
    )


def _checked(part: ArrayLike, request: int) -> Floats:
    """Return the arms of a request, (K, d), as floats."""
    try:
        arms = np.asarray(part)
    except ValueError:
        arms = np.empty((), object)
    if arms.dtype.kind not in "biuf" or arms.ndim != 2 or not len(arms):
        raise DataError(
            f"expected arms (K, d) of real numbers in request {request}, K at least 1, "
            f"got shape {arms.shape} of {arms.dtype}; give each arm as many features"
        )
    return arms if arms.dtype == np.float32 else arms.astype(np.float64, copy=False)


def _masks(
    parts: list[Floats], available: ArrayLike | Sequence[ArrayLike] | None
) -> list[NDArray[np.bool_]]:
    """Return which arms of each request are available, (K,) each."""
    if available is None:
        return [np.ones(len(part), bool) for part in parts]
    masks = [np.asarray(mask) for mask in _each(available, "available")]
    if len(masks) != len(parts):
        raise DataError(f"available has {len(masks)} requests, the arms {len(parts)}; give as many")
    for n, (mask, part) in enumerate(zip(masks, parts, strict=True)):
        if mask.shape != part.shape[:1] or mask.dtype != np.bool_:
            raise DataError(
                f"available must be True or False for each arm, {part.shape[:1]} of bool in "
                f"request {n}, got shape {mask.shape} of {mask.dtype}"
            )
    _check_counts(np.array([mask.sum() for mask in masks], np.int64))
    return masks


def _each(given: ArrayLike | Sequence[ArrayLike], name: str) -> list[ArrayLike]:
    """Return what is given for each request."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DataError(f"expected {name} for each request, got {given!r}; give a list of them")
    return list(given)


def _check_counts(counts: Codes) -> None:
    """Refuse a request without arms."""
    if counts.min(initial=1) < 1:
        row = int(counts.argmin())
        raise DataError(f"request {row} has no arm that is available; leave it out")
