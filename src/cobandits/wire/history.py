"""The log, tasks and versions as messages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from cobandits.wire.asked import Anything, Asked, Name
from cobandits.wire.limits import PAGE
from cobandits.wire.replies import DecisionReply
from cobandits.wire.spaces import SchemaMessage, Shards

__all__ = [
    "CompareQuery",
    "ComparisonReply",
    "DecisionPage",
    "DecisionQuery",
    "DecisionRecord",
    "LogQuery",
    "Neighbour",
    "OneDecision",
    "Relearn",
    "RewardRecord",
    "SharingReply",
    "TaskPoint",
    "TaskReply",
    "VersionReplies",
    "VersionReply",
]

Number = Annotated[int, Meta(ge=0, le=2**53)]


class DecisionQuery(Asked, frozen=True, kw_only=True):
    """Which decisions are wanted."""

    task: Name | None = None
    since: Annotated[datetime, Meta(tz=True, description="From this time on.")] | None = None
    before: Annotated[datetime, Meta(tz=True, description="Up to this time.")] | None = None
    arm: Annotated[Name, Meta(description="The arm that was taken.")] | None = None
    by: Literal["policy", "baseline"] | None = None
    rewarded: Annotated[bool, Meta(description="Whether a reward came.")] | None = None
    after: Annotated[Number, Meta(description="`next` of the page before.")] = 0
    limit: Annotated[int, Meta(ge=1, le=PAGE)] = 100


class LogQuery(Asked, frozen=True, kw_only=True):
    """From where the log is wanted."""

    after: Annotated[Number, Meta(description="Events with numbers above this.")] = 0


class OneDecision(Asked, frozen=True, kw_only=True):
    """What is wanted of one decision."""

    recompute: Annotated[
        bool, Meta(description="Whether it is made again, from the log alone.")
    ] = False


class RewardRecord(Struct, frozen=True, kw_only=True):
    """A reward in the log."""

    at: datetime
    value: float
    key: str | None
    taken: Annotated[int | None, Meta(description="The place of the arm that was taken instead.")]


class DecisionRecord(Struct, frozen=True, kw_only=True):
    """A decision with what was asked and what became of it."""

    decision: DecisionReply
    request: Anything
    rewards: list[RewardRecord]
    activated: bool
    recomputed: Annotated[
        DecisionReply | None, Meta(description="Made again: arm and probability are the same.")
    ] = None


class DecisionPage(Struct, frozen=True, kw_only=True):
    """Decisions in the order in which they were made."""

    decisions: list[DecisionRecord]
    next: Annotated[int | None, Meta(description="`after` of the next page; null at the end.")]


class Neighbour(Struct, frozen=True):
    """Another task, and how alike the predictions of the two are."""

    task: str
    likeness: Annotated[float, Meta(description="1 is the same choices, 0 is unrelated.")]


class TaskReply(Struct, frozen=True, kw_only=True):
    """What a task's predictions come from, and how certain they are."""

    task: str
    rewards: int
    shared: Annotated[float, Meta(description="Share of its predictions that is common to tasks.")]
    rank: Annotated[int, Meta(description="Directions that tasks share.")]
    nearest: list[Neighbour]
    uncertainty: Annotated[float, Meta(description="Of the reward of a typical arm, now.")]
    uncertainty_before: Annotated[float, Meta(description="The same before its first reward.")]


class TaskPoint(Struct, frozen=True, kw_only=True):
    """A task on the map of the first two directions."""

    task: str
    rewards: int
    x: float
    y: float
    shared: float
    uncertainty: float


class SharingReply(Struct, frozen=True, kw_only=True):
    """All tasks with rewards, and how much they share."""

    rank: int
    spectrum: Annotated[list[float], Meta(description="Variances of the prior's directions.")]
    uncertainty_before: float
    tasks: list[TaskPoint]


class Relearn(Asked, frozen=True, kw_only=True):
    """Leave out rewards from ``since`` on and ``before`` another time, or take other settings."""

    since: Annotated[datetime, Meta(tz=True)] | None = None
    before: Annotated[datetime, Meta(tz=True)] | None = None
    schema: SchemaMessage | None = None
    shards: Shards | None = None


class VersionReply(Struct, frozen=True, kw_only=True):
    """A state that began with an event, and can be returned to."""

    name: str
    kind: Literal["space", "install", "rollback", "relearn", "upload"]
    at: datetime
    of: Annotated[str | None, Meta(description="For a roll-back, the version returned to.")]
    label: Annotated[str | None, Meta(description="Of a version from a file.")] = None


class CompareQuery(Asked, frozen=True, kw_only=True):
    """With which version, and on how many decisions, a version is compared."""

    other: Annotated[Name, Meta(description="A version, or 'present'.")] = "present"
    last: Annotated[int, Meta(ge=1, le=PAGE, description="Of the log's decisions.")] = 100


class ComparisonReply(Struct, frozen=True, kw_only=True):
    """How differently two versions would make the same decisions."""

    version: str
    other: str
    decisions: int
    other_arm: Annotated[float, Meta(description="Share in which another arm is most likely.")]
    distance: Annotated[
        float, Meta(description="Of probabilities: 0 is the same, 1 is never the same arm.")
    ]
    rewards: Annotated[list[int], Meta(description="That each has learned.")]


class VersionReplies(Struct, frozen=True, kw_only=True):
    """All versions, in order, and the state that decides now."""

    present: str
    versions: list[VersionReply]
