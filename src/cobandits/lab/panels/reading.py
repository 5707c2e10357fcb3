"""Reading records for pictures: by number of tasks, by noise, by trial."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cobandits.environments import Synthetic
from cobandits.lab.cells import Record
from cobandits.theory import Theory

__all__ = ["array", "by_noise", "by_tasks", "ordered", "said", "scalar", "theory"]

Floats = NDArray[np.float64]
Key = TypeVar("Key", int, float)


def said(record: Record) -> dict[str, Any]:
    """Return what the cell of a record said."""
    return dict(json.loads(str(record["configuration"])))


def scalar(record: Record, column: str) -> float:
    """Return a number of a record."""
    value = record[column]
    assert isinstance(value, (int, float)), f"{column} is no number: {value!r}"
    return float(value)


def array(record: Record, column: str) -> Floats:
    """Return the numbers of a column, (n,)."""
    return np.asarray(record[column], np.float64)


def by_tasks(records: Iterable[Record]) -> dict[int, list[Record]]:
    """Return the records by their number of tasks, rising."""
    return _grouped(records, lambda record: int(_drawn(record)["n_tasks"]))


def by_noise(records: Iterable[Record]) -> dict[float, list[Record]]:
    """Return the records by their standard deviation of the noise, rising."""
    return _grouped(records, lambda record: float(_drawn(record)["noise_std"]))


def ordered(records: Iterable[Record], kind: str) -> list[Record]:
    """Return the records of a kind of cell in the order of their trials."""
    of_kind = (record for record in records if record["kind"] == kind)
    return sorted(of_kind, key=lambda record: scalar(record, "trial"))


def theory(record: Record) -> Theory:
    """Return what the theorems say of the truth that a synthetic record met."""
    told = said(record)
    environment = Synthetic(**told["environment_parameters"])
    problem = environment.problem(n_rows=1, seed=told["seed"], trial=told["trial"])
    return Theory.of(problem.theta, rank=environment.rank, noise_std=environment.noise_std)


def _drawn(record: Record) -> Mapping[str, Any]:
    parameters: Mapping[str, Any] = said(record)["environment_parameters"]
    return parameters


def _grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    groups: dict[Key, list[Record]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return {one: groups[one] for one in sorted(groups)}
