"""What the service answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from cobandits.wire.problems import ProblemDocument

__all__ = [
    "ActivationReply",
    "DecisionReply",
    "DecisionResult",
    "DecisionResults",
    "Ranked",
    "RewardReply",
    "RewardResult",
    "RewardResults",
]

Chance = Annotated[float, Meta(ge=0, le=1)]
Status = Annotated[
    Literal["accepted", "repeated", "late"],
    Meta(
        description="accepted: it counts; repeated: the same was accepted before; late: its window "
        "had ended, it is kept and not learned."
    ),
]


class Ranked(Struct, frozen=True):
    """An arm, and the probability with which it could have been chosen."""

    arm: str
    probability: Chance | None  # None: it was not worked out


class DecisionReply(Struct, frozen=True, kw_only=True):
    """A decision; it is on disk."""

    id: str
    task: str
    arm: str
    probability: Annotated[Chance, Meta(description="With which this arm was chosen.")]
    version: Annotated[str, Meta(description="Of the state that decided.")]
    ranking: Annotated[list[Ranked], Meta(description="All arms that could be chosen.")]
    explored: Annotated[bool, Meta(description="Whether another arm was more likely.")]
    proposed: Annotated[str, Meta(description="The policy's arm; another one in shadow mode.")]
    by: Literal["policy", "baseline"]
    mode: Literal["live", "shadow"]
    held: bool
    at: datetime
    expires: Annotated[datetime | None, Meta(description="When its window ends.")]
    repeated: Annotated[bool, Meta(description="Whether it was answered before.")]


class RewardReply(Struct, frozen=True, kw_only=True):
    """What became of a reward; it is on disk."""

    status: Status
    decision: str
    value: Annotated[float, Meta(description="Of all rewards of the decision.")]
    at: datetime


class ActivationReply(Struct, frozen=True, kw_only=True):
    """What became of an activation."""

    status: Status
    decision: str
    expires: datetime | None


class DecisionResult(Struct, frozen=True, omit_defaults=True):
    """A decision of a batch, or its problem."""

    decision: DecisionReply | None = None
    problem: ProblemDocument | None = None


class DecisionResults(Struct, frozen=True):
    """The answers to a batch, in its order."""

    results: list[DecisionResult]


class RewardResult(Struct, frozen=True, omit_defaults=True):
    """A reward of a batch, or its problem."""

    reward: RewardReply | None = None
    problem: ProblemDocument | None = None


class RewardResults(Struct, frozen=True):
    """The answers to a batch, in its order."""

    results: list[RewardResult]
