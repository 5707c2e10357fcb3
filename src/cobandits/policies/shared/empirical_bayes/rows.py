"""The rows that a prior is fitted to, as a fit asks for them.

A fit needs sums over tasks alone, so tasks may be in this process (:class:`BlockRows`) or on
several shards.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from cobandits.policies.shared import config
from cobandits.policies.shared.empirical_bayes.blocks import TaskBlock, task_blocks
from cobandits.policies.shared.empirical_bayes.likelihood import (
    MarginalLikelihood,
    SummedLikelihood,
)
from cobandits.policies.shared.empirical_bayes.prior import Coordinates
from cobandits.policies.shared.row_store import RowStore

__all__ = ["BlockRows", "FitRows", "Scale", "TaskSquares", "busiest_slots", "least_variance"]

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]
LikelihoodT_co = TypeVar("LikelihoodT_co", bound=SummedLikelihood, covariant=True)


class Scale(NamedTuple):
    """How many rows there are, and how large their rewards."""

    variance: float  # of rewards
    n_rows: float  # those of outliers count less


class FitRows(Protocol[LikelihoodT_co]):
    """All that a fit asks of the rows of all tasks."""

    def without_outliers(self, center: Doubles) -> tuple[Self, Scale]:
        """Return rows in which tasks with outliers have less weight, and how many and large."""

    def some(self) -> Self:
        """Return the rows of the first tasks, so many that they have few numbers."""

    def likelihood(self, rho: float, center: Doubles) -> LikelihoodT_co:
        """Return the likelihood at a ratio of isotropic variance to noise, and a mean, (p,)."""


class TaskSquares(NamedTuple):
    """Sums per task of squared rewards without their mean, and of rows."""

    squares: Doubles  # (T,)
    counts: Doubles  # (T,)

    @property
    def ratios(self) -> Doubles:
        """The mean square of each task, (T,), of which outliers are told."""
        return self.squares / self.counts


class BlockRows(NamedTuple):
    """Rows of tasks in this process."""

    blocks: list[TaskBlock]

    @classmethod
    def of(cls, store: RowStore, slots: Codes, coordinates: Coordinates) -> BlockRows:
        """Return the rows of slots in coordinates."""
        return cls(list(task_blocks(store, slots, coordinates)))

    def likelihood(self, rho: float, center: Doubles) -> MarginalLikelihood:
        """Return the likelihood of these rows."""
        return MarginalLikelihood(self.blocks, rho=rho, center=center)

    def some(self) -> BlockRows:
        """Return the rows of the first tasks, so many that they have few numbers."""
        found, left = [], config.ALONE_NUMBERS
        for block in self.blocks:
            tasks = max(1, int(left / block.features[0].size))
            slots, Z, y = block
            found.append(TaskBlock(slots[:tasks], Z[:tasks], y[:tasks]))
            left -= found[-1].features.size
            if left <= 0 or tasks < len(slots):  # the first tasks, without gaps
                break
        return BlockRows(found)

    def sample(self, numbers: float) -> BlockRows:
        """Return the rows of every k-th task of each block, about so many numbers in all."""
        every = int(np.ceil(sum(block.features.size for block in self.blocks) / numbers))
        step = slice(None, None, max(1, every))
        return BlockRows(
            [TaskBlock(b.slots[step], b.features[step], b.rewards[step]) for b in self.blocks]
        )

    def without_outliers(self, center: Doubles) -> tuple[BlockRows, Scale]:
        """Return rows in which tasks with outliers have less weight, and how many and large."""
        found = self.squares(center)
        least = least_variance(self.reward_squares(), float(found.counts.sum()))
        most = config.OUTLIER_RATIO * float(np.median(found.ratios))
        rows, squares, n_rows = self.lightened(found, most if most > least else np.inf)
        return rows, Scale(max(least, squares / n_rows), n_rows)

    def reward_squares(self) -> float:
        """Return the sum of squared rewards, with their mean."""
        return float(sum((block.rewards**2).sum() for block in self.blocks))

    def squares(self, center: Doubles) -> TaskSquares:
        """Return the squares of what a mean leaves of the rewards of each task."""
        residuals = (block.rewards - block.features @ center for block in self.blocks)
        ones = (block.features[..., -1] for block in self.blocks)
        none = np.zeros(0)
        return TaskSquares(
            np.concatenate([none, *(np.einsum("bn,bn->b", r, r) for r in residuals)]),
            np.concatenate([none, *(np.einsum("bn,bn->b", one, one) for one in ones)]),
        )

    def lightened(self, found: TaskSquares, most: float) -> tuple[BlockRows, float, float]:
        """Return rows with no task's mean square above ``most``, and sums of squares and rows."""
        squares, counts = found
        if (squares <= most * counts).all():
            return self, float(squares.sum()), float(counts.sum())
        roots = np.sqrt(np.minimum(1.0, most * counts / np.maximum(squares, most * counts)))
        parts = np.split(roots, np.cumsum([len(block.slots) for block in self.blocks])[:-1])
        lighter = [
            TaskBlock(slots, Z * root[:, None, None], y * root[:, None])
            for (slots, Z, y), root in zip(self.blocks, parts, strict=True)
        ]
        weights = roots**2
        return BlockRows(lighter), float(weights @ squares), float(weights @ counts)


def least_variance(reward_squares: float, n_rows: float) -> float:
    """Return the least variance of rewards that is not rounding, given their sum of squares."""
    return config.CONSTANT_VARIANCE * reward_squares / n_rows or 1.0


def busiest_slots(store: RowStore, dim: int, *, explained: bool = False) -> Codes:
    """Return the slots with most rows, as many as there is time to learn a prior from.

    Fewer will do where rewards are ``explained``.
    """
    slots = np.argsort(-store.sizes, kind="stable")
    slots = slots[store.sizes[slots] > 0]
    numbers = np.cumsum(np.minimum(store.sizes[slots], dim + 1)) * dim
    most = config.EXPLAINED_NUMBERS if explained else config.FIT_NUMBERS
    return slots[: max(1, int(np.searchsorted(numbers, most)))]
