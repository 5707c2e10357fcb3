"""When epochs end: the rounds after which an estimate is refitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from cobandits.errors import ConfigurationError

__all__ = ["EqualEpochs", "GrowingEpochs", "OneEpoch", "PaperGrid", "Schedule", "named"]


@runtime_checkable
class Schedule(Protocol):
    """The rounds after which an epoch ends."""

    def next_end(self, rounds: int) -> int | None:
        """Return the first end of an epoch after ``rounds`` rounds, None if there is none."""
        ...


@dataclass(frozen=True, kw_only=True)
class EqualEpochs:
    """Epochs of the same length, as near as whole rounds allow, as in the paper's figures.

    >>> schedule = EqualEpochs(epochs=4, rounds=200)
    >>> [schedule.next_end(n) for n in (0, 49, 50, 199, 200)]
    [50, 50, 100, 200, None]
    """

    epochs: int
    rounds: int

    def __post_init__(self) -> None:
        _check_rounds(self.rounds)
        if not 1 <= self.epochs <= self.rounds:
            raise ConfigurationError(
                f"epochs must be from 1 to rounds = {self.rounds}, got {self.epochs}; take more "
                "rounds, or fewer epochs (schedule=equal-M)"
            )

    def next_end(self, rounds: int) -> int | None:
        """Return the first end of an epoch after ``rounds`` rounds, None if there is none."""
        ends = (self.rounds * m // self.epochs for m in range(1, self.epochs + 1))
        return next((end for end in ends if end > rounds), None)


@dataclass(frozen=True, kw_only=True)
class PaperGrid:
    """The grid of Algorithm 1: ``G_m = N^(1 - 2^-m)``, M = ceil(log2 log2 N), ``G_M = N``.

    >>> schedule = PaperGrid(rounds=200)
    >>> [schedule.next_end(n) for n in (0, 14, 53, 200)]
    [14, 53, 200, None]
    """

    rounds: int

    def __post_init__(self) -> None:
        _check_rounds(self.rounds)

    def next_end(self, rounds: int) -> int | None:
        """Return the first end of an epoch after ``rounds`` rounds, None if there is none."""
        N = self.rounds
        M = max(1, math.ceil(math.log2(math.log2(N)))) if N > 2 else 1
        ends = [*(round(N ** (1 - 2**-m)) for m in range(1, M)), N]
        return next((end for end in ends if end > rounds), None)


@dataclass(frozen=True, kw_only=True)
class GrowingEpochs:
    """Epochs that grow by a factor, without a horizon.

    >>> schedule = GrowingEpochs(first=4, factor=1.5)
    >>> [schedule.next_end(n) for n in (0, 4, 6, 9)]
    [4, 6, 9, 14]
    """

    first: int = 4
    factor: float = 1.5

    def __post_init__(self) -> None:
        if self.first < 1:
            raise ConfigurationError(f"the first epoch needs at least 1 round, got {self.first}")
        if not 1 < self.factor < math.inf:
            raise ConfigurationError(f"factor must be above 1 and finite, got {self.factor}")

    def next_end(self, rounds: int) -> int:
        """Return the first end of an epoch after ``rounds`` rounds."""
        end = self.first
        while end <= rounds:
            end = max(end + 1, math.ceil(end * self.factor))
        return end


@dataclass(frozen=True, kw_only=True)
class OneEpoch:
    """One epoch, and none after it: explore, then commit.

    >>> [OneEpoch(rounds=50).next_end(n) for n in (0, 50)]
    [50, None]
    """

    rounds: int

    def __post_init__(self) -> None:
        _check_rounds(self.rounds)

    def next_end(self, rounds: int) -> int | None:
        """Return the end of the epoch, None after it."""
        return self.rounds if rounds < self.rounds else None


def named(text: str, rounds: int) -> Schedule:
    """Return the schedule that a text names, for so many rounds in all.

    ``equal-4`` is four equal epochs, ``first-4`` the first of them alone, ``grid`` the paper's
    grid, ``growing`` epochs that grow.

    >>> named("equal-4", 200)
    EqualEpochs(epochs=4, rounds=200)
    """
    kind, _, number = text.partition("-")
    if kind in ("equal", "first") and number.isdecimal() and int(number) > 0:
        epochs = EqualEpochs(epochs=int(number), rounds=rounds)
        return epochs if kind == "equal" else OneEpoch(rounds=epochs.next_end(0) or rounds)
    if text == "grid":
        return PaperGrid(rounds=rounds)
    if text == "growing":
        return GrowingEpochs()
    raise ConfigurationError(
        f"no schedule {text!r}; choose from equal-M (M equal epochs), first-M (only the first "
        "of them), grid (the paper's), growing"
    )


def _check_rounds(rounds: int) -> None:
    if rounds < 1:
        raise ConfigurationError(f"rounds must be at least 1, got {rounds}")
