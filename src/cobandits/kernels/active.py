"""Statistics of the features that a task uses: fewer numbers than its rows where many are 0.

A pixel that is 0 in all of a task's rows adds nothing to any pass. Without such features a task
with many rows is smaller as a Gram matrix, of which half is kept. Statistics are in double
precision: more exact than passes over rows in single precision, less than those in double.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.kernels.grams import gram_least_squares
from cobandits.kernels.normal import (
    Fit,
    RidgePenalty,
    pivot_tolerance,
    weight_penalty,
    with_ridge_gradient,
)
from cobandits.kernels.rows import COMPILED

if COMPILED:
    from cobandits.compiled import _pass

__all__ = [
    "ActiveStatistics",
    "active_least_squares",
    "active_statistics",
    "packed_least_squares",
    "packed_statistics",
]

Floats = NDArray[np.floating]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_BAND = 8  # rows of a Gram matrix that are kept together, as in compiled/_gram_kernel.h
_DOUBTFUL = 1000.0  # times the tolerance of a pivot: such tasks are solved again, without haste
_CACHE_LINE = 64  # bytes
_GAIN = 1.5  # by how much fewer bytes statistics must have to be used


class ActiveStatistics(NamedTuple):
    """The statistics of all tasks, each in the features that are not 0 in all of its rows."""

    grams: Doubles  # half of each symmetric matrix, by bands of eight rows
    moments: Doubles  # (n_features,), Phi_t' y_t, task after task
    squares: Doubles  # (T,), y_t' y_t
    features: Codes  # (n_features,), the features of each task, filled up to eights with -1
    starts: Codes  # (T + 1,), where the features of a task begin
    dim: int


def active_statistics(rows: Floats, rewards: Floats, offsets: Codes) -> ActiveStatistics | None:
    """Return the statistics of the tasks; None where a pass over them would gain nothing.

    That is so for rows in double precision, whose exactness would be lost, for dense rows that
    are few, and without the compiled pass.
    """
    if not COMPILED or rows.dtype != np.float32:
        return None
    used = [_used(rows[first:last]) for first, last in pairwise(offsets)]
    widths = np.array([len(one) for one in used])
    if _GAIN * 8 * (widths * (widths + _BAND) // 2).sum() > rows.nbytes:
        return None
    parts = [
        _statistics(rows[first:last], rewards[first:last], one)
        for (first, last), one in zip(pairwise(offsets), used, strict=True)
    ]
    grams, moments, squares = zip(*parts, strict=True)
    return ActiveStatistics(
        grams=_aligned(np.concatenate(grams)),
        moments=np.concatenate(moments),
        squares=np.array(squares),
        features=np.concatenate(used),
        starts=np.concatenate([[0], np.cumsum(widths)]).astype(np.int64),
        dim=rows.shape[1],
    )


def packed_statistics(grams: Floats, moments: Floats, squares: Floats) -> ActiveStatistics | None:
    """Return the same of statistics, (T, d, d), (T, d) and (T,); None where that gains nothing."""
    used = [_filled(np.flatnonzero(np.diagonal(one))) for one in grams]
    widths = np.array([len(one) for one in used])
    sizes = widths * (widths + _BAND) // 2
    if not COMPILED or not sizes.any() or _GAIN * sizes.sum() > grams.size:
        return None
    packed, ends = _aligned_empty(sizes.sum()), np.cumsum(sizes)
    places = {width: _packing(width) for width in np.unique(widths).tolist()}
    for one, of, end, size in zip(grams, used, ends.tolist(), sizes.tolist(), strict=True):
        i, j = places[len(of)]
        # what fills up, -1, meets zeros in every product: any number will do
        np.take(one, of[i] * len(one) + of[j], out=packed[end - size : end], mode="wrap")
    features = np.concatenate(used)
    return ActiveStatistics(
        grams=packed,
        moments=moments[np.repeat(np.arange(len(grams)), widths), features].astype(np.float64),
        squares=squares.astype(np.float64),
        features=features,
        starts=np.concatenate([[0], np.cumsum(widths)]).astype(np.int64),
        dim=grams.shape[1],
    )


def _packing(width: int) -> tuple[Codes, Codes]:
    """Return row and column of each number of a packed matrix, in its order."""
    rows, columns = np.divmod(np.arange(width * width), max(width, 1))
    band = rows // _BAND
    left, on = columns < band * _BAND, columns // _BAND == band
    places = np.flatnonzero(left | on)
    order = np.lexsort((columns[places], rows[places], on[places], band[places]))
    return rows[places][order], columns[places][order]


def active_least_squares(active: ActiveStatistics, B: Floats) -> Fit | None:
    """Solve :func:`cobandits.kernels.least_squares`; None where a task has no single solution."""
    fit = _pass_over(active, B, 0.0)
    return fit if fit.determined else None


def packed_least_squares(
    packed: ActiveStatistics,
    grams: Floats,
    moments: Floats,
    squares: Floats,
    B: Floats,
    ridge: RidgePenalty,
) -> Fit:
    """Solve :func:`cobandits.kernels.gram_least_squares` from the same statistics, packed.

    Tasks that have no single solution are solved from the statistics as they were.
    """
    fit = _pass_over(packed, B, ridge, doubtful=_DOUBTFUL)
    if fit.determined:
        return fit
    rest = np.flatnonzero(fit.costs < 0)
    found = gram_least_squares(grams[rest], moments[rest], squares[rest], B, ridge)
    fit.weights[:, rest], fit.costs[rest] = found.weights, found.costs
    return fit._replace(gradient=fit.gradient + found.gradient, determined=found.determined)


def _pass_over(
    active: ActiveStatistics, B: Floats, ridge: RidgePenalty, doubtful: float = 1.0
) -> Fit:
    """Solve the tasks that have a single solution; the weights of others are 0, their costs -1.

    Pivots up to ``doubtful`` times the tolerance count as rounding error too.
    """
    (d, r), T = B.shape, len(active.squares)
    W, gradient, costs = np.empty((T, r)), np.empty((d, r)), np.empty(T)
    B_c = np.ascontiguousarray(B, np.float64)
    penalty = np.ascontiguousarray(weight_penalty(B_c, ridge))
    tolerance = doubtful * pivot_tolerance(r, B_c.dtype)
    n_singular = _pass.gram_least_squares(
        *active[:5], B_c, penalty, W, gradient, costs, d, r, tolerance
    )
    return with_ridge_gradient(Fit(W.T, gradient, costs, determined=not n_singular), B, ridge)


def _used(rows: Floats) -> Codes:
    """Return the features that are not 0 in all rows, filled up with -1 to a multiple of eight."""
    return _filled(np.flatnonzero(rows.any(axis=0)))


def _filled(features: Codes) -> Codes:
    return np.pad(features, (0, -len(features) % _BAND), constant_values=-1)


def _statistics(rows: Floats, rewards: Floats, used: Codes) -> tuple[Doubles, Doubles, float]:
    """Return a task's packed Gram matrix, moments and sum of squares in the features it uses."""
    Phi = np.zeros((len(rows), len(used)))
    Phi[:, used >= 0] = rows[:, used[used >= 0]]
    y = rewards.astype(np.float64)
    G = Phi.T @ Phi
    bands = range(0, len(used), _BAND)
    halves = [(G[i : i + _BAND, :i], G[i : i + _BAND, i : i + _BAND]) for i in bands]
    packed = [part.ravel() for half in halves for part in half]
    return np.concatenate([np.empty(0), *packed]), Phi.T @ y, float(y @ y)


def _aligned(numbers: Doubles) -> Doubles:
    """Return a copy that begins at a cache line: it is read faster."""
    out = _aligned_empty(len(numbers))
    out[...] = numbers
    return out


def _aligned_empty(length: int) -> Doubles:
    raw = np.empty(8 * length + _CACHE_LINE, np.uint8)
    begin = -raw.ctypes.data % _CACHE_LINE
    return raw[begin : begin + 8 * length].view(np.float64)
