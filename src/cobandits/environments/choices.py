"""Tables of choices as environments: every arm's reward is known, and requests come one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cobandits import datasets
from cobandits.datasets import ChoiceTable
from cobandits.decisions import Round
from cobandits.errors import ConfigurationError
from cobandits.randomness import stream

__all__ = ["Choices"]

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The requests of a table in which every arm's reward is known, one request per round.

    A choice among alternatives is such a table: the reward is 1 for the arm that was chosen and
    0 for the others. Regret is exact: how much better the best arm of the request was. There are
    no more rounds than requests.

    Parameters
    ----------
    data : str, optional
        A real data set, of ``datasets.REAL``: yogurt, movielens, ... It needs the extra ``real``.
    file, request, task, arm, reward : str, optional
        A Parquet, CSV or TSV file with a row per request and arm, and its columns. All other
        columns are features, as :func:`~cobandits.datasets.choice_file` says.
    table : ChoiceTable, optional
        Arrays.
    n_tasks : int
        Play only the first tasks of the table; 0: all.
    shuffled : bool
        Whether requests come in random order, by seed and trial, or in that of the table.

    Examples
    --------
    >>> table = ChoiceTable(tasks=[7, 9, 7], arms=np.ones((3, 2, 4)), rewards=np.eye(3, 2))
    >>> environment = Choices(table=table, shuffled=False)
    >>> [(asked.tasks.tolist(), asked.means.tolist()) for asked in environment.rounds(9, seed=0)]
    [([0], [[1.0, 0.0]]), ([1], [[0.0, 1.0]]), ([0], [[0.0, 0.0]])]
    """

    name: ClassVar[str] = "choices"

    n_tasks: int = 0
    data: str | None = None
    file: str | Path | None = None
    request: str = "request"
    task: str = "task"
    arm: str = "arm"
    reward: str = "reward"
    shuffled: bool = True
    table: ChoiceTable | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given = [source for source in (self.data, self.file, self.table) if source is not None]
        if len(given) != 1:
            raise ConfigurationError(
                f"give data or a file (or a table, in Python) to say where requests come from, "
                f"got {len(given)} of them"
            )
        columns = (self.request, self.task, self.arm, self.reward)
        if self.file is None and columns != ("request", "task", "arm", "reward"):
            raise ConfigurationError(
                "request, task, arm and reward name columns of a file: give the file too"
            )
        there = self.choices.n_tasks
        if not 0 <= self.n_tasks <= there:
            raise ConfigurationError(
                f"n_tasks must be from 1 to the {there} tasks of the table, got {self.n_tasks}"
            )
        if not self.n_tasks:
            object.__setattr__(self, "n_tasks", there)

    @cached_property
    def choices(self) -> ChoiceTable:
        """The whole table."""
        if self.table is not None:
            return self.table
        if self.data is not None:
            return datasets.choice_data(self.data)
        assert self.file is not None
        return datasets.choice_file(
            self.file, request=self.request, task=self.task, arm=self.arm, reward=self.reward
        )

    @property
    def dim(self) -> int:
        """Features per arm, d."""
        return self.choices.dim

    @property
    def n_rounds(self) -> int:
        """The number of requests."""
        return len(self._requests)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the rewards within tasks, an upper bound for that of the noise."""
        codes, y = self.choices.codes[self._requests], self.choices.rewards[self._requests]
        means = np.bincount(codes, y.mean(axis=1)) / np.bincount(codes)
        return float(np.sqrt(np.mean((y - means[codes, None]) ** 2)))

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        """Yield ``n_rounds`` requests, or all there are; seed and trial determine their order."""
        table, order = self.choices, self._requests
        if self.shuffled:
            order = stream(seed, "environment", trial).permutation(order)
        for n in order[:n_rounds].tolist():
            one = slice(n, n + 1)
            yield Round(
                tasks=table.codes[one],
                arms=table.arms[one],
                means=table.rewards[one],
                rewards=table.rewards[one],
            )

    @cached_property
    def _requests(self) -> Codes:
        """The rows of the table that are played, (n,)."""
        return np.flatnonzero(self.choices.codes < self.n_tasks)
