"""Sums over the rows of each task: all that least squares needs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from cobandits import kernels
from cobandits.errors import DataError
from cobandits.tasks.checks import Codes, Floats

__all__ = ["Sums", "check_sums", "no_sums", "scatter_around", "squared_moment", "task_sums"]

Sums = dict[str, Floats]  # the first axis is the task


def no_sums(dim: int) -> Sums:
    """Return the sums of no task."""
    return {
        "grams": np.zeros((0, dim, dim)),
        "moments": np.zeros((0, dim)),
        "feature_sums": np.zeros((0, dim)),
        "reward_sums": np.zeros(0),
        "squares": np.zeros(0),
        "counts": np.zeros(0),
    }


def task_sums(X: Floats, v: Floats, ends: Sequence[int], chosen: Codes | None = None) -> Sums:
    """Return the sums of tasks with rows (n, d) and rewards (n,), from end to end.

    If rows are ``chosen``, by number, the ends and the rewards are those of the chosen ones. They
    are gathered task by task, which needs no memory for all.
    """
    d, T = X.shape[1], len(ends) - 1
    sides = np.stack([np.ones_like(v), v])  # (2, n)
    grams, products = np.empty((T, d, d)), np.empty((T, 2, d))
    for k, (first, last) in enumerate(pairwise(ends)):
        where = slice(first, last) if chosen is None else chosen[first:last]
        mine = X[where].astype(np.float64, copy=False)
        np.matmul(mine.T, mine, out=grams[k])
        np.matmul(sides[:, first:last], mine, out=products[k])
    owners = np.repeat(np.arange(T), np.diff(ends))
    return {
        "grams": grams,
        "moments": np.ascontiguousarray(products[:, 1]),
        "feature_sums": np.ascontiguousarray(products[:, 0]),
        "reward_sums": np.bincount(owners, v, T).astype(np.float64, copy=False),
        "squares": np.bincount(owners, v**2, T).astype(np.float64, copy=False),
        "counts": np.diff(ends).astype(np.float64),
    }


def check_sums(sums: Mapping[str, Floats]) -> None:
    """Refuse sums that are not finite."""
    if not all(np.isfinite(part).all() for part in sums.values()):
        raise DataError("values are too large to square; scale the features and rewards")


def squared_moment(X: Floats, v: Floats) -> Floats:
    """Return the sum of ``y^2 phi phi'`` over rows, (d, d)."""
    total = np.zeros((X.shape[1], X.shape[1]))
    for chunk in kernels.chunks(len(v), X.shape[1] * X.itemsize):
        weighted = X[chunk] * v[chunk, None]
        total += weighted.T @ weighted
    return total


def scatter_around(rows: Floats, means: Floats, owners: Codes) -> Floats:
    """Return the sum of ``v v'`` over rows around their tasks' ``means``, (T, d), as (d, d)."""
    d = rows.shape[1]
    total = np.zeros((d, d))
    buffer = np.empty((max(d, 256), d))
    for i in range(0, len(rows), len(buffer)):
        block = slice(i, i + len(buffer))
        centred = buffer[: len(owners[block])]
        np.subtract(rows[block], means[owners[block]], out=centred)
        total += centred.T @ centred
    return total
