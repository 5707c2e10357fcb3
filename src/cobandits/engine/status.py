"""How an engine is: what waits, and how far learning is behind."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cobandits.engine.core import Core
from cobandits.engine.messages import when
from cobandits.engine.times import Histogram, Times

__all__ = ["SpaceStatus", "Status"]


@dataclass(frozen=True, kw_only=True)
class SpaceStatus:
    """How a space is."""

    version: str
    decisions: int
    rewards: int
    open: int  # decisions that wait for the end of their window
    waiting: int  # rewards that are in the log and not learned yet
    refitting: bool


@dataclass(frozen=True, kw_only=True)
class Status:
    """How an engine is."""

    events: int  # in the log
    at: datetime.datetime  # of the last one
    spaces: dict[str, SpaceStatus]
    # What the engine's thread was busy with, each time: "answers" to a group of requests,
    # "learning" (and installing a prior), "commands" (others', between two groups), and, of none
    # of these, "disk": adding to the log, and writing snapshots.
    times: Mapping[str, Histogram]

    @property
    def refitting(self) -> bool:
        """Whether a prior is being learned."""
        return any(one.refitting for one in self.spaces.values())

    @classmethod
    def of(cls, core: Core, refitting: Collection[int], times: Mapping[str, Times]) -> Status:
        """Return how it is now."""
        spaces = {
            fold.name: SpaceStatus(
                version=fold.learner.deciding.version,
                decisions=fold.counts["decision"] + fold.counts["held"],
                rewards=fold.counts["reward"],
                open=len(fold.outcomes),
                waiting=fold.learner.n_unlearned,
                refitting=fold.number in refitting,
            )
            for fold in core.folds.values()
        }
        seen = {work: one.histogram for work, one in times.items()}
        return cls(events=core.last, at=when(core.at), spaces=spaces, times=seen)
