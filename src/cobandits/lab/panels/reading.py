"""Records for pictures: by number of tasks, by noise, by trial."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from cobandits.environments import Synthetic
from cobandits.lab.records import Record, configuration, scalar
from cobandits.theory import Theory

__all__ = ["by_noise", "by_tasks", "ordered", "theory"]

Key = TypeVar("Key", int, float)


def by_tasks(records: Iterable[Record]) -> dict[int, list[Record]]:
    """Return the records by number of tasks, in rising order."""
    return _grouped(records, lambda record: int(_size(record)["n_tasks"]))


def by_noise(records: Iterable[Record]) -> dict[float, list[Record]]:
    """Return the records by standard deviation of the noise, in rising order."""
    return _grouped(records, lambda record: float(_size(record)["noise_std"]))


def ordered(records: Iterable[Record], kind: str) -> list[Record]:
    """Return the records of a kind of cell in the order of their trials."""
    of_kind = (record for record in records if record["kind"] == kind)
    return sorted(of_kind, key=lambda record: scalar(record, "trial"))


def theory(record: Record) -> Theory:
    """Return the constants of the theorems for the truth of a synthetic record."""
    cell = configuration(record)
    environment = Synthetic(**cell["environment_parameters"])
    problem = environment.problem(n_rows=1, seed=cell["seed"], trial=cell["trial"])
    return Theory.of(problem.theta, rank=environment.rank, noise_std=environment.noise_std)


def _size(record: Record) -> Mapping[str, Any]:
    parameters: Mapping[str, Any] = configuration(record)["environment_parameters"]
    return parameters


def _grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    groups: dict[Key, list[Record]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return {one: groups[one] for one in sorted(groups)}
