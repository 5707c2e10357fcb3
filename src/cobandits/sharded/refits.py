"""A refit of all shards beside decisions: staged, learned in another thread, then installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from cobandits.errors import ClusterError
from cobandits.policies.shared.empirical_bayes import DecomposedPrior
from cobandits.sharded.heads import Heads
from cobandits.sharded.messages import Noted
from cobandits.sharded.training import call, learn_prior

__all__ = ["PreparedRefit", "StagedRefit"]

Lock = AbstractContextManager[Any]


class _Beside:
    """Shards that are called for a refit, one call at a time; decisions go on beside it."""

    def __init__(self, heads: Heads, lock: Lock, wanted: Callable[[], bool]) -> None:
        self._heads, self._lock, self._wanted = heads, lock, wanted

    def __len__(self) -> int:
        return len(self._heads)

    def each(self, method: str, arguments: Sequence[tuple[Any, ...] | None]) -> list[Any]:
        """Call a method of every shard, if the refit is still wanted."""
        with self._lock:
            if not self._wanted():
                raise ClusterError("this refit was given up: the policy went on without it")
            return self._heads.each_beside(method, arguments)


class StagedRefit:
    """New rewards that all shards hold aside, to learn the prior with them; one at a time."""

    def __init__(
        self,
        heads: Heads,
        lock: Lock,
        *,
        n_new: int,
        wanted: Callable[[StagedRefit], bool],
    ) -> None:
        self.n_new = n_new
        self._heads = _Beside(heads, lock, lambda: wanted(self))

    def learned(self) -> PreparedRefit:
        """Learn the prior, and have all shards prepare it, in any thread."""
        found = learn_prior(self._heads, call(self._heads, "offer"))
        noted = call(self._heads, "noted_prepared")
        return PreparedRefit(self, found.prior, found.growth, noted)

    def saved(self) -> list[bytes]:
        """Return what the file of each shard will be, once the prior is learned."""
        return call(self._heads, "saved_prepared")


class PreparedRefit(NamedTuple):
    """A prior that all shards are prepared to decide by."""

    staged: StagedRefit
    prior: DecomposedPrior
    growth: float  # of the number of rewards until the next refit, as a factor
    noted: Sequence[Noted]  # what is new in the state that is prepared
