"""What may be asked of the service.

They are msgspec structs: one declaration reads and checks a body, and is shown in the OpenAPI
document. Names are those of :mod:`cobandits.engine`.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from cobandits.wire.limits import ARMS, BATCH, FIELDS, NAME

__all__ = [
    "Asked",
    "DecideBatch",
    "DecideOne",
    "RewardBatch",
    "RewardInBatch",
    "RewardOne",
]

Name = Annotated[str, Meta(min_length=1, max_length=NAME)]
SpaceName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?!\n)$",
        description="Letters, digits, '.', '_' and '-'; it stands in addresses.",
    ),
]
Value = Annotated[float, Meta(ge=-1e100, le=1e100)]  # squares of them are finite
Open = Meta(extra_json_schema={"additionalProperties": True})
Anything = Annotated[dict[str, Any], Open]
Fields = Annotated[dict[str, Any], Meta(max_length=FIELDS), Open]


class Asked(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of every message that is sent to the service: a name that is not known is refused."""


class DecideOne(Asked, frozen=True):
    """Ask for a decision: one of the arms, for a task."""

    task: Annotated[Name, Meta(description="Any name; it need not be known before.")]
    arms: Annotated[
        list[Fields],
        Meta(
            min_length=1,
            max_length=ARMS,
            description="Each has an `id` and the fields of the schema, or `features`, a list of "
            "numbers, in a space with `dim`.",
        ),
    ]
    context: Annotated[Fields | None, Meta(description="What all arms have in common.")] = None
    exclude: Annotated[
        list[Name], Meta(max_length=ARMS, description="Ids of arms that cannot be chosen.")
    ] = field(default_factory=list)
    baseline: Annotated[
        Name | None,
        Meta(
            description="The arm that the application would take by itself; by default the first."
        ),
    ] = None
    held: Annotated[
        bool, Meta(description="Whether the decision counts only when it is activated.")
    ] = False
    id: Annotated[
        Name | None,
        Meta(
            description="An id of your own, or in the header Idempotency-Key. The same request "
            "again gets the same answer; another request with it is a conflict."
        ),
    ] = None


class DecideBatch(Asked, frozen=True):
    """Ask for many decisions: each gets its decision or its problem."""

    decisions: Annotated[list[DecideOne], Meta(min_length=1, max_length=BATCH)]


class RewardOne(Asked, frozen=True):
    """Tell what a decision has earned."""

    value: Value
    key: Annotated[
        Name | None,
        Meta(description="The reward's own name, where rewards are summed: once per key."),
    ] = None
    taken: Annotated[
        Name | None,
        Meta(description="The arm that the application took, if not the one decided."),
    ] = None


class RewardInBatch(RewardOne, frozen=True, kw_only=True):
    """A reward in a batch, with the id of its decision."""

    decision: Name


class RewardBatch(Asked, frozen=True):
    """Tell many rewards: each gets its status or its problem."""

    rewards: Annotated[list[RewardInBatch], Meta(min_length=1, max_length=BATCH)]
