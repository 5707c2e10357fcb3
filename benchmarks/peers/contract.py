"""What a library must offer to be compared: a learner that decides and learns for many tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Codes", "Floats", "Learner", "Peer", "Setting", "Unable"]

Codes = NDArray[np.int64]
Floats = NDArray[np.floating]


class Learner(Protocol):
    """One library, set up for many tasks: what a user of it would write."""

    def decide(self, tasks: Codes, arms: Floats) -> Codes:
        """Chosen arms (m,) for tasks (m,) that see arms (m, K, d)."""
        ...

    def learn(self, tasks: Codes, arms: Floats, chosen: Codes, rewards: Floats) -> None:
        """Take the rewards (m,) of the requests last decided, in the same order."""
        ...


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a learner is made for."""

    dim: int
    n_tasks: int
    n_arms: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One library in one mode."""

    name: str  # shown in tables: "vw squarecb, interactions"
    library: str  # its distribution on the registry: "vowpalwabbit"
    module: str  # what is imported: "vowpalwabbit"
    make: Callable[..., Learner]  # make(setting, **parameters)
    grid: Mapping[str, tuple[float | str, ...]]  # parameters and the values to try: the product is
    exact: bool  # least squares or posterior of each task to the end, no stochastic gradient
    shares: bool  # whether tasks learn from each other
    note: str = ""  # what a reader should know, one line
    most_numbers: int | None = None  # n_tasks * dim**2: it is too slow for larger ones


@dataclass(frozen=True, kw_only=True)
class Unable:
    """A library, or a mode of it, that cannot do the task."""

    name: str
    library: str
    why: str
