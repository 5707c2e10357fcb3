"""Reports, evaluations and imported decisions as messages."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from cobandits.wire.asked import Asked, Fields, Name, Value
from cobandits.wire.limits import ARMS, BATCH

__all__ = [
    "AskEvaluation",
    "Day",
    "Earned",
    "Estimate",
    "EvaluationReplies",
    "EvaluationReply",
    "ImportReply",
    "PastBatch",
    "PastDecision",
    "ReportReply",
]


class Day(Struct, frozen=True, kw_only=True):
    """One day, in UTC."""

    day: date
    decisions: int
    rewarded: int
    mean: float | None


class Earned(Struct, frozen=True, kw_only=True):
    """A mean reward with its interval of 95 %."""

    mean: float
    low: float
    high: float
    n: int
    cautions: list[str]


class ReportReply(Struct, frozen=True, kw_only=True):
    """How a space does, from its log."""

    space: str
    version: str
    days: list[Day]
    policy: Annotated[Earned | None, Meta(description="What the policy's decisions earned.")]
    baseline: Annotated[Earned | None, Meta(description="What the baseline's decisions earned.")]
    estimates: Annotated[
        dict[str, Earned], Meta(description="Off-policy: the baseline, random, always one arm.")
    ]
    without_reward: Annotated[float, Meta(description="Share of the decisions.")]
    waiting: Annotated[int, Meta(description="Rewards that are not learned yet.")]
    tasks: int
    sharing: Annotated[list[str], Meta(description="Tasks that mostly use what others learned.")]
    changes: Annotated[list[int], Meta(description="After how many rewards tasks had changed.")]
    notes: list[str]


class AskEvaluation(Asked, frozen=True, kw_only=True):
    """Ask what a version would earn, from the log."""

    version: Annotated[Name, Meta(description="Its name, or 'present'.")] = "present"


class Estimate(Struct, frozen=True, kw_only=True):
    """The mean reward of a version by one method, with its interval of 95 %."""

    method: str
    value: float
    low: float
    high: float
    n: int
    effective_n: float
    cautions: list[str]


class EvaluationReply(Struct, frozen=True, kw_only=True):
    """An evaluation, done or under way."""

    id: str
    version: str
    state: Literal["waiting", "reading the log", "evaluating", "done", "failed"]
    progress: Annotated[float, Meta(ge=0, le=1, description="Share of the work that is done.")]
    asked: datetime
    decisions: int | None
    values: list[Estimate]
    error: str | None


class EvaluationReplies(Struct, frozen=True):
    """All evaluations of a space."""

    evaluations: list[EvaluationReply]


class PastDecision(Asked, frozen=True, kw_only=True):
    """A decision that was made elsewhere, and its reward."""

    task: Name
    arms: Annotated[list[Fields], Meta(min_length=1, max_length=ARMS)]
    chosen: Annotated[Name, Meta(description="The id of the arm.")]
    reward: Value
    context: Fields | None = None
    probability: Annotated[float, Meta(gt=0, le=1)] = 1.0


class PastBatch(Asked, frozen=True):
    """Decisions to start warm from: all are taken, or none."""

    decisions: Annotated[list[PastDecision], Meta(min_length=1, max_length=BATCH)]


class ImportReply(Struct, frozen=True):
    """How many decisions were taken."""

    imported: int
