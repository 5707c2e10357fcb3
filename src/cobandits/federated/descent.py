"""The server: AltGDMin with gradients that nodes send."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from cobandits.errors import ConfigurationError, DataError
from cobandits.estimate import Status
from cobandits.federated.messages import Answer, Ask
from cobandits.linalg import largest_eigenvalue, orthonormal, subspace_distance
from cobandits.randomness import RandomSource, generator

__all__ = ["FederatedAltGDMin", "SharedBasis", "added"]

Floats = NDArray[np.floating]
Outcome = Literal["converged", "limit", "refused"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedBasis:
    """What the server has at the end: the basis, and how the descent ended."""

    basis: Floats  # (d, r), orthonormal columns
    status: Status


@dataclass(frozen=True, kw_only=True)
class FederatedAltGDMin:
    """Algorithms 2 and 3 of the paper, with sums over nodes.

    The start is a power iteration on ``M M'``, a product of (d, r) per round, so nodes never send
    anything larger than a gradient. The server sees no cost: it stops when the basis no longer
    moves.

    Parameters
    ----------
    rank, dim : int
        Columns of the basis, and features.
    step : float
        ``c_gamma`` of Theorem 5.2, which proves convergence up to 0.5.
    iterations : int
        The most steps.
    start_iterations : int
        Products of the power iteration.
    tolerance : float
        Stop when a step moves the basis by less than this subspace distance; 0 takes all steps.

    Examples
    --------
    >>> from cobandits.environments import Synthetic
    >>> from cobandits.federated import Node
    >>> problem = Synthetic(dim=20, n_tasks=30, rank=2).problem(n_rows=15, seed=1)
    >>> node = Node(problem.tasks, rank=2)
    >>> found = FederatedAltGDMin(rank=2, dim=20).fit([node.answer])
    >>> bool(subspace_distance(found.basis, problem.basis) < 0.01)
    True
    """

    rank: int
    dim: int
    step: float = 0.4
    iterations: int = 500
    start_iterations: int = 10
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        if not 1 <= self.rank <= self.dim:
            raise ConfigurationError(f"rank must be from 1 to dim = {self.dim}, got {self.rank}")
        if not 0 < self.step <= 1:
            raise ConfigurationError(f"step must be above 0 and at most 1, got {self.step}")
        if self.iterations < 0 or self.start_iterations < 1:
            raise ConfigurationError(
                "iterations must be at least 0 and start_iterations at least 1, got "
                f"{self.iterations} and {self.start_iterations}"
            )

    @property
    def releases(self) -> int:
        """How many answers a node gives at most: what its privacy is spent on."""
        return self.start_iterations + self.iterations

    def fit(
        self, nodes: Sequence[Callable[[Ask], Answer]], *, rng: RandomSource = 0
    ) -> SharedBasis:
        """Ask the nodes, one after the other in each round, until the basis is found."""
        if not nodes:
            raise DataError("there are no nodes to ask; give at least one")
        rounds = self.rounds(rng=rng)
        ask = next(rounds)
        while True:
            try:
                ask = rounds.send(added([node(ask) for node in nodes]))
            except StopIteration as end:
                found: SharedBasis = end.value
                return found

    def rounds(self, *, rng: RandomSource = 0) -> Generator[Ask, Answer, SharedBasis]:
        """Yield what to ask all nodes; send the sum of their answers; returns the basis.

        For transports that call back: the loop in :meth:`fit` is all that it takes.
        """
        B = orthonormal(generator(rng).standard_normal((self.dim, self.rank)))
        for _ in range(self.start_iterations):
            answer = yield Ask("start", B)
            B = orthonormal(self._checked(answer).gradient)
        for iteration in range(self.iterations):
            gradient, weighted = self._checked((yield Ask("step", B)))
            curvature = largest_eigenvalue(weighted)
            if curvature <= 0:
                return _ended(B, "refused", "all weights are 0, or hidden by noise", iteration)
            following = orthonormal(B - self.step / curvature * gradient)
            moved, B = subspace_distance(B, following), following
            if moved <= self.tolerance and self.tolerance > 0:
                return _ended(B, "converged", "the basis no longer moves", iteration + 1)
        return _ended(B, "limit", "raise iterations", self.iterations)

    def _checked(self, answer: Answer) -> Answer:
        """Refuse an answer that would spoil the basis."""
        shapes = (self.dim, self.rank), (self.rank, self.rank)
        if tuple(part.shape for part in answer) != shapes:
            raise DataError(
                f"expected sums of shapes {shapes}, got {[part.shape for part in answer]}"
            )
        if not all(np.isfinite(part).all() for part in answer):
            raise DataError("a node sent numbers that are not finite; scale its features")
        return answer


def added(answers: Sequence[Answer]) -> Answer:
    """Return the sum of the answers of all nodes."""
    return reduce(lambda a, b: Answer(a.gradient + b.gradient, a.weighted + b.weighted), answers)


def _ended(B: Floats, outcome: Outcome, message: str, iterations: int) -> SharedBasis:
    status = Status(outcome=outcome, message=message, iterations=iterations)
    return SharedBasis(basis=B, status=status)
