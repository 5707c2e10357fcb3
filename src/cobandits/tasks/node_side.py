"""What nodes compute for :class:`cobandits.tasks.spread.SpreadTasks`, each for its own tasks."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cobandits.errors import DataError
from cobandits.files import write_whole
from cobandits.frames import parquet_bytes
from cobandits.tasks.checks import Codes, Floats
from cobandits.tasks.held import HeldTasks
from cobandits.tasks.programs import Place
from cobandits.tasks.results import TaskFit
from cobandits.tasks.rows import TaskRows

__all__ = [
    "attribute",
    "called",
    "data",
    "fit_sums",
    "folds",
    "item",
    "joined",
    "labels",
    "predicted",
    "rows_here",
    "scatter",
    "selected",
    "skip",
    "taken",
    "written",
]

Before = Mapping[tuple[int, int], int]  # rows before a block of a shard
_CHUNK = 1 << 20  # random numbers drawn at once, to be skipped
_ADVANCES = (np.random.PCG64, np.random.PCG64DXSM)  # by one for each random number


def data(place: Place) -> HeldTasks:
    """Return the tasks of a place."""
    return place.data


def attribute(value: object, name: str) -> Any:
    """Return an attribute."""
    return getattr(value, name)


def called(value: object, name: str, *arguments: object) -> Any:
    """Return the result of a method."""
    return getattr(value, name)(*arguments)


def item(values: tuple[Any, ...], place: int) -> Any:
    """Return an entry of a tuple."""
    return values[place]


def labels(tasks: HeldTasks) -> list[Hashable]:
    """Return the labels of the tasks, in order."""
    return list(tasks.labels)


def joined(a: dict[Any, Any], b: dict[Any, Any]) -> dict[Any, Any]:
    """Return the entries of both."""
    return a | b


def fit_sums(fit: TaskFit) -> tuple[Floats, float, Floats, int]:
    """Return the gradient, the cost, ``W diag(n) W'`` and 1 if weights may not be unique."""
    return fit.gradient, fit.cost, fit.weighted, int(not fit.determined)


def rows_here(place: Place, tasks: HeldTasks) -> dict[tuple[int, int], int]:
    """Return the number of rows, by place."""
    return {(place.shard, place.block): tasks.n_rows}


def scatter(
    place: Place, tasks: HeldTasks, means: Floats, every: int, before: Before, centred: bool
) -> tuple[Floats, int, int]:
    """Return the sum of ``v v'``, its number of rows, and 1 if it is over a part of them."""
    first = before[place.shard, place.block]
    found = tasks.scatter(means, every, first, centred=centred)
    return found.total, found.n_rows, int(found.sampled)


def folds(
    place: Place, tasks: TaskRows, n_folds: int, rng: np.random.Generator, before: Before
) -> Codes:
    """Return the fold of each row here: the same as if all rows were in one place."""
    first = before[place.shard, place.block]
    rng = copy.deepcopy(rng)
    skip(rng, first)
    return tasks.folds(n_folds, rng, first)


def selected(tasks: TaskRows, fold_of: Codes, fold: int, without: bool) -> TaskRows:
    """Return the rows of a fold, or all but these."""
    held = fold_of == fold
    return tasks.select(~held if without else held)


def taken(tasks: HeldTasks, columns: Floats, wanted: tuple[Hashable, ...]) -> tuple[Floats, Codes]:
    """Return the columns of ``wanted`` labels, (k, m), 0 for those that are elsewhere."""
    places = {label: place for place, label in enumerate(tasks.labels)}
    found = np.zeros((len(columns), len(wanted)))
    known = np.array([label in places for label in wanted], np.int64)
    for k in np.flatnonzero(known):
        found[:, k] = columns[:, places[wanted[k]]]
    return found, known


def written(place: Place, tasks: HeldTasks, columns: Floats, path: str) -> int:
    """Write a Parquet file with a row per task here: its label, and its column."""
    named = {f"weight_{k}": row for k, row in enumerate(columns)}
    _write(place, path, "part", {"task": list(tasks.labels), **named})
    return tasks.n_tasks


def predicted(place: Place, tasks: HeldTasks, weights: Floats, path: str, B: Floats) -> int:
    """Write a Parquet file with the task, the reward and the prediction of every row here."""
    if not isinstance(tasks, TaskRows):
        raise DataError("a prediction needs rows, and statistics have none; give rows")
    values = np.einsum("nr,nr->n", tasks.rows @ B, weights.T[tasks.owners])
    named = [tasks.labels[t] for t in tasks.owners]
    table = {"task": named, "reward": tasks.rewards, "prediction": values}
    _write(place, path, "predictions", table)
    return tasks.n_rows


def _write(place: Place, path: str, name: str, table: Mapping[str, Any]) -> None:
    to = Path(path) / f"{name}-{place.shard:05d}-{place.block:05d}.parquet"
    write_whole(to, parquet_bytes(dict(table)))


def skip(rng: np.random.Generator, n: int) -> None:
    """Leave out the next ``n`` numbers of ``rng.random``."""
    if isinstance(rng.bit_generator, _ADVANCES):
        rng.bit_generator.advance(n)
        return
    for start in range(0, n, _CHUNK):
        rng.random(min(_CHUNK, n - start))
