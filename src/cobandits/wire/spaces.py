"""Spaces as messages: a schema, and the settings by which a space decides and learns."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from cobandits.wire.asked import Anything, Asked, SpaceName, Value
from cobandits.wire.limits import DIM, FIELDS, NAME, SHARDS

__all__ = [
    "ChangeSpace",
    "CreateSpace",
    "DeletedReply",
    "SchemaMessage",
    "SchemaReplies",
    "SchemaReply",
    "Shards",
    "SpaceReply",
]

Missing = Annotated[
    Literal["indicator", "fill", "error"],
    Meta(description="A missing value is a column that says so, the usual value, or a mistake."),
]
Finite = Annotated[float, Meta(ge=-1e100, le=1e100)]
Scale = Annotated[float, Meta(gt=0, le=1e100)]
Share = Annotated[float, Meta(ge=0, le=1)]
Window = Annotated[
    str | float,
    Meta(description="How long a decision waits for its reward: '90s', '1h', '7d', or seconds."),
]

Shards = Annotated[
    int,
    Meta(
        ge=1,
        le=SHARDS,
        description="Processes that the tasks are dealt to, where one does not suffice. With "
        "several, rewards are any numbers (`gaussian`), and changes of the tasks are noted "
        "(`alert`).",
        examples=[1],
    ),
]


class _Field(Asked, frozen=True, tag_field="type", kw_only=True):
    missing: Missing | UnsetType = UNSET


class NumberField(_Field, frozen=True, tag="number", kw_only=True):
    """A number: (value - centre) / scale."""

    fill: Finite | UnsetType = UNSET
    centre: Finite | UnsetType = UNSET
    scale: Scale | UnsetType = UNSET


class CategoryField(_Field, frozen=True, tag="category", kw_only=True):
    """One of several values; without `values`, any text, hashed to one of `buckets` columns."""

    values: (
        Annotated[list[Annotated[str, Meta(max_length=NAME)]], Meta(min_length=1, max_length=DIM)]
        | UnsetType
    ) = UNSET
    unknown: Literal["other", "zero", "error"] | UnsetType = UNSET
    buckets: Annotated[int, Meta(ge=1, le=DIM)] | UnsetType = UNSET


class FlagField(_Field, frozen=True, tag="flag", kw_only=True):
    """True or false."""


class CyclicField(_Field, frozen=True, tag="cyclic", kw_only=True):
    """A number on a circle: an hour of the day has the period 24."""

    period: Scale | UnsetType = UNSET


class DateField(_Field, frozen=True, tag="date", kw_only=True):
    """A date or time in ISO 8601: years since `origin`, places in the year, week and day."""

    parts: (
        Annotated[list[Literal["trend", "year", "week", "day"]], Meta(min_length=1, max_length=4)]
        | UnsetType
    ) = UNSET
    origin: Finite | UnsetType = UNSET


class VectorField(_Field, frozen=True, tag="vector", kw_only=True):
    """A list of numbers, taken as they are."""

    size: Annotated[int, Meta(ge=1, le=DIM)]


FieldMessage = NumberField | CategoryField | FlagField | CyclicField | DateField | VectorField
FieldName = Annotated[str, Meta(min_length=1, max_length=NAME)]
Group = Annotated[dict[FieldName, FieldMessage], Meta(max_length=FIELDS)]
Pair = Annotated[list[FieldName], Meta(min_length=2, max_length=2)]


class SchemaMessage(Asked, frozen=True):
    """The fields of arms and contexts. A context has an effect only where it is crossed."""

    arm: Group
    context: Group = field(default_factory=dict)
    crosses: Annotated[
        Literal["all"] | Annotated[list[Pair], Meta(max_length=DIM)],
        Meta(description="Pairs of fields whose columns are multiplied, or 'all'."),
    ] = field(default_factory=list)


class ChangeSpace(Asked, frozen=True, kw_only=True):
    """Change settings from now on; what was learned stays, and the change is in the log."""

    window: Window | UnsetType | None = UNSET
    default_reward: (
        Annotated[
            Value | None, Meta(description="What is learned when a window ends without a reward.")
        ]
        | UnsetType
    ) = UNSET
    floor: (
        Annotated[Share, Meta(description="Share of the decisions that are uniformly random.")]
        | UnsetType
    ) = UNSET
    mode: (
        Annotated[
            Literal["live", "shadow"],
            Meta(
                description="In shadow mode the baseline is taken, and the policy learns from it."
            ),
        ]
        | UnsetType
    ) = UNSET
    baseline_share: (
        Annotated[
            Share,
            Meta(description="Share of the decisions that the baseline makes, to compare with."),
        ]
        | UnsetType
    ) = UNSET

    frozen: (
        Annotated[
            bool,
            Meta(
                description="Whether learning rests; rewards are kept, and learned when it goes on."
            ),
        ]
        | UnsetType
    ) = UNSET


class CreateSpace(ChangeSpace, frozen=True, kw_only=True):
    """Make a space: tasks that learn together, with one schema, one policy and one log."""

    name: SpaceName
    schema: SchemaMessage | UnsetType = UNSET
    dim: (
        Annotated[
            int, Meta(ge=1, le=DIM, description="In place of a schema: arms have `dim` numbers.")
        ]
        | UnsetType
    ) = UNSET
    rewards: (
        Annotated[
            Literal["first", "sum", "last"],
            Meta(description="Which of several rewards for a decision counts."),
        ]
        | UnsetType
    ) = UNSET
    reward_kind: (
        Annotated[
            Literal["auto", "gaussian", "robust", "binary", "count"],
            Meta(description="What rewards are: clicks are `binary`; `auto` looks at them."),
        ]
        | UnsetType
    ) = UNSET
    explore: Literal["needed", "always", "never", "ucb"] | UnsetType = UNSET
    on_change: (
        Annotated[
            Literal["adapt", "start-over", "alert"],
            Meta(description="What is done when the tasks have changed."),
        ]
        | UnsetType
    ) = UNSET
    shards: Shards | UnsetType = UNSET


class DeletedReply(msgspec.Struct, frozen=True, kw_only=True):
    """A space that was deleted."""

    name: str
    events: Annotated[int, Meta(description="That were erased.")]


class SchemaReply(msgspec.Struct, frozen=True, kw_only=True):
    """A schema that a space has or had."""

    since: Annotated[str, Meta(description="The version that it began with.")]
    at: datetime
    dim: Annotated[int, Meta(description="Columns of the schema.")]
    schema: Anything


class SchemaReplies(msgspec.Struct, frozen=True):
    """All schemas of a space, in order; the last one holds now."""

    schemas: list[SchemaReply]


class SpaceReply(msgspec.Struct, frozen=True, kw_only=True):
    """A space and its settings."""

    name: str
    dim: Annotated[int, Meta(description="Columns of the schema.")]
    version: Annotated[str, Meta(description="Of the present state.")]
    settings: Anything
