"""What all environments have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Protocol

from cobandits.decisions import Round

__all__ = ["Environment"]


class Environment(Protocol):
    """Many tasks that ask for decisions, and what each arm would pay.

    What it draws comes from named streams of a seed and a trial, and never depends on what
    is decided: all policies meet the same arms and the same noise.
    """

    name: ClassVar[str]  # on the command line

    @property
    def dim(self) -> int:
        """Features of an arm, d."""
        ...

    @property
    def n_tasks(self) -> int:
        """Tasks that may ask, T."""
        ...

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of rewards."""
        ...

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        """Draw so many rounds, one after the other; the same for the same seed and trial."""
        ...
