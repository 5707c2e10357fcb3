"""What studies have in common: cells over values of one size, and fitted powers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits.intervals import t_interval
from cobandits.lab.cells import Estimation, Parameters
from cobandits.lab.panels.base import Scale
from cobandits.lab.records import Record, configuration

__all__ = ["Exponent", "Sweep", "estimations", "exponent", "table", "trials_of"]

Floats = NDArray[np.float64]


class Exponent(NamedTuple):
    """The power of a size that a quantity grows with, and half of its 95 % interval."""

    value: float
    half: float

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.half:.2f}" if self.half else f"{self.value:.2f}"


def exponent(sizes: Floats, trials: Floats) -> Exponent:
    """Fit a power of the sizes, (point,), to each trial, (trial, point); return the mean power.

    >>> exponent(np.array([1.0, 2.0, 4.0]), np.array([[3.0, 12.0, 48.0], [1.0, 4.0, 16.0]])).value
    2.0
    """
    slopes = np.polyfit(np.log(sizes), np.log(trials).T, 1)[0]
    mean, half = t_interval(np.atleast_1d(slopes))
    return Exponent(round(float(mean), 12), float(half))


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Values of one size; the others stay as they are."""

    name: str  # of the parameter
    label: str  # on the axis
    values: tuple[float, ...]
    quick: tuple[float, ...]  # those of a quick run

    def at(self, scale: Scale) -> tuple[float, ...]:
        """Return the values at a scale."""
        return self.quick if scale.quick else self.values


def trials_of(scale: Scale) -> range:
    """Return the trials of a study: a tenth of those of a panel."""
    return range(max(1, scale.trials // 10))


def estimations(
    scale: Scale,
    sizes: Iterable[Mapping[str, Any]],
    estimator: Parameters,
    *,
    name: str = "altgdmin",
) -> list[Estimation]:
    """Return a fit per size and trial; a size is the environment's parameters and ``n_rows``."""
    return [
        Estimation(
            seed=scale.seed,
            trial=trial,
            environment_parameters={k: v for k, v in size.items() if k != "n_rows"},
            n_rows=int(size["n_rows"]),
            estimator=name,
            estimator_parameters=estimator,
        )
        for size in sizes
        for trial in trials_of(scale)
    ]


def table(
    records: Sequence[Record], name: str, value: Callable[[Record], float]
) -> tuple[Floats, Floats]:
    """Return the values of a parameter in records, (point,), and a quantity, (trial, point)."""
    found: dict[float, list[float]] = {}
    for record in records:
        cell = configuration(record)
        known = {**cell, **cell["environment_parameters"], **cell.get("estimator_parameters", {})}
        found.setdefault(float(known[name]), []).append(value(record))
    sizes = sorted(found)
    return np.array(sizes), np.array([found[size] for size in sizes]).T
