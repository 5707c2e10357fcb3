"""What all environments have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Protocol

from cobandits.decisions import Round

__all__ = ["Environment"]


class Environment(Protocol):
    """Rounds of many tasks that ask for decisions, with the reward of each arm.

    All draws come from named streams of a seed and a trial and do not depend on decisions, so
    all policies meet the same arms and the same noise.
    """

    name: ClassVar[str]  # on the command line

    @property
    def dim(self) -> int:
        """Features per arm, d."""
        ...

    @property
    def n_tasks(self) -> int:
        """Number of tasks, T."""
        ...

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of rewards."""
        ...

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        """Yield ``n_rounds`` rounds; the same for the same seed and trial."""
        ...
