"""A log as an environment: for policies that learn while they are evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cobandits.decisions import Round
from cobandits.errors import ConfigurationError
from cobandits.logs import Log
from cobandits.ragged import RaggedArms
from cobandits.randomness import stream

__all__ = ["Replay"]

Floats = NDArray[np.floating]
Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The requests of a log, in order; only the logged arm has a known reward.

    If a policy chooses the logged arm, it gets the reward and learns from it; otherwise the
    reward is not known. If the arms of the log were chosen uniformly at random, the mean of the
    rewards received is an unbiased estimate of the policy's mean reward (Li et al. 2011,
    Algorithm 3). In other logs a decision of probability ``p`` is kept with probability
    ``p_min / p``, where ``p_min`` is the smallest in the log (rejection sampling): what is left
    is distributed as if all arms had been equally likely.

    Consecutive requests of different tasks are one round, if they have the same number of arms.
    Arms that were excluded are left out, and the others are numbered anew. Means are not known, so
    regret is NaN; there are no more rounds than the log has.

    Parameters
    ----------
    log : Log
        What to replay; or
    file : str or Path
        where it was saved.

    Examples
    --------
    >>> log = Log(
    ...     tasks=[0, 1, 0],
    ...     arms=np.ones((3, 2, 4)),
    ...     chosen=[1, 0, 0],
    ...     probabilities=[0.5, 0.5, 0.5],
    ...     rewards=[7.0, 8.0, 9.0],
    ... )
    >>> first, second = Replay(log=log).rounds(9, seed=0)
    >>> first.tasks.tolist(), first.rewards.tolist(), second.rewards.tolist()
    ([0, 1], [[nan, 7.0], [8.0, nan]], [[9.0, nan]])
    """

    name: ClassVar[str] = "replay"

    log: Log | None = None
    file: str | Path | None = None

    def __post_init__(self) -> None:
        if (self.log is None) == (self.file is None):
            raise ConfigurationError("replay needs a log or the file of one: give one of the two")

    @property
    def dim(self) -> int:
        """Features per arm, d."""
        return self._logged.dim

    @property
    def n_tasks(self) -> int:
        """Number of tasks in the log, T."""
        return self._logged.n_tasks

    @property
    def noise_std(self) -> float:
        """Standard deviation of the rewards within tasks, an upper bound for that of the noise."""
        codes, y = self._logged.codes, self._logged.rewards
        counts = np.maximum(np.bincount(codes), 1)
        deviations = y - (np.bincount(codes, y) / counts)[codes]
        return float(np.sqrt(np.mean(deviations**2)))

    @property
    def n_rounds(self) -> int:
        """The number of rounds in the log."""
        return sum(1 for _ in _bounds(self._logged, len(self._logged)))

    @property
    def paying(self) -> Floats:
        """The probability that each decision of the log is kept, (n,)."""
        p = self._logged.probabilities
        return np.asarray(p.min() / p)

    def rounds(self, n_rounds: int, *, seed: int, trial: int = 0) -> Iterator[Round]:
        """Yield the first rounds of the log; seed and trial determine which decisions are kept."""
        log = self._logged
        pays = stream(seed, "replay", trial).random(len(log)) < self.paying
        for first, last in _bounds(log, n_rounds):
            n = np.arange(first, last)
            arms, chosen = _offered(log, n)
            unknown = np.full(arms.shape[:2], np.nan)
            rewards = unknown.copy()
            rewards[n - first, chosen] = np.where(pays[n], log.rewards[n], np.nan)
            yield Round(tasks=log.codes[n], arms=arms, means=unknown, rewards=rewards)

    @cached_property
    def _logged(self) -> Log:
        return Log.load(str(self.file)) if self.log is None else self.log


def _offered(log: Log, rows: Codes) -> tuple[Floats, Codes]:
    """Return the arms of decisions with the same number of them, (m, K, d), and the chosen."""
    if not isinstance(log.arms, RaggedArms):
        return log.arms[rows], log.chosen[rows]
    (group,) = log.arms[rows].groups()
    return group.arms, (group.numbers == log.chosen[rows, None]).argmax(axis=1)


def _bounds(log: Log, n_rounds: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each run of decisions with as many arms in which no task comes twice."""
    first, met, codes = 0, set[int](), log.codes
    counts = log.arms.counts if isinstance(log.arms, RaggedArms) else np.full(len(log), log.n_arms)
    differs = np.diff(counts, prepend=counts[:1]) != 0
    for n, (code, other) in enumerate(zip(codes.tolist(), differs.tolist(), strict=True)):
        if n_rounds < 1:
            return
        if code in met or other:
            yield first, n
            n_rounds -= 1
            first, met = n, set()
        met.add(code)
    if n_rounds > 0:
        yield first, len(codes)
