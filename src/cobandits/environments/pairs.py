"""Pairs of classes as bandits: tell which of two examples is of the larger class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cobandits import datasets
from cobandits.datasets import LabelledTable
from cobandits.decisions import Round
from cobandits.errors import ConfigurationError, DataError
from cobandits.randomness import stream

__all__ = ["ClassPairs", "DigitPairs", "MNISTPairs", "Pair"]

Codes = NDArray[np.int64]

_MOST_PAIRS = 10_000_000  # more: the labels are numbers, not classes


class Pair(NamedTuple):
    """The two classes of a task, and their group where rows come in groups."""

    smaller: Any  # reward 0
    larger: Any  # reward 1
    group: Any = None


class Cells(NamedTuple):
    """The rows of a table by cell, which is a class within a group, and the pairs of cells."""

    rows: Codes  # (n,), sorted by cell
    starts: Codes  # (cells,), where in ``rows`` a cell begins
    counts: Codes  # (cells,)
    pairs: Codes  # (pairs, 2), the smaller class first
    names: list[tuple[Any, Any]]  # (cells,), class and group


@dataclass(frozen=True, kw_only=True)
class _Pairs(ABC):
    """Tasks that are pairs of classes; the arms of a round are one example of each.

    The example of the larger class has reward 1, the other 0, plus noise. Examples are drawn at
    random, with replacement, and so is the order of the two.
    """

    n_tasks: int
    noise_std: float = 1e-3
    intercept: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.n_tasks <= self.n_pairs:
            raise ConfigurationError(
                f"n_tasks must be from 1 to the {self.n_pairs} pairs of classes, got {self.n_tasks}"
            )
        if not 0 <= self.noise_std < np.inf:
            raise ConfigurationError(f"noise_std must be finite and >= 0, got {self.noise_std}")

    @property
    @abstractmethod
    def data(self) -> LabelledTable:
        """The table that examples are drawn from."""

    @property
    def n_pairs(self) -> int:
        """The number of pairs of classes."""
        return len(self._cells.pairs)

    @property
    def dim(self) -> int:
        """Features per arm, d, with the intercept."""
        return int(self.data.features.shape[1]) + self.intercept

    def pairs(self, *, seed: int, trial: int = 0) -> list[Pair]:
        """Return the two classes of each task: all pairs, or ``n_tasks`` drawn at random."""
        names, tasks = self._cells.names, self._tasks(seed, trial)
        return [Pair(names[a][0], names[b][0], names[a][1]) for a, b in tasks.tolist()]

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        """Yield ``n_rounds`` rounds of all tasks; the same for the same seed and trial."""
        rows, starts, counts, _, _ = self._cells
        pairs = self._tasks(seed, trial)  # (T, 2)
        drawing, noise = stream(seed, "arms", trial), stream(seed, "noise", trial)
        tasks = np.arange(self.n_tasks)
        for _ in range(n_rounds):
            examples = rows[starts[pairs] + drawing.integers(counts[pairs])]  # (T, 2)
            means = np.tile([0.0, 1.0], (self.n_tasks, 1))
            swapped = drawing.random(self.n_tasks) < 0.5
            for array in (examples, means):
                array[swapped] = array[swapped, ::-1]
            rewards = means + self.noise_std * noise.standard_normal((self.n_tasks, 1))
            yield Round(tasks=tasks, arms=self._arms(examples), means=means, rewards=rewards)

    def _tasks(self, seed: int, trial: int) -> Codes:
        """Return the two cells of each task, (T, 2)."""
        pairs = self._cells.pairs
        if self.n_tasks == len(pairs):
            return pairs
        rng = stream(seed, "pairs", trial)
        return pairs[np.sort(rng.choice(len(pairs), self.n_tasks, replace=False))]

    def _arms(self, examples: Codes) -> NDArray[np.floating]:
        features = self.data.features
        if not self.intercept:
            return np.asarray(features[examples])
        arms = np.ones((*examples.shape, features.shape[1] + 1), features.dtype)
        arms[..., :-1] = features[examples]
        return arms

    @cached_property
    def _cells(self) -> Cells:
        return _cells(self.data)


@dataclass(frozen=True, kw_only=True)
class DigitPairs(_Pairs):
    """Pairs of scikit-learn's 8 x 8 digits; it needs the extra ``sklearn``.

    Parameters
    ----------
    n_tasks : int
        How many of the 45 pairs; fewer are drawn at random, by seed and trial.
    noise_std : float
        Standard deviation of the noise of rewards.
    intercept : bool
        Append a feature that is 1.

    Examples
    --------
    >>> environment = DigitPairs(n_tasks=3)
    >>> environment.pairs(seed=0)[0]._fields, environment.dim
    (('smaller', 'larger', 'group'), 64)
    >>> [asked.arms.shape for asked in environment.rounds(2, seed=0)]
    [(3, 2, 64), (3, 2, 64)]
    """

    name: ClassVar[str] = "digits"

    n_tasks: int = 45

    @property
    def data(self) -> LabelledTable:
        """The table that examples are drawn from."""
        return datasets.digits()


@dataclass(frozen=True, kw_only=True)
class MNISTPairs(_Pairs):
    """Pairs of MNIST's digits, as in section 6 of the paper.

    The images come from the cache: ``cobandits data fetch mnist`` puts them there.
    Parameters are those of :class:`DigitPairs`.

    >>> MNISTPairs(n_tasks=10, intercept=True).dim
    785
    """

    name: ClassVar[str] = "mnist"

    n_tasks: int = 45

    @property
    def data(self) -> LabelledTable:
        """The table that examples are drawn from."""
        return datasets.mnist()

    # Known, so that nothing is loaded before rounds are drawn.
    @property
    def n_pairs(self) -> int:
        """The number of pairs of classes."""
        return 45

    @property
    def dim(self) -> int:
        """Features per arm, d, with the intercept."""
        return datasets.KNOWN["mnist"].features + self.intercept


@dataclass(frozen=True, kw_only=True)
class ClassPairs(_Pairs):
    """Pairs of the classes of any table: an embedded data set, a file, or arrays.

    Classes are in sorted order: numbers by size, text by letters. Where rows come in groups,
    a pair is of two classes within a group.

    Parameters
    ----------
    dataset : str, optional
        One that comes with scikit-learn: iris, wine, breast_cancer, digits.
    file, label, group : str, optional
        A Parquet, CSV or TSV file, and its columns with the class and the group of a row. All
        others are features.
    table : LabelledTable, optional
        Arrays.
    n_tasks : int
        How many of the pairs; fewer than all are drawn at random, by seed and trial. 0: all.
    noise_std, intercept
        As in :class:`DigitPairs`.

    Examples
    --------
    >>> ClassPairs(dataset="iris").pairs(seed=0)
    [Pair(smaller=0, larger=1, group=None),
     Pair(smaller=0, larger=2, group=None),
     Pair(smaller=1, larger=2, group=None)]
    >>> table = LabelledTable(features=np.eye(3), labels=np.array(["a", "b", "b"]))
    >>> ClassPairs(table=table).n_tasks
    1
    """

    name: ClassVar[str] = "classification"

    n_tasks: int = 0
    dataset: str | None = None
    file: str | Path | None = None
    label: str | None = None
    group: str | None = None
    table: LabelledTable | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        given = [source for source in (self.dataset, self.file, self.table) if source is not None]
        if len(given) != 1:
            raise ConfigurationError(
                f"give a dataset or a file (or a table, in Python) to say where rows come from, "
                f"got {len(given)} of them"
            )
        if self.file is None and (self.label, self.group) != (None, None):
            raise ConfigurationError("label and group name columns of a file: give the file too")
        if not self.n_tasks:
            object.__setattr__(self, "n_tasks", self.n_pairs)
        super().__post_init__()

    @cached_property
    def data(self) -> LabelledTable:
        """The table that examples are drawn from."""
        if self.table is not None:
            return self.table
        if self.dataset is not None:
            return datasets.builtin(self.dataset)
        if self.file is None or self.label is None:
            raise ConfigurationError("a file needs label: the column with the class of a row")
        return datasets.table(self.file, self.label, self.group)


def _cells(table: LabelledTable) -> Cells:
    classes, codes = _sorted("labels", table.labels)
    groups, owners = [None], np.zeros(len(codes), np.int64)
    if table.groups is not None:
        groups, owners = _sorted("groups", table.groups)
    keys, members, counts = np.unique(
        owners * len(classes) + codes, return_inverse=True, return_counts=True
    )
    names = [(classes[key % len(classes)], groups[key // len(classes)]) for key in keys.tolist()]
    return Cells(
        rows=np.argsort(members, kind="stable"),
        starts=np.cumsum(counts) - counts,
        counts=counts,
        pairs=_all_pairs(np.bincount(keys // len(classes))),
        names=names,
    )


def _sorted(what: str, labels: NDArray[Any]) -> tuple[list[Any], Codes]:
    """Return the distinct labels in order, and the number of each row's label."""
    try:
        found, codes = np.unique(labels, return_inverse=True)
    except TypeError as error:
        raise DataError(f"{what} of several types cannot be sorted ({error}); use one") from error
    return found.tolist(), codes


def _all_pairs(sizes: Codes) -> Codes:
    """Return all pairs within consecutive runs of ``sizes`` cells, (pairs, 2)."""
    total = int((sizes * (sizes - 1) // 2).sum())
    if not total:
        raise DataError(
            "a pair needs two classes"
            + (", but no group has rows of two" if len(sizes) > 1 else ", but all rows are of one")
            + "; check which column is the label"
        )
    if total > _MOST_PAIRS:
        raise DataError(
            f"there are {total:,} pairs of classes, at most {_MOST_PAIRS:,} can be; is the label "
            "a number and not a class?"
        )
    starts = np.cumsum(sizes) - sizes
    within = [np.stack(np.triu_indices(size, 1), axis=1) for size in sizes.tolist()]
    return np.concatenate([start + pairs for start, pairs in zip(starts, within, strict=True)])
